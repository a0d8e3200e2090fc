"""The checks of gradients find what is wrong."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.autograd import Function, gradcheck, gradgradcheck
from rushlight.autograd.gradcheck import GradcheckError


def leaf(*values, dtype=rushlight.float64):
    return rushlight.tensor(values, dtype=dtype, requires_grad=True)


def wrong_by(factor):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x * factor()

    return Wrong.apply


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrong_gradients_are_found(fast_mode):
    wrong = wrong_by(lambda: 1.01)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(wrong, leaf(1.0, 2.0), fast_mode=fast_mode)
    assert gradcheck(wrong, leaf(1.0, 2.0), fast_mode=fast_mode, raise_exception=False) is False
    assert gradcheck(wrong_by(lambda: 1), leaf(1.0, 2.0), fast_mode=fast_mode)


def test_gradients_that_change_from_pass_to_pass_are_found():
    factors = iter(range(1, 100))
    with pytest.raises(GradcheckError, match="not deterministic"):
        gradcheck(wrong_by(lambda: 1 + 1e-9 * next(factors)), leaf(1.0))


def test_wrong_second_gradients_are_found():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x.detach()

    assert gradcheck(Square.apply, leaf(1.0))
    with pytest.raises(GradcheckError):
        gradgradcheck(Square.apply, leaf(1.0))


def test_complex_functions_that_are_not_analytic():
    z = leaf(0.5 + 1j, -1 + 0.25j, dtype=rushlight.complex128)

    def function(z):
        return z * z.conj() * z, z.abs()

    assert gradcheck(function, z) and gradgradcheck(function, z)
    assert gradcheck(function, z, check_batched_grad=True, check_grad_dtypes=True)


def test_outputs_without_history_must_be_constant():
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, leaf(1.0))
    assert gradcheck(lambda x: rushlight.ones(2, dtype=rushlight.float64), leaf(1.0))


def test_what_it_cannot_check():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x, rushlight.ones(1))
    with pytest.warns(UserWarning, match="float32"):
        gradcheck(lambda x: x * 2, leaf(1.0, dtype=rushlight.float32), atol=1)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, rushlight.ones(1, dtype=rushlight.float64).expand(3).requires_grad_())
    with pytest.raises(AssertionError, match="requires check_forward_ad"):
        gradcheck(lambda x: x, leaf(1.0), check_batched_forward_grad=True)
    with pytest.raises(AssertionError, match="at least one of"):
        gradcheck(lambda x: x, leaf(1.0), check_backward_ad=False)


@pytest.mark.parametrize("fast_mode", [False, True])
def test_wrong_tangents_are_found(fast_mode):
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x, None

        @staticmethod
        def jvp(ctx, d, factor):
            (x,) = ctx.saved_tensors
            return d * 2 * x * ctx.factor

    def check(factor, **options):
        options |= {"fast_mode": fast_mode, "check_forward_ad": True}
        return gradcheck(lambda x: Wrong.apply(x, factor), leaf(1.0, 2.0), **options)

    assert check(1, check_batched_forward_grad=True)
    with pytest.raises(GradcheckError, match="forward mode mismatch for output 0 with respect to input 0"):
        check(1.01)
    assert check(1.01, raise_exception=False) is False
    assert gradgradcheck(lambda x: (x * x).exp(), leaf(1.0, 2.0), fast_mode=fast_mode, check_fwd_over_rev=True)
    z = leaf(0.5 + 1j, -1 + 0.25j, dtype=rushlight.complex128)
    assert gradcheck(lambda z: (z * z.conj() * z, z.abs()), z, fast_mode=fast_mode, check_forward_ad=True)


def test_functions_that_make_gradients_of_nothing_are_found():
    class FromNothing(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return rushlight.ones(2, dtype=rushlight.float64) if g is None else g

    with pytest.raises(GradcheckError, match="all output grads are undefined"):
        gradcheck(FromNothing.apply, leaf(1.0, 2.0))
    assert gradcheck(FromNothing.apply, leaf(1.0, 2.0), check_undefined_grad=False)


def test_incoming_gradients_with_gaps_in_memory():
    strides = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            strides.append(g.stride())
            return g * 2

    assert gradgradcheck(Looks.apply, leaf(1.0, 2.0), gen_non_contig_grad_outputs=True)
    assert (2,) in strides
    strides.clear()
    assert gradgradcheck(Looks.apply, leaf(1.0, 2.0)) and (2,) not in strides
    assert gradgradcheck(lambda x: x.exp(), leaf(1.0, 2.0), [leaf(3.0, 4.0)])
