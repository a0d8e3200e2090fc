"""Putting off a call that comes as it came the last time: functions written out for each form of operands.

A letter says what an operand is: `r` a result of an earlier call, `i` an input that was seen before, `n` a new input,
`s` one that an earlier operand is, too, `c` a number or None. Trying such a function takes a third of the time of
finding a call by its key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from rushlight.compiler.capture import state
from rushlight.compiler.lazy.trie import Constant, Node
from rushlight.core.op import WATCHERS
from rushlight.core.storage import ADDRESSED
from rushlight.core.tensor import Tensor

_array_of = Tensor.__dict__["_array"].__get__


def taking(node: Node, kinds: tuple[type, ...]) -> Callable[[Any, Any, tuple], Any]:
    """`take(session, record, operands)`: what `Session.handle` gives for a call like that of the node, whose new inputs
    are of some classes. None, having done nothing, when it is another call.
    """
    form, values = "", []
    start = node.inputs
    same = ""
    for x in node.operands:
        if type(x) is Constant:
            form += "c"
            values.append(x.value)
        elif x >= 0:
            form += "r"
            values.append(x)
        elif ~x < start:
            form += "i"
            values.append(~x)
        elif ~x - start < form.count("n"):
            form += "s"
            values.append(None)
            same += str(node.operands.index(x))
        else:
            form += "n"
            values.append(~x)
    write = _written(form, same, node.op.variadic, len(node.metas), node.single, any(_requires_grad(node)))
    return write(node, node.parent, values, node.new, kinds, node.metas, node.first, node.recording)


def _requires_grad(node: Node) -> list[bool]:
    """For each operand: does it require grad?"""
    found, parent = [], node
    for x in node.operands:
        if type(x) is not Constant:
            while parent is not None and (parent.first > x if x >= 0 else parent.inputs > ~x):
                parent = parent.parent  # type: ignore[assignment]
            metas = parent.metas if x >= 0 else parent.new
            found.append(metas[x - parent.first if x >= 0 else ~x - parent.inputs].requires_grad)
            parent = node
    return found


@cache
def _written(form: str, same: str, variadic: bool, results: int, single: bool, grad: bool) -> Callable[..., Any]:
    names = [f"x{i}" for i in range(len(form))]
    lines = [f"if watchers or len(operands) != {len(form)}: return None" if variadic else "if watchers: return None",
             f"{''.join(f'{x}, ' for x in names)} = operands"]
    if grad:
        lines.append("if modes.plain is not recording or not recording and modes.enabled: return None")
    new, earlier = 0, iter(same)
    store = []
    for x, kind, i in zip(names, form, range(len(form))):
        if kind == "r":
            lines.append(f"if {x} is not record.results[v{i}]: return None")
        elif kind == "i":
            lines.append(f"if {x} is not record.inputs[v{i}]: return None")
        elif kind == "s":
            lines.append(f"if {x} is not x{next(earlier)}: return None")
        elif kind == "c":
            # Equal numbers are the same but for zeros; NaN is never equal.
            lines.append(f"if {x} is not v{i} and ({x}.__class__ is not v{i}.__class__ or {x} != v{i} or not {x}): "
                         "return None")
        else:
            lines += [f"if {x}.__class__ is not k{new} or {x}._meta is not m{new}: return None",
                      f"try: array_of({x})", f"except AttributeError: return None  # {x} waits, too",
                      f"storage = {x}._storage",
                      "if storage is not None and (storage.exposed or addressed and storage in addressed): return None"]
            store.append(f"record.inputs[v{i}] = {x}")
            new += 1
    for i in range(results):
        lines += [f"r{i} = new(Tensor)", f"r{i}._meta = o{i}"]
    made = "r0" if single else f"({''.join(f'r{i}, ' for i in range(results))})"
    lines += [f"made = {made}",
              "if session.record is not record or record.node is not parent: return None",  # somebody came in between
              *store, *[f"record.results[first + {i}] = r{i}" if i else "record.results[first] = r0"
                        for i in range(results)],
              "record.node = node", "return made"]
    header = ["def write(node, parent, values, metas, kinds, results, first, recording):"]
    header += [f"    {''.join(f'v{i}, ' for i in range(len(form)))} = values"]
    header += [f"    {''.join(f'm{i}, ' for i in range(new))} = metas",
               f"    {''.join(f'k{i}, ' for i in range(new))} = kinds"] if new else []
    header += [f"    {''.join(f'o{i}, ' for i in range(results))} = results"] if results else []
    text = "\n".join([*header, "    def take(session, record, operands):", *[f"        {line}" for line in lines],
                      "    return take"])
    namespace = {"new": object.__new__, "Tensor": Tensor, "array_of": _array_of, "watchers": WATCHERS,
                 "addressed": ADDRESSED, "modes": state.grad_modes()}
    exec(compile(text, "<rushlight lazy>", "exec"), namespace)  # noqa: S102  our own text
    return namespace["write"]  # type: ignore[return-value]
