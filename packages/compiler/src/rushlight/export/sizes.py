"""The values of open sizes in a call of an exported program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.sized import Concrete
from rushlight.compiler.graph.symbolic import Sym
from rushlight.core.tensor import Tensor
from rushlight.export.graph_signature import InputSpec

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram


class Sizes:
    """Where the open sizes are found among the inputs of a graph, and what they have to be."""

    def __init__(self, program: ExportedProgram, inputs: list[InputSpec]) -> None:
        self.facts: Any = program.facts
        self.ones = program.ones
        self.places: dict[int, list[tuple[int, int]]] = {}  # of each atom: inputs and dimensions
        self.names = [s.arg.name for s in inputs]
        if self.facts is None:
            return
        for i, value in enumerate(program.graph.inputs):
            for d, size in enumerate(value.meta.shape):
                if type(size) is Sym and len(size.terms) == 1:
                    (monomial, factor), = size.terms.items()
                    if len(monomial) == 1 and factor == 1 and inputs[i].arg is not None:
                        self.places.setdefault(monomial[0], []).append((i, d))

    def of(self, tensors: list[Tensor]) -> tuple[int, ...]:
        """The sizes in a call. AssertionError for those that the program does not hold for."""
        if self.facts is None:
            return ()
        values: dict[int, int] = {}
        for number, places in self.places.items():
            first, *others = [(i, d) for i, d in places if i < len(tensors)]
            # in a capture around this one a size may be a symbol, too: this asks for its number
            values[number] = tensors[first[0]]._meta.shape[first[1]].__index__()
            for i, d in others:
                if tensors[i]._meta.shape[d] != values[number]:
                    raise AssertionError(f"Guard failed: {self._name(first)} == {self._name((i, d))}: they are "
                                         f"{values[number]} and {tensors[i]._meta.shape[d]}")
        self._check(values)
        return tuple(values.values())

    def _check(self, values: dict[int, int]) -> None:
        ones = frozenset([self.facts.atoms[n].name for n, value in values.items() if value == 1])
        for number, value in values.items():
            atom, name = self.facts.atoms[number], self._name(self.places[number][0])
            if value < atom.least and not (value == 1 and ones in self.ones):
                raise AssertionError(f"Guard failed: {name} >= {int(atom.least)}: it is {value}")
            if value > atom.most:
                raise AssertionError(f"Guard failed: {name} <= {int(atom.most)}: it is {value}")
        for guard in self.facts.guards.values():
            if not self.facts.agrees(guard, values):
                text = self.facts.guard_text(guard, lambda atom: self._name(self.places[atom.number][0]))
                raise AssertionError(f"Guard failed: {text}")

    def _name(self, place: tuple[int, int]) -> str:
        return f"{self.names[place[0]]}.size()[{place[1]}]"

    def concrete(self, sizes: tuple[int, ...]) -> Concrete:
        """What puts these sizes in the place of symbols."""
        return Concrete(self.facts, dict(zip(self.places, sizes)))

    def text(self, sizes: tuple[int, ...]) -> str:
        """The sizes, for messages."""
        return ", ".join(f"{self._name(self.places[n][0])} = {size}" for n, size in zip(self.places, sizes))
