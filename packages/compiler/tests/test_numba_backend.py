"""The backend `numba`: results, gradients and memory as in eager execution, and source that can be read."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight import compiler

nn = pytest.importorskip("rushlight.nn")
pytest.importorskip("numba")


def test_results_and_gradients():
    torch.manual_seed(0)
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)
    target = torch.tensor([0, 1, 1])

    def loss(x, weight):
        return nn.functional.cross_entropy((x @ weight.t()).sin(), target)

    compiled = torch.compile(loss, backend="numba", fullgraph=True)
    expected = torch.autograd.grad(loss(x, weight), (x, weight))
    got = torch.autograd.grad(compiled(x, weight), (x, weight))
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_results_have_memory_and_strides_of_their_own():
    x = torch.arange(6.0).reshape(2, 3)
    flipped, copied, turned = torch.compile(lambda x: (x.flip(0), x.clone(), (x * 2).t()), backend="numba")(x)
    assert turned.stride() == (1, 3) and turned.tolist() == (x * 2).t().tolist()
    flipped.zero_(), copied.zero_()
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_what_has_no_form_in_numpy_runs_eagerly(monkeypatch, capsys):
    monkeypatch.setattr("rushlight.compiler._logs._wanted", frozenset(["kernels"]))
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    assert torch.compile(lambda x: torch.mode(x, 1).values * 2, backend="numba")(x).tolist() == [2.0, 2.0]
    half = torch.compile(lambda x: x + 1, backend="numba")(x.bfloat16())
    assert half.tolist() == [[3.0, 2.0], [2.0, 4.0]]
    log = capsys.readouterr().err
    assert "= eager_mode_1(input0)" in log and "def run(" in log and "run operation by operation" in log


@pytest.mark.parametrize("program", [
    lambda x, i: x.gather(0, i[:, None]),
    lambda x, i: x.index_select(0, i),
    lambda x, i: nn.functional.embedding(i, x),
    lambda x, i: x.scatter(0, i[:, None], 1.0),
    lambda x, i: x.scatter_add(0, i[:, None], x),
    lambda x, i: x.index_add(0, i, x[:1]),
    lambda x, i: x.index_copy(0, i, x[:1]),
    lambda x, i: nn.functional.nll_loss(x[:1], i),
])
@pytest.mark.parametrize("index", [-1, 3])
def test_indices_outside_are_refused(program, index):
    compiled = torch.compile(program, backend="numba")
    for refused in (program, compiled):
        with pytest.raises((IndexError, RuntimeError), match=f"{index} is out of bounds"):
            refused(torch.arange(9.0).reshape(3, 3), torch.tensor([index]))


def test_where_negative_indices_count_from_the_end():
    def program(x, i):
        return x.take(i), x.index_fill(0, i, 7.0), x[i]

    x, i = torch.arange(9.0).reshape(3, 3), torch.tensor([-1, 0])
    for a, b in zip(torch.compile(program, backend="numba")(x, i), program(x, i), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_quotients_at_the_ends(dtype):
    def program(x, y):
        return x // y, x % y, torch.div(x, y, rounding_mode="trunc"), torch.fmod(x, y)

    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    x = torch.from_numpy(np.array([low, high] * 3, dtype))
    y = torch.from_numpy(np.array([1, 1, 3, 3, *[high if low == 0 else -1] * 2], dtype))
    for a, b in zip(torch.compile(program, backend="numba")(x, y), program(x, y), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.filterwarnings("error")
def test_infinite_parts_and_too_few_elements():
    def program(x):
        pairs = torch.stack((x, x.flip(0)), 1)
        return torch.complex(x, x.flip(0)), torch.view_as_complex(pairs), x[:1].var(), x[:0].std(), x[:, None].var(1)

    x = torch.tensor([float("inf"), 1.0, 0.0])
    for a, b in zip(torch.compile(program, backend="numba")(x), program(x), strict=True):
        np.testing.assert_array_equal(torch.view_as_real(a) if a.is_complex() else a,
                                      torch.view_as_real(b) if b.is_complex() else b)


def test_it_is_listed():
    assert "numba" in compiler.list_backends()
