"""Polynomials with integer coefficients over numbered variables: what sizes that are not known yet are made of."""

from __future__ import annotations

Monomial = tuple[int, ...]  # the numbers of the variables whose product it is, ascending; () is 1
Terms = dict[Monomial, int]  # coefficients, none of them 0


def added(a: Terms, b: Terms, factor: int = 1) -> Terms:
    """`a + factor * b`."""
    made = dict(a)
    for monomial, c in b.items():
        total = made.get(monomial, 0) + factor * c
        if total:
            made[monomial] = total
        else:
            del made[monomial]
    return made


def multiplied(a: Terms, b: Terms) -> Terms:
    """`a * b`."""
    made: Terms = {}
    for x, c in a.items():
        for y, d in b.items():
            monomial = tuple(sorted(x + y))
            made[monomial] = made.get(monomial, 0) + c * d
    return {m: c for m, c in made.items() if c}


def divided(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """Polynomials with `a = quotient * b + rest`: all terms of `a` that one divides, or all of `a`, or none."""
    if len(b) == 1:
        ((divisor, factor),) = b.items()
        quotient: Terms = {}
        rest: Terms = {}
        for monomial, c in a.items():
            left = _without(monomial, divisor)
            if left is None or c % factor:
                rest[monomial] = c
            else:
                quotient[left] = c // factor
        return quotient, rest
    quotient, rest = {}, dict(a)
    lead = max(b, key=lambda m: (len(m), m))
    while rest:
        monomial = max(rest, key=lambda m: (len(m), m))
        left = _without(monomial, lead)
        if left is None or rest[monomial] % b[lead]:
            return {}, a
        step = {left: rest[monomial] // b[lead]}
        quotient, rest = added(quotient, step), added(rest, multiplied(step, b), -1)
    return quotient, {}


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)
