"""What was put off before, as a trie: a node per call of an operation, the calls that came after it below.

The key of a call says all that its plan, its result and its place in a program depend on: the operation, its params,
gradient mode, and for each operand where it comes from. That is the number of an earlier result, `~number` of an input
that was seen before, the metadata of a new input, or the type and value of a number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.compiler.capture import state
from rushlight.compiler.capture.stages import may_fail
from rushlight.compiler.graph.ir import Graph
from rushlight.core.meta import Meta
from rushlight.core.op import Op

MOST_CALLS = 512  # put off at once: what is held until they run, and the time to compile them, stay bounded
MOST_CHILDREN = 16  # kinds of calls that follow one node: more are numbers that change, or a program without a pattern
KINDS = frozenset(("elementwise", "reduction", "view", "structured"))


class Node:
    """A call of an operation after the calls of its ancestors."""

    __slots__ = ("parent", "op", "params", "recording", "operands", "metas", "single", "depth", "first", "inputs",
                 "new", "children", "programs", "latest", "take")

    def __init__(self, parent: Node | None, op: Any = None, params: tuple = (), recording: bool = True,
                 operands: tuple = (), new: tuple[Meta, ...] = (), metas: Any = ()) -> None:
        self.parent, self.op, self.params, self.recording = parent, op, params, recording
        self.operands = operands  # numbers as in keys for tensors, `Constant` for everything else
        self.new = new  # the metadata of the inputs that come in with this call
        self.single = isinstance(metas, Meta)
        self.metas: tuple[Meta, ...] = (metas,) if isinstance(metas, Meta) else metas
        self.depth = 0 if parent is None else parent.depth + 1
        self.first = 0 if parent is None else parent.first + len(parent.metas)  # the number of the first result
        self.inputs = 0 if parent is None else parent.inputs + len(parent.new)  # how many inputs came before
        self.children: dict[tuple, Node | None] = {}  # None: a call that must run at once
        self.latest: Node | None = None  # the child that was found last
        self.take: Any = None  # see `rushlight.compiler.lazy.take`
        self.programs: dict[tuple[int, ...], Any] = {}  # what runs the calls up to here, by the results that are needed

    def path(self) -> list[Node]:
        """The calls up to this one."""
        found = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            found.append(node)
            node = node.parent
        found.reverse()
        return found


class Constant:
    """An operand that is no tensor."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def child(parent: Node, op: Op, operands: tuple, params: tuple, recording: bool, refs: list, metas: list
          ) -> Node | None:
    """The node of a call that comes for the first time; None when it must run at once. Raises what the call raises.

    `refs` has the numbers of its tensors, None for other operands; `metas` the metadata of new inputs.
    """
    if not _may_wait(op, operands) or parent.depth >= MOST_CALLS or len(parent.children) >= MOST_CHILDREN:
        return None
    found = op.infer_metas(operands, params)
    if found is None:
        return None
    if op.kind == "view" and len(operands) > 1:
        # Places are checked by the kernel, not by inference: try it on an array without memory.
        m = operands[0]._meta
        op.numpy(np.broadcast_to(np.zeros((), m.numpy), m.shape), *operands[1:], *params)  # type: ignore[misc]
    many = not isinstance(found, Meta)
    results: tuple[Meta, ...] = found if many else (found,)  # type: ignore[assignment]
    if any(m.device.type != "cpu" for m in results):
        return None
    if not recording:
        records: tuple[bool, ...] = (False,) * len(results)
    else:
        try:
            records = state.records(op, operands, len(results))
        except NotImplementedError:  # no gradient is known: the call itself says so
            return None
    results = tuple([m.with_grad(r and m.dtype.is_inexact) for m, r in zip(results, records)])
    if _fails(op, operands, params, results):
        return None
    given = tuple([Constant(x) if ref is None else ref for x, ref in zip(operands, refs)])
    return Node(parent, op, params, recording, given, tuple(metas), results if many else results[0])


def _may_wait(op: Op, operands: tuple) -> bool:
    """May a call run later, as far as its operation says?"""
    if op.mutates or op.random or op.anywhere or op.kind not in KINDS:
        return False
    if op.kind == "structured" and "cpu" not in op.kernels and op.decomposition is None:
        return False
    return all(x._meta.device.type == "cpu" for x in operands if hasattr(x, "_meta"))


def _fails(op: Op, operands: tuple, params: tuple, results: tuple[Meta, ...]) -> bool:
    """May a call be an error because of the values of its operands?"""
    graph = Graph()
    graph.call(op, tuple([graph.input(x._meta) if hasattr(x, "_meta") else x for x in operands]), params, results)
    return may_fail(graph.nodes[0])
