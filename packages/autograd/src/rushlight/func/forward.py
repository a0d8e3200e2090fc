"""`jvp` of functions: a level of dual numbers (see `rushlight.autograd.duals`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.duals import dual, new_level
from rushlight.autograd.memory import zeros_for
from rushlight.func.arguments import check_direction, check_tensors
from rushlight.func.tree import Build, flatten


def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """`func(*primals)`, and the product of its Jacobian with `tangents`.

    Forward mode: `func` runs once, on dual numbers. Raises RuntimeError when primals and tangents do not match, and
    with `strict` when an output does not depend on the primals; ValueError for integers.

    Example:
        >>> import rushlight
        >>> rushlight.func.jvp(lambda x: x * x, (rushlight.tensor([1.0, 2.0]),), (rushlight.ones(2),))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents must be tuples")
    values, build = flatten(primals)
    directions = flatten(tangents)[0]
    if len(directions) != len(values):
        raise RuntimeError(f"jvp: expected {len(values)} tangents, one per primal, got {len(directions)}")
    for i, (x, t) in enumerate(zip(values, directions)):
        check_direction("jvp", i, x, t)
    outputs, found, build_output, aux = pushed("jvp", lambda *v: func(*build(list(v))), values, directions, has_aux)
    if strict and any(t is None for t in found):
        raise RuntimeError(
            "jvp: an output of the function is independent of the primals, which strict=True does not allow; "
            "leave strict away to get zeros for it"
        )
    shown = (
        build_output(outputs),
        build_output([zeros_for(y._meta) if t is None else t for y, t in zip(outputs, found)]),
    )
    return (*shown, aux) if has_aux else shown


def pushed(name: str, func: Callable, values: list, directions: list, has_aux: bool) -> tuple[list, list, Build, Any]:
    """The results of a function in one list, the tangent of each, how to build its structure, and what it adds with
    `has_aux`. `directions` has a tangent for each value.
    """
    with new_level() as level:
        output = func(*[dual(level, x, t) for x, t in zip(values, directions)])
        output, aux = output if has_aux else (output, None)
        outputs, build = flatten(output)
        check_tensors(name, outputs)
        return outputs, [level.get(y) for y in outputs], build, aux
