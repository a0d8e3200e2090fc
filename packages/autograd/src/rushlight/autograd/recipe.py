"""Recipes: everything about the node of an op call that its metadata decides, worked out once per plan."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from rushlight.autograd.fit import fit
from rushlight.autograd.node import OpNode
from rushlight.autograd.rules.registry import Formula, Row, differentiable, needed
from rushlight.autograd.shield import SELECTING, shield, shielding
from rushlight.autograd.state import new_state
from rushlight.autograd.unrolled import unrolled_backward
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.tensor import wrap

_NAMES = {"true_divide": "Div", "convert": "ToCopy"}
_classes: dict[tuple[str, bool], type[OpNode]] = {}


def node_class(op: Op, several: bool = False) -> type[OpNode]:
    """The subclass of OpNode that carries the op's name."""
    base = op.name.rstrip("_")
    name = _NAMES.get(base) or "".join([part[:1].upper() + part[1:] for part in base.replace(".", "_").split("_")])
    name += "Backward0"
    found = _classes.get((name, several))
    if found is None:
        members = {
            "__slots__": (),
            "__module__": OpNode.__module__,
            "__doc__": f"The node of `{op.name}`.",
            "unrolled": not several,
        }
        if several:
            members["outputs"] = property(lambda self: self.recipe.outputs)
        found = _classes[name, several] = type(name, (OpNode,), members)
    return found


class Recipe:
    """Which operands get a gradient, what is saved for them, and how the formulas are called.

    A formula's arguments are picked from one flat tuple: incoming gradients, saved values, then what is known
    beforehand.
    """

    __slots__ = (
        "op",
        "metas",
        "outputs",
        "wanted",
        "node_class",
        "saves",
        "saves_results",
        "tensors",
        "statics",
        "calls",
        "joint",
        "differentiable",
        "backward",
        "selects",
    )

    def __init__(self, op: Op, metas: tuple[Meta | None, ...], params: tuple, outputs: int, row: Row) -> None:
        self.op, self.metas, self.outputs = op, metas, outputs
        self.joint = row.joint is not None
        self.selects = op.name.rstrip("_") in SELECTING
        self.node_class = node_class(op, outputs > 1 or self.joint)
        self.wanted = tuple(
            [
                i
                for i, m in enumerate(metas)
                if m is not None and m.requires_grad and (self.joint or row.formulas.get(op.operands[i]))
            ]
        )
        formulas = row.chosen(op, self.wanted)
        names = needed(formulas) if self.wanted else []
        self.saves, self.tensors = self._what_to_save(names)
        self.saves_results = any(kind == "result" for kind, _ in self.saves)
        self.differentiable = differentiable(names, outputs)
        known = self._known(params)
        fixed = [name for name in names if name in known]
        self.statics = tuple([known[name] for name in fixed])
        spots = [self._spots(f, fixed) for f in formulas]
        pickers = [_picker(some) for some in spots]
        wants = [metas[i].with_grad(False) for i in self.wanted]
        self.calls = tuple(
            [
                (
                    formulas[0 if self.joint else at].function,
                    pickers[0 if self.joint else at],
                    want,
                    want.with_grad(True),
                )
                for at, want in enumerate(wants)
            ]
        )
        self.backward = None
        if self.node_class.unrolled:
            written = tuple([tuple([self._written(spot) for spot in some]) for some in spots])
            functions = [f.function for f in formulas]
            self.backward = unrolled_backward(self.saves, self.tensors, written)(self, functions, wants, self.statics)
            if self.selects:
                self.backward = shielding(self.backward)

    def _what_to_save(self, names: list[str]) -> tuple[tuple[tuple[str, int], ...], int]:
        """("operand" or "result", index) of what is saved, tensors first, and the number of those."""
        found = []
        for name in names:
            if name == "operands":
                found += [("operand", i) for i in range(len(self.metas))]
            elif name in self.op.operands and not self.op.variadic:
                found.append(("operand", self.op.operands.index(name)))
            elif _is_result(name):
                found.append(("result", int(name[3:] or 0)))
        tensors = [save for save in dict.fromkeys(found) if save[0] == "result" or _is_tensor(self.metas[save[1]])]
        return (*tensors, *[save for save in dict.fromkeys(found) if save not in tensors]), len(tensors)

    def _known(self, params: tuple) -> dict[str, Any]:
        """The values that are the same for every call of the plan, by name."""
        metas = tuple([m and m.with_grad(False) for m in self.metas])
        known = dict(zip(self.op.params, params))
        if not self.op.variadic:
            known |= {f"{name}_meta": m for name, m in zip(self.op.operands, metas)}
        known |= {"metas": metas, "needs": tuple([i in self.wanted for i in range(len(metas))])}
        return known

    def _spots(self, formula: Formula, fixed: list[str]) -> list:
        """Where each argument of a formula lies in the flat tuple; a list of places for `operands` and `gs`."""
        first = self.outputs
        spots: list = []
        for name in formula.arguments:
            if name in fixed:
                spots.append(first + len(self.saves) + fixed.index(name))
            elif name == "gs":
                spots.append(list(range(self.outputs)))
            elif name == "operands":
                spots.append([first + self.saves.index(("operand", i)) for i in range(len(self.metas))])
            elif _is_result(name):
                spots.append(first + self.saves.index(("result", int(name[3:] or 0))))
            elif name in self.op.operands:
                spots.append(first + self.saves.index(("operand", self.op.operands.index(name))))
            else:
                spots.append(int(name[1:] or 0))
        return spots

    def _written(self, spot: Any) -> str:
        """A place in the flat tuple, or several, in the source of an unrolled function."""
        if isinstance(spot, list):
            return f"({', '.join([self._written(one) for one in spot])},)"
        if spot < self.outputs:
            return f"g{spot}"
        spot -= self.outputs
        return f"v{spot}" if spot < len(self.saves) else f"c{spot - len(self.saves)}"

    def gradients(self, node: OpNode, grads: list, saved: tuple) -> list:
        """The gradient for each edge of a node."""
        if self.selects:
            shield(node.edges)
        values = (*grads, *saved, *self.statics)
        if self.joint:
            function, pick, _, _ = self.calls[0]
            everything = function(*pick(values))
            found = [everything[i] for i in self.wanted]
        else:
            found = [function(*pick(values)) for function, pick, _, _ in self.calls]
        for at, (_, _, want, want_too) in enumerate(self.calls):
            grad = found[at]
            if grad is None and self.joint:
                continue
            m = getattr(grad, "_meta", None)
            if m is not want and m is not want_too:
                found[at] = fit(node.name(), self.wanted[at], grad, want)
        return found

    def with_history(self, node: OpNode, saved: tuple, results: tuple | None) -> tuple:
        """The saved values, the results among them linked to the graph again for gradients of gradients."""
        return tuple(
            [self._linked(node, x, i, results) if kind == "result" else x for x, (kind, i) in zip(saved, self.saves)]
        )

    def _linked(self, node: OpNode, x: Any, index: int, results: tuple | None) -> Any:
        if results is not None:
            return results[index]
        if not (self.differentiable[index] and x._meta.dtype.is_inexact):
            return x
        linked = wrap(x._array, x._meta.with_grad(True), x._storage)
        linked._auto = new_state((node, index))
        return linked

    def saved_value(self, node: OpNode, name: str) -> Any:
        """The saved value of a name, for `grad_fn._saved_<name>`; AttributeError when it is none."""
        key = ("result", 0) if name == "result" else ("operand", self._index(name))
        if key not in self.saves:
            raise AttributeError(f"{node.name()} has not saved {name!r}")
        saved = node.unpack()
        return (self.with_history(node, saved, None) if self.saves_results else saved)[self.saves.index(key)]

    def _index(self, name: str) -> int:
        name = "input" if name == "self" else name
        return self.op.operands.index(name) if name in self.op.operands else -1

    def keep(self, operands: tuple, results: tuple) -> tuple[tuple, tuple[int, ...]]:
        """The values to save and the versions of those that are tensors."""
        saved = tuple([operands[i] if kind == "operand" else alias(results[i]) for kind, i in self.saves])
        return saved, tuple([0 if (s := x._storage) is None else s.version for x in saved[: self.tensors]])


def _is_tensor(m: Meta | None) -> bool:
    return m is not None and not m.weak


def _is_result(name: str) -> bool:
    return name == "ans" or (name.startswith("ans") and name[3:].isdigit())


def _picker(spots: list) -> Callable[[tuple], tuple]:
    """A function that takes a formula's arguments out of the flat tuple."""
    if any(isinstance(spot, list) for spot in spots):
        return lambda values: tuple(
            [tuple([values[i] for i in spot]) if isinstance(spot, list) else values[spot] for spot in spots]
        )
    if len(spots) < 2:
        return lambda values: tuple([values[spot] for spot in spots])
    return itemgetter(*spots)


def alias(result: Any) -> Any:
    """The result without its history, for the node to save: saving the result itself would make a cycle."""
    return wrap(result._array, result._meta.with_grad(False), result.storage())
