"""Cells: one step of a recurrent layer."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.kernels.recurrent import CELLS
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops.rnn import recurrent_step


class RNNCellBase(Module):
    """What the cells share: parameters, checks, and the step."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, bias: bool, device: Any, dtype: Any) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.bias = mode, input_size, hidden_size, bias
        rows = CELLS[mode].gates * hidden_size
        self.weight_ih = Parameter(rushlight.empty(rows, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(rushlight.empty(rows, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(
                name, Parameter(rushlight.empty(rows, device=device, dtype=dtype)) if bias else None
            )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new starting values: uniform in `[-k, k]`, `k = 1 / sqrt(hidden_size)`."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, input: Tensor, states: tuple[Tensor, ...] | None, count: int) -> tuple[Tensor, ...]:
        name = type(self).__name__
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        for i, state in enumerate(states or ()):
            if state.ndim not in (1, 2):
                raise ValueError(f"{name}: Expected hx[{i}] to be 1D or 2D, got {state.ndim}D instead")
        x = input if input.ndim == 2 else input.unsqueeze(0)
        if states is None:
            zeros = rushlight.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
            states = (zeros,) * count
        else:
            states = tuple([s if s.ndim == 2 else s.unsqueeze(0) for s in states])
        if x.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {x.shape[1]}, expected {self.input_size}")
        for state in states:
            if state.shape[1] != self.hidden_size or state.shape[0] != x.shape[0]:
                raise RuntimeError(
                    f"hidden state has shape {list(state.shape)}, expected [{x.shape[0]}, {self.hidden_size}]"
                )
        new = recurrent_step(self.mode, x, states, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return new if input.ndim == 2 else tuple([s.squeeze(0) for s in new])

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")


class RNNCell(RNNCellBase):
    """One step of RNN. Shapes: `(n, input_size)`, `(n, hidden_size)` -> `(n, hidden_size)`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", input_size, hidden_size, bias, device, dtype
        )
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(input, None if hx is None else (hx,), 1)[0]


class LSTMCell(RNNCellBase):
    """One step of LSTM. Shapes: `(n, input_size)`, `(h, c)` of `(n, hidden_size)` -> `(h, c)`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__("LSTM", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        return self._step(input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of GRU. Shapes: `(n, input_size)`, `(n, hidden_size)` -> `(n, hidden_size)`."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__("GRU", input_size, hidden_size, bias, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(input, None if hx is None else (hx,), 1)[0]
