"""Results whose shape depends on data: `x[mask]`, `nonzero`, `unique`. The shape is decided, see `decisions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.stages import stages_of
from rushlight.compiler.graph.ir import Value
from rushlight.compiler.graph.unsized import SIZED
from rushlight.core.op import Op, prims

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session


def decide(session: Session, op: Op, operands: tuple, params: tuple) -> Any:
    """Record a call whose results have the shapes that they have in this call."""
    recorder: Any = session.recorder
    if op is prims.masked_select:
        x, mask = operands
        places = recorder.handle(prims.nonzero, (mask,), ())
        return recorder.handle(prims.index, (x, *places.unbind(1)), ())
    what = f"the shape of {op.name}"
    session.decisions.require(what)
    if recorder.levels or "cpu" not in op.kernels:
        raise Abort(f"{what} depends on data")
    session.sizes.fix_all((operands, params), what)
    operands = tuple([x.detach() if getattr(getattr(x, "_meta", None), "requires_grad", False) else x
                      for x in operands])
    nodes = tuple([recorder.current(x) if hasattr(x, "_root") else x for x in operands])
    if any(isinstance(x, Value) and x.meta.device.type != "cpu" for x in nodes):
        raise Abort(f"{what} on another device")
    if recorder.stages.changes and any(stages_of(recorder.graph, recorder.stages.births)[x]
                                       for x in nodes if isinstance(x, Value)):
        raise Abort(f"{what} depends on what an optimizer's step has changed")
    results = session.decisions.results(op, nodes, params)
    metas = tuple([r._meta for r in results])
    forms = tuple([(m.dtype, tuple(m.shape), tuple(m.strides)) for m in metas])
    sizes = tuple([shape for _, shape, _ in forms])
    place = len(session.decisions.taken)
    session.decisions.take(lambda epilogue: epilogue.writer.literal(sizes), sizes, what)
    made = recorder.graph.call(SIZED, nodes, (op.name, params, forms, place), metas[0] if len(metas) == 1 else metas)
    if len(metas) == 1:
        return recorder.tracer(metas[0], made)
    return tuple([recorder.tracer(m, v) for m, v in zip(metas, made)])
