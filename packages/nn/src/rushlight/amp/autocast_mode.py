"""`autocast`: products in a half type, losses and the like in float32, chosen operation by operation."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.amp.state import DEVICES, state
from rushlight.autograd.recompute import SURROUNDINGS
from rushlight.core import dispatch
from rushlight.core.op import Op

_NARROWER = (rushlight.float32, rushlight.float16, rushlight.bfloat16)  # the dtypes that a region casts


class _Caster:
    """The handler of an autocast region: casts operands, then lets the call go on, of which nothing else is cast."""

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        with dispatch.below():
            if state.busy or not op.autocast:
                return op.apply(operands, params)
            return self.with_casts(op, op.autocast)(*operands, **dict(zip(op.params, params)))

    def with_casts(self, function: Callable, policy: str) -> Callable:
        """The function, for operands as the policy `wide` or `narrow` wants them."""
        if state.busy:
            return function
        cast = self._wide if policy == "wide" else self._narrow

        def run(*args: Any, **kwargs: Any) -> Any:
            args = tuple([cast(x) if self._is_meant(x) else x for x in args])
            kwargs = {name: cast(x) if self._is_meant(x) else x for name, x in kwargs.items()}
            state.busy = True
            try:
                return function(*args, **kwargs)
            finally:
                state.busy = False

        return run

    @staticmethod
    def _is_meant(x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype in _NARROWER and state.enabled.get(x.device.type, False)

    @staticmethod
    def _wide(x: Tensor) -> Tensor:
        return x.float()

    @staticmethod
    def _narrow(x: Tensor) -> Tensor:
        """The cast of an operand; that of a parameter is kept until the region ends."""
        dtype = state.dtype[x.device.type]
        if x.dtype is not rushlight.float32 or not (state.cached and x.requires_grad and x.is_leaf):
            return x.to(dtype)
        recording = rushlight.is_grad_enabled()
        found = state.casts.get(id(x))
        if found is not None and found[1] == x._version and found[2] is recording and found[3].dtype is dtype:
            return found[3]
        cast = x.to(dtype)
        state.casts[id(x)] = (x, x._version, recording, cast)
        return cast


class autocast:
    """A region (or, as a decorator, a function) in which products run in a half type.

    Products, convolutions, attention and recurrent layers take float32 operands as `dtype` (bfloat16, or float16);
    losses, quantiles, FFT, decompositions and the like take half operands as float32; other operations keep what they
    get. Call backward outside. Raises RuntimeError for an unknown device type, and ValueError for a dtype that is not a
    half type.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.Linear(2, 2)
        >>> with rushlight.autocast("cpu"):
        ...     y = layer(rushlight.ones(1, 2))
        >>> y.dtype
        rushlight.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in DEVICES:
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'; known are {DEVICES}"
            )
        self.device = device_type
        self.fast_dtype = state.dtype[device_type] if dtype is None else dtype
        if enabled and device_type == "cuda" and not rushlight.cuda.is_available():
            warnings.warn("User provided device_type of 'cuda', but CUDA is not available. Disabling", stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in (rushlight.float16, rushlight.bfloat16):
            raise ValueError(f"autocast: dtype must be float16 or bfloat16, got {self.fast_dtype}")
        self._enabled = enabled
        self._cache_enabled = state.cached if cache_enabled is None else cache_enabled
        self._before: list[tuple] = []

    def __enter__(self) -> autocast:
        pushed = dispatch.push(_Caster())
        self._before.append((pushed, state.enabled[self.device], state.dtype[self.device], state.cached))
        state.enabled[self.device], state.dtype[self.device] = self._enabled, self.fast_dtype
        state.cached = self._cache_enabled
        state.depth += 1
        pushed.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        pushed, state.enabled[self.device], state.dtype[self.device], state.cached = self._before.pop()
        pushed.__exit__(*error)
        state.depth -= 1
        if not state.depth:
            state.casts.clear()

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return decorated


def _as_now() -> Callable[[], ExitStack]:
    """A function that makes a context with autocast as it is now, for what a checkpoint computes again later."""
    then, cached = {d: state.dtype[d] for d in DEVICES if state.enabled[d]}, state.cached

    def again() -> ExitStack:
        regions = ExitStack()
        for device in {*then, *(d for d in DEVICES if state.enabled[d])}:
            regions.enter_context(autocast(device, then.get(device), device in then, cached))
        return regions

    return again


SURROUNDINGS.append(_as_now)


def _converted(value: Any, device_type: str, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.device.type == device_type else value
    if isinstance(value, dict):
        return {key: _converted(x, device_type, dtype) for key, x in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_converted(x, device_type, dtype) for x in value])
    return value


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: Any = None) -> Callable:
    """Decorates `forward` of an autograd Function: with `cast_inputs`, floating inputs are cast and autocast is off
    inside."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        context._dtype = state.dtype[device_type]
        active = state.enabled[device_type]
        if cast_inputs is None or not active:
            context._fwd_used_autocast = active
            return fwd(*args, **kwargs)
        context._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            cast = _converted(args[1:], device_type, cast_inputs)
            return fwd(context, *cast, **_converted(kwargs, device_type, cast_inputs))

    return decorated


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """Decorates `backward` of an autograd Function: it runs with the autocast state that its forward ran in."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=args[0]._dtype, enabled=args[0]._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return decorated
