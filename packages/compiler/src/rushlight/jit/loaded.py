"""Stored programs, as functions and modules."""

from __future__ import annotations

from typing import Any

from rushlight.compiler import compile
from rushlight.core.tensor import Tensor
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import InputKind
from rushlight.export.module import held, other_names, place, runner
from rushlight.export.trees import build, flatten_arguments
from rushlight.jit.script import ScriptFunction, classes
from rushlight.jit.signatures import by_position


class Programs:
    """Programs for several kinds of calls of one function: each call is answered by the first that it fits."""

    def __init__(self, name: str, programs: list[tuple[bool | None, ExportedProgram]], names: list[str]) -> None:
        self.name, self._programs, self._names = name, programs, names
        self._runners = [runner(program) for _, program in programs]
        self._compiled = [compile(run) for run in self._runners]
        self._module: Any = None
        self._places: list[list[tuple[Any, str]]] = []

    def bind(self, module: Any, places: list[list[tuple[Any, str]]]) -> None:
        """Take the tensors of each program from a module: as attributes of these modules, by these names."""
        self._module, self._places = module, places

    def programs(self) -> list[tuple[bool | None, ExportedProgram]]:
        """The programs, with the mode (training or not, None for functions) of each."""
        return list(self._programs)

    def argument_names(self) -> list[str]:
        """The names of the arguments that may be given by position or by name."""
        return self._names

    def seen(self) -> bool:
        """Is there a program?"""
        return True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = by_position(args, kwargs, self._names)
        errors: list[Exception] = []
        for i, (training, program) in enumerate(self._programs):
            if self._module is not None and training is not self._module.training:
                continue
            in_spec, out_spec = program.call_spec
            tensors = self._tensors(i)
            try:
                leaves = flatten_arguments(args, kwargs, in_spec)
                self._runners[i].check(tensors, leaves)
            except (AssertionError, TypeError, ValueError) as error:
                errors.append(error)
                continue
            return build(self._compiled[i](tensors, leaves), out_spec)
        if len(errors) == 1:
            raise errors[0]
        if not errors:
            mode = "training" if self._module.training else "evaluation"
            raise RuntimeError(f"{self.name}: no call in {mode} mode was stored; call the model once in this mode "
                               "before rushlight.jit.save")
        raise RuntimeError(f"{self.name}: the arguments fit none of the {len(errors)} stored kinds of calls: " +
                           "; ".join(map(str, errors)))

    def _tensors(self, number: int) -> list[Tensor]:
        if self._places:
            return [getattr(owner, name) for owner, name in self._places[number]]
        program = self._programs[number][1]
        return [{**program.state_dict, **program.constants}[s.target]
                for s in program.graph_signature.input_specs if s.target is not None]

    graph = ScriptFunction.graph
    inlined_graph = ScriptFunction.graph
    code = ScriptFunction.code
    save = ScriptFunction.save
    save_to_buffer = ScriptFunction.save_to_buffer

    def __repr__(self) -> str:
        return f"<ScriptFunction {self.name}>"


_loaded_classes: dict[type, type] = {}


def loaded_module(base: Any, name: str, methods: dict[str, Programs], training: bool) -> Any:
    """A script module that runs stored programs on tensors of its own."""
    if base not in _loaded_classes:
        _loaded_classes[base] = _make_class(base)
    return _loaded_classes[base](name, methods, training)


def _make_class(base: Any) -> type:
    class RecursiveScriptModule(classes(base)[0]):  # type: ignore[misc]
        """A module from a file: parameters and buffers have the names that they had in the model."""

        def __init__(self, name: str, methods: dict[str, Programs], training: bool) -> None:
            base.__init__(self)
            fields = self.__dict__
            fields["original_name"], fields["training"] = name, training
            fields["_methods"] = methods
            known: dict[str, tuple[Any, str]] = {}
            for method in methods.values():
                method.bind(self, [_fill(self, base, program, known) for _, program in method.programs()])
            for key in methods:
                if key.startswith("_") or key in fields:
                    raise ValueError(f"no name for a method: {key!r}")
            fields.update(methods)  # before what the base class has under these names
            self.train(training)

    RecursiveScriptModule.__qualname__ = "RecursiveScriptModule"
    return RecursiveScriptModule


def _fill(module: Any, base: type, program: ExportedProgram, known: dict[str, tuple[Any, str]]) -> list:
    """Put the tensors of a program into a module that may have some of them already; returns where they lie."""
    places = []
    for spec in program.graph_signature.input_specs:
        if spec.target is None:
            continue
        tensor, persistent = held(program, spec)
        name = spec.target
        if spec.kind is InputKind.CONSTANT_TENSOR:  # each program has made its own, under the same names
            while name in known and getattr(*known[name]) is not tensor:
                name += "_"
        if name not in known:
            known[name] = place(module, base, name, tensor, spec.kind, persistent)
        places.append(known[name])
    for name, tensor, kind, persistent in other_names(program):
        if name not in known:
            known[name] = place(module, base, name, tensor, kind, persistent)
    return places
