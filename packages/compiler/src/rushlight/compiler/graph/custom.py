"""Operators of `rushlight.library` in graphs: `v1 = mine.twice(v0, arguments=...)`.

What such an operator computes is Python code that a graph cannot say, so it is called by its name, which has to be
registered where the program runs. Its results are inferred by its shape function (`register_fake`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from rushlight.compiler.graph.keeper import keeper
from rushlight.core import dispatch
from rushlight.core.devices import cpu, device
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor, wrap

_META = device("meta")
_ops: dict[Any, CustomOp] = {}


@dataclass(frozen=True, eq=False, repr=False)
class CustomOp(Op):
    """An operator with tensors as operands; its only param says where they stand among the arguments: see `packed`."""

    definition: Any = None

    def apply(self, operands: tuple, params: tuple = ()) -> Any:
        """Call the operator."""
        keep = keeper()
        if keep is not None:
            return keep(self, operands, params)
        args, kwargs = unpacked(params[0], operands)
        return self.definition(*args, **kwargs)

    execute = apply

    def __reduce__(self) -> Any:
        return named, (self.name,)


def is_operator(x: Any) -> bool:
    """Is it an operator of `rushlight.library`?"""
    return (type(x).__module__, type(x).__name__) == ("rushlight.library", "CustomOpDef")


def custom_op(definition: Any) -> CustomOp:
    """The op of a `CustomOpDef`."""
    found = _ops.get(definition)
    if found is None:
        def infer(*given: Any) -> Any:
            return _infer(definition, given[:-1], given[-1])

        found = _ops[definition] = CustomOp(definition._name, "structured", ("tensors",), ("arguments",), infer,
                                            doc="An operator of rushlight.library.", variadic=True,
                                            definition=definition)
    return found


def named(name: str) -> CustomOp | None:
    """The op of a name such as `mine.twice`, None where nobody registered one."""
    library = sys.modules.get("rushlight.library")
    definition = None if library is None else library._DEFINED.get(name.replace(".", "::"))
    return None if definition is None else custom_op(definition)


def _infer(definition: Any, metas: tuple, arguments: tuple) -> Any:
    if "meta" not in definition._kernels:
        raise NotImplementedError(f"{definition._qualname} has no shape function, which programs need: register_fake")
    if definition._mutated:
        raise NotImplementedError(f"{definition._qualname} writes to its arguments, which a graph cannot say")
    tensors = [wrap(None, meta(m.dtype, m.shape, m.strides, _META)) for m in metas]
    args, kwargs = unpacked(arguments, tensors)
    with dispatch.push(None):  # below all handlers: no capture records it
        found = definition._kernels["meta"](*args, **kwargs)
    made = found if isinstance(found, (tuple, list)) else (found,)
    if not all(isinstance(x, Tensor) for x in made) or not made:
        raise NotImplementedError(f"{definition._qualname} gives something else than tensors, which a graph cannot say")
    results = [meta(x._meta.dtype, x._meta.shape, x._meta.strides, metas[0].device if metas else cpu) for x in made]
    return results[0] if isinstance(found, Tensor) else tuple(results)


def records(op: CustomOp, metas: list[Meta]) -> bool:
    """Would a call have a gradient?"""
    return any(m.requires_grad for m in metas) and (op.definition._apart or op.definition._backward is not None)


# arguments as nested tuples: `("tensor", place)`, `("value", x)`, `("list", ...)`, `("tuple", ...)`


def packed(args: tuple, kwargs: dict, tensors: list) -> tuple:
    """Arguments without their tensors, which are added to a list."""

    def pack(x: Any) -> tuple:
        if isinstance(x, Tensor):
            tensors.append(x)
            return "tensor", len(tensors) - 1
        if type(x) in (list, tuple):
            return (type(x).__name__, *map(pack, x))
        return "value", x

    return tuple(map(pack, args)), tuple([(key, pack(x)) for key, x in kwargs.items()])


def unpacked(arguments: tuple, tensors: Any) -> tuple[list, dict]:
    """The arguments with tensors in their places."""

    def unpack(x: tuple) -> Any:
        kind, *rest = x
        if kind in ("list", "tuple"):
            items = list(map(unpack, rest))
            return items if kind == "list" else tuple(items)
        return tensors[rest[0]] if kind == "tensor" else rest[0]

    args, kwargs = arguments
    return list(map(unpack, args)), {key: unpack(x) for key, x in kwargs}
