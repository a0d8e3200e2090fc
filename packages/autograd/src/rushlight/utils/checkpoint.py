"""Checkpointing: do not keep what a part of the forward pass saved, compute it again in the backward pass.

`checkpoint` is the whole interface for most programs; `create_selective_checkpoint_contexts` keeps the results of
chosen operations all the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rushlight.autograd.api import backward
from rushlight.autograd.function import Function
from rushlight.autograd.modes import enable_grad, mode
from rushlight.autograd.recompute import (
    CheckpointError,
    Frame,
    GraphExecGroup,
    noop_context_fn,
    random_state,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    settings,
)
from rushlight.autograd.selective import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)
from rushlight.core.tensor import Tensor
from rushlight.random import get_rng_state

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, of which the backward pass computes the intermediate tensors again instead of
    keeping them.

    The random state of the first pass is restored for the second, unless `preserve_rng_state=False` is among `kwargs`;
    so is autocast. The second pass ends as soon as it has computed what is needed, unless `early_stop` is False.
    `context_fn()` gives two context managers, for the first and the second pass. Calls nest.

    With `use_reentrant=True` the second pass is a backward pass of its own: gradients reach only tensors in `args`, and
    only `backward()` without `inputs` works. Without a value it is True, with a warning: False is better.

    Raises CheckpointError when the second pass saves other tensors than the first (not with `determinism_check="none"`,
    which compares their number only; with `debug` the error lists the operations of both passes), RuntimeError when an
    argument was changed in place before the second pass, ValueError for arguments that do not go together.

    Example:
        >>> import rushlight
        >>> from rushlight.utils.checkpoint import checkpoint
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> checkpoint(lambda x: (x * x).sum(), x, use_reentrant=False).backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint: pass use_reentrant explicitly; without it the value is True, use_reentrant=False is better",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError(f"checkpoint: Unexpected keyword arguments: {', '.join(kwargs)}; use use_reentrant=False")
        if context_fn is not noop_context_fn or debug:
            raise ValueError("checkpoint: context_fn and debug are only supported when use_reentrant=False")
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"checkpoint: determinism_check should be one of ['default', 'none'], but got {determinism_check}"
        )
    debug = debug if settings.debug is None else settings.debug
    if debug and context_fn is not noop_context_fn:
        raise ValueError("checkpoint: debug=True does not go with a context_fn")
    first, second = context_fn()
    if not mode.enabled:
        with first:
            return function(*args, **kwargs)
    stop = early_stop if settings.early_stop is None else settings.early_stop
    frame = Frame(function, args, kwargs, preserve, second, determinism_check == "default", stop, debug)
    with first:
        return frame.run()


class CheckpointFunction(Function):
    """The older kind: a Function whose backward runs the forward pass again and then a backward pass inside it."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.call, ctx.state = run_function, get_rng_state() if preserve_rng_state else None
        ctx.surroundings = settings.surroundings()
        ctx.places = [i for i, x in enumerate(args) if isinstance(x, Tensor)]
        ctx.others = [None if isinstance(x, Tensor) else x for x in args]
        ctx.save_for_backward(*[args[i] for i in ctx.places])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if mode.partial:
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). Set use_reentrant=False, or call .backward() without `inputs`."
            )
        args = list(ctx.others)
        for i, x in zip(ctx.places, ctx.saved_tensors):
            args[i] = x
        args = list(detach_variable(tuple(args)))
        with enable_grad(), random_state(ctx.state), ctx.surroundings():
            outputs = ctx.call(*args)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [(y, g) for y, g in zip(outputs, grads) if isinstance(y, Tensor) and y.requires_grad and g is not None]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([y for y, _ in pairs], [g for _, g in pairs])
        return (None, None, *[x.grad if isinstance(x, Tensor) else None for x in args])


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a sequence of functions in `segments` parts, checkpointing all but the last.

    Of further keyword arguments there is `preserve_rng_state`; ValueError for others, or when `segments` is not
    positive.

    Example:
        >>> import rushlight
        >>> from rushlight.utils.checkpoint import checkpoint_sequential
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> checkpoint_sequential([lambda x: x * x, lambda x: x.sum()], 2, x, use_reentrant=False).backward()
        >>> x.grad
        tensor([2., 2.])
    """
    if use_reentrant is None:
        warnings.warn(
            "checkpoint_sequential: pass use_reentrant explicitly; without it the value is True, False is better",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"checkpoint_sequential: Unexpected keyword arguments: {', '.join(kwargs)}")
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
        input = checkpoint(part(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return part(size * (segments - 1), len(steps))(input)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no tensor among the inputs requires grad, so that nothing will get a gradient."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs, with leaves in the place of tensors, which require grad as these do. RuntimeError for no tuple.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(1, requires_grad=True) * 2
        >>> detached, number = rushlight.utils.checkpoint.detach_variable((x, 3))
        >>> (detached.is_leaf, detached.requires_grad, number)
        (True, True, 3)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"detach_variable: only a tuple of tensors is supported, got {type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


class DefaultDeviceType:
    """The type of device whose random state is meant when no tensor says it; "cuda" unless it was set."""

    _default_device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """What it is."""
        return DefaultDeviceType._default_device_type


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices of tensors outside main memory, and the states of their random numbers.

    Every device draws from the same generator here, whose state `checkpoint` keeps anyway: so there is none beside it.
    """
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set the states of the random numbers of devices, as `get_device_states` gives them; RuntimeError for others."""
    if devices or states:
        raise RuntimeError(
            "set_device_states: devices have no random state of their own here; use rushlight.set_rng_state()"
        )
