"""Open sizes that may be 1.

A size that stays open is taken to be at least 2 in a capture, because many questions about sizes (does it broadcast?
are the strides row-major?) have another answer for 1. A program may still hold for 1: then a capture with that size
gives the same graph. So this is tried, for sizes whose limits allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture import memory
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.symbolic import Sym
from rushlight.compiler.graph.text import text
from rushlight.core.meta import meta
from rushlight.core.tensor import Tensor, wrap
from rushlight.export.dynamic_shapes import Wish
from rushlight.export.symbols import told

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram

TRIED = 3  # captures at most


def proven(program: ExportedProgram, wishes: list[dict[int, Wish]], leaves: list,
           again: Callable[[list, list[dict[int, Wish]]], ExportedProgram]) -> frozenset[frozenset[str]]:
    """The sets of open sizes that may be 1 at once; `again` exports with other arguments and wishes."""
    facts: Any = program.facts
    low = {wish.named.name for wanted in wishes for wish in wanted.values() if wish.named.low <= 1}
    groups: dict[int, set[str]] = {}  # sizes that must be equal
    for atom in facts.atoms:
        if atom.parts is None:
            groups.setdefault(facts._same.get(atom.number, atom.number), set()).add(atom.name)
    free = [names for names in groups.values() if names <= low]
    sets = [frozenset().union(*c) for count in range(1, len(free) + 1) for c in combinations(free, count)]
    found = set()
    for chosen in sets[:TRIED]:
        smaller = [_smaller(leaf, wanted, chosen) for leaf, wanted in zip(leaves, wishes)]
        if any(x is None and leaf is not None for x, leaf in zip(smaller, leaves)):
            continue
        try:
            other = again(smaller, [{d: wish for d, wish in wanted.items() if wish.named.name not in chosen}
                                    for wanted in wishes])
        except Exception:  # the model itself may refuse this size
            continue
        if _same(program, other, chosen):
            found.add(chosen)
    return frozenset(found)


def _smaller(leaf: Any, wanted: dict[int, Wish], chosen: frozenset[str]) -> Any:
    """The argument with size 1 where the chosen sizes are; None if its layout does not say what it becomes."""
    if not isinstance(leaf, Tensor) or not any(wish.named.name in chosen for wish in wanted.values()):
        return leaf
    m = leaf._meta
    if not m.contiguous:
        return None
    shape = tuple([1 if d in wanted and wanted[d].named.name in chosen else n for d, n in enumerate(m.shape)])
    made = meta(m.dtype, shape, None, m.device)
    return wrap(memory.untouched(made), made.with_grad(m.requires_grad))


def _same(program: ExportedProgram, other: ExportedProgram, chosen: frozenset[str]) -> bool:
    """Is the program with 1 for these sizes the other one?"""
    facts: Any = program.facts
    values = {atom.number: 1 for atom in facts.atoms if atom.name in chosen}

    def symbol(sym: Sym) -> str:
        return told(sym.facts, sym.terms, values if sym.facts is facts else {})

    def size(x: Any) -> str:
        return symbol(x) if type(x) is Sym else str(x)

    described = [
        (bare(text(p.graph, symbol)), [str(s) for s in p.graph_signature.output_specs],
         [s.alias for s in p.graph_signature.output_specs], p.call_spec.out_spec,
         [(d.op, size(d.offset), d.numbers, [size(x) for x in _flat(d.params)]) for d in p.draws],
         [size(x) for x in p.numbers], size(p.counters)) for p in (program, other)]
    known = _guards(facts, values)
    needed = set() if other.facts is None else _guards(other.facts, {})
    if any(s.views is not None for s in program.graph_signature.output_specs):
        return False
    return described[0] == described[1] and needed <= known


def bare(source: str) -> str:
    """A graph's text without parentheses, which are around symbols and not around numbers."""
    return source.replace("(", "").replace(")", "").replace(",", "")


def _flat(x: Any) -> list:
    return [leaf for item in x for leaf in _flat(item)] if isinstance(x, tuple) else [x]


def _guards(facts: Facts, values: dict[int, int]) -> set[tuple[str, str, bool]]:
    found = set()
    for terms, relation, answer in facts.guards.values():
        found.add((told(facts, terms, values), relation, answer))
    return found
