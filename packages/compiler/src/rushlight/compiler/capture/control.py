"""Exported programs with control flow (see `graph.control`), run on tensors of a capture: by the module that runs one
inside of a captured function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture import state
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.graph import control
from rushlight.compiler.graph.ir import Graph
from rushlight.core.meta import Meta

if TYPE_CHECKING:
    from rushlight.compiler.capture.tensors import Recorder


def kept(recorder: Recorder, op: control.Control, operands: tuple, params: tuple) -> Any:
    """Record the call as it is: what is captured is to hold for all values."""
    operands = tuple([recorder._operand(op, i, x) for i, x in enumerate(operands)])
    inferred: Any = op.infer_metas(operands, params)
    metas = (inferred,) if isinstance(inferred, Meta) else inferred
    graphs = [x for x in params if type(x) is Graph]
    results = [graph.outputs for graph in (graphs if op.name == "cond" else graphs[-1:])]
    metas = tuple([m.with_grad(state.grad_enabled() and any(v.meta.requires_grad for v in column))
                   for m, column in zip(metas, zip(*results))])
    nodes = tuple([recorder.current(x) for x in operands])
    made = recorder.graph.call(op, nodes, params, metas[0] if isinstance(inferred, Meta) else metas)
    if isinstance(inferred, Meta):
        return recorder.tracer(metas[0], made)
    return tuple([recorder.tracer(m, v) for m, v in zip(metas, made)])


def both(recorder: Recorder, op: control.Control, operands: tuple, params: tuple) -> Any:
    """Run both branches and choose between the results: nothing may depend on data."""
    if op.name != "cond":
        raise Abort(f"a {op.name} in an exported program, whose length depends on data")
    return control.both(*operands, *params)
