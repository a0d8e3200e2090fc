"""Gradients of inverses, solutions and determinants."""

from rushlight.autograd.batches import is_batched
from rushlight.autograd.rules.batched import lead
from rushlight.autograd.rules.registry import batch, jvp, vjp
from rushlight.ops.linalg_solve import adjoint, det_op, inv_op, slogdet_op, solve_op, solve_triangular_op
from rushlight.ops.linalg_svd import svd_op
from rushlight.ops.ranges import eye
from rushlight.ops.selection import where_op

vjp(inv_op, input=lambda g, ans: -(adjoint(ans) @ g @ adjoint(ans)))
jvp(inv_op, lambda d_input, ans: -(ans @ d_input @ ans))


def _solve_input(g, input, ans):
    return -(solve_op.apply((adjoint(input), g)) @ adjoint(ans))


vjp(solve_op, input=_solve_input, other=lambda g, input: solve_op.apply((adjoint(input), g)))
jvp(solve_op, lambda d_input, d_other, input, ans: solve_op.apply((input, d_other - d_input @ ans)))


def _triangular_input(g, input, ans, upper, unitriangular):
    grad = -(solve_triangular_op.apply((adjoint(input), g), (not upper, unitriangular)) @ adjoint(ans))
    return grad.triu(int(unitriangular)) if upper else grad.tril(-int(unitriangular))


vjp(
    solve_triangular_op,
    input=_triangular_input,
    other=lambda g, input, upper, unitriangular: solve_triangular_op.apply(
        (adjoint(input), g), (not upper, unitriangular)
    ),
)


def _det(g, input, ans):
    if not input.numel():
        return None
    singular = ans == 0
    scale = g * (ans.conj() if ans.dtype.is_complex else ans)
    if is_batched(singular):
        return _det_of_each(g, input, singular[..., None, None], scale)
    if singular.any():
        return _det_of_singular(g, input)
    return adjoint(inv_op.apply((input,))) * scale[..., None, None]


def _det_of_each(g, input, singular, scale):
    """Both formulas, where samples may need either: each gets matrices that it holds for in the place of others."""
    one = eye(input.shape[-1], dtype=input.dtype, device=input.device)
    regular = adjoint(inv_op.apply((where_op(singular, one, input),))) * scale[..., None, None]
    apart = one.cumsum(0).sum(1) * one  # singular values that differ
    return where_op(singular, _det_of_singular(g, where_op(singular, input, apart)), regular)


def _det_of_singular(g, input):
    """The adjugate by singular values: products of all but one of them need no division."""
    u, s, vh = svd_op.apply((input,), (False,))
    n = s.shape[-1]
    others = [s.select(-1, i) for i in range(n)]
    rest = []
    for i in range(n):
        product = s.new_ones(s.shape[:-1])
        for j, value in enumerate(others):
            if j != i:
                product = product * value
        rest.append(product)
    phase = det_op.apply((u @ vh,))
    phase = phase.conj() if phase.dtype.is_complex else phase
    weights = s.new_zeros(s.shape)
    for i, product in enumerate(rest):
        weights = weights + product.unsqueeze(-1) * _unit(s, i)
    return (u * weights.unsqueeze(-2)) @ vh * (g * phase)[..., None, None]


def _unit(like, i):
    return eye(like.shape[-1], dtype=like.dtype, device=like.device)[i]


vjp(det_op, input=_det)


def _slogdet(g0, g1, input, ans0):
    scale = g1
    if input.dtype.is_complex and g0 is not None:
        turn = (g0.conj() * ans0).imag
        scale = turn * -1j if g1 is None else g1 - turn * 1j
    if scale is None:
        return None
    return adjoint(inv_op.apply((input,))) * scale[..., None, None]


vjp(slogdet_op, input=_slogdet)

for _op in (inv_op, solve_op, solve_triangular_op, det_op, slogdet_op):
    batch(_op, lead)
