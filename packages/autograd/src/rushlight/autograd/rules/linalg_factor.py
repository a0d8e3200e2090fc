"""Gradients of Cholesky and LU factorizations."""

from rushlight.autograd.rules.batched import in_rank, lead
from rushlight.autograd.rules.registry import batch, jvp, nondifferentiable, vjp
from rushlight.ops.join import cat
from rushlight.ops.linalg_factor import (
    cholesky_op,
    ldl_factor_op,
    ldl_solve_op,
    lu_factor_op,
    permutation_op,
    unpacked,
)
from rushlight.ops.linalg_solve import adjoint, solve_triangular_op

nondifferentiable(ldl_factor_op, permutation_op)


def _cholesky(g0, ans0):
    phi = adjoint(ans0) @ g0
    phi = (phi.tril() + adjoint(phi.tril(-1))) * 0.5  # the diagonal of a real gradient counts half
    upper = adjoint(ans0)
    left = solve_triangular_op.apply((upper, phi), (True, False))
    return adjoint(solve_triangular_op.apply((upper, adjoint(left)), (True, False)))


def _cholesky_along(d_input, ans0):
    """`L phi(L^-1 dA L^-H)`, where phi takes the lower triangle and half of the diagonal."""
    d_input = (d_input + adjoint(d_input)) * 0.5
    left = solve_triangular_op.apply((ans0, d_input), (False, False))
    inner = adjoint(solve_triangular_op.apply((ans0, adjoint(left)), (False, False)))
    return ans0 @ (inner.tril() - inner.diagonal(0, -2, -1).diag_embed() * 0.5), None


vjp(cholesky_op, input=_cholesky)
jvp(cholesky_op, _cholesky_along)


def _lu(g0, ans0, ans1):
    m, n = ans0.shape[-2:]
    k = min(m, n)
    P, L, U = unpacked(ans0, ans1)
    grad_l, grad_u = g0.narrow(-1, 0, k).tril(-1), g0.narrow(-2, 0, k).triu()
    L1, U1 = L.narrow(-2, 0, k), U.narrow(-1, 0, k)
    wide = tall = None
    if n > k:  # A2 = P L U2
        wide = solve_triangular_op.apply((adjoint(L1), grad_u.narrow(-1, k, n - k)), (True, True))
        grad_l = grad_l - wide @ adjoint(U.narrow(-1, k, n - k))
        grad_u = grad_u.narrow(-1, 0, k)
    if m > k:  # A2 = L2 U
        tall = _right(grad_l.narrow(-2, k, m - k), U1)
        grad_u = grad_u - adjoint(L.narrow(-2, k, m - k)) @ tall
        grad_l = grad_l.narrow(-2, 0, k)
    phi = (adjoint(L1) @ grad_l).tril(-1) + (grad_u @ adjoint(U1)).triu()
    square = _right(solve_triangular_op.apply((adjoint(L1), phi), (True, True)), U1)
    if wide is not None:
        square = cat((square, wide), -1)
    if tall is not None:
        square = cat((square, tall), -2)
    return P @ square


def _right(x, upper):
    """x U^-H."""
    return adjoint(solve_triangular_op.apply((upper, adjoint(x)), (True, False)))


vjp(lu_factor_op, input=_lu)
vjp(ldl_solve_op, linear="other", other=lambda g, input, pivots, hermitian: _ldl_back(g, input, pivots, hermitian))


def _ldl_back(g, input, pivots, hermitian):
    """A is its own transpose (its own adjoint if Hermitian)."""
    if hermitian or not g.dtype.is_complex:
        return ldl_solve_op.apply((input, pivots, g), (hermitian,))
    return ldl_solve_op.apply((input, pivots, g.conj()), (hermitian,)).conj()


def _batched_ldl_solve(op, input, pivots, other, metas, hermitian):
    ndim = max(metas[0].ndim, metas[2].ndim)
    return op.apply((in_rank(input, ndim), in_rank(pivots, ndim - 1), in_rank(other, ndim)), (hermitian,))


for _op in (cholesky_op, lu_factor_op, permutation_op, ldl_factor_op):
    batch(_op, lead)
batch(ldl_solve_op, _batched_ldl_solve)
