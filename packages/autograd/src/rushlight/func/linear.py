"""`linearize`: a function run once, and its derivative there as a linear function that is kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.duals import Direction, Level, Rule, dual, new_level
from rushlight.autograd.memory import zeros_for
from rushlight.core.tensor import Tensor
from rushlight.func.arguments import check_direction, check_smooth, check_tensors
from rushlight.func.tree import flatten

Step = tuple[Rule, list[int | None], list[int | None]]  # a rule, and the places of what it takes and gives


class _Program(Level):
    """A level of forward mode that keeps the rules it applies, in order: together they are the derivative."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._places: dict[int, int] = {}
        self._tangents: list[Tensor] = []  # they stay alive, so that no two have one id

    def apply(self, rule: Rule, tangents: Direction) -> Direction:
        found = rule(tangents)
        self.steps.append((rule, [self.place(t) for t in tangents], [self.place(t) for t in found]))
        return found

    def place(self, tangent: Tensor | None) -> int | None:
        """The number of a tangent."""
        if tangent is None:
            return None
        if id(tangent) not in self._places:
            self._places[id(tangent)] = len(self._tangents)
            self._tangents.append(tangent)
        return self._places[id(tangent)]

    def finished(self, results: list[int | None]) -> list[Step]:
        """The steps that the results need."""
        needed, kept = set(results), []
        for step in reversed(self.steps):
            _, taken, given = step
            if any(place is not None and place in needed for place in given):
                needed.update(taken)
                kept.append(step)
        self._tangents, self._places = [], {}
        return kept[::-1]


def linearize(func: Callable, *primals: Any) -> tuple:
    """`func(*primals)`, and the function that multiplies its Jacobian there with a vector.

    `func` runs once. What it means for tangents is kept as a list of linear functions, which hold the values that they
    need; a product runs these, and nothing of `func` again.

    Example:
        >>> import rushlight
        >>> value, push = rushlight.func.linearize(lambda x: x * x, rushlight.tensor([1.0, 2.0]))
        >>> push(rushlight.ones(2))
        tensor([2., 4.])
    """
    values, build = flatten(primals)
    for i, x in enumerate(values):
        check_smooth("linearize", "primal", i, x)
    with new_level(_Program) as program:
        directions: list = [zeros_for(x._meta) for x in values]
        inputs = [program.place(t) for t in directions]
        outputs, build_output = flatten(func(*build([dual(program, x, t) for x, t in zip(values, directions)])))
        check_tensors("linearize", outputs)
        results = [program.place(program.get(y)) for y in outputs]
    steps = program.finished(results)

    def push(*tangents: Any) -> Any:
        given = flatten(tangents)[0]
        if len(given) != len(values):
            raise RuntimeError(f"linearize: expected {len(values)} tangents, one per primal, got {len(given)}")
        for i, (x, t) in enumerate(zip(values, given)):
            check_direction("linearize", i, x, t)
        known: dict[int | None, Tensor | None] = {None: None, **dict(zip(inputs, given))}
        for rule, taken, places in steps:
            known.update(zip(places, rule([known[place] for place in taken])))
            known[None] = None
        found = [known[place] for place in results]
        return build_output([zeros_for(y._meta) if t is None else t for y, t in zip(outputs, found)])

    return build_output(outputs), push
