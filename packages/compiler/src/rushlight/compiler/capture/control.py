"""Calls that a graph keeps as they are where it is to be a program of its own: of ops with graphs (see `graph.control`)
and of operators of `rushlight.library` (`graph.custom`). Captured functions get here by the modules of programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture import state
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.graph import control
from rushlight.compiler.graph.custom import CustomOp, records
from rushlight.compiler.graph.ir import Graph
from rushlight.core.meta import Meta

if TYPE_CHECKING:
    from rushlight.compiler.capture.tensors import Recorder


def kept(recorder: Recorder, op: Any, operands: tuple, params: tuple) -> Any:
    """Record a call as it is: what is captured is to hold for all values."""
    operands = tuple([recorder._operand(op, i, x) for i, x in enumerate(operands)])
    try:
        inferred: Any = op.infer_metas(operands, params)
    except NotImplementedError as error:
        raise Abort(str(error)) from None
    single = isinstance(inferred, Meta)
    metas = (inferred,) if single else inferred
    if state.grad_enabled():
        metas = tuple([m.with_grad(flag and m.dtype.is_inexact) for m, flag in zip(metas, _flags(op, operands, params,
                                                                                             len(metas)))])
    nodes = tuple([recorder.current(x) for x in operands])
    made = recorder.graph.call(op, nodes, params, metas[0] if single else metas)
    if single:
        return recorder.tracer(metas[0], made)
    return tuple([recorder.tracer(m, v) for m, v in zip(metas, made)])


def _flags(op: Any, operands: tuple, params: tuple, count: int) -> list[bool]:
    """Which results may have gradients."""
    if isinstance(op, CustomOp):
        return [records(op, [x._meta for x in operands])] * count
    graphs = [x for x in params if type(x) is Graph]
    results = [graph.outputs for graph in (graphs if op.name == "cond" else graphs[-1:])]
    return [any(v.meta.requires_grad for v in column) for column in zip(*results)]


def both(recorder: Recorder, op: Any, operands: tuple, params: tuple) -> Any:
    """Run both branches and choose between the results: nothing may depend on data."""
    if op.name != "cond":
        raise Abort(f"{op.name} in an exported program, which cannot be compiled whole")
    return control.both(*operands, *params)
