"""In-place calls with another operand in the memory that is overwritten: gradients are those of the values before."""

from __future__ import annotations

import pytest

import rushlight

PROGRAMS = {
    "mul by itself": (lambda y: y.mul_(y), lambda y: y * y),
    "div by itself": (lambda y: y.div_(y), lambda y: y / y),
    "mul by a view": (lambda y: y.mul_(y[0]), lambda y: y * y[0]),
    "view by itself": (lambda y: y[:1].mul_(y[:1]), lambda y: rushlight.cat((y[:1] * y[:1], y[1:]))),
    "view by another": (lambda y: y[:1].mul_(y[1:2]), lambda y: rushlight.cat((y[:1] * y[1:2], y[1:]))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_those_of_the_values_before(name):
    write, pure = PROGRAMS[name]
    found = []
    for program in (write, pure):
        x = rushlight.tensor([3.0, 4.0], requires_grad=True)
        y = x * 2
        result = program(y)
        (y if program is write else result).sum().backward()
        found.append(x.grad.tolist())
    assert found[0] == pytest.approx(found[1])
