"""Splitting a joint graph into what runs forward and what runs backward."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.compiler.aot.joint import Joint, joint_graph
from rushlight.compiler.aot.mincut import ENDLESS, cheapest_to_save
from rushlight.compiler.graph.ir import Copy, Graph, Node, Value
from rushlight.compiler.graph.passes import eliminate_common, eliminate_dead, live_values
from rushlight.compiler.graph.symbolic import hint
from rushlight.compiler.lower.fuse import is_fusable
from rushlight.compiler.lower.scalars import is_cheap


@dataclass
class Partition:
    """`forward` returns the program's outputs and then values that are saved; `backward` takes what is saved and then
    the tangents.

    What is saved are first inputs (their numbers are `saved_inputs`), then outputs of `forward` (`saved_outputs`).
    Those are results of calls of the program, `saved_places`: the number of the call and of its result. `gradients`
    says for each input which output of `backward` is its gradient, None where there is none.
    """

    forward: Graph
    backward: Graph
    saved_inputs: list[int]
    saved_outputs: list[int]
    saved_places: list[tuple[int, int]]
    gradients: list[int | None]


def partition(joint: Joint, as_tape: bool = False) -> Partition:
    """Save the fewest bytes from which all that the backward nodes read can be computed again at little cost; or what
    the tape saves.
    """
    graph = joint.graph
    nodes = graph.nodes[: joint.forward_nodes]
    later = graph.nodes[joint.forward_nodes :]
    inputs = graph.inputs[: len(graph.inputs) - len(joint.tangents)]
    wanted = _wanted(joint)
    available = {*inputs, *(v for node in nodes for v in node.outputs)}
    needed = [v for v in live_values(later, wanted) if v in available]
    free = {*joint.outputs, *(v for v, needs in zip(inputs, joint.needs_grad) if needs)}
    barred = {*inputs, *joint.outputs} - joint.kept  # the caller may write to them
    again = _viewed if as_tape else _made_from
    saved = set(cheapest_to_save(needed, again, lambda v: ENDLESS if v in barred else _cost(v, free)))
    saved_inputs = [v for v in inputs if v in saved]
    places = [(n, i) for n, node in enumerate(nodes) for i, v in enumerate(node.outputs) if v in saved]
    computed = [nodes[n].outputs[i] for n, i in places]
    forward = Graph()
    forward.inputs, forward.nodes = inputs, list(nodes)
    forward.output([*joint.outputs, *[v for v in computed if v not in joint.outputs]])
    backward = _extract([*saved_inputs, *computed, *graph.inputs[len(inputs) :]], later, wanted)
    return Partition(
        eliminate_dead(forward),
        eliminate_dead(eliminate_common(backward)),
        [inputs.index(v) for v in saved_inputs],
        [forward.outputs.index(v) for v in computed],
        places,
        _numbered(joint),
    )


def backward_of(program: Graph, outputs: list[int], parts: Partition) -> tuple[Graph, list[int | None]]:
    """What runs backward when gradients came for some of the outputs only, and which of its outputs are gradients of
    the inputs: others get none, which is not the same as zeros. LookupError when it needs what was not saved.
    """
    joint = joint_graph(program, outputs)
    graph = joint.graph
    nodes, later = graph.nodes[: joint.forward_nodes], graph.nodes[joint.forward_nodes :]
    count = len(program.inputs)
    saved = [*[graph.inputs[i] for i in parts.saved_inputs], *[nodes[n].outputs[i] for n, i in parts.saved_places]]
    known = {*saved, *graph.inputs[count:]}
    wanted = _wanted(joint)
    if not _follows(wanted, known):
        raise LookupError("a gradient that needs an input which was not saved")
    backward = _extract([*saved, *graph.inputs[count:]], later, wanted)
    return eliminate_dead(eliminate_common(backward)), _numbered(joint)


def _wanted(joint: Joint) -> list[Value]:
    return [g for g in joint.gradients if g is not None]


def _numbered(joint: Joint) -> list[int | None]:
    numbers = iter(range(len(joint.gradients)))
    return [None if g is None else next(numbers) for g in joint.gradients]


def _follows(wanted: list[Value], known: set[Value]) -> bool:
    """Can values be computed from known ones, without other inputs of the graph?"""
    pending, seen = [*wanted], {*wanted, *known}
    while pending:
        value = pending.pop()
        if value in known:
            continue
        if value.node is None:
            return False
        more = [x for x in value.node.inputs if isinstance(x, Value) and x not in seen]
        seen.update(more)
        pending += more
    return True


def _made_from(value: Value) -> list[Value] | None:
    """What a value is made from by a call that is cheap enough to be made again."""
    node = value.node
    if node is None or not (node.op.kind == "view" or (is_fusable(node) and is_cheap(node))):
        return None
    return [x for x in node.inputs if isinstance(x, Value)]


def _viewed(value: Value) -> list[Value] | None:
    """What a view is made from."""
    node = value.node
    return None if node is None or node.op.kind != "view" else [x for x in node.inputs if isinstance(x, Value)]


def _cost(value: Value, free: set[Value]) -> int:
    """Bytes that saving a value takes; next to nothing for what the caller most likely keeps anyway."""
    if value.node is not None and value.node.op.kind == "view":
        return ENDLESS  # it would keep what it is a view of
    return 1 if value in free else 16 + hint(value.meta.numel) * value.meta.dtype.itemsize


def _extract(inputs: list[Value], nodes: list[Node], outputs: list[Value]) -> Graph:
    """A graph of its own that reads `inputs`: the nodes, and those before them that have to be run again for them.

    Those are put as late as possible, so that their results do not lie about.
    """
    copy = Copy(inputs)

    def take(goal: Node) -> None:
        waiting = [goal]
        while waiting:
            node = waiting[-1]
            missing = [x.node for x in node.inputs if isinstance(x, Value) and x not in copy.values]
            if missing:
                waiting += [n for n in missing if n is not None]
                continue
            waiting.pop()
            if not all(v in copy.values for v in node.outputs):
                copy.repeat(node)

    live = live_values(nodes, outputs)
    for node in nodes:
        if any(v in live for v in node.outputs):
            take(node)
    for value in outputs:
        if value not in copy.values:
            take(value.node)
    return copy.returns(outputs)
