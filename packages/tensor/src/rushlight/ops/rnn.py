"""Recurrent layers and cells as functions: lstm, gru, rnn_tanh, rnn_relu, and a step of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.kernels.recurrent import CELLS
from rushlight.ops.dropout import dropout
from rushlight.ops.join import cat, stack
from rushlight.ops.matmul import linear
from rushlight.ops.recurrent import recurrent_op, recurrent_training_op

_OPTIONS = ("params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
_PADDED = ("input", "hx", *_OPTIONS, "batch_first")
_PACKED = ("data", "batch_sizes", "hx", *_OPTIONS)
Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]


def _bound(mode: str, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name. Packed sequences come with `batch_sizes`, a tensor, in front of the states."""
    name, place = mode.lower(), 1 if CELLS[mode].remembers else 2
    packed = "batch_sizes" in kwargs or len(args) > place and hasattr(args[place], "_meta")
    names = _PACKED if packed else _PADDED
    bound = dict(zip(names, args)) | kwargs
    if len(args) > len(names) or len(bound) != len(args) + len(kwargs) or set(bound) != set(names):
        raise TypeError(
            f"{name}: expected ({', '.join(_PADDED)}) or ({', '.join(_PACKED)}), got {len(args)} positional arguments"
            + (f" and {', '.join(kwargs)}" if kwargs else "")
        )
    return bound


def _weights(name: str, params: Sequence[Tensor], has_biases: bool, directions: int) -> Iterator[Weights]:
    """The parameters of each layer and direction: weight_ih, weight_hh, bias_ih, bias_hh, weight_hr."""
    plain = 4 if has_biases else 2
    if len(params) not in (plain * directions, (plain + 1) * directions):
        raise RuntimeError(
            f"{name}: expected {plain} params for each of {directions} layers and directions (or {plain + 1}, the last "
            f"one a projection), got {len(params)} in all"
        )
    each = len(params) // directions
    for first in range(0, len(params), each):
        own = params[first : first + each]
        biases = tuple(own[2:4]) if has_biases else (None, None)
        yield own[0], own[1], *biases, own[plain] if each > plain else None


def _direction(
    mode: str, input: Tensor, h: Tensor, c: Tensor | None, weights: Weights, sizes: Tensor | None, reverse: bool,
    batch_first: bool,
) -> Sequence[Tensor]:  # fmt: skip
    """One layer in one direction: outputs and last states."""
    weight_ih, weight_hh, bias_ih, bias_hh, weight_hr = weights
    if bias_ih is not None and bias_hh is not None and not CELLS[mode].separate:
        bias_ih, bias_hh = bias_ih + bias_hh, None
    gates = linear(input, weight_ih, bias_ih)  # of all times, in one product
    op = recurrent_training_op if gates.requires_grad else recurrent_op
    return op.apply((gates, h, c, weight_hh, bias_hh, weight_hr, sizes), (mode, reverse, batch_first))


def recurrent_layers(
    mode: str, input: Tensor, sizes: Tensor | None, states: Sequence[Tensor], params: Sequence[Tensor],
    has_biases: bool, num_layers: int, p: float, train: bool, bidirectional: bool, *, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """All layers: outputs of the last one, and the last states of each."""
    name, directions = mode.lower(), 1 + bidirectional
    if input.ndim != (2 if sizes is not None else 3):
        raise RuntimeError(
            f"{name}: expected {'packed data of 2' if sizes is not None else 'input of 3'} dimensions, got {input.ndim}"
        )
    if input.shape[1 if batch_first else 0] == 0:
        raise RuntimeError(f"{name}: Expected sequence length to be larger than 0 in RNN")
    for state in states:
        if state.ndim != 3 or state.shape[0] != num_layers * directions:
            raise RuntimeError(
                f"{name}: expected states of shape ({num_layers * directions}, batch, size), got {tuple(state.shape)}"
            )
    weights = list(_weights(name, params, has_biases, num_layers * directions))
    last: list[Sequence[Tensor]] = []
    output = input
    for layer in range(num_layers):
        found = []
        for number in range(layer * directions, (layer + 1) * directions):
            h, c = states[0][number], states[1][number] if len(states) > 1 else None
            reverse = number % directions == 1
            out, *ends = _direction(mode, output, h, c, weights[number], sizes, reverse, batch_first)
            found.append(out)
            last.append(ends)
        output = found[0] if directions == 1 else cat(found, -1)
        if p and train and layer < num_layers - 1:
            output = dropout(output, p, True)
    ends = [[own[k] for own in last] for k in range(len(states))]
    return output, *[stack(own) if len(own) > 1 else own[0].unsqueeze(0) for own in ends]


def _call(mode: str, args: tuple, kwargs: dict[str, Any]) -> tuple[Tensor, ...]:
    bound = _bound(mode, args, kwargs)
    sizes = bound.get("batch_sizes")
    input = bound["input"] if sizes is None else bound["data"]
    states = bound["hx"] if CELLS[mode].remembers else (bound["hx"],)
    options = [bound[name] for name in _OPTIONS]
    return recurrent_layers(mode, input, sizes, states, *options, batch_first=bound.get("batch_first", False))


@function(method=False, out=False)
def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Long short-term memory: `nn.LSTM` as a function of its parameters. Returns outputs and the last h and c.

    `lstm(input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`, or for packed
    sequences `lstm(data, batch_sizes, (h, c), params, has_biases, num_layers, dropout, train, bidirectional)`. `params`
    are weight_ih, weight_hh, bias_ih, bias_hh and weight_hr of each layer and direction, as far as there are any.
    Raises TypeError for other arguments and RuntimeError when shapes or dtypes do not fit.
    """
    return _call("LSTM", args, kwargs)


@function(method=False, out=False)
def gru(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """Gated recurrent unit: `nn.GRU` as a function of its parameters. Arguments as `lstm`, with one state."""
    return _call("GRU", args, kwargs)


@function(method=False, out=False)
def rnn_tanh(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """`nn.RNN` with tanh as a function of its parameters. Arguments as `lstm`, with one state."""
    return _call("RNN_TANH", args, kwargs)


@function(method=False, out=False)
def rnn_relu(*args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
    """`nn.RNN` with relu as a function of its parameters. Arguments as `lstm`, with one state."""
    return _call("RNN_RELU", args, kwargs)


def recurrent_step(mode: str, input: Tensor, states: Sequence[Tensor], *weights: Tensor | None) -> tuple[Tensor, ...]:
    """The states after one element: the last ones of a sequence of it alone. Weights as those of `lstm_cell`."""
    h, c = states[0], states[1] if CELLS[mode].remembers else None
    _, *last = _direction(mode, input.unsqueeze(0), h, c, (*weights, None), None, False, False)  # type: ignore[arg-type]
    return tuple(last[: len(states)])


@function(method=False, out=False)
def lstm_cell(
    input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """A step of an LSTM: `(n, input_size)`, `(h, c)` of `(n, hidden_size)` -> the next `(h, c)`.

    Weights have 4 * hidden_size rows. Raises RuntimeError when shapes or dtypes do not fit.

    Example:
        >>> import rushlight
        >>> zeros, weight = rushlight.zeros(1, 2), rushlight.ones(8, 2)
        >>> rushlight.lstm_cell(rushlight.ones(1, 2), (zeros, zeros), weight, weight)[0]
        tensor([[0.6083, 0.6083]])
    """
    h, c = recurrent_step("LSTM", input, hx, w_ih, w_hh, b_ih, b_hh)
    return h, c


@function(method=False, out=False)
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """A step of a GRU: `(n, input_size)`, `(n, hidden_size)` -> `(n, hidden_size)`. Weights have 3 * hidden_size rows.

    Raises RuntimeError when shapes or dtypes do not fit.
    """
    return recurrent_step("GRU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@function(method=False, out=False)
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """`tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)`: `(n, input_size)`, `(n, hidden_size)` -> `(n, hidden_size)`.

    Raises RuntimeError when shapes or dtypes do not fit.
    """
    return recurrent_step("RNN_TANH", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]


@function(method=False, out=False)
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """`relu(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)`: `(n, input_size)`, `(n, hidden_size)` -> `(n, hidden_size)`.

    Raises RuntimeError when shapes or dtypes do not fit.
    """
    return recurrent_step("RNN_RELU", input, (hx,), w_ih, w_hh, b_ih, b_hh)[0]
