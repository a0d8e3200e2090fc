"""Recurrent layers: laws between them, and PyTorch's results where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rushlight
from rushlight import nn
from rushlight.autograd import gradgradcheck
from rushlight.func import functional_call
from rushlight.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

LAYERS = [nn.RNN, nn.LSTM, nn.GRU]


def close(a, b, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", LAYERS)
def test_packed_sequences_run_as_each_alone(kind):
    layer = kind(3, 4, num_layers=2, bidirectional=True)
    sequences = [rushlight.randn(n, 3) for n in (2, 5, 1, 5)]
    out, last = layer(pack_sequence(sequences, enforce_sorted=False))
    padded, lengths = pad_packed_sequence(out)
    for b, sequence in enumerate(sequences):
        own, own_last = layer(sequence)
        close(padded[: lengths[b], b], own)
        for found, expected in zip(*((x,) if isinstance(x, rushlight.Tensor) else x for x in (last, own_last))):
            close(found[:, b], expected)


@pytest.mark.parametrize("kind, cell", [(nn.RNN, nn.RNNCell), (nn.LSTM, nn.LSTMCell), (nn.GRU, nn.GRUCell)])
def test_a_layer_is_its_cell_again_and_again(kind, cell):
    layer, step = kind(3, 4), cell(3, 4)
    step.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
    x, state, outs = rushlight.randn(6, 2, 3), None, []
    for element in x:
        state = step(element, state)
        outs.append(state[0] if kind is nn.LSTM else state)
    close(layer(x)[0], rushlight.stack(outs))


@pytest.mark.parametrize("kind", LAYERS)
def test_the_second_direction_reads_backwards(kind):
    both, one = kind(3, 4, bidirectional=True, batch_first=True), kind(3, 4, batch_first=True)
    x = rushlight.randn(2, 5, 3)
    found = both(x)[0]
    weights = both.state_dict()
    one.load_state_dict({name: value for name, value in weights.items() if "reverse" not in name})
    close(found[..., :4], one(x)[0])
    one.load_state_dict({name.removesuffix("_reverse"): value for name, value in weights.items() if "reverse" in name})
    close(found[..., 4:], one(x.flip(1))[0].flip(1))


@pytest.mark.parametrize("kind", LAYERS)
def test_derivatives_of_any_order(kind):
    layer = kind(1, 2, dtype=rushlight.float64)
    names = [name for name, _ in layer.named_parameters()]
    x = rushlight.randn(2, 1, 1, dtype=rushlight.float64, requires_grad=True)

    def outputs(x, *parameters):
        return functional_call(layer, dict(zip(names, parameters)), (x,))[0]

    assert gradgradcheck(outputs, (x, *layer.parameters()))


def test_frozen_input_weights_leave_gradients_of_the_others():
    layer = nn.LSTM(2, 3)
    layer(rushlight.ones(4, 1, 2))[0].sum().backward()
    expected = layer.weight_hh_l0.grad
    layer.zero_grad()
    for parameter in (layer.weight_ih_l0, layer.bias_ih_l0, layer.bias_hh_l0):
        parameter.requires_grad_(False)
    layer(rushlight.ones(4, 1, 2))[0].sum().backward()
    close(layer.weight_hh_l0.grad, expected)


def test_functions_name_what_they_expect():
    x, h = rushlight.zeros(2, 1, 3), rushlight.zeros(1, 1, 4)
    weights = [parameter.detach() for parameter in nn.GRU(3, 4).parameters()]
    options = (True, 1, 0.0, False, False)
    assert rushlight.gru(x, h, weights, *options, False)[0].shape == (2, 1, 4)
    assert rushlight.gru(x.reshape(2, 3), rushlight.tensor([1, 1]), h, weights, *options)[0].shape == (2, 4)
    with pytest.raises(TypeError, match="gru: expected .input, hx, params"):
        rushlight.gru(x, h, weights)
    with pytest.raises(RuntimeError, match="gru: expected 4 params for each of 1 layers"):
        rushlight.gru(x, h, weights[:3], *options, False)
    with pytest.raises(RuntimeError, match="sizes must fall"):
        rushlight.gru(x.reshape(2, 3), rushlight.tensor([1, 2]), h, weights, *options)


def twins(torch, name: str, *args, **kwargs):
    """A layer of PyTorch and ours with the same weights."""
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(nn, name)(*args, **kwargs)
    weights = {key: rushlight.from_numpy(value.numpy().copy()) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(weights)
    return theirs, ours


OPTIONS = [
    {},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"bias": False, "bidirectional": True},
    {"proj_size": 3, "num_layers": 2},
    {"nonlinearity": "relu", "batch_first": True},
]
CASES = [
    (name, options, packed)
    for name, options, packed in itertools.product(("RNN", "LSTM", "GRU"), OPTIONS, (False, True))
    if name == "LSTM" or "proj_size" not in options
    if name == "RNN" or "nonlinearity" not in options
]


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # PyTorch tells which of its kernels it takes
@pytest.mark.parametrize("name, options, packed", CASES)
def test_results_and_gradients_are_those_of_pytorch(name, options, packed):
    torch = pytest.importorskip("torch")
    models = twins(torch, name, 5, 24, **options)
    x = np.random.default_rng(0).standard_normal((7, 7, 5)).astype(np.float32)
    found = []
    for library, model in zip((torch, rushlight), models):
        inputs = library.from_numpy(x.copy()).requires_grad_()
        first = options.get("batch_first", False)
        lengths = library.tensor([7, 5, 5, 4, 2, 1, 1])
        out, last = model(pack_padded_sequence_of(library)(inputs, lengths, first) if packed else inputs)
        states = last if name == "LSTM" else (last,)
        out = out.data if packed else out
        (out.square().sum() + sum(state.sin().sum() for state in states)).backward()
        found.append([out, *states, inputs.grad, *[parameter.grad for parameter in model.parameters()]])
    for expected, got in zip(*found, strict=True):
        close(got, expected, 2e-5)


def pack_padded_sequence_of(library):
    """The function of a library."""
    return pack_padded_sequence if library is rushlight else library.nn.utils.rnn.pack_padded_sequence
