"""Gradients of functions of matrices."""

from rushlight.autograd.rules.batched import lead
from rushlight.autograd.rules.registry import batch, jvp, nondifferentiable, vjp
from rushlight.ops.join import cat
from rushlight.ops.linalg_functions import geqrf_op, matrix_exp_op
from rushlight.ops.linalg_solve import adjoint

nondifferentiable(geqrf_op)


def _along(a, g):
    """The upper right block of exp([[A, g], [0, A]]) is the derivative of exp at A in the direction g."""
    n = a.shape[-1]
    block = cat((cat((a, g), -1), cat((a.new_zeros(a.shape), a), -1)), -2)
    return matrix_exp_op.apply((block,)).narrow(-2, 0, n).narrow(-1, n, n)


vjp(matrix_exp_op, input=lambda g, input: _along(adjoint(input), g))
jvp(matrix_exp_op, lambda d_input, input: _along(input, d_input))

batch(geqrf_op, lead)
batch(matrix_exp_op, lead)
