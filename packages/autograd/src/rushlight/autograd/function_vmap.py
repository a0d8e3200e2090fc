"""A `Function` inside `vmap`: its own `vmap`, or one that is made of `forward` and `backward` for single samples."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.autograd.batches import BatchLevel, new_level
from rushlight.core import dispatch
from rushlight.core.tensor import Tensor
from rushlight.ops.transpose import movedim

_DOCS = "see the documentation of rushlight.autograd.Function"


class VmapInfo(NamedTuple):
    """What a Function's `vmap` is told of the level it runs in."""

    batch_size: int
    randomness: str


def for_samples(function: Any, level: BatchLevel, args: tuple, kwargs: dict) -> Any:
    """The outputs of a call on tensors of a level.

    Raises RuntimeError for a Function that does not say how it is to be batched.
    """
    if not _overrides(function, "setup_context"):
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must "
            f"override the setup_context staticmethod, which {function.__name__} does not; {_DOCS}"
        )
    own, generated = _overrides(function, "vmap"), function.generate_vmap_rule
    if own and generated:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod"
        )
    if not own and not generated:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it does not have vmap support. Please override and "
            f"implement the vmap staticmethod or set generate_vmap_rule=True; {_DOCS}"
        )
    parts = [level.unwrapped(x) for x in args]
    values, batched = [value for value, _ in parts], tuple([b for _, b in parts])
    with dispatch.below():
        if not any(batched):
            outputs, places = function.apply(*values, **kwargs), None
        elif own:
            info = VmapInfo(level.size, level.randomness)
            outputs, places = _pair(function.vmap(info, tuple([0 if b else None for b in batched]), *values, **kwargs))
        else:
            outputs, places = _for_each(function, level, batched).apply(*values, **kwargs), 0
    if not isinstance(outputs, tuple):
        return _sample(level, outputs, places)
    each = places if isinstance(places, (tuple, list)) else [places] * len(outputs)
    return tuple([_sample(level, x, place) for x, place in zip(outputs, each, strict=True)])


def _overrides(function: Any, name: str) -> bool:
    from rushlight.autograd.function import Function  # it needs this module

    return getattr(function, name) is not getattr(Function, name)


def _pair(found: Any) -> tuple:
    if not isinstance(found, tuple) or len(found) != 2:
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output. Got a {type(found)} instead"
        )
    return found


def _sample(level: BatchLevel, x: Any, place: int | None) -> Any:
    """An output as a tensor of the level."""
    if not isinstance(x, Tensor):
        return x
    if place is None:
        return level.wrapped(x, False)
    return level.wrapped(movedim(x, place, 0) if place else x)


class _SampleContext:
    """The `ctx` of a Function for single samples: what it keeps of tensors goes to the context of the whole batch.

    `flags` notes which of them are batched, by what they are kept for: `backward` or `forward` mode.
    """

    def __init__(self, ctx: Any, level: BatchLevel, flags: dict[str, list[bool]], use: str = "backward") -> None:
        self.__dict__.update(_ctx=ctx, _level=level, _flags=flags, _use=use)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._ctx, name, value)

    def _values(self, tensors: tuple, use: str) -> list:
        parts = [self._level.unwrapped(x) for x in tensors]
        self._flags[use] = [b for _, b in parts]
        return [value for value, _ in parts]

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        self._ctx.save_for_backward(*self._values(tensors, "backward"))

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        self._ctx.save_for_forward(*self._values(tensors, "forward"))

    def mark_dirty(self, *tensors: Tensor) -> None:
        self._ctx.mark_dirty(*[self._level.unwrapped(x)[0] for x in tensors])

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        self._ctx.mark_non_differentiable(*[self._level.unwrapped(x)[0] for x in tensors])

    @property
    def saved_tensors(self) -> tuple:
        flags = self._flags.get(self._use, self._flags.get("backward", ()))
        saved = zip(self._ctx.saved_tensors, flags, strict=True)
        return tuple([x if x is None else self._level.wrapped(x, b) for x, b in saved])


def _for_each(function: Any, level: BatchLevel, batched: tuple[bool, ...]) -> Any:
    """The Function that does for a batch, in one call, what another does for each sample. Its outputs are batches."""
    from rushlight.autograd.function import Function  # it needs this module

    size, randomness = level.size, level.randomness
    # Not on the `ctx`, which the Functions of nested levels share.
    own = BatchLevel(size, randomness)
    flags: dict[str, list[bool]] = {}

    def samples(inner: BatchLevel, values: tuple, flags: Any) -> list:
        return [inner.wrapped(x, b) if isinstance(x, Tensor) else x for x, b in zip(values, flags)]

    def batches(inner: BatchLevel, output: Any) -> Any:
        if isinstance(output, tuple):
            return tuple([batches(inner, x) for x in output])
        return inner.value(output) if isinstance(output, Tensor) else output

    class ForEach(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*values: Any, **kwargs: Any) -> Any:
            with new_level(size, randomness) as inner:
                output = function.forward(*samples(inner, values, batched), **kwargs)
            return batches(inner, output)

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
            with dispatch.push(own):
                given = tuple(samples(own, inputs, batched))
                several = output if isinstance(output, tuple) else (output,)
                made = tuple(samples(own, several, [True] * len(several)))
                sample = _SampleContext(ctx, own, flags)
                function.setup_context(sample, given, made if isinstance(output, tuple) else made[0])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple:
            pull = function.backward if _overrides(function, "backward") else function.vjp
            with dispatch.push(own):
                found = pull(_SampleContext(ctx, own, flags), *samples(own, grads, [True] * len(grads)))
            several = found if isinstance(found, (tuple, list)) else (found,)
            return tuple([_gathered(own, x, b) for x, b in zip(several, batched)])

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with dispatch.push(own):
                given = samples(own, tangents, batched)
                found = function.jvp(_SampleContext(ctx, own, flags, "forward"), *given)
            return batches(own, found)

    ForEach.__name__ = ForEach.__qualname__ = function.__name__
    return ForEach


def _gathered(level: BatchLevel, gradient: Any, batched: bool) -> Any:
    """The gradient of an argument: one for each sample, or the sum over samples for one that they share."""
    if gradient is None:
        return None
    return level.value(gradient) if batched else level.value(gradient).sum(0)
