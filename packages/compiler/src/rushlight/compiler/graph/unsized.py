"""Operations whose results have a shape that depends on data, in programs for one such shape.

    v1 = sized(v0, op="nonzero", params=(), results=((int64, (5, 2), (2, 1)),), place=0)

The call runs the operation, and looks at its results before anybody else does: others than it was captured with end
the program, which has changed nothing by then.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.devices import cpu
from rushlight.core.dtypes import dtype
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op, lookup

Form = tuple[dtype, tuple[int, ...], tuple[int, ...]]  # of a result: dtype, shape, strides


class OtherSize(Exception):
    """A result has other sizes than the program is for: what `sizes` are, and the `place` of the decision for them."""

    def __init__(self, sizes: tuple, place: int) -> None:
        super().__init__(f"a result of other sizes: {sizes}")
        self.sizes, self.place = sizes, place


def _infer(*rest: Any) -> Meta | tuple[Meta, ...]:
    *metas, op, params, results, place = rest
    if lookup(op).infer(*metas, *params) is not None:
        raise RuntimeError(f"sized: the shape of {op} does not depend on data")
    made = tuple([meta(kind, shape, strides, cpu) for kind, shape, strides in results])
    return made[0] if len(made) == 1 else made


def _sized(*rest: Any) -> Any:
    *arrays, op, params, results, place = rest
    found = lookup(op).kernels["cpu"](*arrays, *params)
    several = found if isinstance(found, tuple) else (found,)
    shapes = tuple([array.shape for array in several])
    if shapes != tuple([shape for _, shape, _ in results]):
        raise OtherSize(shapes, place)
    return found


SIZED = Op("sized", "structured", ("operands",), ("op", "params", "results", "place"), _infer, variadic=True,
           doc="What another op gives, if that has the shapes that it had.", kernels={"cpu": _sized})
