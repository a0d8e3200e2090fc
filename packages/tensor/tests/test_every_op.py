"""What must hold for every declared op: written once, run for all of them."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import rushlight
from rushlight.core.meta import Meta, of_array
from rushlight.core.op import INPLACE, REGISTRY
from rushlight.core.samples import samples_of
from rushlight.core.tensor import Tensor

rushlight.tensor(0)  # the first use declares all ops
OPS = [pytest.param(op, id=name) for name, op in sorted(REGISTRY.items())]
SAMPLES = [
    pytest.param(op, sample, id=f"{name}-{i}")
    for name, op in sorted(REGISTRY.items())
    for i, sample in enumerate(samples_of(op))
]
TOLERANCE = {
    np.dtype(np.float32): 2e-5,
    np.dtype(np.complex64): 2e-5,
    np.dtype(np.float64): 1e-10,
    np.dtype(np.complex128): 1e-10,
}


def tensors(operands: tuple) -> tuple:
    """Fresh tensors for the arrays among a sample's operands."""
    return tuple([rushlight.from_numpy(x.copy(order="K")) if isinstance(x, np.ndarray) else x for x in operands])


def results(op, operands: tuple, params: tuple) -> tuple:
    found = op.apply(operands, params)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("op", OPS)
def test_declaration_is_complete(op):
    assert op.doc.strip(), f"{op.name} has no docstring"
    assert samples_of(op), f"{op.name} has no samples"
    assert op.kind in ("elementwise", "reduction", "view", "structured")
    can_run = op.scalar or op.numpy or op.decomposition or "cpu" in op.kernels
    assert can_run, f"{op.name} has neither a CPU kernel nor a decomposition"
    if op.reference is not None:
        used = (
            [op.reference.__globals__.get(name) for name in op.reference.__code__.co_names]
            if hasattr(op.reference, "__code__")
            else []
        )
        assert not {op.kernels.get("cpu"), op.numpy} - {None} & set(filter(callable, used)), (
            f"{op.name} is tested against itself"
        )
    if op.kind == "elementwise":
        assert tuple(inspect.signature(op.scalar).parameters) == op.operands
        assert INPLACE[op].functional is op


@pytest.mark.parametrize("op, sample", SAMPLES)
def test_inferred_metadata_is_real(op, sample):
    operands = tensors(sample.operands)
    inferred = op.infer_metas(operands, sample.params)
    got = results(op, operands, sample.params)
    if inferred is not None:
        assert [r._meta for r in got] == list((inferred,) if isinstance(inferred, Meta) else inferred)
    for r in got:
        assert of_array(r._array).shape == r.shape and r._array.dtype == r.dtype.numpy
        assert (
            r.numel() < 2
            or r._array.strides == tuple(s * r.itemsize for s in r.stride())
            or r._meta.contiguous
            and r._array.flags.c_contiguous
        )


@pytest.mark.parametrize(
    "op, sample", [p for p in SAMPLES if p.values[0].reference or p.values[0].kind == "elementwise"]
)
def test_values_equal_the_reference(op, sample):
    if op.random:
        pytest.skip("random values have no reference")
    arrays = [x.copy() if isinstance(x, np.ndarray) else x for x in sample.operands]
    wide = arrays if op.kind == "view" else [
        x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype == np.float32 else x for x in arrays]
    reference = op.reference or op.scalar
    with np.errstate(all="ignore"):
        expected = reference(*wide, *sample.params)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(results(op, tensors(sample.operands), sample.params), expected, strict=True):
        tolerance = TOLERANCE.get(got.dtype.numpy, 0)
        assert got.shape == np.shape(want)
        np.testing.assert_allclose(
            got.numpy(), np.asarray(want).astype(got.dtype.numpy), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("op, sample", SAMPLES)
def test_layout_of_operands_does_not_matter(op, sample):
    """Transposed, strided and broadcast operands give the values that contiguous ones give."""
    if op.random or op.mutates or not any(isinstance(x, np.ndarray) and x.ndim for x in sample.operands):
        pytest.skip("nothing to lay out differently")
    if op.kind == "view":
        pytest.skip("views may depend on the layout")
    expected = results(op, tensors(sample.operands), sample.params)
    for change in (_transposed, _every_other):
        operands = tuple(
            [change(x) if isinstance(x, np.ndarray) and x.ndim else x for x in tensors_or_rest(sample.operands)]
        )
        for got, want in zip(results(op, operands, sample.params), expected, strict=True):
            assert got.dtype is want.dtype
            np.testing.assert_allclose(np.asarray(got.numpy(), copy=True), want.numpy(), rtol=1e-5, atol=1e-6)


def tensors_or_rest(operands: tuple) -> tuple:
    return tuple([x if not isinstance(x, np.ndarray) or x.ndim else rushlight.from_numpy(x.copy()) for x in operands])


def _transposed(x: np.ndarray) -> Tensor:
    return rushlight.from_numpy(np.asfortranarray(x.copy()))


def _every_other(x: np.ndarray) -> Tensor:
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    wide[..., ::2] = x
    return rushlight.from_numpy(wide[..., ::2])


@pytest.mark.parametrize("op, sample", SAMPLES)
def test_operands_stay_unchanged(op, sample):
    operands = tensors(sample.operands)
    got = results(op, operands, sample.params)
    for i, (before, after) in enumerate(zip(sample.operands, operands)):
        if isinstance(after, Tensor) and i not in op.mutates:
            np.testing.assert_array_equal(after.numpy(), before)
            if op.kind not in ("view",) and not op.mutates:
                assert not any(np.shares_memory(r._array, after._array) for r in got), (
                    "the result lies in an operand's memory"
                )


@pytest.mark.parametrize("op, error", [pytest.param(op, e, id=f"{name}-{i}") for name, op in sorted(REGISTRY.items())
                                       for i, e in enumerate(op.errors())])
def test_bad_arguments_are_refused(op, error):
    with pytest.raises(error.error, match=error.match):
        op.apply(tensors(error.operands), error.params)


@pytest.mark.parametrize("op", [p for p in OPS if p.values[0].kind == "elementwise"])
def test_scalar_definition_keeps_the_dtype(op):
    """The compiled loop computes float32 in float32: no literal of the definition widens it."""
    from rushlight.kernels.trace import trace

    dtype = np.int64 if op.supports in ("integer", "integral") else np.float32
    dtypes = [np.bool_ if op.promote == "where" and i == 0 else dtype for i in range(len(op.operands))]
    program = trace(op.scalar, dtypes)
    assert not [n for n in program.nodes() if dtype is np.float32 and n.dtype in (np.float64, np.complex128)]


@pytest.mark.parametrize("op, sample", SAMPLES)
def test_the_second_call_finds_the_plan_of_the_first(op, sample):
    op.plans.clear()
    for _ in range(2):
        op.apply(tensors(sample.operands), sample.params)
    assert len(op.plans) == 1
    before = next(iter(op.plans.values()))
    op.apply(tensors(sample.operands), sample.params)
    assert next(iter(op.plans.values())) is before
