"""Recurrent layers: RNN, LSTM, GRU and their cells."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.amp.state import state as autocast
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence

State = tuple[Tensor, ...]
Step = Callable[[Tensor, State], State]


def scan(step: Step, inputs: list[Tensor], start: State, reverse: bool) -> tuple[list[Tensor], State]:
    """Run `step(x, state) -> state` over time; returns the first state tensor of each time, and the last states.

    The batch may shrink over time, as in packed sequences, whose longest come first: rows that end keep their last
    state, and going backwards they start when their last element comes.
    """
    outputs: list[Tensor] = [None] * len(inputs)  # type: ignore[list-item]
    ended: list[State] = []
    order = range(len(inputs) - 1, -1, -1) if reverse else range(len(inputs))
    state = tuple([s[: inputs[order[0]].shape[0]] for s in start])
    for t in order:
        rows, have = inputs[t].shape[0], state[0].shape[0]
        if rows < have:
            ended.append(tuple([s[rows:] for s in state]))
            state = tuple([s[:rows] for s in state])
        elif rows > have:
            state = tuple([rushlight.cat((s, first[have:rows])) for s, first in zip(state, start)])
        state = step(inputs[t], state)
        outputs[t] = state[0]
    if ended:
        state = tuple([rushlight.cat([s, *[e[i] for e in reversed(ended)]]) for i, s in enumerate(state)])
    return outputs, state


def _lstm_step(weight_hh: Tensor, bias_hh: Tensor | None, weight_hr: Tensor | None) -> Step:
    def step(x: Tensor, state: State) -> State:
        h, c = state
        i, f, g, o = (x + F.linear(h, weight_hh, bias_hh)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return (h if weight_hr is None else F.linear(h, weight_hr)), c

    return step


def _gru_step(weight_hh: Tensor, bias_hh: Tensor | None, weight_hr: Tensor | None) -> Step:
    def step(x: Tensor, state: State) -> State:
        (h,) = state
        x_r, x_z, x_n = x.chunk(3, 1)
        h_r, h_z, h_n = F.linear(h, weight_hh, bias_hh).chunk(3, 1)
        update = (x_z + h_z).sigmoid()
        new = (x_n + (x_r + h_r).sigmoid() * h_n).tanh()
        return (new + update * (h - new),)

    return step


def _rnn_step(activation: Callable[[Tensor], Tensor]) -> Callable[..., Step]:
    def make(weight_hh: Tensor, bias_hh: Tensor | None, weight_hr: Tensor | None) -> Step:
        return lambda x, state: (activation(x + F.linear(state[0], weight_hh, bias_hh)),)

    return make


_STEPS = {
    "LSTM": _lstm_step,
    "GRU": _gru_step,
    "RNN_TANH": _rnn_step(lambda x: x.tanh()),
    "RNN_RELU": _rnn_step(lambda x: x.relu()),
}
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


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
        out, rows = proj_size or hidden_size, _GATES[mode] * hidden_size
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

    def _layer(self, number: int, inputs: list[Tensor], start: State, reverse: bool) -> tuple[list[Tensor], State]:
        parameters = {name.split("_l")[0]: getattr(self, name) for name in self._names[number]}
        sizes = [x.shape[0] for x in inputs]
        projected = F.linear(
            rushlight.cat(inputs), parameters["weight_ih"], parameters.get("bias_ih")
        )  # one product for all times
        step = _STEPS[self.mode](parameters["weight_hh"], parameters.get("bias_hh"), parameters.get("weight_hr"))
        return scan(step, list(projected.split(sizes)), start, reverse)

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
        if packed:
            data, sizes = input.data, input.batch_sizes.tolist()
            batch, batched = sizes[0], True
        else:
            data, batched = input, input.ndim == 3
            batch = input.shape[0 if self.batch_first else 1] if batched else 1
        directions = 1 + self.bidirectional
        count = self.num_layers * directions
        widths = (self.proj_size or self.hidden_size, self.hidden_size) if self.mode == "LSTM" else (self.hidden_size,)
        if states is None:
            states = tuple(
                [
                    rushlight.zeros(count, *((batch,) if batched else ()), w, dtype=data.dtype, device=data.device)
                    for w in widths
                ]
            )
            self._check(data, (), packed, batch, batched)
        else:
            self._check(data, states, packed, batch, batched)
            if packed and input.sorted_indices is not None:
                states = tuple([s.index_select(1, input.sorted_indices) for s in states])
        if not batched:
            states = tuple([s.unsqueeze(1) for s in states])
        if packed:
            inputs = list(data.split(sizes))
        else:
            time_first = data.unsqueeze(1) if not batched else data.transpose(0, 1) if self.batch_first else data
            inputs = list(time_first.unbind(0))
        finals: list[State] = []
        for layer in range(self.num_layers):
            found = []
            for direction in range(directions):
                number = layer * directions + direction
                outputs, last = self._layer(number, inputs, tuple([s[number] for s in states]), direction == 1)
                found.append(outputs)
                finals.append(last)
            inputs = found[0] if directions == 1 else [rushlight.cat(pair, 1) for pair in zip(*found)]
            if self.dropout and self.training and layer < self.num_layers - 1:
                inputs = list(F.dropout(rushlight.cat(inputs), self.dropout, True).split([x.shape[0] for x in inputs]))
        last = tuple([rushlight.stack([f[i] for f in finals]) for i in range(len(widths))])
        if packed:
            if input.unsorted_indices is not None:
                last = tuple([s.index_select(1, input.unsorted_indices) for s in last])
            return PackedSequence(
                rushlight.cat(inputs), input.batch_sizes, input.sorted_indices, input.unsorted_indices
            ), last
        if not batched:
            return rushlight.cat(inputs), tuple([s.squeeze(1) for s in last])
        return rushlight.stack(inputs, 1 if self.batch_first else 0), last

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
