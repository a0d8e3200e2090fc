"""Control flow in graphs: ops whose params are graphs, of which a run takes the one that the values ask for.

    v2 = cond(v0, v1, true_fn=g1, false_fn=g2)

Captured programs that are to hold for all values of their inputs have them (`export`). Each is run by the graphs'
operations, one by one, so gradients and tracers see those and no op of this kind: none has a kernel, a gradient or a
place in the registry. Inputs of the inner graphs are the operands, those from outside of the function among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import rushlight
from rushlight.compiler.graph import custom
from rushlight.compiler.graph.functions import FUNCTION
from rushlight.compiler.graph.interpret import Interpreter
from rushlight.compiler.graph.ir import Copy, Graph, Node, Value
from rushlight.compiler.graph.keeper import keeper
from rushlight.compiler.graph.unsized import SIZED
from rushlight.core import dtypes
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op, lookup


@dataclass(frozen=True, eq=False, repr=False)
class Control(Op):
    """An op with graphs among its params; `compute(operands, *params)` gives its results."""

    compute: Callable[..., Any] = print

    def apply(self, operands: tuple, params: tuple = ()) -> Any:
        """Run the graphs, operation by operation."""
        keep = keeper()
        if keep is not None:
            return keep(self, operands, params)
        found = self.compute(operands, *params)
        return found[0] if len(found) == 1 else tuple(found)

    def execute(self, operands: tuple, params: tuple = ()) -> Any:
        """The same."""
        return self.apply(operands, params)

    def __reduce__(self) -> Any:
        return op_named, (self.name,)


_runs: WeakKeyDictionary[Graph, Interpreter] = WeakKeyDictionary()


def run(graph: Graph, inputs: Any) -> list[Any]:
    """The outputs of a graph among the params of a call."""
    found = _runs.get(graph)
    if found is None:
        found = _runs[graph] = Interpreter(graph)
    return found(inputs)


def graphs_of(node: Node) -> list[Graph]:
    """The graphs among the params of a call."""
    return [x for x in node.params if type(x) is Graph]


def with_graphs(params: tuple, change: Callable[[Graph], Any]) -> tuple:
    """Params with other graphs in the place of those in them."""
    return tuple([change(x) if type(x) is Graph else x for x in params])


# what the results are, from the graphs; and whether operands and graphs fit together


def _require(condition: bool, otherwise: Callable[[], str]) -> None:
    if not condition:  # texts of open sizes are only for errors
        raise RuntimeError(otherwise())


def _takes(name: str, graph: Any, metas: list[Meta]) -> None:
    _require(type(graph) is Graph, lambda: f"{name}: expected a graph")
    inputs = [v.meta.with_grad(False) for v in graph.inputs]
    _require(len(inputs) == len(metas) and all(a is b.with_grad(False) for a, b in zip(inputs, metas)),
             lambda: f"{name}: a graph that takes {inputs} is given {metas}")


def _results(metas: list[Meta]) -> Meta | tuple[Meta, ...]:
    return metas[0] if len(metas) == 1 else tuple(metas)


def _outputs(graph: Graph) -> list[Meta]:
    return [v.meta.with_grad(False) for v in graph.outputs]


def _is_answer(m: Meta) -> bool:
    return m.dtype is dtypes.bool and m.ndim == 0


def _cond_infer(pred: Meta, *rest: Any) -> Meta | tuple[Meta, ...]:
    *operands, true_fn, false_fn = rest
    _require(_is_answer(pred), lambda: f"cond: a condition that is {pred}")
    for graph in (true_fn, false_fn):
        _takes("cond", graph, operands)
    found, other = _outputs(true_fn), _outputs(false_fn)
    _require(len(found) == len(other) > 0 and all(a is b for a, b in zip(found, other)),
             lambda: f"cond: one graph gives {found}, the other {other}")
    return _results(found)


def _cond(operands: tuple, true_fn: Graph, false_fn: Graph) -> list[Any]:
    pred, *rest = operands
    return run(true_fn if bool(pred) else false_fn, rest)


def both(pred: Any, *rest: Any) -> Any:
    """What `cond` gives, from both branches: for those who cannot choose one."""
    *operands, true_fn, false_fn = rest
    found = [run(graph, operands) for graph in (true_fn, false_fn)]
    results = tuple([rushlight.where(pred, a, b) for a, b in zip(*found)])
    return results[0] if len(results) == 1 else results


def _loop_infer(*rest: Any) -> Meta | tuple[Meta, ...]:
    *operands, count, cond_fn, body_fn = rest
    _require(type(count) is int and 0 < count <= len(operands),
             lambda: f"while_loop: {count} values of {len(operands)}")
    for graph in (cond_fn, body_fn):
        _takes("while_loop", graph, operands)
    answer, found = _outputs(cond_fn), _outputs(body_fn)
    _require(len(answer) == 1 and _is_answer(answer[0]), lambda: f"while_loop: a condition that is {answer}")
    carried = [m.with_grad(False) for m in operands[:count]]
    _require(len(found) == count and all(a is b for a, b in zip(found, carried)),
             lambda: f"while_loop: values that are {carried} become {found}")
    return _results(found)


def _loop(operands: tuple, count: int, cond_fn: Graph, body_fn: Graph) -> list[Any]:
    carried, rest = list(operands[:count]), operands[count:]
    values = carried
    while bool(run(cond_fn, [*values, *rest])[0]):
        values = run(body_fn, [*values, *rest])
    return [x.clone() if any(x is given for given in carried) else x for x in values]


def _scan_infer(*rest: Any) -> Meta | tuple[Meta, ...]:
    *operands, carried, scanned, combine_fn = rest
    _require(type(carried) is type(scanned) is int and carried >= 0 < scanned and carried + scanned <= len(operands),
             lambda: f"scan: {carried} values and {scanned} tensors of {len(operands)}")
    values, tensors, others = operands[:carried], operands[carried:carried + scanned], operands[carried + scanned:]
    _require(all(m.ndim > 0 and m.shape[0] == tensors[0].shape[0] > 0 for m in tensors),
             lambda: f"scan: tensors of different lengths, or empty ones: {tensors}")
    slices = [meta(m.dtype, m.shape[1:], m.strides[1:], m.device) for m in tensors]
    _takes("scan", combine_fn, [*values, *slices, *others])
    found = _outputs(combine_fn)
    _require(len(found) >= max(carried, 1) and all(a is b.with_grad(False) for a, b in zip(found, values)),
             lambda: f"scan: values that are {values} become {found[:carried]}")
    length = tensors[0].shape[0]
    return _results([*found[:carried], *[meta(m.dtype, (length, *m.shape), None, m.device) for m in found[carried:]]])


def _scan(operands: tuple, carried: int, scanned: int, combine_fn: Graph) -> list[Any]:
    values, rest = list(operands[:carried]), operands[carried + scanned:]
    tensors = operands[carried:carried + scanned]
    made: list[list] = []
    for k in range(tensors[0].shape[0]):
        found = run(combine_fn, [*values, *[x[k] for x in tensors], *rest])
        values = found[:carried]
        made.append(found[carried:])
    stacked = [rushlight.stack(column) for column in zip(*made)]
    return [*[x.clone() if any(x is given for given in operands) else x for x in values], *stacked]


CONTROL: dict[str, Control] = {op.name: op for op in (
    Control("cond", "structured", ("pred", "operands"), ("true_fn", "false_fn"), _cond_infer, variadic=True,
            compute=_cond,
            doc="What one graph gives, or the other."),
    Control("while_loop", "structured", ("operands",), ("count", "cond_fn", "body_fn"), _loop_infer, variadic=True,
            compute=_loop, doc="The first `count` operands, replaced by what a graph gives as long as another says."),
    Control("scan", "structured", ("operands",), ("carried", "scanned", "combine_fn"), _scan_infer, variadic=True,
            compute=_scan, doc="Values that a graph replaces for each slice of tensors; what else it gives, stacked."),
)}


def op_named(name: str) -> Op:
    """The op of a name: one of these, one of `rushlight.library`, or of the registry. KeyError when there is none."""
    if "." in name:
        found = custom.named(name)
        if found is None:
            raise KeyError(f"the operator {name.replace('.', '::')} is not registered here; see rushlight.library")
        return found
    return CONTROL.get(name) or {SIZED.name: SIZED, FUNCTION.name: FUNCTION}.get(name) or lookup(name)


def subgraph(nodes: list[Node], inputs: list[Value], outputs: list[Value],
             moved: Callable[[Node, Node], Any] = lambda old, new: None) -> Graph:
    """A graph of calls that were recorded in another one, with values from there as its inputs; `moved` is told of the
    nodes that stand for them.
    """
    copy = Copy(inputs)
    for node in nodes:
        moved(node, copy.repeat(node))
    return copy.returns(outputs)
