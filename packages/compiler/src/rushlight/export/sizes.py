"""The values of open sizes in a call of an exported program."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.sized import Concrete
from rushlight.compiler.graph.symbolic import Sym
from rushlight.core.tensor import Tensor
from rushlight.export.graph_signature import InputSpec

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram


class Place(NamedTuple):
    """A dimension of an input whose size is `factor` times an atom plus `constant`."""

    input: int
    dim: int
    factor: int = 1
    constant: int = 0


class Sizes:
    """Where the open sizes are found among the inputs of a graph, and what they have to be."""

    def __init__(self, program: ExportedProgram, inputs: list[InputSpec]) -> None:
        self.facts: Any = program.facts
        self.small = program.small
        self.places: dict[int, list[Place]] = {}  # of each atom, those that it is itself first
        self.names = [s.arg.name for s in inputs]
        if self.facts is None:
            return
        for i, value in enumerate(program.graph.inputs):
            for d, size in enumerate(value.meta.shape):
                found = _affine(size) if type(size) is Sym and inputs[i].arg is not None else None
                if found is not None:
                    self.places.setdefault(found[0], []).append(Place(i, d, *found[1:]))
        for places in self.places.values():
            places.sort(key=lambda place: (place.factor != 1, place.constant != 0))

    def of(self, tensors: list[Tensor]) -> tuple[int, ...]:
        """The sizes in a call. AssertionError for those that the program does not hold for."""
        if self.facts is None:
            return ()
        values: dict[int, int] = {}
        for number, places in self.places.items():
            first, *others = [place for place in places if place.input < len(tensors)]
            size = tensors[first.input]._meta.shape[first.dim]  # in a capture around this one it may be a symbol, too
            values[number], rest = divmod(size - first.constant, first.factor)
            if rest:
                name = self._name(first)
                raise AssertionError(f"Guard failed: ({name} - {first.constant}) % {first.factor} == 0: {name} "
                                     f"is {size}")
            for place in others:
                found = tensors[place.input]._meta.shape[place.dim]
                expected = place.factor * values[number] + place.constant
                if found != expected:
                    raise AssertionError(f"Guard failed: {self._text(place, first)} == {self._name(place)}: they are "
                                         f"{expected} and {found}")
        self._check(values)
        return tuple(values.values())

    def _check(self, values: dict[int, int]) -> None:
        small = frozenset([(self.facts.atoms[n].name, value) for n, value in values.items() if value in (0, 1)])
        for number, value in values.items():
            atom, name = self.facts.atoms[number], self._value(self.places[number][0])
            if atom.least > -math.inf and value < int(atom.least) and not (value in (0, 1) and small in self.small):
                raise AssertionError(f"Guard failed: {name} >= {int(atom.least)}: it is {value}")
            if atom.most < math.inf and value > int(atom.most):
                raise AssertionError(f"Guard failed: {name} <= {int(atom.most)}: it is {value}")
        for guard in self.facts.guards.values():
            if not self.facts.agrees(guard, values):
                text = self.facts.guard_text(guard, lambda atom: self._value(self.places[atom.number][0]))
                raise AssertionError(f"Guard failed: {text}")

    def _name(self, place: Place) -> str:
        return f"{self.names[place.input]}.size()[{place.dim}]"

    def _value(self, place: Place) -> str:
        """What an atom is, said by a size."""
        name = self._name(place)
        name = name if not place.constant else f"({name} - {place.constant})"
        return name if place.factor == 1 else f"{name} // {place.factor}"

    def _text(self, place: Place, first: Place) -> str:
        """What the size at a place has to be, said by another one."""
        value = self._value(first)
        product = value if place.factor == 1 else f"{place.factor} * ({value})" if " " in value else \
            f"{place.factor} * {value}"
        return product if not place.constant else f"{product} + {place.constant}"

    def concrete(self, sizes: tuple[int, ...]) -> Concrete:
        """What puts these sizes in the place of symbols."""
        return Concrete(self.facts, dict(zip(self.places, sizes)))

    def text(self, sizes: tuple[int, ...]) -> str:
        """The sizes, for messages."""
        return ", ".join(f"{self._value(self.places[n][0])} = {size}" for n, size in zip(self.places, sizes))


def _affine(size: Sym) -> tuple[int, int, int] | None:
    """Atom, factor and constant of a size that grows with one atom."""
    rest = [(monomial, factor) for monomial, factor in size.terms.items() if monomial]
    if len(rest) != 1 or len(rest[0][0]) != 1 or rest[0][1] < 1:
        return None
    return rest[0][0][0], rest[0][1], size.terms.get((), 0)
