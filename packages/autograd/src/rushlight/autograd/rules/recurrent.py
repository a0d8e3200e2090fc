"""Gradients of recurrent layers."""

from rushlight.autograd.rules.registry import vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.ops.recurrent import recurrent_backward_op, recurrent_op, recurrent_training_op
from rushlight.ops.recurrent_parts import recurrent_back


def _recurrent(gs, h, c, weight_hh, bias_hh, weight_hr, sizes, ans0, ans3, ans4, mode, reverse, batch_first):
    """In one native call, unless what was saved has gradients, too: those of a gradient."""
    operands = (h, c, weight_hh, bias_hh, weight_hr, sizes, ans0, ans3, ans4)
    params = (mode, reverse, batch_first)
    if gs[3] is None and gs[4] is None:
        found = recurrent_backward_op.apply((*gs[:3], *operands), params)
    else:
        found = recurrent_back(gs, *operands, *params)
    given = (h, h, c, weight_hh, bias_hh, weight_hr)
    return [*[None if x is None else g for x, g in zip(given, found)], None]


vjp(recurrent_training_op, all=_recurrent)
vjp_through_decomposition(recurrent_op, outputs=3)
vjp_through_decomposition(recurrent_backward_op, outputs=6)
