"""Gradients of every op, on the samples of its declaration: against finite differences, to second order, in float64."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.autograd.duals import dual, new_level
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck
from rushlight.autograd.rules.registry import ROWS, row_of
from rushlight.core import dtypes
from rushlight.core.op import INPLACE, Op, Sample
from rushlight.core.samples import samples_of

WIDE = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}
WIDER = {dtypes.float32: dtypes.float64, dtypes.complex64: dtypes.complex128}
LIMIT = 40  # elements of an operand: finite differences cost two calls per element, in second order for each gradient

# The gradient of these is not the derivative, or is that of only one of several equal choices.
NOT_THE_DERIVATIVE = {
    ("embedding", 1): "padding_idx leaves a row out",
    ("embedding", 2): "scale_grad_by_freq divides by counts",
    ("place_planes", 0): "of several values for one place any may stay",
}
# Results that a function of them determines only up to sign or phase: compared in a form that does not depend on it.
# Real ones of eigh and svd keep their sign when the matrix moves a little.
INVARIANT = {"eig": lambda values, vectors: (values, vectors.abs())}
INVARIANT_IF_COMPLEX = {
    "eigh": lambda values, vectors: (values, vectors.abs()),
    "svd": lambda u, values, vh: (u.abs(), values, vh.abs()),
}

SAMPLES = {op: samples_of(op) for op in sorted(ROWS, key=lambda op: op.name)}
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}") for op, samples in SAMPLES.items() for i, sample in enumerate(samples)
]


def smooth(x: np.ndarray) -> np.ndarray:
    """The values in double precision, moved a little: samples like to lie on kinks and ties."""
    rng = np.random.default_rng(x.size)
    x = np.asarray(x)
    return x.astype(WIDE[x.dtype]) + rng.uniform(1e-3, 3e-3, x.shape) if x.dtype in WIDE else x


def varies(row, name: str) -> bool:
    """Is there a gradient to check? A row may say that it is zeros, of piecewise constant functions."""
    return row.joint is not None or (name in row.formulas and row.formulas[name].arguments != ())


def widened(op: Op, sample) -> tuple[list, tuple, list[int]]:
    """The operands as float64 tensors, the params with float64 for float32, and which operands get a gradient."""
    operands = [rushlight.tensor(smooth(x)) if isinstance(x, (np.ndarray, np.generic)) else x for x in sample.operands]
    row = row_of(op)
    wanted = [
        i
        for i, x in enumerate(operands)
        if hasattr(x, "_meta") and x.dtype.is_inexact and varies(row, op.operand_name(i))
    ]
    for i in wanted:
        operands[i].requires_grad_()
    return operands, tuple([WIDER.get(p, p) if isinstance(p, dtypes.dtype) else p for p in sample.params]), wanted


def is_symmetric(op: Op, x) -> bool:
    """Is operand 0 a matrix of which the op may read one triangle only?"""
    if op.name in ("cholesky", "eigh"):
        return True
    return (
        isinstance(x, np.ndarray)
        and x.ndim > 1
        and x.shape[-1] == x.shape[-2] > 1
        and np.array_equal(x, x.swapaxes(-1, -2).conj())
    )


def called(op: Op, operands: list, params: tuple, wanted: list[int], symmetric: bool = False):
    """The op as a function of the operands that get a gradient; with `symmetric`, operand 0 stays symmetric."""

    def call(*values):
        arguments = list(operands)
        for i, value in zip(wanted, values):
            arguments[i] = value * 1 if i in op.mutates else value
        if symmetric:
            arguments[0] = (arguments[0] + arguments[0].mH) / 2
        results = op.apply(tuple(arguments), params)
        if op.name in INVARIANT:
            results = INVARIANT[op.name](*results)
        elif op.name in INVARIANT_IF_COMPLEX and any(x.is_complex() for x in values):
            results = INVARIANT_IF_COMPLEX[op.name](*results)
        return tuple([r for r in results if r.dtype.is_inexact]) if isinstance(results, tuple) else results

    return call


def usable(op: Op, sample) -> tuple:
    index = [s is sample for s in SAMPLES[op]].index(True)
    if (op.name, index) in NOT_THE_DERIVATIVE:
        pytest.skip(NOT_THE_DERIVATIVE[op.name, index])
    return prepared(op, sample)


def prepared(op: Op, sample) -> tuple:
    """The function of the operands that vary, and those operands; skips what has no derivative to compare with."""
    if op.random:
        pytest.skip("a random op is no function of its operands")
    if op.name.endswith("_backward") and any(name in ("out", "log_sum", "largest", "mean") for name in op.operands):
        pytest.skip(
            "takes results of the forward op, which do not vary on their own; the forward op's second order covers it"
        )
    operands, params, wanted = widened(op, sample)
    if not wanted:
        pytest.skip("no operand of this sample has a gradient")
    if any(operands[i].numel() > LIMIT for i in wanted):
        pytest.skip("too many elements for finite differences; a smaller sample covers the op")
    call = called(op, operands, params, wanted, 0 in wanted and is_symmetric(op, sample.operands[0]))
    values = [operands[i] for i in wanted]
    out = call(*values)
    out = out if isinstance(out, tuple) else (out,)
    if not any(y.requires_grad for y in out):
        pytest.skip("the result of this sample is not differentiable")
    if any(y.requires_grad and not np.isfinite(y.detach().numpy()).all() for y in out):
        pytest.skip("the result of this sample is not finite")
    return call, values


@pytest.mark.parametrize("op, sample", CASES)
def test_first_order(op, sample):
    call, values = usable(op, sample)
    try:
        assert gradcheck(call, values)
    except RuntimeError as error:
        if "derivative is not implemented" not in str(error):
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize("op, sample", CASES)
def test_second_order(op, sample):
    call, values = usable(op, sample)
    try:
        assert gradgradcheck(call, values, fast_mode=True, atol=1e-4)
    except RuntimeError as error:
        if "derivative is not implemented" not in str(error):
            raise
        pytest.skip(str(error))


def random_like(x, random: np.random.Generator):
    values = random.normal(size=tuple(x.shape))
    return rushlight.tensor(values + 1j * random.normal(size=tuple(x.shape)) if x.is_complex() else values)


def inner(pairs):
    """The real inner product of tensors, left out where one is None."""
    products = [a * b.conj() for a, b in pairs if a is not None]
    return sum([(p.real if p.is_complex() else p).sum() for p in products])


def gradients(y, values):
    """The gradients, zeros where there is none."""
    if not getattr(y, "requires_grad", False):
        return [x.detach() * 0 for x in values]
    return rushlight.autograd.grad(y, values, create_graph=True, allow_unused=True, materialize_grads=True)


def pushed(call, values, vectors):
    """The results of a call on dual numbers, and their tangents."""
    with new_level() as level:
        results = call(*[dual(level, x, v) for x, v in zip(values, vectors)])
        results = results if isinstance(results, tuple) else (results,)
        return results, [level.get(y) for y in results]


@pytest.mark.parametrize("op, sample", CASES)
def test_forward_mode_is_reverse_mode_transposed(op, sample):
    """`(J v) . w = v . (J^T w)`, and the same for the Hessians: reverse over reverse, over forward, and under it."""
    call, values = usable(op, sample)
    random = np.random.default_rng(1)
    vectors = [random_like(x, random) for x in values]
    try:
        results, tangents = pushed(call, values, vectors)
    except RuntimeError as error:
        if "derivative is not implemented" not in str(error):
            raise
        pytest.skip(str(error))
    weights = [random_like(y, random) if y.requires_grad else None for y in results]
    flows = [w is not None for w in weights]

    def weighted(outputs):
        return inner([(y, w) for y, w, flow in zip(outputs, weights, flows) if flow])

    for y, tangent in zip(results, tangents):
        assert tangent is None or (tangent.shape == y.shape and tangent.dtype is y.dtype)
    first = gradients(weighted(results), values)
    along = weighted(tangents)
    np.testing.assert_allclose(float(along), float(inner(zip(first, vectors))), rtol=1e-7, atol=1e-9)

    def of_dual(*duals):
        found = call(*duals)
        return tuple(gradients(weighted(found if isinstance(found, tuple) else (found,)), duals))

    _, under = pushed(of_dual, values, vectors)
    expected = gradients(inner(zip(first, vectors)), values)
    for e, over, t in zip(expected, gradients(along, values), under):
        np.testing.assert_allclose(over.detach().numpy(), e.detach().numpy(), rtol=1e-6, atol=1e-8)
        t = e * 0 if t is None else t
        np.testing.assert_allclose(t.detach().numpy(), e.detach().numpy(), rtol=1e-6, atol=1e-8)


COMPLEX = [
    pytest.param(op, id=op.name)
    for op in sorted(ROWS, key=lambda op: op.name)
    if op.kind == "elementwise"
    and op.supports in ("all", "number", "inexact")
    and op.promote in ("default", "float", "real")
]


@pytest.mark.parametrize("op", COMPLEX)
def test_elementwise_in_the_complex_plane(op):
    rng = np.random.default_rng(3)
    operands = [rushlight.tensor(rng.uniform(0.3, 0.8, 3) + 1j * rng.uniform(0.3, 0.8, 3)) for _ in op.operands]
    row = row_of(op)
    wanted = [i for i, name in enumerate(op.operands) if varies(row, name)]
    for i in wanted:
        operands[i].requires_grad_()
    call = called(op, operands, (), wanted)
    values = [operands[i] for i in wanted]
    try:
        with rushlight.no_grad():
            call(*values)
    except (RuntimeError, TypeError) as error:
        pytest.skip(f"not defined for complex numbers: {error}")
    assert gradcheck(call, values, fast_mode=True)
    assert gradgradcheck(call, values, fast_mode=True, atol=1e-4)
    random = np.random.default_rng(4)
    vectors, weight = [random_like(x, random) for x in values], random_like(call(*values), random)
    along = inner([(pushed(call, values, vectors)[1][0], weight)])
    back = rushlight.autograd.grad(call(*values), values, weight)
    np.testing.assert_allclose(float(along), float(inner(zip(back, vectors))), rtol=1e-7)


def in_the_complex_plane(sample: Sample) -> Sample:
    """A sample with imaginary parts beside the real numbers."""
    random = np.random.default_rng(1)

    def moved(x):
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f":
            return x
        return smooth(x).astype(np.complex128) + 1j * random.uniform(0.1, 0.5, x.shape)

    complex_for_real = {dtypes.float32: dtypes.complex128, dtypes.float64: dtypes.complex128}
    params = [complex_for_real.get(p, p) if isinstance(p, dtypes.dtype) else p for p in sample.params]
    return Sample(tuple(map(moved, sample.operands)), tuple(params))


# Gradients of functions of real numbers, which take complex ones without being defined for them.
REAL = ("softmax_backward", "log_softmax_backward", "nll_loss_backward", "avg_pool_transpose", "window_spread")
STRUCTURED = [op for op in SAMPLES if op.kind != "elementwise" and op.name not in REAL]


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in STRUCTURED])
def test_other_operations_in_the_complex_plane(op):
    """The first sample of a real operation that the operation takes with complex numbers, too."""
    for i, sample in enumerate(SAMPLES[op]):
        if (op.name, i) in NOT_THE_DERIVATIVE:
            continue
        try:
            call, values = prepared(op, in_the_complex_plane(sample))
        except (RuntimeError, TypeError, pytest.skip.Exception):  # real numbers only, or nothing to compare
            continue
        assert gradcheck(call, values, fast_mode=True)
        assert gradgradcheck(call, values, fast_mode=True, atol=1e-4)
        return
    pytest.skip("no sample is defined for complex numbers")


@pytest.mark.parametrize(
    "op", [pytest.param(op, id=op.name) for op in sorted(ROWS, key=lambda op: op.name) if op in INPLACE]
)
def test_in_place_form_has_the_same_gradients(op):
    sample = samples_of(op)[0]
    if not isinstance(sample.operands[0], np.ndarray):
        pytest.skip("operand 0 of the sample is a number")
    operands, params, wanted = widened(op, sample)
    if not operands[0].dtype.is_inexact or not wanted:
        pytest.skip("nothing to differentiate")
    call, values = called(op, operands, params, wanted), [operands[i] for i in wanted]
    expected = call(*values)
    if expected.dtype is not operands[0].dtype or expected.shape != operands[0].shape or not expected.requires_grad:
        pytest.skip("the result does not fit in operand 0")

    def in_place(*given):
        arguments = list(operands)
        for i, value in zip(wanted, given):
            arguments[i] = value
        arguments[0] = arguments[0] * 1
        return INPLACE[op].apply(tuple(arguments), params)

    random = np.random.default_rng(0)
    vectors = [random_like(x, random) for x in values]
    tangents = [pushed(function, values, vectors)[1][0] for function in (in_place, call)]
    a, b = [np.zeros(expected.shape) if t is None else t.detach().numpy() for t in tangents]
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    weight = rushlight.tensor(random.normal(size=tuple(expected.shape)))
    a = rushlight.autograd.grad(expected, values, weight, allow_unused=True, materialize_grads=True)
    b = rushlight.autograd.grad(in_place(*values), values, weight, allow_unused=True, materialize_grads=True)
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-12, atol=1e-12)
