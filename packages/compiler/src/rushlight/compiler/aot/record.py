"""The call of a differentiable program, written out for its inputs and outputs: loops over them would cost more than a
small program.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from rushlight.autograd.modes import mode
from rushlight.autograd.node import next_order
from rushlight.autograd.recipe import alias
from rushlight.autograd.recorder import attach
from rushlight.autograd.state import edge_of
from rushlight.compiler.native import nodes


def recording(region: Any) -> Callable[[list], list]:
    """`record(inputs)`: runs the forward program and leaves a node of `region.node_class` on the tape.

    The node gets an edge per input that has a gradient, what is saved with its versions, and the inputs that only a
    differentiated backward pass reads.
    """
    ins = [f"x{i}" for i in range(region.inputs)]
    outs = [f"r{i}" for i in range(region.count)]
    extra = [f"r{i}" for i in range(len(outs), len(outs) + region.extra)]
    aliased = [i for i in region.saved_outputs if i < len(outs)]
    saved = [f"x{i}" for i in region.saved_inputs]
    saved += [f"a{i}" if i < len(outs) else f"r{i}" for i in region.saved_outputs]
    rerun = [f"x{i}" for i in region.rerun_inputs]
    wanted = [f"x{i}" for i in region.wanted]
    leave = nodes.builtin(region.node_class, len(wanted), len(saved), len(rerun)) if nodes.ready() else None
    by_python = [
        "    node = new(node_class)",
        "    node.extras = None",
        f"    node.edges = {_tuple([f'edge_of({x})' for x in wanted])}",
        "    node.order = next_order()",  # after the edges: they may make the node of a leaf, which must count as older
        f"    node.saved = {_tuple(saved)}",
        f"    node.versions = {_tuple(map(_version, saved))}",
        f"    node.inputs = {_tuple(rerun)}",
        f"    node.input_versions = {_tuple(map(_version, rerun))}",
    ]
    lines = [
        "def record(inputs):",
        "    if not mode.plain:",
        "        return unusual(inputs)",
        f"    {_tuple(ins)} = inputs",
        f"    {_tuple(outs + extra)} = forward([{', '.join(ins)}])",
        *[f"    a{i} = alias(r{i})" for i in aliased],
        *([f"    node = leave({', '.join([*wanted, *saved, *rerun])})"] if leave else by_python),
        *[f"    attach(r{i}, node, {i})" for i in region.differentiated],
        f"    return [{', '.join(outs)}]",
    ]
    namespace: dict[str, Any] = {
        "alias": alias,
        "attach": attach,
        "edge_of": edge_of,
        "forward": region.forward,
        "leave": leave,
        "mode": mode,
        "new": object.__new__,
        "next_order": next_order,
        "node_class": region.node_class,
        "unusual": region.unusual,
    }
    exec(_code("\n".join(lines)), namespace)  # noqa: S102  our own text
    return namespace["record"]


@lru_cache(256)
def _code(text: str) -> Any:
    """The code of a text: that of a program for other sizes is the same."""
    return compile(text, "<rushlight region>", "exec")


def _version(name: str) -> str:
    return f"0 if (s := {name}._storage) is None else s.version"


def _tuple(items: Any) -> str:
    items = list(items)
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
