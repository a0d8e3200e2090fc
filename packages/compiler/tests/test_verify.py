"""`RUSHLIGHT_COMPILE_VERIFY=1`."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as torch
from rushlight.compiler import _config, _failures, _verify
from rushlight.compiler.codegen import program
from rushlight.compiler.graph import families


@pytest.fixture(autouse=True)
def asked_for(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_COMPILE_VERIFY", "1")


def model(x, weight):
    return (x @ weight).relu().softmax(1).mean()


def test_right_results_pass():
    x, weight = torch.randn(6, 4), torch.randn(4, 3, requires_grad=True)
    compiled = torch.compile(model, fullgraph=True)
    compiled(x, weight).backward()
    found, weight.grad = weight.grad, None
    model(x, weight).backward()
    torch.testing.assert_close(found, weight.grad)


def test_results_without_a_magnitude_pass():
    def program(x, flag):
        return torch.special.ndtri(x).minimum(x), flag + flag

    x = torch.tensor([0.5, -1.38])  # the first result is 0 but for rounding, the other one NaN
    for a, b in zip(torch.compile(program)(x, torch.tensor(True)), program(x, torch.tensor(True))):
        torch.testing.assert_close(a, b, equal_nan=True)


def test_a_wrong_program_is_found(monkeypatch):
    class Wrong(program.Program):
        def consume(self, inputs):
            return [x + 0.1 for x in super().consume(inputs)]

    monkeypatch.setattr(program, "Program", Wrong)
    with pytest.raises(_verify.Mismatch, match="differs in 1 of 1 elements"):
        torch.compile(model)(torch.randn(6, 4), torch.randn(4, 3))


class Broken(program.Program):
    """A program with a fault of ours."""

    def consume(self, inputs):
        inputs.clear()
        raise KeyError("fault")


def test_a_program_that_raises_where_its_operations_do_not_raises(monkeypatch):
    monkeypatch.setattr(_config, "raise_internal_errors", False)
    monkeypatch.setattr(program, "Program", Broken)
    with pytest.raises(AssertionError, match="the program of model failed: KeyError: 'fault'"):
        torch.compile(model)(torch.randn(6, 4), torch.randn(4, 3))


@pytest.mark.parametrize("gradients", [False, True])
def test_a_program_that_cannot_be_made_raises(monkeypatch, gradients):
    def failing(*args):
        raise RuntimeError("fault")

    monkeypatch.setattr(_config, "raise_internal_errors", False)
    monkeypatch.setattr(program, "Program", failing)
    with pytest.raises(AssertionError, match="model could not be compiled: RuntimeError: fault"):
        torch.compile(model)(torch.randn(6, 4), torch.randn(4, 3, requires_grad=gradients))


def test_a_program_for_open_sizes_that_cannot_be_made_raises(monkeypatch):
    def failing(*args):
        raise RuntimeError("fault")

    monkeypatch.setenv("RUSHLIGHT_COMPILE_VERIFY", "0")  # which looks at one size after the other
    monkeypatch.setattr(_config, "raise_internal_errors", True)
    monkeypatch.setattr(families, "reopened", failing)
    with pytest.raises(AssertionError, match="a program for open sizes could not be made: RuntimeError: fault"):
        torch.compile(model, dynamic=True)(torch.randn(6, 4), torch.randn(4, 3))


@pytest.mark.parametrize("dynamic", [False, True])
def test_otherwise_it_warns_once(monkeypatch, dynamic):
    def scaled(x, calls):
        calls.append(1)
        return x * torch.rand(()) + x.shape[0]

    monkeypatch.setenv("RUSHLIGHT_COMPILE_VERIFY", "0")
    monkeypatch.setattr(_config, "raise_internal_errors", False)
    monkeypatch.setattr(_failures, "_told", set())
    monkeypatch.setattr(Broken, "__call__", Broken.consume)
    monkeypatch.setattr(program, "Program", Broken)
    compiled, x, calls = torch.compile(scaled, dynamic=dynamic), torch.randn(3), []
    for seed in range(2):
        torch.manual_seed(seed)
        with contextlib.nullcontext() if seed else pytest.warns(RuntimeWarning, match="scaled failed: KeyError"):
            found = compiled(x, calls)
        torch.manual_seed(seed)
        assert torch.equal(found, scaled(x, []))
    assert len(calls) == 2


def test_errors_of_operations_are_no_faults():
    def picked(table, at):
        try:
            return table[at]
        except IndexError:
            return table

    compiled, table = torch.compile(picked), torch.randn(3)
    for at in (1, 4):
        torch.testing.assert_close(compiled(table, torch.tensor([at])), picked(table, torch.tensor([at])))


@pytest.mark.parametrize(
    ("found", "expected", "reason"),
    [
        (torch.ones(2), torch.ones(2), None),
        (torch.tensor([1.0, float("nan")]), torch.tensor([1.0000001, float("nan")]), None),
        (torch.tensor([float("inf")]), torch.tensor([float("-inf")]), "1 of 1"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "dtype"),
        (torch.ones(2), torch.ones(3), "shape"),
        (torch.ones(2, 3), torch.ones(3, 2).mT, "strides"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2"),
        (torch.tensor([1 + 1j]), torch.tensor([1 - 1j]), "1 of 1"),
        (torch.ones(0), torch.ones(0), None),
    ],
)
def test_what_counts_as_a_difference(found, expected, reason):
    text = _verify.difference(found, expected)
    assert text is None if reason is None else reason in text
