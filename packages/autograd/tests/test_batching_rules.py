"""Batching of every op, on the samples of its declaration, against one call per sample."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.autograd.batching import one_by_one, rule_of
from rushlight.core.op import INPLACE, REGISTRY, Op
from rushlight.core.samples import samples_of
from rushlight.func import vmap

SIZE = 3

# Ops that run sample by sample, with the reason; all others have a row, are elementwise, or are written in others.
ONE_BY_ONE = {
    "as_strided_backward": "the geometry is that of one sample's memory",
    "as_strided_scatter": "the geometry is that of one sample's memory",
    "histc": "bounds that depend on the data",
    "histogram": "edges that depend on the data",
    "masked_scatter": "which element comes next depends on the data",
}
# Ops whose result has a shape that depends on data: they are refused.
SHAPED_BY_DATA = {"bincount", "masked_select", "nonzero", "repeat_indices", "unique", "unique_consecutive"}
# Ops without tensors to batch. A random one is called once, or once for all samples.
WITHOUT_OPERANDS = {"arange", "empty", "eye", "full", "linspace", "tril_indices"}
# Ops that look at the memory of a sample: how it lies when the batch is the last dimension is another question.
LAYOUTS = {"as_strided", "view_as_complex", "view_dtype"}
# Gradients that recompute what they are also given: operands that do not belong together tell the two apart.
RECOMPUTING = {"batch_norm_backward", "layer_norm_backward"}
# Results that a function of them determines only up to sign, phase or order.
INVARIANT = {"eig": lambda values, vectors: values, "lu_factor": lambda *found: found[0]}

OPS = sorted([*REGISTRY.values(), *INPLACE.values()], key=lambda op: op.name)
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in OPS
    if not op.random and op.name not in SHAPED_BY_DATA | WITHOUT_OPERANDS | RECOMPUTING
    for i, sample in enumerate(samples_of(op if op.functional is None else op.functional))
]


def test_every_op_has_a_rule_or_is_listed():
    looped = {op.name for op in OPS if rule_of(op) is one_by_one}
    listed = set(ONE_BY_ONE) | {name + "_" for name in ONE_BY_ONE} | SHAPED_BY_DATA | WITHOUT_OPERANDS
    assert not looped - listed, f"ops without batching rule: add one in autograd/rules, or list {looped - listed}"
    assert not set(ONE_BY_ONE) - looped, "ops that have a rule by now"
    assert {op.name for op in REGISTRY.values() if not op.operands} <= WITHOUT_OPERANDS


def varied(x: np.ndarray) -> list[np.ndarray]:
    """Samples like an operand: scaled numbers, other orders of integers and truth values."""
    if x.dtype.kind in "fc":
        return [(x * (1 + 0.125 * k)).astype(x.dtype) for k in range(SIZE)]
    return [np.roll(x.reshape(-1), k).reshape(x.shape) for k in range(SIZE)]


def tensors(operands: tuple) -> list[int]:
    return [i for i, x in enumerate(operands) if isinstance(x, np.ndarray)]


def called(op: Op, sample, operands: tuple):
    """The op's results as a tuple; what an in-place op writes to is a copy."""
    operands = tuple([x.clone() if i in op.mutates else x for i, x in enumerate(operands)])
    found = op.apply(operands, sample.params)
    found = found if isinstance(found, tuple) else (found,)
    return (INVARIANT[op.name](*found),) if op.name in INVARIANT else found


def arguments(op: Op, sample, batched: list[int], place: int) -> tuple[list, list, list]:
    """Tensors to call `vmap` with, their in_dims, and the operands of each single call."""
    columns: list = []
    for i, x in enumerate(sample.operands):
        if i in batched:
            columns.append([rushlight.tensor(v) for v in varied(x)])
        else:
            columns.append([rushlight.tensor(x) if isinstance(x, np.ndarray) else x] * SIZE)
    given = [rushlight.stack(c, place) if i in batched else c[0] for i, c in enumerate(columns)]
    return given, [place if i in batched else None for i in range(len(columns))], list(zip(*columns))


def agree(op: Op, sample, batched: list[int], place: int) -> None:
    given, dims, singles = arguments(op, sample, batched, place)
    try:
        expected = [called(op, sample, operands) for operands in singles]
    except (RuntimeError, IndexError, TypeError, ValueError) as error:  # these samples are none for this op
        pytest.skip(f"not called with such operands: {error}")
    numbers = [x for x, d in zip(given, dims) if d is None]

    def single(*parts):
        parts, rest = iter(parts), iter(numbers)
        return called(op, sample, tuple([next(rest) if d is None else next(parts) for d in dims]))

    found = vmap(single, place)(*[x for x, d in zip(given, dims) if d is not None])
    for k, result in enumerate(found):
        wanted = rushlight.stack([e[k] for e in expected])
        assert result.dtype is wanted.dtype
        assert result.shape == wanted.shape
        close(result, wanted)


def close(result, wanted):
    tolerance = 1e-5 if result.dtype.itemsize < 16 else 1e-10
    np.testing.assert_allclose(
        result.resolve_conj().numpy(), wanted.numpy(), rtol=tolerance * 10, atol=tolerance, equal_nan=True
    )


@pytest.mark.parametrize("op, sample", CASES)
def test_all_operands(op, sample):
    places = tensors(sample.operands)
    if not places:
        pytest.skip("no tensors among the operands of this sample")
    agree(op, sample, places, 0)
    if op.name not in LAYOUTS:
        agree(op, sample, places, -1)


@pytest.mark.parametrize("op, sample", CASES)
def test_each_operand_alone(op, sample):
    places = tensors(sample.operands)
    for i in places if len(places) > 1 else ():
        if not op.mutates or i in op.mutates:
            agree(op, sample, [i], 0)


@pytest.mark.parametrize("op, sample", CASES[::5])
def test_two_levels(op, sample):
    """Samples of samples are those of one long batch."""
    places = tensors(sample.operands)
    if not places or op.name in LAYOUTS:
        pytest.skip("no tensors that could be batched twice")
    given, dims, _ = arguments(op, sample, places, 0)
    numbers = [x for x, d in zip(given, dims) if d is None]

    def single(*parts):
        parts, rest = iter(parts), iter(numbers)
        return called(op, sample, tuple([next(rest) if d is None else next(parts) for d in dims]))

    batches = [x for x, d in zip(given, dims) if d is not None]
    try:
        once = vmap(single)(*[rushlight.cat([x, x]) for x in batches])
    except (RuntimeError, IndexError) as error:
        pytest.skip(f"not called with such operands: {error}")
    twice = vmap(vmap(single), 1)(*[rushlight.stack([x, x], 1) for x in batches])
    for a, b in zip(twice, once):
        close(a.flatten(0, 1), b)
