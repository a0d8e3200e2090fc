"""Open sizes that may be 1 or 0.

A size that stays open is taken to be at least 2 in a capture, because many questions about sizes (does it broadcast?
are the strides row-major?) have another answer for 1 and 0. A program may still hold for them: then a capture with that
size gives the same graph. So this is tried, for sizes whose limits allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture import memory
from rushlight.compiler.capture.sized import Concrete
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym
from rushlight.compiler.graph.text import literal, text
from rushlight.core.meta import meta
from rushlight.core.tensor import Tensor, wrap
from rushlight.export.dynamic_shapes import Wish
from rushlight.export.graph_signature import TensorArgument
from rushlight.export.symbols import told

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram

TRIED = 3  # captures at most, for each number
Chosen = frozenset[tuple[str, int]]  # values of sizes


def proven(program: ExportedProgram, wishes: list[dict[int, Wish]], leaves: list,
           again: Callable[[list, list[dict[int, Wish]]], ExportedProgram]) -> frozenset[Chosen]:
    """The sets of open sizes that may be 1, or 0, at once; `again` exports with other arguments and wishes."""
    facts: Any = program.facts
    least: dict[str, int] = {}
    for wish in [wish for wanted in wishes for wish in wanted.values()]:
        least[wish.named.name] = max(wish.named.low, least.get(wish.named.name, 0))
    groups: dict[int, set[str]] = {}  # sizes that must be equal
    for atom in facts.atoms:
        if atom.parts is None:
            groups.setdefault(facts._same.get(atom.number, atom.number), set()).add(atom.name)
    found: dict[int, list[frozenset[str]]] = {}
    for value in (1, 0):
        free = [names for names in groups.values() if all(least.get(name, 2) <= value for name in names)]
        sets = [frozenset().union(*c) for count in range(1, len(free) + 1) for c in combinations(free, count)]
        tried = [names for names in sets if value or names in found[1]][:TRIED]
        found[value] = [names for names in tried if _holds(program, names, value, wishes, leaves, again)]
    return frozenset([frozenset([(name, value) for name in names]) for value, sets in found.items() for names in sets])


def _holds(program: ExportedProgram, names: frozenset[str], value: int, wishes: list[dict[int, Wish]], leaves: list,
           again: Callable) -> bool:
    smaller = [_smaller(leaf, wanted, names, value) for leaf, wanted in zip(leaves, wishes)]
    if any(x is None and leaf is not None for x, leaf in zip(smaller, leaves)):
        return False
    try:
        other = again(smaller, [{d: wish for d, wish in wanted.items() if wish.named.name not in names}
                                for wanted in wishes])
        return _same(program, other, names, value)
    except Exception:  # the model itself may refuse this size, or an operation of the program
        return False


def _smaller(leaf: Any, wanted: dict[int, Wish], names: frozenset[str], value: int) -> Any:
    """The argument with another value of the chosen sizes; None if its layout does not say what it becomes, or if it
    has no such size.
    """
    if not isinstance(leaf, Tensor) or not any(wish.named.name in names for wish in wanted.values()):
        return leaf
    m = leaf._meta
    sizes = [wanted[d].named.size(value) if d in wanted and wanted[d].named.name in names else n
             for d, n in enumerate(m.shape)]
    if not m.contiguous or min(sizes) < 0:
        return None
    made = meta(m.dtype, tuple(sizes), None, m.device)
    return wrap(memory.untouched(made), made.with_grad(m.requires_grad))


def _same(program: ExportedProgram, other: ExportedProgram, names: frozenset[str], value: int) -> bool:
    """Is the program with this value of these sizes the other one?"""
    facts: Any = program.facts
    values = {atom.number: value for atom in facts.atoms if atom.name in names}
    everywhere = {atom.number: values.get(atom.number, atom.hint) for atom in facts.atoms if atom.parts is None}
    if Concrete(facts, everywhere).graph(program.graph) is None:
        return False

    def symbol(sym: Sym) -> str:
        return told(sym.facts, sym.terms, values if sym.facts is facts else {})

    def size(x: Any) -> str:
        return literal(x, symbol) if type(x) in SYMBOLS else str(x)

    described = [
        (bare(text(p.graph, symbol)), [str(s) for s in p.graph_signature.output_specs],
         [s.alias for s in p.graph_signature.output_specs], p.call_spec.out_spec,
         [size(s.arg.value) for s in p.graph_signature.output_specs if not isinstance(s.arg, TensorArgument)],
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
