"""Rows of control flow: graphs inside of a graph become graphs of If, Loop and Scan."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.graph.control import CONTROL
from rushlight.compiler.graph.ir import Graph
from rushlight.core import dtypes
from rushlight.onnx import proto
from rushlight.onnx.builder import Builder, Ref
from rushlight.onnx.table import ROWS, Refused


def _written(o: Builder, graph: Graph, operands: list[Ref]) -> list[Ref]:
    """The results of a graph, computed here."""
    known = dict(zip(graph.inputs, operands, strict=True))
    for call, reason in o.write(o, graph, known).items():
        raise Refused(f"in a graph of its own, {call}: {reason}")
    return [known[v] for v in graph.outputs]


def _info(ref: Ref) -> proto.ValueInfo:
    return proto.ValueInfo(ref.name, ref.dtype, [None] * ref.ndim)


def _inner(name: str, o: Builder, inputs: list[proto.ValueInfo], results: list[Ref]) -> proto.Graph:
    """A graph of what a builder wrote."""
    named = [Ref(o.Identity(x).name, x.dtype, x.meta) for x in results]  # a result must be computed inside
    for i, ref in enumerate(named):
        if ref.name in [x.name for x in named[:i]]:  # and no two may be one
            o.made.clear()
            named[i] = Ref(o.Identity(results[i]).name, ref.dtype, ref.meta)
    return proto.Graph(name, o.nodes, inputs, [_info(ref) for ref in named])


def _stand_ins(o: Builder, like: list[Any]) -> list[Ref]:
    return [Ref(o.fresh("value"), v.meta.dtype, v.meta) for v in like]


def _cond(o: Builder, pred: Ref, *operands: Ref, true_fn: Graph, false_fn: Graph) -> Any:
    branches = []
    for name, graph in (("then", true_fn), ("else", false_fn)):
        inner = Builder(o.opset, o)
        branches.append(_inner(o.fresh(name), inner, [], _written(inner, graph, list(operands))))
    return o.If(pred, outputs=len(true_fn.outputs), then_branch=branches[0], else_branch=branches[1])


def _while_loop(o: Builder, *operands: Ref, count: int, cond_fn: Graph, body_fn: Graph) -> Any:
    start, rest = list(operands[:count]), list(operands[count:])
    first, = _written(o, cond_fn, [*start, *rest])
    inner = Builder(o.opset, o)
    values = _stand_ins(inner, body_fn.inputs[:count])
    after = _written(inner, body_fn, [*values, *rest])
    answer, = _written(inner, cond_fn, [*after, *rest])
    inputs = [proto.ValueInfo(o.fresh("step"), dtypes.int64, []), proto.ValueInfo(o.fresh("before"), dtypes.bool, []),
              *map(_info, values)]
    return o.Loop(None, first, *start, outputs=count, body=_inner(o.fresh("body"), inner, inputs, [answer, *after]))


def _scan(o: Builder, *operands: Ref, carried: int, scanned: int, combine_fn: Graph) -> Any:
    inner = Builder(o.opset, o)
    values = _stand_ins(inner, combine_fn.inputs[:carried + scanned])
    after = _written(inner, combine_fn, [*values, *operands[carried + scanned:]])
    body = _inner(o.fresh("body"), inner, list(map(_info, values)), after)
    return o.Scan(*operands[:carried + scanned], outputs=len(combine_fn.outputs), body=body, num_scan_inputs=scanned)


ROWS.update({CONTROL["cond"]: _cond, CONTROL["while_loop"]: _while_loop, CONTROL["scan"]: _scan})
