"""Batched tensors: levels of `vmap`, on which one op call stands for a call per sample.

Inside a level a tensor has the shape of one sample; its `_array` is a `Samples`, which holds a tensor of all samples
with the batch in front. A `BatchLevel` is a handler of op calls (see `rushlight.core.dispatch`): it turns a call with
such operands into one on the batch, by the rule that `rushlight.autograd.batching` finds for the op. Programs without
a level pay nothing. Levels nest, in each other and with those of forward mode, as handlers do: what is inside of one
level's `Samples` belongs to the levels around it.

A tensor of a level has history of its own: what is recorded about it concerns one sample, and ends with the level.
History from outside is that of the tensor in its `Samples`. So gradients inside a level are those of each sample, also
by a tensor that all of them share: to be differentiated by, it becomes a tensor of the level that is not batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.core import dispatch, dtypes
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op, meta_of
from rushlight.core.tensor import Tensor, wrap
from rushlight.ops import prims
from rushlight.ops.copy import copy_
from rushlight.ops.create import empty_strided
from rushlight.ops.transpose import movedim
from rushlight.ops.view import expand_op


def run_for_each(
    level: BatchLevel, op: Op, values: tuple, batched: tuple[bool, ...], params: tuple
) -> tuple[Any, bool]:
    """The results of a call for all samples, and whether they are batched; see `rushlight.autograd.batching`, which
    sets it.
    """
    raise NotImplementedError


def whole(x: Tensor, size: int) -> Tensor:
    """A tensor that all samples share, as a batch without memory of its own."""
    return expand_op.apply((x,), ((size, *x._meta.shape),))


class Samples:
    """What a tensor of a level has in the place of an array: all samples in one tensor, or the one that all share."""

    __slots__ = ("level", "value", "batched", "__weakref__")
    base = "samples"  # like an array that is a view: its memory is not its own

    def __init__(self, level: BatchLevel, value: Tensor, batched: bool) -> None:
        self.level, self.value, self.batched = level, value, batched

    def view(self) -> Samples:
        """The same samples once more."""
        return Samples(self.level, self.value, self.batched)

    def item(self) -> Any:
        """The element of a tensor that all samples share; RuntimeError when each has its own."""
        if self.batched:
            raise RuntimeError(
                "vmap: It looks like you're calling .item() on a Tensor, or using one in some data-dependent control "
                "flow (if, while, int(), ...). Each sample has its own value: use where(), or do this outside of vmap"
            )
        return self.value.item()

    def storage_offset(self) -> int:
        """Where the first sample begins in the memory of all."""
        return self.value.storage_offset()

    def describe(self) -> str:
        """The text of the tensor, for printing."""
        where = "bdim=0" if self.batched else "bdim=None"
        return f"BatchedTensor({where}, value={self.value!r})"

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            f"vmap: the memory of a batched tensor cannot be used ({name}), only operations inside of its vmap can; "
            "outside, take the results of the vmapped function"
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.__getattr__("__array__")

    def __array_ufunc__(self, *_: Any, **__: Any) -> Any:
        return self.__getattr__("__array_ufunc__")


class BatchLevel:
    """A level of `vmap`: the handler that runs each op call for all samples."""

    def __init__(self, size: int, randomness: str = "error") -> None:
        self.size, self.randomness = size, randomness

    @property
    def repeats(self) -> int:
        """How many draws of random numbers one call stands for."""
        return self.size if self.randomness == "different" else 1

    def owns(self, x: Any) -> bool:
        """Is it a tensor of this level?"""
        return isinstance(x, Tensor) and type(x._array) is Samples and x._array.level is self

    def wrapped(self, value: Tensor, batched: bool = True) -> Tensor:
        """The tensor of the level with these samples, the batch in front."""
        m = value._meta
        return wrap(Samples(self, value, batched), sample_meta(m) if batched else m.with_grad(False))

    def unwrapped(self, x: Any) -> tuple[Any, bool]:
        """The samples of a tensor of this level, else the argument as it is, and whether they are a batch."""
        if self.owns(x):
            return x._array.value, x._array.batched
        return x, False

    def value(self, x: Any, place: int | None = 0) -> Any:
        """A result for the world outside: all samples, with the batch dimension at `place`; None: there is none."""
        value, batched = self.unwrapped(x)
        if place is None:
            return value
        value = value if batched else whole(value, self.size)
        return movedim(value, 0, place) if place else value

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Run an op call for all samples, and record what concerns the samples."""
        for x in operands:
            if isinstance(x, Tensor) and x._meta.requires_grad and self.owns(x):
                return _recording(self, op, operands, params)(*operands)
        return self.run(op, operands, params)

    def run(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Run an op call for all samples, in the level's surroundings."""
        values: list = []
        batched: list[bool] = []
        own = False
        for x in operands:  # `unwrapped` spelled out: every call passes here
            is_batched = False
            if isinstance(x, Tensor) and type(samples := x._array) is Samples and samples.level is self:
                own, x, is_batched = True, samples.value, samples.batched
            values.append(x)
            batched.append(is_batched)
        with dispatch.below():
            if True in batched or op.random:
                results, is_batched = run_for_each(self, op, tuple(values), tuple(batched), params)
            else:
                results, is_batched = op.apply(tuple(values), params), False
        if op.mutates:
            return self._written(operands[op.mutates[0]])
        if not own and not is_batched:
            return results
        if op.kind != "view":
            if isinstance(results, tuple):
                return tuple([self.wrapped(r, is_batched) for r in results])
            return self.wrapped(results, is_batched)
        return self._views(op, operands, params, results, is_batched)

    def _written(self, target: Tensor) -> Tensor:
        """The target of an op that wrote into it."""
        if self.owns(target):
            target.storage().version += 1
        return target

    def _views(self, op: Op, operands: tuple, params: tuple, results: Any, batched: bool) -> Any:
        """The results of a view op, which know how they were made, as those of its plan do."""
        x, *numbers = operands
        several = isinstance(results, tuple)
        made = []
        for i, value in enumerate(results if several else (results,)):
            y = self.wrapped(value, batched)
            y._storage = x.storage()
            y._auto = None if op is prims.detach else (x, op, tuple(numbers), params, i if several else None)
            made.append(y)
        return tuple(made) if several else made[0]

    def hides(self, x: Any) -> bool:
        """Does a tensor of this level stand for samples that may differ?"""
        return self.owns(x) and is_batched(x)

    def follow(self, made: Tensor, like: Any) -> Tensor:
        """A fresh tensor, with memory for each sample if `like` is batched."""
        inner, batched = self.unwrapped(like)
        mine, is_batched = self.unwrapped(made)
        with dispatch.below():
            mine = dispatch.follow(mine, inner)
            if batched and not is_batched:
                mine = copy_(_room(mine._meta, self.size, inner), whole(mine, self.size))
        return self.wrapped(mine, True) if batched and not is_batched else made


def _room(m: Meta, size: int, like: Any) -> Tensor:
    """Memory for a number of tensors with this metadata."""
    extent = 1 + sum([(n - 1) * s for n, s in zip(m.shape, m.strides)]) if m.numel else 1
    return dispatch.follow(empty_strided((size, *m.shape), (extent, *m.strides), dtype=m.dtype, device=m.device), like)


_samples: dict[Meta, Meta] = {}
_LIMIT = 4096


def sample_meta(m: Meta) -> Meta:
    """The metadata of one sample of a batch."""
    found = _samples.get(m)
    if found is None:
        if len(_samples) >= _LIMIT:
            _samples.clear()
        found = _samples[m] = meta(m.dtype, m.shape[1:], m.strides[1:], m.device)
    return found


_recordings: dict[tuple, Callable] = {}
dtypes.DECIDED.append(_recordings)


def _recording(level: BatchLevel, op: Op, operands: tuple, params: tuple) -> Callable:
    """The plan that runs a call on tensors of a level and records it. Other operands concern what is outside."""
    metas = tuple([x._meta if level.owns(x) else (m := meta_of(x)) and m.with_grad(False) for x in operands])
    key = (op, metas, params)
    plan = _recordings.get(key)
    if plan is None:
        if len(_recordings) >= _LIMIT:
            _recordings.clear()
        assert dispatch.autograd is not None
        out = op.infer(*metas, *params)
        plan = _recordings[key] = dispatch.autograd(op, metas, params, out, lambda *xs: _running(op, xs, params))
    return plan


def _running(op: Op, operands: tuple, params: tuple) -> Any:
    """Run a call on the level that sees it first."""
    level: Any = dispatch.current()
    return level.run(op, operands, params)


@contextmanager
def new_level(size: int, randomness: str = "error") -> Iterator[BatchLevel]:
    """A level of that many samples for the block."""
    level = BatchLevel(size, randomness)
    with dispatch.push(level):
        yield level


def over_batch(function: Callable, *arguments: Tensor | None, randomness: str = "error") -> Any:
    """What a function gives for all entries of the leading dimension of its arguments: a tensor, None, or several."""
    size = next(len(x) for x in arguments if x is not None)
    with new_level(size, randomness) as level:
        found = function(*[None if x is None else level.wrapped(x) for x in arguments])
    if found is None or isinstance(found, Tensor):
        return None if found is None else level.value(found)
    return [None if x is None else level.value(x) for x in found]


def lifted(x: Tensor) -> Tensor:
    """A tensor as one of the innermost level of `vmap`, so that its history there concerns single samples."""
    level = innermost()
    return x if level is None or level.owns(x) else level.wrapped(x, False)


def innermost() -> BatchLevel | None:
    """The level of `vmap` that sees this thread's op calls first."""
    return next((h for h in reversed(dispatch.handlers()) if isinstance(h, BatchLevel)), None)


def level_of(x: Tensor) -> BatchLevel | None:
    """The level that a tensor belongs to."""
    samples = x._array
    return samples.level if type(samples) is Samples else None


def all_samples(x: Tensor, recurse: bool = True) -> Tensor:
    """What a tensor of a level stands for: a tensor of the level around it, or, with `recurse`, of none."""
    while type(samples := x._array) is Samples:
        x = samples.value
        if not recurse:
            break
    return x


def is_batched(x: Tensor) -> bool:
    """Does a tensor stand for samples that may differ, so that no branch can depend on its elements?"""
    samples = x._array
    return type(samples) is Samples and (samples.batched or is_batched(samples.value))


def has_history(x: Tensor) -> bool:
    """Is a tensor recorded for gradients, inside of a level or around it?"""
    return x._meta.requires_grad or has_outer_history(x)


def has_outer_history(x: Tensor) -> bool:
    """Is a tensor of a level recorded for gradients around it?"""
    samples = x._array
    return type(samples) is Samples and has_history(samples.value)


def cut_off(x: Tensor) -> Tensor:
    """The tensor without its history; one of a level keeps that from outside."""
    samples = x._array
    return samples.level.wrapped(samples.value, samples.batched) if type(samples) is Samples else x.detach()
