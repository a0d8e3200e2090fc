"""Checkpointing: do not keep what a part of the forward pass saved, compute it again in the backward pass."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.api import backward
from rushlight.autograd.duals import detached
from rushlight.autograd.function import Function
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.autograd.modes import enable_grad, mode
from rushlight.core.tensor import Tensor
from rushlight.random import get_rng_state, set_rng_state

__all__ = ["CheckpointError", "checkpoint", "checkpoint_sequential"]


class CheckpointError(RuntimeError):
    """The second forward pass saved something else than the first."""


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which the backward pass computes the intermediate tensors again instead of
    keeping them.

    The random state of the first pass is restored for the second unless `preserve_rng_state=False`. With
    `use_reentrant` the second pass is a backward pass of its own and gradients reach only `args`. The second pass
    always runs to its end, whatever `early_stop` says, and `debug` adds nothing: the error names the tensor. Raises
    CheckpointError when the second pass saves other tensors than the first.

    Example:
        >>> import rushlight
        >>> from rushlight.utils.checkpoint import checkpoint
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False).backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if use_reentrant:
        if kwargs or context_fn is not None:
            raise ValueError(
                "checkpoint: use_reentrant=True takes no further keyword arguments, got "
                f"{', '.join(kwargs) or 'context_fn'}"
            )
        return _Reentrant.apply(function, preserve_rng_state, *args)
    if not mode.enabled:
        return function(*args, **kwargs)
    first, second = context_fn() if context_fn is not None else (contextlib.nullcontext(), contextlib.nullcontext())
    frame = _Frame(function, args, kwargs, preserve_rng_state, second, determinism_check != "none")
    with saved_tensors_hooks(frame.pack, frame.unpack), first:
        return function(*args, **kwargs)


class _Slot:
    """Stands for a tensor that was not kept."""

    __slots__ = ("index", "meta", "tensor")

    def __init__(self, index: int, x: Tensor) -> None:
        self.index, self.meta, self.tensor = index, (x.shape, x.dtype), None


class _Frame:
    """Counts what the first pass of a checkpointed call saves, and runs the second when the first of it is needed."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict, rng: bool, context: Any, check: bool) -> None:
        self.function, self.args, self.kwargs, self.context, self.check = function, args, kwargs, context, check
        self.state = get_rng_state() if rng else None
        self.slots: list[_Slot] = []

    def pack(self, x: Tensor) -> _Slot:
        slot = _Slot(len(self.slots), x)
        self.slots.append(slot)
        return slot

    def unpack(self, slot: _Slot) -> Tensor:
        if slot.tensor is None:
            self._run_again()
        x, slot.tensor = slot.tensor, None
        return x

    def _run_again(self) -> None:
        found: list[Tensor] = []

        def keep(x: Tensor) -> Tensor:
            found.append(detached(x))
            return x

        with _random_state(self.state), enable_grad(), saved_tensors_hooks(keep, lambda x: x), self.context:
            self.function(*self.args, **self.kwargs)
        if len(found) != len(self.slots):
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward "
                f"({len(self.slots)}) and "
                f"recomputation ({len(found)}); the function must do the same in both passes"
            )
        for slot, x in zip(self.slots, found):
            if self.check and slot.meta != (x.shape, x.dtype):
                raise CheckpointError(
                    f"checkpoint: Recomputed values for tensor {slot.index} have different metadata "
                    "than during the forward "
                    f"pass: {slot.meta} then, {(x.shape, x.dtype)} now"
                )
            slot.tensor = x


@contextlib.contextmanager
def _random_state(state: Any):
    """The random numbers of an earlier moment inside the block; those of now go on after it."""
    if state is None:
        yield
        return
    now = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(now)


class _Reentrant(Function):
    """The older kind: a Function whose backward runs the forward pass again and then a backward pass inside it."""

    @staticmethod
    def forward(ctx: Any, function: Callable, rng: bool, *args: Any) -> Any:
        ctx.call, ctx.state = function, get_rng_state() if rng else None
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        args = list(ctx.others)
        for i, x in zip(ctx.places, ctx.saved_tensors):
            args[i] = x.detach().requires_grad_(x.requires_grad)
        with enable_grad(), _random_state(ctx.state):
            outputs = ctx.call(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(y, g) for y, g in zip(outputs, grads) if isinstance(y, Tensor) and y.requires_grad and g is not None]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([y for y, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, Tensor) else None for x in args])


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Any:
    """Run a sequence of functions in `segments` parts, checkpointing all but the last.

    Raises ValueError when `segments` is not positive.

    Example:
        >>> import rushlight
        >>> from rushlight.utils.checkpoint import checkpoint_sequential
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> checkpoint_sequential([lambda x: x * x, lambda x: x.sum()], 2, x).backward()
        >>> x.grad
        tensor([2., 2.])
    """
    steps: Sequence[Callable] = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: segments must be positive, got {segments}")
    size = len(steps) // segments

    def part(start: int, end: int) -> Callable:
        def run(x: Any) -> Any:
            for step in steps[start:end]:
                x = step(x)
            return x

        return run

    for start in range(0, size * (segments - 1), max(size, 1)):
        input = checkpoint(
            part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state
        )
    return part(size * (segments - 1), len(steps))(input)
