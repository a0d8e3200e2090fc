"""Recurrent layers: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
import warnings
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.amp.state import state as autocast
from rushlight.kernels.recurrent import CELLS
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.ops.rnn import recurrent_layers

State = tuple[Tensor, ...]


def _check_options(
    input_size: Any, hidden_size: Any, num_layers: int, bias: Any, batch_first: Any, dropout: Any, proj_size: int
) -> None:
    wanted = {"input_size": (input_size, int), "hidden_size": (hidden_size, int)}
    wanted |= {"bias": (bias, bool), "batch_first": (batch_first, bool)}
    for name, (value, kind) in wanted.items():
        if not isinstance(value, kind):
            raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero, got {size}")
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            f"dropout should be a number in range [0, 1], the probability of zeroing an element, got {dropout}"
        )
    if proj_size < 0:
        raise ValueError(f"proj_size should be a positive integer or zero to disable projections, got {proj_size}")
    if proj_size >= hidden_size:
        raise ValueError(f"proj_size has to be smaller than hidden_size ({hidden_size}), got {proj_size}")
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            f"dropout acts between recurrent layers, so dropout={dropout} does nothing with num_layers=1", stacklevel=4
        )


class RNNBase(Module):
    """What recurrent layers share: parameters per layer and direction, and the walk over layers, directions and
    time."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        out, rows = proj_size or hidden_size, CELLS[mode].gates * hidden_size
        self._names: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                width = input_size if layer == 0 else out * (1 + bidirectional)
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
                if bias:
                    shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(
                        self, f"{name}_l{layer}{suffix}", Parameter(rushlight.empty(shape, device=device, dtype=dtype))
                    )
                self._names.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values: uniform in `[-k, k]`, `k = 1 / sqrt(hidden_size)`."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._names]

    def flatten_parameters(self) -> None:
        """Does nothing: the parameters need no common memory here."""

    def _check(self, input: Tensor, states: State, packed: bool, batch: int, batched: bool) -> None:
        weight = self.weight_ih_l0
        if input.dtype is not weight.dtype and not any(autocast.enabled.values()):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        if not packed and input.ndim not in (2, 3):
            raise ValueError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)
        for name, state, size in zip(("h_0", "c_0"), states, sizes):
            if not packed and state.ndim != input.ndim:
                raise RuntimeError(
                    f"For {'batched 3-D' if batched else 'unbatched 2-D'} input, {name} should also be {input.ndim}-D "
                    "but got "
                    f"{state.ndim}-D tensor"
                )
            wanted = (self.num_layers * (1 + self.bidirectional), *((batch,) if batched else ()), size)
            if tuple(state.shape) != wanted:
                raise RuntimeError(f"Expected hidden state {name} of size {wanted}, got {list(state.shape)}")

    def _run(self, input: Any, states: State | None) -> tuple[Any, State]:
        packed = isinstance(input, PackedSequence)
        data, sizes = (input.data, input.batch_sizes) if packed else (input, None)
        batched = packed or data.ndim == 3
        batch_first = self.batch_first and batched and not packed
        batch = int(sizes[0]) if packed else data.shape[0 if batch_first else 1] if batched else 1
        if states is None:
            self._check(data, (), packed, batch, batched)
            states = self._zeros(data, batch)
        else:
            self._check(data, states, packed, batch, batched)
            if packed and input.sorted_indices is not None:
                states = tuple([s.index_select(1, input.sorted_indices) for s in states])
            states = states if batched else tuple([s.unsqueeze(1) for s in states])
        parameters = [getattr(self, name) for names in self._names for name in names]
        output, *last = recurrent_layers(
            self.mode, data if batched else data.unsqueeze(1), sizes, states, parameters, self.bias, self.num_layers,
            self.dropout, self.training, self.bidirectional, batch_first=batch_first,
        )  # fmt: skip
        if not batched:
            return output.squeeze(1), tuple([s.squeeze(1) for s in last])
        if packed:
            if input.unsorted_indices is not None:
                last = [s.index_select(1, input.unsorted_indices) for s in last]
            output = PackedSequence(output, *input[1:])
        return output, tuple(last)

    def _zeros(self, data: Tensor, batch: int) -> State:
        """The states to begin with."""
        widths = (self.proj_size or self.hidden_size, self.hidden_size)[: 1 + CELLS[self.mode].remembers]
        lead = (self.num_layers * (1 + self.bidirectional), batch)
        return tuple([rushlight.zeros(*lead, width, dtype=data.dtype, device=data.device) for width in widths])

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(RNNBase):
    """`h = tanh(x @ W_ih.T + b_ih + h @ W_hh.T + b_hh)` over time (Elman 1990), or with relu.

    Shapes: `(l, n, input_size)` (`(n, l, input_size)` for `batch_first`) -> `(l, n, directions * hidden_size)` and the
    last states `(layers * directions, n, hidden_size)`.
    """

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        if len(args) > 3:
            nonlinearity, args = args[3], args[:3] + args[4:]
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, last = self._run(input, None if hx is None else (hx,))
        return output, last[0]


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with a projection of the output for `proj_size`.

    Shapes: as RNN, with the two states `(h, c)`.

    Example:
        >>> import rushlight
        >>> output, (h, c) = rushlight.nn.LSTM(3, 5)(rushlight.zeros(7, 2, 3))
        >>> output.shape, h.shape
        (rushlight.Size([7, 2, 5]), rushlight.Size([1, 2, 5]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def forward(self, input: Any, hx: State | None = None) -> tuple[Any, State]:
        return self._run(input, hx)


class GRU(RNNBase):
    """Gated recurrent unit (Cho et al. 2014). Shapes: as RNN."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        output, last = self._run(input, None if hx is None else (hx,))
        return output, last[0]
