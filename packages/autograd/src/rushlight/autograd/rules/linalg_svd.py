"""Gradients of svd, qr, pinv and lstsq."""

from rushlight.autograd.rules.batched import in_rank, lead
from rushlight.autograd.rules.linalg_eig import _gaps
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.core.tensor import Tensor
from rushlight.ops.join import cat
from rushlight.ops.linalg_solve import adjoint, solve_triangular_op
from rushlight.ops.linalg_svd import lstsq_op, pinv_op, qr_op, svd_op


def _skew(x):
    return x - adjoint(x)


def _svd(g0, g1, g2, ans0, ans1, ans2, full):
    if full:
        k = ans1.shape[-1]
        ans0, ans2 = ans0.narrow(-1, 0, k), ans2.narrow(-2, 0, k)
        g0, g2 = g0 if g0 is None else g0.narrow(-1, 0, k), g2 if g2 is None else g2.narrow(-2, 0, k)
    U, S, Vh = ans0, ans1, ans2
    if g0 is None and g2 is None:
        return None if g1 is None else (U * g1.unsqueeze(-2)) @ Vh
    m, n, k = U.shape[-2], Vh.shape[-1], S.shape[-1]
    gaps = _gaps(S * S)
    inner = 0
    if g0 is not None:
        left = _skew(adjoint(U) @ g0)
        inner = inner + left / gaps * S.unsqueeze(-2)
    if g2 is not None:
        inner = inner + S.unsqueeze(-1) * (_skew(Vh @ adjoint(g2)) / gaps)
    if g1 is not None:
        inner = inner + g1.diag_embed()
    if U.dtype.is_complex and g0 is not None and g2 is not None:
        inner = inner + (left.diagonal(0, -2, -1) / (2 * S)).diag_embed()
    result = U @ inner
    if m > k and g0 is not None:
        scaled = g0 / S.unsqueeze(-2)
        result = result + scaled - U @ (adjoint(U) @ scaled)
    result = result @ Vh
    if n > k and g2 is not None:
        scaled = U @ (g2 / S.unsqueeze(-1))
        result = result + scaled - scaled @ adjoint(Vh) @ Vh
    return result


vjp(svd_op, input=_svd)


def _qr_tall(gq, gr, Q, R):
    """Gradient for at least as many rows as columns."""
    if gr is not None:
        m = R @ adjoint(gr)
        m = m - adjoint(gq) @ Q if gq is not None else m
    else:
        m = -adjoint(gq) @ Q
    lower = m.tril(-1)
    diagonal = m.diagonal(0, -2, -1)
    symmetric = lower + adjoint(lower) + (diagonal.real if m.dtype.is_complex else diagonal).diag_embed()
    inner = Q @ symmetric
    inner = inner if gq is None else inner + gq
    return adjoint(solve_triangular_op.apply((R, adjoint(inner)), (True, False)))


def _qr(g0, g1, ans0, ans1, input_meta, mode):
    if g0 is None and g1 is None:
        return None
    m, n = input_meta.shape[-2:]
    if mode == "r":
        raise RuntimeError("linalg.qr: the derivative is not implemented when mode='r'; use mode='reduced'")
    if mode == "complete" and m > n:
        raise RuntimeError(
            "linalg.qr: the derivative is not implemented when mode='complete' and nrows > ncols; use mode='reduced'"
        )
    if m >= n:
        return _qr_tall(g0, g1, ans0, ans1)
    # A = [X Y] with X square: X = Q R1, Y = Q R2
    R1, R2 = ans1.narrow(-1, 0, m), ans1.narrow(-1, m, n - m)
    gq, g_first, g_second = g0, None, None
    if g1 is not None:
        g_first, g_second = g1.narrow(-1, 0, m), g1.narrow(-1, m, n - m)
        through = ans0 @ R2 @ adjoint(g_second)
        gq = through if gq is None else gq + through
    left = _qr_tall(gq, g_first, ans0, R1)
    right = ans0 @ g_second if g_second is not None else left.new_zeros((*left.shape[:-1], n - m))
    return cat((left, right), -1)


vjp(qr_op, input=_qr)


def pinv_gradient(g, pinv, input):
    """The gradient of the pseudo-inverse, without a decomposition."""
    m, n = input.shape[-2:]
    pinv_h, gh = adjoint(pinv), adjoint(g)
    if m <= n:
        k = gh @ pinv
        kp = k @ pinv_h
        return -adjoint(pinv @ k) + kp - (input @ pinv) @ kp + (pinv_h @ pinv) @ (gh - k @ input)
    k = pinv @ gh
    pk = pinv_h @ k
    return -adjoint(k @ pinv) + (gh - input @ k) @ pinv @ pinv_h + pk - (pk @ pinv) @ input


vjp(pinv_op, input=lambda g, ans, input: pinv_gradient(g, ans, input))


def _lstsq(g0, g1, operands, ans0, needs):
    input, other, rcond = operands
    rest = None if g1 is None else 2 * g1.unsqueeze(-2) * (input @ ans0 - other)
    gx = g0 if rest is None else adjoint(input) @ rest if g0 is None else g0 + adjoint(input) @ rest
    if gx is None:
        return [None, None, None]
    pinv = pinv_op.apply((input, 0.0, rcond), (False,))
    by_input = by_other = None
    if needs[0]:
        by_input = pinv_gradient(gx @ adjoint(other), pinv, input)
        by_input = by_input if rest is None else by_input + rest @ adjoint(ans0)
    if needs[1]:
        by_other = adjoint(pinv) @ gx
        by_other = by_other if rest is None else by_other - rest
    return [by_input, by_other, None]


vjp(lstsq_op, all=_lstsq)


def _batched_pinv(op, input, atol, rtol, input_meta, hermitian):
    """Tolerances have the shape of the batch of matrices."""
    bounds = [in_rank(x, input_meta.ndim - 2) if isinstance(x, Tensor) else x for x in (atol, rtol)]
    return op.apply((input, *bounds), (hermitian,))


for _op in (svd_op, qr_op, lstsq_op):
    batch(_op, lead)
batch(pinv_op, _batched_pinv)
