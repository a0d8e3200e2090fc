"""The calls of a scripted function: each kind of call can be exported as one program."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.compiler.capture import memory
from rushlight.core.tensor import Tensor, wrap
from rushlight.export.build import build, module_of
from rushlight.export.dynamic_shapes import Dim
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.run import Runner
from rushlight.export.trees import is_constant
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

KEPT = 64  # kinds of calls that are remembered


class Call(NamedTuple):
    """A kind of call: the arguments, with tensors that nobody looks into, and the mode of the module."""

    leaves: tuple
    spec: TreeSpec
    training: bool | None


class Signatures:
    """The kinds of calls that a function has seen, and their programs."""

    def __init__(self, fn: Callable, name: str) -> None:
        self.fn, self.name = fn, name
        self._calls: dict[tuple, Call] = {}

    @property
    def module(self) -> Any:
        """The module whose method it is, if any."""
        return module_of(self.fn)

    def argument_names(self) -> list[str]:
        """The names of the arguments that may be given by position or by name, in order; none if that is not known."""
        try:
            parameters = inspect.signature(getattr(self.fn, "forward", self.fn)).parameters.values()
        except (TypeError, ValueError):
            return []
        return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]

    def note(self, args: tuple, kwargs: dict) -> tuple | None:
        """Remember a call; returns its key, None for one that no program can answer."""
        leaves, spec = tree_flatten(by_position(args, kwargs, self.argument_names()))
        if not all(isinstance(x, Tensor) or is_constant(x) for x in leaves):
            return None
        training = None if self.module is None else self.module.training
        key = (training, repr(spec), *[x._meta if isinstance(x, Tensor) else (type(x), repr(x)) for x in leaves])
        if key not in self._calls and len(self._calls) < KEPT:
            kept = tuple([_stand_in(x) if isinstance(x, Tensor) else x for x in leaves])
            self._calls[key] = Call(kept, spec, training)
        return key

    def program(self, key: tuple) -> ExportedProgram:
        """The program of a kind of call, as the function and its module are now. RuntimeError, naming the line, when it
        cannot be captured whole.
        """
        call = self._calls[key]
        args, kwargs = tree_unflatten(list(call.leaves), call.spec)
        module = self.module
        if module is None:
            return build(self.name, self.fn, args, kwargs, Dim.AUTO)
        return _in_mode(module, bool(call.training), lambda: build(self.name, self.fn, args, kwargs, Dim.AUTO))

    def any(self) -> bool:
        """Was there a call?"""
        return bool(self._calls)

    def programs(self) -> list[tuple[bool | None, ExportedProgram]]:
        """Programs for all calls, with the mode that each is for; one may do for calls with different sizes.
        RuntimeError when there was no call.
        """
        if not self._calls:
            raise RuntimeError(f"{self.name}: what it does is known after a call: call it once with inputs like those "
                               "that it will have, or give example_inputs to rushlight.jit.script")
        found: list[tuple[bool | None, ExportedProgram]] = []
        for key, call in list(self._calls.items()):  # other threads may call
            if not any(training is call.training and _fits(program, call) for training, program in found):
                found.append((call.training, self.program(key)))
        return found


def by_position(args: tuple, kwargs: dict, names: list[str]) -> tuple[tuple, dict]:
    """The same call with arguments of these names by position, as far as none is left out before them."""
    args, kwargs = tuple(args), dict(kwargs)
    for name in names[len(args):]:
        if name not in kwargs:
            break
        args += (kwargs.pop(name),)
    return args, kwargs


def _fits(program: ExportedProgram, call: Call) -> bool:
    """Does a program answer a call, too?"""
    if program.call_spec.in_spec != call.spec:
        return False
    tensors = {**program.state_dict, **program.constants}
    states = [tensors[s.target] for s in program.graph_signature.input_specs if s.target is not None]
    try:
        Runner(program).checked(states, list(call.leaves))
    except (AssertionError, TypeError):
        return False
    return True


def _stand_in(x: Tensor) -> Tensor:
    return wrap(memory.untouched(x._meta), x._meta.with_grad(False))


def _in_mode(module: Any, training: bool, make: Callable[[], ExportedProgram]) -> ExportedProgram:
    """Do something with a module in a mode; all its modules have theirs back afterwards."""
    before = [(m, m.training) for m in module.modules()]
    if module.training is not training:
        module.train(training)
    try:
        return make()
    finally:
        for m, mode in before:
            m.training = mode
