"""From a graph of ops to a graph of ONNX operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rushlight.compiler.graph.custom import CustomOp, unpacked
from rushlight.compiler.graph.facts import Fixed, Undecided
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.passes.apart import stated, taken_apart
from rushlight.core.meta import Meta, Symbolic
from rushlight.core.op import Op
from rushlight.export.places import place_of
from rushlight.onnx import complex_numbers, elementwise, proto
from rushlight.onnx.builder import Builder, Ref, is_open
from rushlight.onnx.complex_numbers import Pair, joined, split
from rushlight.onnx.errors import UnsupportedOperatorError
from rushlight.onnx.families import ROWS
from rushlight.onnx.table import PAIRS, REASONS, Refused, Row


class Weight(NamedTuple):
    """A tensor that comes with the model: its name in the file and its elements."""

    name: str
    array: np.ndarray


class Drawn(NamedTuple):
    """A random tensor: the op that draws it, its operands but for seed and offset, and its params."""

    op: Op
    operands: tuple
    params: tuple


Source = str | Weight | Drawn | Symbolic


_COUNTED = ("If", "Loop", "Scan", "Split", "TopK")  # their inputs or graphs say how many results there are


def convert(graph: Graph, inputs: Mapping[Value, Source], outputs: Sequence[str], opset: int,
            axes: Mapping[Any, str] | None = None, rows: Mapping[Op, Row] | None = None) -> proto.Graph:
    """The ONNX graph of a graph. `inputs` says what its inputs are: a str is the name of an input, a symbol the number
    in a 0-dim tensor; `axes` has names of open sizes, and `rows` is asked before the table is.

    Raises UnsupportedOperatorError that names all ops which ONNX cannot express, and why.
    """
    o = Builder(opset, rows={**ROWS, **(rows or {})}, write=_write_all)
    known: dict[Value, Any] = {}
    made = proto.Graph("main_graph")
    axes = axes or {}
    for value, source in inputs.items():
        kind = value.meta.dtype
        if is_open(source):
            known[value] = Ref(o.number(source, kind).name, kind, value.meta)
            continue
        if kind.is_complex and isinstance(source, (str, Weight)):
            known[value] = _complex_input(o, made, value, source, axes)
            continue
        if isinstance(source, Drawn):
            drawn = o.rows[source.op](o, None, None, *source.operands, **dict(zip(source.op.params, source.params)))
            known[value] = Ref(drawn.name, kind, value.meta)
            continue
        ref = known[value] = Ref(o.fresh(source if isinstance(source, str) else source.name), kind, value.meta)
        if isinstance(source, Weight):
            made.initializers.append(proto.Tensor(ref.name, source.array, kind, True))
        else:
            made.inputs.append(proto.ValueInfo(ref.name, kind, shape_of(value.meta, axes)))
            o.measure_input(ref)
    names = [o.fresh(wanted) for wanted in outputs]
    wrong = _write_all(o, graph, known)
    if wrong:
        listed = "; ".join(f"{call}: {reason}" for call, reason in sorted(wrong.items()))
        raise UnsupportedOperatorError(
            f"onnx.export: {len(wrong)} operation{'s' if len(wrong) > 1 else ''} cannot be expressed in ONNX: {listed}")
    results = {v: joined(o, x, v.meta.ndim) if isinstance(x := known[v], Pair) else x for v in graph.outputs}
    made.nodes = o.nodes
    produced = {name for node in o.nodes for name in node.outputs}
    renamed: dict[str, str] = {}
    for value, name in zip(graph.outputs, names):
        ref = results[value]
        if ref.name in produced and ref.name not in renamed:
            renamed[ref.name] = name
        else:  # an input, a constant, or a result that is returned twice
            o.nodes.append(proto.Node("Identity", [ref.name], [name], name=f"node_{name}"))
        shape, parts = shape_of(value.meta, axes), value.meta.dtype.is_complex
        made.outputs.append(proto.ValueInfo(name, ref.dtype, [*shape, 2] if parts else shape, parts))
    _rename(o.nodes, renamed)
    made.initializers.extend(o.constants.values())
    return _tidied(made)


def _complex_input(o: Builder, made: proto.Graph, value: Value, source: str | Weight, axes: Mapping[Any, str]) -> Pair:
    """A complex input or weight: a real one with a last dimension of 2."""
    kind = value.meta.dtype.to_real()
    ref = Ref(o.fresh(source if isinstance(source, str) else source.name), kind, value.meta)
    if isinstance(source, Weight):
        array = np.ascontiguousarray(source.array)[..., None].view(kind.numpy)
        made.initializers.append(proto.Tensor(ref.name, array, kind, True))
    else:
        made.inputs.append(proto.ValueInfo(ref.name, kind, [*shape_of(value.meta, axes), 2]))
        o.measure_input(ref)
    return split(o, ref, value.meta)


def _rename(nodes: list[proto.Node], names: Mapping[str, str]) -> None:
    """Rename values, in graphs inside nodes too."""
    for node in nodes:
        node.inputs = [names.get(name, name) for name in node.inputs]
        node.outputs = [names.get(name, name) for name in node.outputs]
        for value in node.attributes.values():
            if isinstance(value, proto.Graph):
                _rename(value.nodes, names)


def shape_of(meta: Meta, axes: Mapping[Any, str]) -> list[int | str | None]:
    """The sizes of a value, as a file says them: an open one by its name."""
    return [axes.get(size) or str(size) if is_open(size) else size for size in meta.shape]


def _write_all(o: Builder, graph: Graph, known: dict[Value, Any]) -> dict[str, str]:
    """Write all nodes; `known` gets their results. Returns why not, by op and line of the program."""
    wrong: dict[str, str] = {}
    needed = {x for node in graph.nodes for x in node.inputs if isinstance(x, Value)} | set(graph.outputs)
    for node in graph.nodes:
        operands = [known.get(x) if isinstance(x, Value) else x for x in node.inputs]
        if any(x is None and isinstance(y, Value) for x, y in zip(operands, node.inputs)):
            continue  # a result of an op that failed
        try:
            results = _write(o, node, operands, needed)
        except (Undecided, Fixed):
            wrong[_called(node)] = "it needs a size that is open"
            continue
        except Refused as error:
            wrong[_called(node)] = str(error)
            continue
        for value, ref in zip(node.outputs, results):
            if ref is not None:
                known[value] = ref if isinstance(ref, Pair) else Ref(ref.name, value.meta.dtype, value.meta)
        if len(results) == 1 and isinstance(results[0], Ref):
            o.origins[results[0].name] = (node.op.name, operands)
    return wrong


def _called(node: Node) -> str:
    """An op call, for messages."""
    place = place_of(node)
    return node.op.name if place is None else f"{node.op.name} in {place}"


def _write(o: Builder, node: Node, operands: list, needed: set[Value]) -> tuple[Ref | Pair | None, ...]:
    """The results of one op call."""
    op = node.op
    if any(isinstance(x, Pair) for x in operands) or any(v.meta.dtype.is_complex for v in node.outputs):
        found = complex_numbers.write(o, node, operands)
        return _apart(o, node, operands) if found is None else found
    row = o.rows.get(op)
    if op.kind == "elementwise" and (row is not None or op not in REASONS):
        return (elementwise.write(o, op, operands, node.outputs[0].meta.dtype),)
    if row is not None:
        try:
            args, kwargs = unpacked(node.params[0], operands) if isinstance(op, CustomOp) else (
                operands, dict(zip(op.params, node.params)))
            made = row(o, *args, **kwargs)
            results = made if isinstance(made, tuple) else (made,)
            if not any(ref is None and value in needed for ref, value in zip(results, node.outputs)):
                return results
            raise Refused("its row leaves out a result that is needed")
        except Refused as refusal:
            if op.decomposition is None:
                raise
            try:
                return _apart(o, node, operands)
            except Refused:
                raise refusal from None
    if op.decomposition is not None:
        return _apart(o, node, operands)
    raise Refused(REASONS.get(op, "it is no operation of rushlight's; custom_translation_table can say what it is"))


def _apart(o: Builder, node: Node, operands: list) -> tuple[Ref | Pair | None, ...]:
    """The results of one op call by its decomposition."""
    single, values = Graph(), []
    for x in operands:
        values.append(single.input(x.meta.with_grad(False)) if isinstance(x, (Ref, Pair)) else x)
    metas = tuple([v.meta.with_grad(False) for v in node.outputs])
    made = single.call(node.op, tuple(values), node.params, metas if len(metas) > 1 else metas[0])
    single.output(list(made) if isinstance(made, tuple) else [made])
    try:
        parts = taken_apart(single, stated(lambda other: other.op is node.op))
    except NotImplementedError as error:
        raise Refused(str(error)) from None
    known = dict(zip(parts.inputs, [x for x in operands if isinstance(x, (Ref, Pair))]))
    for call, reason in _write_all(o, parts, known).items():
        raise Refused(f"it is made of {call}: {reason}")
    return tuple([known[v] for v in parts.outputs])


def missing(op: Op) -> str | None:
    """Why an op cannot be expressed in ONNX; None when it can."""
    if op in ROWS or op in PAIRS or op.decomposition is not None:
        return None
    if op in REASONS:
        return REASONS[op]
    return None if op.kind == "elementwise" else "it has no row"


def _tidied(graph: proto.Graph) -> proto.Graph:
    """The graph without nodes, results and constants that nothing reads."""
    used = {info.name for info in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if any(name in used for name in node.outputs):
            kept.append(node)
            used.update(_read(node))
            while len(node.outputs) > 1 and node.outputs[-1] not in used and node.kind not in _COUNTED:
                node.outputs.pop()
    graph.nodes = kept[::-1]
    graph.initializers = [tensor for tensor in graph.initializers if tensor.name in used]
    return graph


def _read(node: proto.Node) -> set[str]:
    """The names that a node reads, in graphs inside it too."""
    names = set(node.inputs)
    for value in node.attributes.values():
        if isinstance(value, proto.Graph):
            for inner in value.nodes:
                names |= _read(inner)
            names |= {info.name for info in value.outputs}
    return names
