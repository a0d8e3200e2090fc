"""`_foreach_add` and its kin: an operation on each tensor of a list, as optimizers call them.

Each is the method of its name, called for the tensors in turn; a list among the other arguments gives one value to each
tensor, anything else stands for all. So they have no gradients and no lowerings of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.errors import shape_text
from rushlight.core.front import export
from rushlight.core.tensor import Tensor
from rushlight.ops.linalg_norm import vector_norm

_NAMED_OTHERWISE = {"scalar": "other", "scalars": "other", "tensors1": "end", "weights": "weight"}
_PLAIN = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc zero"
)
# Operation -> the names of its arguments behind the list of tensors.
_OTHERS = {
    **dict.fromkeys(_PLAIN.split(), ()),
    **dict.fromkeys(("add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"), ("other",)),
    "pow": ("exponent",),
    "lerp": ("end", "weight"),
    "addcmul": ("tensor1", "tensor2", "value"),
    "addcdiv": ("tensor1", "tensor2", "value"),
    "mm": ("mat2",),
    "copy": ("src", "non_blocking"),
}
_LISTS = ("end", "tensor1", "tensor2", "mat2", "src")  # which are lists of tensors, never one value for all
_DEFAULTS = {"value": 1, "non_blocking": False}
_ONLY_NEW, _ONLY_IN_PLACE = ("mm",), ("zero", "copy")
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # which take numbers, too


def _tensors(name: str, argument: str, given: Any) -> list[Tensor]:
    if not isinstance(given, (list, tuple)):
        raise TypeError(f"{name}: {argument} must be a list of Tensors, got {type(given).__name__}")
    if not given:
        raise RuntimeError(f"{name}: {argument}: Tensor list must have at least one tensor.")
    for i, x in enumerate(given):
        if not hasattr(x, "_meta"):
            raise TypeError(f"{name}: expected Tensor as element {i} of {argument}, got {type(x).__name__}")
    return list(given)


def _each(name: str, argument: str, value: Any, count: int) -> list:
    """The value of an argument for each of `count` tensors."""
    if argument in _LISTS:
        value = _tensors(name, argument, value)
    elif isinstance(value, Tensor) and argument == "value":
        if value.ndim != 1:
            raise RuntimeError(
                f"{name}: Expected packed scalar Tensor to be of dimension 1. Got {value.ndim} instead."
            )
        value = value.tolist()
    elif isinstance(value, Tensor) and value.ndim:
        raise RuntimeError(
            f"{name}: scalar tensor expected to be 0 dim, but {argument} has shape {shape_text(value.shape)}; pass a "
            f"list of tensors"
        )
    if not isinstance(value, (list, tuple)):
        if value is None or isinstance(value, str):
            raise TypeError(
                f"{name}: {argument} must be a list of Tensors or numbers, or a number, got {type(value).__name__}"
            )
        return [value] * count
    if any(hasattr(x, "_meta") for x in value):
        value = _tensors(name, argument, value)
    if len(value) != count:
        raise RuntimeError(
            f"{name}: Tensor lists must have the same number of tensors (or of scalars), got {count} and {len(value)} "
            f"in {argument}"
        )
    return list(value)


def _define(of: str, others: tuple[str, ...], inplace: bool) -> None:
    underscored = of + "_" * inplace
    name, method = f"_foreach_{underscored}", _METHODS.get(of, of) + "_" * inplace
    weighted = of in ("add", "sub")

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(zip(others, args))
        for key, value in kwargs.items():
            argument = _NAMED_OTHERWISE.get(key, key)
            if argument == "other" and "exponent" in others:
                argument = "exponent"
            if argument in given or argument not in others and not (weighted and key == "alpha"):
                raise TypeError(f"{name}: unexpected argument {key!r}; {_takes(others)}")
            given[argument] = value
        alpha = {"alpha": given.pop("alpha")} if "alpha" in given else {}
        if alpha and isinstance(given.get("other"), (int, float, complex)):
            raise TypeError(f"{name}: alpha goes with tensors only; multiply the number by it")
        missing = [argument for argument in others if argument not in given and argument not in _DEFAULTS]
        if missing or len(args) > len(others):
            raise TypeError(f"{name}: got {len(args)} arguments behind the list; {_takes(others)}")
        if of == "pow" and not inplace and isinstance(self, (int, float, complex)):
            return tuple([self**x for x in _tensors(name, "exponent", given["exponent"])])
        tensors = _tensors(name, "self", self)
        columns = [_each(name, key, given.get(key, _DEFAULTS.get(key)), len(tensors)) for key in others]
        call = getattr(Tensor, method)
        if "value" in others:
            found = [call(x, *row[:-1], value=row[-1]) for x, *row in zip(tensors, *columns)]
        else:
            found = [call(x, *row, **alpha) for x, *row in zip(tensors, *columns)]
        return self if inplace else tuple(found)

    result = "overwrites them and returns the list" if inplace else "gives a tuple of tensors"
    _publish(run, name, f"`Tensor.{underscored}` for each tensor of a list: {result}. {_takes(others).capitalize()}.")


def _takes(others: tuple[str, ...]) -> str:
    if not others:
        return "it takes no other arguments"
    return f"it takes {', '.join(others)}, each one value for all tensors or a list with one for each"


def _publish(call: Callable, name: str, doc: str) -> None:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{doc} Raises TypeError for what is no list of tensors, RuntimeError for lists of other lengths."
    call.__module__ = "rushlight"
    export(name, call)


for _of, _names in _OTHERS.items():
    if _of not in _ONLY_IN_PLACE:
        _define(_of, _names, inplace=False)
    if _of not in _ONLY_NEW:
        _define(_of, _names, inplace=True)


def _clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    return tuple([x.clone(memory_format=memory_format) for x in _tensors("_foreach_clone", "self", self)])


def _norm(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple([vector_norm(x, ord, dtype=dtype) for x in _tensors("_foreach_norm", "self", self)])


def _powsum(self: Any, ord: float = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple([x.abs().to(dtype or x.dtype).pow(ord).sum() for x in _tensors("_foreach_powsum", "self", self)])


def _max(self: Any) -> tuple[Tensor, ...]:
    return tuple([x.max() for x in _tensors("_foreach_max", "self", self)])


_publish(_clone, "_foreach_clone", "A copy of each tensor of a list, as a tuple.")
_publish(_norm, "_foreach_norm", "`linalg.vector_norm` of each tensor of a list, as a tuple.")
_publish(_powsum, "_foreach_powsum", "`sum(abs(x) ** ord)` of each tensor of a list, as a tuple.")
_publish(_max, "_foreach_max", "The largest element of each tensor of a list, as a tuple.")
