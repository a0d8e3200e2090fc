"""Layers that learn the size of their input from the first one: LazyLinear, LazyConv2d, LazyBatchNorm1d, ..."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules import batchnorm, conv
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


class LazyModuleMixin:
    """Makes a Module wait for its first input: a subclass holds uninitialized parameters, and
    `initialize_parameters(*inputs)`
    gives them their shapes. After that call the module becomes an instance of `cls_to_become`.

    Move a lazy module to its device and dtype first, run one batch through it, and only then make the optimizer.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        forward = self.register_forward_pre_hook(LazyModuleMixin._infer_parameters, with_kwargs=True)
        load = self.register_load_state_dict_pre_hook(LazyModuleMixin._materialize_from)
        # Numbers rather than handles: a deep copy then removes its own hooks, not those of its original.
        self._lazy_hooks = (forward.id, load.id)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give every parameter its shape, by the inputs of the first call."""
        raise NotImplementedError(f"{type(self).__name__} does not define initialize_parameters")

    def has_uninitialized_params(self) -> bool:
        """Is any parameter or buffer still without a shape?"""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def _infer_parameters(self, args: tuple, kwargs: dict) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"{type(self).__name__}.initialize_parameters left parameters without a shape")
        forward, load = self._lazy_hooks
        self._forward_pre_hooks.pop(forward)
        self._load_state_dict_pre_hooks.pop(load)
        del self._lazy_hooks
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def _materialize_from(self, state_dict: dict, prefix: str, *about: Any) -> None:
        """Take shapes from a state that is loaded."""
        for name, own in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if is_lazy(own) and given is not None and not is_lazy(given):
                own.materialize(given.shape)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, own in (*self._parameters.items(), *self._buffers.items()):
            if is_lazy(own):
                destination[prefix + name] = own

    def _load_one(self, name: str, key: str, current: Tensor, value: Any, assign: bool) -> str | None:
        if is_lazy(value):
            return None if is_lazy(current) else f"entry {key!r} is uninitialized, but the module's is not"
        return super()._load_one(name, key, current, value, assign)

    def _place(self, shapes: dict[str, tuple[int, ...]]) -> None:
        """Materialize the parameters and buffers that are still lazy, and draw starting values."""
        if not self.has_uninitialized_params():
            return
        with rushlight.no_grad():
            for name, shape in shapes.items():
                own = getattr(self, name)
                if is_lazy(own):
                    own.materialize(shape)
            self.reset_parameters()


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose `in_features` is the last size of the first input.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.LazyLinear(2)
        >>> layer(rushlight.zeros(4, 3)).shape, layer
        (rushlight.Size([4, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new starting values, once there is something to fill."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take `in_features` from the input."""
        self.in_features = self.in_features or input.shape[-1]
        self._place({"weight": (self.out_features, self.in_features), "bias": (self.out_features,)})


class _LazyConvolution(LazyModuleMixin):
    """What lazy convolutions share: `in_channels` from the first input."""

    def _delay(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new starting values, once there is something to fill."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *rest: Any) -> None:
        """Take `in_channels` from the input. Raises RuntimeError for a wrong number of dimensions, ValueError for the
        groups."""
        n = self._dims
        if input.ndim not in (n + 1, n + 2):
            raise RuntimeError(f"{type(self).__name__}: expected {n + 1}D or {n + 2}D input, got {input.ndim}D")
        channels = input.shape[-n - 1]
        if channels % self.groups:
            raise ValueError(f"in_channels must be divisible by groups, got {channels} and {self.groups}")
        self.in_channels = channels
        shape = self._channels(channels, self.out_channels)
        self._place({"weight": (*shape, *self.kernel_size), "bias": (self.out_channels,)})


class _LazyConv(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._delay(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._delay(out_channels, bias, device, dtype)


class _LazyNorm(LazyModuleMixin):
    """What lazy batch and instance normalisations share: `num_features` from the first input."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            if bias:
                self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = rushlight.tensor(0, dtype=rushlight.int64, device=device)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and no statistics, once there is something to fill."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def _unbatched(self, input: Tensor) -> bool:
        """Instance normalisation takes single samples; batch normalisation does not."""
        return isinstance(self, batchnorm._InstanceNorm) and input.ndim == self._ndims[0]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take `num_features` from the input."""
        self.num_features = input.shape[0 if self._unbatched(input) else 1]
        self._place(dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,)))


def _lazy(base: type, mixin: type) -> type:
    """The lazy form of a layer."""
    doc = f"{base.__name__} that takes the number of its input channels from the first input."
    body = {"__doc__": doc, "__module__": __name__, "cls_to_become": base}
    return type(f"Lazy{base.__name__}", (mixin, base), body)


LazyConv1d = _lazy(conv.Conv1d, _LazyConv)
LazyConv2d = _lazy(conv.Conv2d, _LazyConv)
LazyConv3d = _lazy(conv.Conv3d, _LazyConv)
LazyConvTranspose1d = _lazy(conv.ConvTranspose1d, _LazyConvTranspose)
LazyConvTranspose2d = _lazy(conv.ConvTranspose2d, _LazyConvTranspose)
LazyConvTranspose3d = _lazy(conv.ConvTranspose3d, _LazyConvTranspose)
LazyBatchNorm1d = _lazy(batchnorm.BatchNorm1d, _LazyNorm)
LazyBatchNorm2d = _lazy(batchnorm.BatchNorm2d, _LazyNorm)
LazyBatchNorm3d = _lazy(batchnorm.BatchNorm3d, _LazyNorm)
LazyInstanceNorm1d = _lazy(batchnorm.InstanceNorm1d, _LazyNorm)
LazyInstanceNorm2d = _lazy(batchnorm.InstanceNorm2d, _LazyNorm)
LazyInstanceNorm3d = _lazy(batchnorm.InstanceNorm3d, _LazyNorm)
