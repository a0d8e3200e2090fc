"""Gradients of functions of matrices."""

from rushlight.autograd.rules.registry import nondifferentiable, vjp
from rushlight.ops.join import cat
from rushlight.ops.linalg_functions import geqrf_op, matrix_exp_op
from rushlight.ops.linalg_solve import adjoint

nondifferentiable(geqrf_op)


def _matrix_exp(g, input):
    """The upper right block of exp([[A^H, g], [0, A^H]]) is the derivative of exp at A^H in the direction g."""
    n = input.shape[-1]
    a = adjoint(input)
    block = cat((cat((a, g), -1), cat((a.new_zeros(a.shape), a), -1)), -2)
    return matrix_exp_op.apply((block,)).narrow(-2, 0, n).narrow(-1, n, n)


vjp(matrix_exp_op, input=_matrix_exp)
