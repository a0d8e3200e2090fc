"""Gradients of eigenvalues and eigenvectors."""

from rushlight.autograd.rules.batched import lead
from rushlight.autograd.rules.registry import batch, jvp, vjp
from rushlight.ops.linalg_eig import eig_op, eigh_op
from rushlight.ops.linalg_solve import adjoint, solve_op
from rushlight.ops.ranges import eye


def _gaps(values):
    """values[j] - values[i], and 1 where that is i = j."""
    return values.unsqueeze(-2) - values.unsqueeze(-1) + eye(values.shape[-1], dtype=values.dtype, device=values.device)


def _off_diagonal(x):
    return x * (1 - eye(x.shape[-1], dtype=x.dtype.to_real(), device=x.device))


def _eigh(g0, g1, ans0, ans1):
    if g1 is None:
        return (ans1 * g0.unsqueeze(-2)) @ adjoint(ans1)
    inner = _off_diagonal(adjoint(ans1) @ g1) / _gaps(ans0)
    if g0 is not None:
        inner = inner + g0.diag_embed()
    return ans1 @ inner @ adjoint(ans1)


def _eig(g0, g1, ans0, ans1):
    if g1 is None:
        return solve_op.apply((adjoint(ans1), g0.unsqueeze(-1) * adjoint(ans1)))
    along = adjoint(ans1) @ g1
    inner = along - (adjoint(ans1) @ ans1) * along.diagonal(0, -2, -1).real.unsqueeze(-2)  # eigenvectors keep norm 1
    inner = _off_diagonal(inner) / _gaps(ans0).conj()
    if g0 is not None:
        inner = inner + g0.diag_embed()
    return solve_op.apply((adjoint(ans1), inner @ adjoint(ans1)))


def _eigh_along(d_input, ans0, ans1):
    """`d w = diag(P)` and `d V = V (P / gaps)` without its diagonal, for `P = V^H dA V`."""
    inner = adjoint(ans1) @ ((d_input + adjoint(d_input)) * 0.5) @ ans1
    along = inner.diagonal(0, -2, -1)
    return along.real if along.dtype.is_complex else along, ans1 @ (_off_diagonal(inner) / _gaps(ans0))


vjp(eigh_op, input=_eigh)
jvp(eigh_op, _eigh_along)
vjp(eig_op, input=_eig)

batch(eigh_op, lead)
batch(eig_op, lead)
