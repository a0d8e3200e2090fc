"""Dual numbers: levels of forward-mode differentiation, on which tensors have tangents.

A `Level` is a handler of op calls (see `rushlight.core.dispatch`): while it is pushed, each op runs as always, and the
tangents of its results are computed beside them. Programs without a level pay nothing. Levels nest: what an inner level
computes, tangents included, passes the outer ones. So a tangent may be a batch of many (see
`rushlight.autograd.batches`), which is how Jacobians are computed.

Tangents are computed by rules: linear functions from a list of tangents (None where there is none) to another. A level
applies them, or keeps them to apply them later, see `rushlight.func.linear`.

Tangents are never written to. They are kept per base: that of a view is the same view of its base's tangent, and a
write through a view gives the base a new one. So all views of a memory agree without knowing each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from weakref import ref

from rushlight.autograd import batches
from rushlight.autograd.memory import zeros_for
from rushlight.autograd.state import Steps, replay, view_of
from rushlight.core import dispatch
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor
from rushlight.ops import prims
from rushlight.ops.copy import clone, copy_
from rushlight.ops.create import empty_strided

Direction = list[Tensor | None]  # tangents of several tensors; None where one does not vary
Rule = Callable[[Direction], Direction]


class _Local(threading.local):
    def __init__(self) -> None:
        self.levels: list[Level] = []


_local = _Local()


class Level:
    """A level of forward mode: the tangents of this thread's tensors, and the handler that computes more of them.

    Entries belong to a tensor's numpy array, which the tape's aliases of a result share; so gradients that are computed
    later know the tangents of what was saved.
    """

    def __init__(self) -> None:
        self.tangents: dict[int, tuple[ref, Tensor | None]] = {}
        self._pushed = dispatch.push(self)

    def enter(self) -> Level:
        """Begin to see this thread's op calls."""
        self._pushed.__enter__()
        _local.levels.append(self)
        return self

    def exit(self) -> None:
        """Stop, and forget all tangents."""
        _local.levels.remove(self)
        self._pushed.__exit__(None, None, None)
        self.tangents.clear()

    def apply(self, rule: Rule, tangents: Direction) -> Direction:
        """The tangents that a rule gives."""
        return rule(tangents)

    def set(self, x: Tensor, tangent: Tensor | None) -> None:
        """Give a tensor a tangent; None says that it has none, whatever it is a view of."""
        key = id(x._array)
        self.tangents[key] = ref(x._array, partial(self.tangents.pop, key)), tangent

    def get(self, x: Any) -> Tensor | None:
        """The tangent of a tensor, None when it has none or is no tensor."""
        if not self.tangents or not isinstance(x, Tensor):
            return None
        root, steps = self._root(x)
        entry = self.tangents.get(id(root._array))
        if entry is None or entry[1] is None or not steps:
            return entry and entry[1]
        m = root._meta
        return self.apply(lambda found: [replay(_laid_out(found[0], m), steps)], [entry[1]])[0]

    def write(self, x: Tensor, tangent: Tensor | None) -> None:
        """Change the tangent of a tensor that was written to, and of all that share its memory; None is zeros."""
        root, steps = self._root(x)
        m = root._meta

        def written(found: Direction) -> Direction:
            before, part = found
            part = zeros_for(x._meta) if part is None else part
            if not steps:
                return [part]
            whole = dispatch.follow(_laid_out(zeros_for(m) if before is None else clone(before), m), part)
            copy_(replay(whole, steps), part)
            return [whole]

        entry = self.tangents.get(id(root._array))
        self.set(root, self.apply(written, [entry and entry[1], tangent])[0])

    def _root(self, x: Tensor) -> tuple[Tensor, Steps]:
        """The nearest tensor with an entry (or the base) that `x` is a view of, and the view ops between."""
        steps = []
        while id(x._array) not in self.tangents and (made := view_of(x)) is not None:
            x, *step = made
            steps.append(tuple(step))
        return x, tuple(reversed(steps))

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Run an op call, and give its results tangents."""
        if op.decomposition is not None and not op.kernels and op.kind == "structured":
            return op.decomposition(*operands, *params)  # in other ops, which come here themselves
        with dispatch.below():
            if op.kind == "view":
                return apart(op.apply(operands, params)) if op is prims.detach else op.apply(operands, params)
            tangents = [self.get(x) for x in operands]
            if all(t is None for t in tangents):
                return op.apply(operands, params)
            if op.mutates:
                return self._in_place(op, operands, params, tangents)
            results = op.apply(operands, params)
            several = results if isinstance(results, tuple) else (results,)
            rule = rule_for(op, operands, params, [t is not None for t in tangents], several)
            for result, tangent in zip(several, self.apply(rule, tangents)):
                if tangent is not None:
                    self.set(result, tangent)
        return results

    def follow(self, made: Tensor, like: Any) -> Tensor:
        """A fresh tensor to write to, as handlers around this level want it."""
        with dispatch.below():
            return dispatch.follow(made, like)

    def _in_place(self, op: Op, operands: tuple, params: tuple, tangents: list) -> Any:
        x = operands[0]
        kept = tuple([clone(y) if isinstance(y, Tensor) and _same_memory(x, y) else y for y in operands])
        result = op.apply(operands, params)
        if x._meta.dtype.is_inexact:
            rule = rule_for(op.functional or op, kept, params, [t is not None for t in tangents], (x,))
            self.write(x, self.apply(rule, tangents)[0])
        return result


def _same_memory(x: Tensor, y: Tensor) -> bool:
    return x is y or (y._storage is not None and y._storage is x._storage)


def apart(x: Tensor) -> Tensor:
    """A fresh tensor with an array object of its own, so that it can have another tangent than its memory has."""
    x._array = x._array.view()
    return x


def _laid_out(tangent: Tensor, m: Meta) -> Tensor:
    """A tangent with the strides of its tensor, so that views of the one are views of the other."""
    if tangent._meta.strides == m.strides or any(n > 1 and s == 0 for n, s in zip(m.shape, m.strides)):
        return tangent
    room = empty_strided(m.shape, m.strides, dtype=tangent._meta.dtype, device=m.device)
    return copy_(dispatch.follow(room, tangent), tangent)


def rule_for(op: Op, operands: tuple, params: tuple, varies: list[bool], results: tuple) -> Rule:
    """The rule from the tangents of the operands of a call to those of its results; see `rushlight.autograd.tangents`,
    which sets it.
    """
    raise NotImplementedError


def dual(level: Level, x: Tensor, tangent: Tensor | None = None) -> Tensor:
    """A view of a tensor that has this tangent on a level; without one, it is cut off from that of its base."""
    made = apart(x.view_as(x))
    level.set(made, tangent)
    return made


def primal(level: Level, x: Tensor) -> Tensor:
    """A dual tensor without its tangent."""
    return x if level.get(x) is None else dual(level, x)


_Kind = TypeVar("_Kind", bound=Level)


@contextmanager
def new_level(kind: type[_Kind] = Level) -> Iterator[_Kind]:
    """A level for the block."""
    level = kind().enter()
    try:
        yield level
    finally:
        level.exit()


def all_tangents(x: Tensor) -> list[tuple[Level, Tensor]]:
    """The tangents of a tensor, on each level that it has one on."""
    return [(level, t) for level in _local.levels if (t := level.get(x)) is not None]


def detached(x: Tensor) -> Tensor:
    """A tensor without history but with the same tangents: cut off from the graph of reverse mode only."""
    return with_tangents_of(x, batches.cut_off(x))


def lifted(x: Tensor) -> Tensor:
    """A tensor as one of the innermost level of `vmap`, with the same tangents; see `rushlight.autograd.batches`."""
    y = batches.lifted(x)
    return x if y is x else with_tangents_of(x, y)


def with_tangents_of(x: Tensor, y: Tensor) -> Tensor:
    """The tensor `y`, with the tangents that `x` has."""
    for level, tangent in all_tangents(x):
        level.set(y, tangent)
    return y


def leaf(x: Tensor) -> Tensor:
    """A leaf to differentiate by in the place of a tensor, with the same tangents."""
    return detached(lifted(x)).requires_grad_()


def are_active() -> bool:
    """Is this thread inside of a level?"""
    return bool(_local.levels)


def have_history() -> bool:
    """Does any level have tangents that are recorded for gradients?"""
    return any(
        t is not None and batches.has_history(t) for level in _local.levels for _, t in list(level.tangents.values())
    )


def innermost() -> Level | None:
    """The level that sees this thread's op calls first."""
    handler = dispatch.current()
    return handler if isinstance(handler, Level) else None
