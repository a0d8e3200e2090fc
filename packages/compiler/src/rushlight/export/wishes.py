"""Which sizes a capture keeps open for an export, and whether it kept those that the user wants."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.capture.sizes import ConstraintViolationError, Policy, Sizes
from rushlight.core.tensor import Tensor
from rushlight.export.dynamic_shapes import Wish


class Wishes(Policy):
    """Keeps the sizes open that the user wants open; knows tensors by identity."""

    def __init__(self, given: list, wishes: list[dict[int, Wish]]) -> None:
        super().__init__(False, fractions=True)
        self.named = {}
        self.by_tensor = {id(x): {dim: wish.named for dim, wish in wanted.items()} for x, wanted in zip(given, wishes)
                          if wanted}
        self.where: dict[int, str] = {}

    def dims(self, where: str, real: Tensor) -> set[int]:
        """The dimensions of an input that are to stay open."""
        wanted = self.by_tensor.get(id(real), {})
        if wanted:
            self.named[where] = wanted  # type: ignore[index]
            self.where[id(real)] = where
        return set(wanted)


def check_wishes(policy: Wishes, given: list, wishes: list[dict[int, Wish]], fixed: dict[Any, str],
                  sizes: Sizes) -> None:
    """Raise where the program does not hold for all sizes that the user wants."""
    violated: dict[str, str] = {}
    wanted: dict[str, Wish] = {}
    for x, dims in zip(given, wishes):
        for dim, wish in dims.items():
            name, size = wish.named.name, x._meta.shape[dim]
            where = policy.where.get(id(x), "")
            if not wish.strict:
                continue
            if (where, dim) in sizes.places:
                if wish.whole:
                    wanted[name] = wish
            elif (where, dim) in fixed or size < 2:
                why = fixed.get((where, dim), "examples with the sizes 0 and 1 stand for these sizes alone")
                violated[name] = (f"You marked {name} as dynamic but your code specialized it to be a constant ({size})"
                                  f": {why}. Use Dim.STATIC or Dim.AUTO, or an example with a larger size")
    facts = sizes.facts
    for atom in facts.atoms:
        wish = wanted.get(atom.name)  # type: ignore[assignment]
        if wish is None:
            continue
        low, high = max(wish.named.low, 2), wish.named.high
        if atom.low > low or atom.high < high:
            limits = [f"min={atom.low}"] if atom.low > 2 else []
            limits += [f"max={atom.high}"] if atom.high < float("inf") else []
            violated[atom.name] = (f"Not all values of {atom.name} in the specified range satisfy the generated guard "
                                   f"{_range_text(atom)}. Suggested fix: {atom.name} = Dim({atom.name!r}, "
                                   f"{', '.join(limits)})")
    for guard in facts.guards.values():
        names = [atom.name for atom in facts.roots(guard[0])]
        if any(name in wanted for name in names) and (len(names) > 1 or guard[1] == "=="):
            violated.setdefault(", ".join(names), f"The values must satisfy {facts.guard_text(guard)}; use the same "
                                                  "Dim for equal sizes, or Dim.AUTO")
    if violated:
        raise ConstraintViolationError(f"Constraints violated ({', '.join(violated)})!" +
                                       "".join(f"\n  - {text}" for text in violated.values()))


def _range_text(atom: Any) -> str:
    upper = f" <= {atom.high}" if atom.high < float("inf") else ""
    return f"{atom.low} <= {atom.name}{upper}"
