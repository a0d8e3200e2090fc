"""The text of tensors, as PyTorch writes it."""

from __future__ import annotations

import pickle

import pytest

import rushlight
from rushlight import tensor

TEXTS = [
    (lambda: tensor(3), "tensor(3)"),
    (lambda: tensor([]), "tensor([])"),
    (lambda: rushlight.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: rushlight.zeros(2, 0, dtype=rushlight.int64), "tensor([], size=(2, 0), dtype=rushlight.int64)"),
    (lambda: tensor([1.0, 2.0]), "tensor([1., 2.])"),
    (lambda: tensor([1.5, float("nan"), float("-inf")]), "tensor([1.5000,    nan,   -inf])"),
    (lambda: tensor([1.0, 10000.0]), "tensor([1.0000e+00, 1.0000e+04])"),
    (lambda: tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
    (lambda: tensor([[1, -10], [100, 5]]), "tensor([[  1, -10],\n        [100,   5]])"),
    (lambda: tensor([True, False]), "tensor([ True, False])"),
    (lambda: tensor([1 + 2j, 3.5 - 4j]), "tensor([1.0000+2.j, 3.5000-4.j])"),
    (lambda: tensor([1], dtype=rushlight.uint8), "tensor([1], dtype=rushlight.uint8)"),
    (lambda: tensor([0.5], dtype=rushlight.bfloat16), "tensor([0.5000], dtype=rushlight.bfloat16)"),
    (lambda: rushlight.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (lambda: rushlight.zeros(1, 2, 2), "tensor([[[0., 0.],\n         [0., 0.]]])"),
    (lambda: rushlight.empty(2, device="meta"), "tensor(..., device='meta', size=(2,))"),
]


@pytest.mark.parametrize(("make", "text"), TEXTS, ids=[text[:30] for _, text in TEXTS])
def test_text(make, text):
    assert repr(make()) == text


def test_long_rows_are_broken_and_large_tensors_summarised():
    lines = repr(rushlight.arange(40)).splitlines()
    assert len(lines) == 3 and all(len(line) <= 80 for line in lines) and lines[1].startswith("        ")
    rows = repr(rushlight.zeros(100, 100)).splitlines()
    assert len(rows) == 7 and rows[3] == "        ...,"


def test_options():
    try:
        rushlight.set_printoptions(precision=2, sci_mode=True, linewidth=30)
        assert repr(tensor([0.125])) == "tensor([1.25e-01])"
        rushlight.set_printoptions(profile="full")
        assert "..." not in repr(rushlight.zeros(1001))
    finally:
        rushlight.set_printoptions(profile="default")
    with pytest.raises(ValueError, match="profile must be one of"):
        rushlight.set_printoptions(profile="large")


def test_numbers_are_formatted_and_other_tensors_are_not():
    assert f"{rushlight.tensor(3)}" == "3" and f"{rushlight.tensor(3.14159):.2f}" == "3.14"
    assert f"{rushlight.ones(2)}" == "tensor([1., 1.])"
    with pytest.raises(TypeError):
        f"{rushlight.ones(2):.2f}"


def test_named_results_name_their_fields():
    result = rushlight.max(rushlight.tensor([[1, 2]]), 1)
    assert repr(result) == "rushlight.return_types.max(\nvalues=tensor([2]),\nindices=tensor([1]))"
    factors = rushlight.linalg.qr(rushlight.eye(1))
    assert type(pickle.loads(pickle.dumps(factors))) is type(factors)
