"""Which sizes and numbers of the inputs stay open, and what they are to the capture.

A first capture fixes all sizes. Where the next one finds another size at the same place, the size stays open: in the
metadata of the tracer it is a symbol (`rushlight.compiler.graph.symbolic`), so that the graph holds for all sizes for
which the comparisons that were made come out the same. Sizes 0 and 1 are always plain numbers, and open ones are at
least 2: that is what most comparisons ask. So are the sizes of parameters.

A place is named by the path of the tensor, as in `explain`, and its dimension: `("args[0]", 1)`. To capture with
sizes that have names and limits, as an exporter does:

    policy = Policy(named={"args[0]": {0: Named("batch", 1, 64)}, "args[1]": {0: Named("batch", 1, 64)}})
    entry = capture(fn, args, kwargs, backend, options, fallback, policy)
    entry.sizes.facts.guard_texts()   # comparisons that a call must agree with: ["batch <= 32"]
    entry.sizes.fixed                 # {("args[0]", 0): "its number is needed (line 3 of f in model.py)"}
    entry.sizes.places                # {("args[0]", 0): the Sym} of the sizes and numbers that stayed open
    entry.graph                       # shapes, strides, params and operands hold `Sym` objects; str(sym) is its text

Sizes of one name are one symbol. A named size is taken to be at least 2 whatever its `low` says, since the program was
captured for no smaller one. `replaced(params, sym -> value)` puts values into a nested tuple,
`facts.evaluate(sym.terms, {atom.number: value})` computes one, and `facts.holds(values)` tells whether a graph is the
right one for some values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rushlight.compiler.capture.derived import came_from, derived, place, source_of
from rushlight.compiler.capture.source import Source, path
from rushlight.compiler.capture.symbolic import opened
from rushlight.compiler.capture.value import Obj
from rushlight.compiler.graph.facts import Atom, Facts, Fixed
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym
from rushlight.core.meta import Meta, contiguous_strides, meta, strides_in_order
from rushlight.core.tensor import Tensor

Place = tuple[str, int | None]  # the path of a tensor and a dimension, or of a number and None

# What `mark_dynamic` and its like set on a tensor, as in PyTorch.
DYNAMIC, MAYBE, STATIC = "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_static_indices"
RANGE = "_dynamo_dynamic_range"


class ConstraintViolationError(RuntimeError):
    """A size that was marked as dynamic is a plain number to the program."""


class Named(NamedTuple):
    """A size with a name, and limits of its value; or `factor` times it plus `constant`."""

    name: str
    low: int = 0
    high: float = math.inf
    factor: int = 1
    constant: int = 0

    def root(self, size: int) -> int:
        """The value of the named size where this one is `size`."""
        return (size - self.constant) // self.factor

    def size(self, root: int) -> int:
        """The other way."""
        return self.factor * root + self.constant


class Policy:
    """What stays open in the captures of one function: learnt from call to call, or said by the user.

    `dynamic` True keeps all sizes open from the start, False none, None those that were seen to change.
    With `fractions` operands in the graph may be floats that are computed from sizes (`SymFloat`).
    """

    def __init__(self, dynamic: bool | None = None,
                 named: Mapping[str, Mapping[int, Named]] | None = None, fractions: bool = False) -> None:
        self.dynamic, self.named, self.fractions = dynamic, named or {}, fractions
        self.seen: dict[str, Any] = {}  # metadata of tensors and values of numbers, by path
        self.changing: set[Place] = set()

    def copy(self) -> Policy:
        """Another policy that has learnt the same."""
        made = Policy(self.dynamic, self.named, self.fractions)
        made.seen, made.changing = dict(self.seen), set(self.changing)
        return made

    def dims(self, where: str, real: Tensor) -> set[int]:
        """The dimensions of an input that are to stay open."""
        m = real._meta
        if where in self.named:
            return set(self.named[where])
        marks = getattr(real, "__dict__", {})
        wanted = set(marks.get(DYNAMIC, ())) | set(marks.get(MAYBE, ()))
        if self.dynamic is not False and not type(real).__module__.startswith("rushlight.nn"):
            before = self.seen.get(where)
            if self.dynamic:
                wanted.update(range(m.ndim))
            elif isinstance(before, Meta) and before.ndim == m.ndim:
                wanted.update([d for d in range(m.ndim) if before.shape[d] != m.shape[d]])
            wanted.update([d for d in range(m.ndim) if (where, d) in self.changing])
        return wanted - set(marks.get(STATIC, ()))

    def changes(self, where: str, source: Source, number: int | float) -> bool:
        """Is a number to stay open?"""
        if self.dynamic is False:
            return False
        if (where, None) in self.changing:
            return True
        before = self.seen.get(where)
        if type(before) is type(number) and before != number:
            return True
        return bool(self.dynamic) and source.step in ("arg", "kwarg") and type(number) is int and number not in (0, 1)

    def learn(self, sizes: Sizes) -> None:
        """Remember what a capture saw, and what it kept open."""
        self.changing.update(sizes.places)
        self.seen.update(sizes.seen)


class Sizes:
    """The open sizes and numbers of one capture."""

    def __init__(self, policy: Policy, fixed: Mapping[Place, str]) -> None:
        self.policy = policy
        self.fixed = dict(fixed)  # places of which the number is needed, and why
        self.facts = Facts()
        self.facts.fractions = policy.fractions
        self.places: dict[Place, Any] = {}
        self.inputs: dict[Source, Meta] = {}  # metadata with symbols
        self.seen: dict[str, Any] = {}
        self.marked: set[Place] = set()  # places that the user wants open
        self._named: dict[str, Sym] = {}
        self._numbers: dict[Source, Sym] = {}

    def metadata(self, real: Tensor, source: Source) -> Meta:
        """The metadata of the tracer of an input; checks the input in the guards."""
        m, where = real._meta, path(source)
        self._see(where, m)
        dims = [d for d in sorted(self.policy.dims(where, real))
                if d < m.ndim and m.shape[d] >= 2 and (where, d) not in self.fixed]
        names = self.policy.named.get(where, {})
        dims = [d for d in dims if d not in names or names[d].root(m.shape[d]) >= 2]
        self.marked.update([(where, d) for d in getattr(real, "__dict__", {}).get(DYNAMIC, ())])
        if not dims:
            source.check("tensor", type(real), m)
            return m
        source.check("type", type(real))
        source.wanted = True
        shape: list[Any] = list(m.shape)
        limits = getattr(real, "__dict__", {}).get(RANGE, {})
        for d in dims:
            shape[d] = self.places[where, d] = self._size(names.get(d), shape[d], came_from(source, d),
                                                          *limits.get(d, (2, math.inf)))
        made = meta(m.dtype, tuple(shape), _symbolic_strides(m, tuple(shape)), m.device, m.requires_grad)
        self.inputs[source] = made
        return made

    def _size(self, wish: Named | None, hint: int, origin: Any, low: float, high: float) -> Sym:
        if wish is None:
            return self.facts.atom(f"s{len(self.facts.atoms)}", hint, origin, max(low, 2), high)
        found, root = self._named.get(wish.name), wish.root(hint)
        if found is None or found.hint != root:
            found = self.facts.atom(wish.name, root, origin, max(wish.low, 2), wish.high)
            self._named.setdefault(wish.name, found)
        return found * wish.factor + wish.constant

    def _see(self, where: str, what: Any) -> None:
        """Note what is at a path, but not where several things have the same."""
        self.seen[where] = what if self.seen.get(where, what) == what else None

    def number(self, number: int | float, source: Source) -> Obj | None:
        """A number that stays open, None where that is not wanted."""
        where = path(source)
        self._see(where, number)
        if (where, None) in self.fixed or not self.policy.changes(where, source, number):
            return None
        if type(number) is float:
            self.places[where, None] = source
            return opened(number, source)
        source.check_type()
        source.wanted = True
        sym = self._numbers.get(source)
        if sym is None:
            sym = self._numbers[source] = self.facts.atom(f"n{len(self.facts.atoms)}", number, came_from(source, None))
            self.places[where, None] = sym
        return Obj(number, derived(sym))  # type: ignore[arg-type]

    def conditions(self, name: Callable[[Source], str]) -> Iterator[tuple[str, str]]:
        """What must hold of the open sizes and numbers, as Python source over the inputs and for readers."""
        facts = self.facts
        for source, m in self.inputs.items():
            given = f"{name(source)}._meta"
            yield f"len({given}.shape) == {m.ndim}", f"{path(source)}: has not {m.ndim} dimensions"
            for d, size in enumerate(m.shape):
                if not isinstance(size, Sym):
                    yield f"{given}.shape[{d}] == {size}", f"{path(source)}.shape[{d}] is not {size}"
        for atom in facts.atoms:
            if atom.parts is None and atom.least > -math.inf:
                where = f"{path(source_of(atom))}.shape[{atom.origin[1]}]"
                yield f"{place(atom, name)} >= {atom.least}", f"{where} is not at least {atom.least}"
            if atom.parts is None and atom.most < math.inf:
                yield f"{place(atom, name)} <= {atom.most}", f"{path(source_of(atom))}: more than {atom.most}"
        for guard in facts.guards.values():
            yield facts.guard_text(guard, lambda atom: place(atom, name)), f"not {facts.guard_text(guard)}"
        if self.inputs:
            yield "False", f"{' or '.join(map(path, self.inputs))} differs in dtype, device, layout or requires_grad"

    def check_marks(self) -> None:
        """Raise for sizes that were marked as dynamic and of which the program needs the number."""
        for spot in sorted(self.marked & self.fixed.keys()):
            raise ConstraintViolationError(
                f"mark_dynamic: dimension {spot[1]} of {spot[0]} cannot stay open, because {self.fixed[spot]}; "
                "leave the mark away or use maybe_mark_dynamic, or change the program so that it does not ask")

    def fix_all(self, values: Any, why: str) -> None:
        """Capture again with plain numbers where there are symbols in some arguments, of which a function made nothing.
        """
        found = [terms for x in _symbols(values) for terms in (x.terms,)]
        if found:
            raise Fixed(frozenset().union(*map(self.facts.roots, found)), why)

    def places_of(self, atoms: Iterable[Atom]) -> list[Place]:
        """The places of atoms."""
        return [(path(source_of(atom)), atom.origin[1]) for atom in atoms]


def _symbols(x: Any) -> Iterator[Any]:
    """The symbols in arguments: nested containers, slices and tracers."""
    if type(x) in SYMBOLS:
        yield x
    elif isinstance(x, dict):
        yield from _symbols((*x.values(),))
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from _symbols(item)
    elif type(x) is slice:
        yield from _symbols((x.start, x.stop, x.step))
    elif isinstance(x, Tensor):
        yield from _symbols(x._meta.shape + x._meta.strides)


def _symbolic_strides(m: Meta, shape: tuple) -> tuple:
    """The strides of an input, said by its sizes where they follow from these: without gaps, in any order."""
    if m.strides == contiguous_strides(m.shape):
        return contiguous_strides(shape)
    order = tuple(sorted(range(m.ndim), key=lambda d: (-m.strides[d], d)))
    if m.strides == strides_in_order(m.shape, order):
        return strides_in_order(shape, order)
    known: dict[int, Any] = {1: 1}  # a stretch without gaps may lie within larger strides
    made = list(m.strides)
    for d in reversed(order):
        made[d] = known.get(m.strides[d], m.strides[d])
        if m.strides[d]:
            known.setdefault(m.shape[d] * m.strides[d], shape[d] * made[d])
    return tuple(made)
