"""Sizes of arguments that stay open in an exported program: `Dim` and what `dynamic_shapes` is made of."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn

from rushlight.compiler.capture.sizes import ConstraintViolationError, Named
from rushlight.core.tensor import Tensor
from rushlight.export.trees import flatten_arguments
from rushlight.utils import _pytree as pytree
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_map

__all__ = ["AdditionalInputs", "ConstraintViolationError", "Dim", "ShapesCollection", "dims"]


class DimHint:
    """What to do with a size that has no name: `Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`, with limits when called."""

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        if self.kind == "STATIC":
            raise TypeError("Dim.STATIC takes no limits")
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        limits = [f"{name}={value}" for name, value in (("min", self.min), ("max", self.max)) if value is not None]
        return f"DimHint({', '.join([self.kind, *limits])})"


class Dim:
    """A size with a name, that stays open; places with the same Dim have the same size.

    `min` and `max` are the smallest and largest values. `2 * dim`, `dim + 1` and so on are sizes that follow from it:
    they grow with it, by whole numbers; others raise NotImplementedError.

    `Dim.AUTO` leaves a size open if the program can, `Dim.DYNAMIC` is an error where it cannot, `Dim.STATIC` (or None)
    keeps the size of the example.

    Example:
        >>> import rushlight
        >>> from rushlight.export import Dim, export
        >>> program = export(lambda x: x.sum(0), (rushlight.ones(3, 2),), dynamic_shapes=({0: Dim("rows", max=9)},))
        >>> program.module()(rushlight.ones(5, 2))
        tensor([5., 5.])
        >>> program.range_constraints
        {'rows': VR[0, 9]}
    """

    AUTO = DimHint("AUTO")
    DYNAMIC = DimHint("DYNAMIC")
    STATIC = DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        low, high = 0 if min is None else min, math.inf if max is None else max
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        if low >= high:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, low, high

        self.root, self.factor, self.constant = self, 1, 0

    def __repr__(self) -> str:
        limit = "" if self.max == math.inf else f", max={self.max}"
        return f"Dim({self.__name__!r}, min={self.min}{limit})"

    def __add__(self, number: int) -> Dim:
        if type(number) is not int:
            self._refuse(f"add {number} to {self.__name__}, where an integer was expected")
        return _Derived(self.root, self.factor, self.constant + number)

    __radd__ = __add__

    def __sub__(self, number: int) -> Dim:
        if type(number) is not int:
            self._refuse(f"subtract {number} from {self.__name__}, where an integer was expected")
        return self + -number

    def __rsub__(self, number: int) -> Dim:
        self._refuse(f"negate {self.__name__}")

    def __mul__(self, number: int) -> Dim:
        if type(number) is not int or number <= 0:
            self._refuse(f"multiply {number} with {self.__name__}, where a positive integer was expected")
        return _Derived(self.root, self.factor * number, self.constant * number)

    __rmul__ = __mul__

    def _refuse(self, what: str) -> NoReturn:
        raise NotImplementedError(f"Attempted to {what}. (Only increasing linear operations with integer coefficients "
                                  "are supported.)")


class _Derived(Dim):
    """`factor * root + constant`."""

    def __init__(self, root: Dim, factor: int, constant: int) -> None:
        self.root, self.factor, self.constant = root, factor, constant
        self.min, self.max = max(factor * root.min + constant, 0), factor * root.max + constant
        product = root.__name__ if factor == 1 else f"{factor}*{root.__name__}"
        self.__name__ = product if not constant else f"{product} {'-' if constant < 0 else '+'} {abs(constant)}"

    def __repr__(self) -> str:
        return self.__name__

    __str__ = __repr__


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several `Dim` with the same limits."""
    return tuple([Dim(name, min=min, max=max) for name in names])


class ValueRange(NamedTuple):
    """The sizes that a program takes, both ends included."""

    lower: int
    upper: float

    def __repr__(self) -> str:
        return f"VR[{self.lower}, {'int_oo' if self.upper == math.inf else self.upper}]"


class Wish(NamedTuple):
    """What a user wants of one size: `named` goes to the capture; with `strict` it is an error to fix it, with `whole`
    to hold for a part of its range.
    """

    named: Named
    strict: bool
    whole: bool


def wishes(spec: TreeSpec, leaves: list, names: list[str], dynamic_shapes: Any, mod: Callable,
           kwargs_names: list[str]) -> list[dict[int, Wish]]:
    """What is wanted of the sizes of each leaf, from `dynamic_shapes`."""
    if dynamic_shapes is None:
        return [{} for _ in leaves]
    counter = iter(range(1 << 30))
    if isinstance(dynamic_shapes, DimHint):  # for all sizes
        return [_wish(leaf, dynamic_shapes, name, counter) if isinstance(leaf, Tensor) else {}
                for leaf, name in zip(leaves, names)]
    if isinstance(dynamic_shapes, ShapesCollection):
        raise TypeError("export: call dynamic_shapes.dynamic_shapes(model, args, kwargs) to get what is asked for here")
    positional = len(spec.children_specs[0].children_specs)
    arguments = _argument_names(mod, positional)
    given = _by_argument(dynamic_shapes, arguments, kwargs_names)
    children = [*spec.children_specs[0].children_specs, *spec.children_specs[1].children_specs]
    parts = [part for child, (name, part) in zip(children, given, strict=True)
             for part in _leaf_parts(child, part, f"dynamic_shapes[{name!r}]")]
    return [_wish(leaf, part, name, counter) for leaf, part, name in zip(leaves, parts, names, strict=True)]


def _argument_names(mod: Callable, count: int) -> list[str]:
    function = getattr(mod, "forward", mod) if not inspect.isfunction(mod) else mod
    names = [p.name for p in inspect.signature(function).parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    return [names[i] if i < len(names) else f"{rest}[{i - len(names)}]" for i in range(count)]


def _by_argument(shapes: Any, positional: list[str], keywords: list[str]) -> list[tuple[str, Any]]:
    """The part of each argument, with its name."""
    names = [*positional, *keywords]
    if isinstance(shapes, dict):
        rest = {name.partition("[")[0] for name in names if "[" in name}
        unknown = set(shapes) - set(names) - rest
        if unknown or set(names) - set(shapes) - {name for name in names if "[" in name}:
            raise RuntimeError("export: When `dynamic_shapes` is specified as a dict, its top-level keys must be the "
                               f"arg names {names} of `inputs`, but here they are {list(shapes)}")
        return [(name, _of_rest(shapes, name)) for name in names]
    if not isinstance(shapes, (list, tuple)):
        raise RuntimeError(f"export: dynamic_shapes must be a dict, list or tuple, got {type(shapes).__name__}")
    rest = [i for i, name in enumerate(positional) if "[" in name]
    if rest and len(shapes) == len(names) - len(rest) + 1 and _several(shapes[rest[0]], len(rest)):
        shapes = [*shapes[:rest[0]], *shapes[rest[0]], *shapes[rest[0] + 1:]]  # `*args` is one argument
    if len(shapes) != len(names):
        raise RuntimeError("export: Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` "
                           f"has {len(names)} elements, but `dynamic_shapes` has {len(shapes)} elements")
    return list(zip(names, shapes))


def _several(part: Any, count: int) -> bool:
    """Are these the parts of several arguments, not the dimensions of one?"""
    return isinstance(part, (list, tuple)) and len(part) == count and not any(
        isinstance(x, (int, Dim, DimHint)) for x in part)


def _of_rest(shapes: dict, name: str) -> Any:
    base, _, index = name.partition("[")
    if not index:
        return shapes[name]
    part = shapes.get(base)
    return None if part is None else part[int(index[:-1])]


def _leaf_parts(spec: TreeSpec, part: Any, where: str) -> list[Any]:
    """The part of each leaf of an argument."""
    if spec.is_leaf():
        return [part]
    if part is None:
        return [None] * spec.num_leaves
    if issubclass(spec.type, dict):
        keys = spec.context[0]
        if not isinstance(part, dict) or set(part) - set(keys):
            raise RuntimeError(f"export: {where}: expected a dict with the keys {keys}, got {part!r}")
        children = [part.get(key) for key in keys]
    else:
        children = list(part) if isinstance(part, (list, tuple)) else pytree.tree_leaves(part)
        if len(children) != len(spec.children_specs):
            raise RuntimeError(f"export: {where}: expected {len(spec.children_specs)} entries, got {len(children)}")
    return [leaf for i, (child, inner) in enumerate(zip(spec.children_specs, children))
            for leaf in _leaf_parts(child, inner, f"{where}[{i}]")]


def _wish(leaf: Any, part: Any, name: str, counter: Iterator[int]) -> dict[int, Wish]:
    """What is wanted of the sizes of one tensor."""
    if part is None:
        return {}
    if not isinstance(leaf, Tensor):
        if isinstance(part, (DimHint, int)) or part in ({}, (), []):
            return {}
        raise RuntimeError(f"export: dynamic_shapes for {name}, which is no tensor: expected None, got {part!r}")
    shape = tuple(leaf.shape)
    if isinstance(part, DimHint):
        part = [part] * len(shape)
    if isinstance(part, (list, tuple)):
        if len(part) != len(shape):
            raise RuntimeError(f"export: dynamic_shapes for {name}: expected {len(shape)} dimensions, got {len(part)}")
        part = dict(enumerate(part))
    if not isinstance(part, dict):
        raise RuntimeError(f"export: dynamic_shapes for {name}: expected a dict from dimensions, or a list of them; "
                           f"got {part!r}")
    found: dict[int, Wish] = {}
    for dim, wish in part.items():
        if type(dim) is not int or not 0 <= dim < len(shape):
            raise RuntimeError(f"export: dynamic_shapes for {name}: the tensor has no dimension {dim!r}")
        made = _one(wish, shape[dim], f"{name}.size()[{dim}]", counter)
        if made is not None:
            found[dim] = made
    return found


def _one(wish: Any, size: int, where: str, counter: Iterator[int]) -> Wish | None:
    if wish is None or isinstance(wish, DimHint) and wish.kind == "STATIC":
        return None
    if type(wish) is int:
        if wish != size:
            raise ConstraintViolationError(f"Static shape constraint of {wish} does not match input size of {size}, "
                                           f"for {where}")
        return None
    if not isinstance(wish, (Dim, DimHint)):
        raise RuntimeError(f"export: dynamic_shapes: expected a Dim, Dim.AUTO, Dim.DYNAMIC, Dim.STATIC, an int or None "
                           f"for {where}, got {wish!r}")
    low = wish.min or 0
    high: float = math.inf if wish.max is None else wish.max
    if not low <= size <= high:
        raise ConstraintViolationError(f"{size} not in range [{low}, {high}], for {where}")
    if isinstance(wish, Dim):
        root, factor, constant = wish.root, wish.factor, wish.constant
        if (size - constant) % factor:
            raise ConstraintViolationError(f"Expected {where} = {size} to be of the form {wish.__name__}, where "
                                           f"{root.__name__} is an integer")
        return Wish(Named(root.__name__, root.min, root.max, factor, constant), True, True)
    return Wish(Named(f"s{next(counter)}", low, high), wish.kind == "DYNAMIC", False)


class ShapesCollection:
    """`dynamic_shapes` by tensor: `shapes[tensor] = {0: Dim("batch")}`.

    Example:
        >>> import rushlight
        >>> from rushlight.export import Dim, ShapesCollection
        >>> x, shapes = rushlight.ones(3), ShapesCollection()
        >>> shapes[x] = {0: Dim("rows")}
        >>> shapes.dynamic_shapes(lambda x: x, (x,))
        {'x': {0: Dim('rows', min=0)}}
    """

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Tensor, Any]] = {}

    def __setitem__(self, tensor: Tensor, shape: Any) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"ShapesCollection: expected a tensor as key, got {type(tensor).__name__}")
        known = self._shapes.get(id(tensor))
        if known is not None and known[1] != shape:
            raise ValueError("ShapesCollection: the tensor has another shape here already")
        self._shapes[id(tensor)] = tensor, shape

    def __getitem__(self, tensor: Tensor) -> Any:
        return self._shapes.setdefault(id(tensor), (tensor, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Callable, args: tuple, kwargs: dict | None = None) -> dict[str, Any]:
        """What `export` takes. ValueError for tensors that are no arguments."""
        used: set[int] = set()

        def of(leaf: Any) -> Any:
            used.add(id(leaf))
            return self._shapes[id(leaf)][1] if id(leaf) in self._shapes else None

        found = {name: tree_map(of, value) for name, value in _bound(m, args, kwargs).items()}
        if set(self._shapes) - used:
            raise ValueError("ShapesCollection: some of the tensors are not among the arguments")
        return found


def _bound(m: Callable, args: tuple, kwargs: dict | None) -> dict[str, Any]:
    """The arguments by name, as `dynamic_shapes` has them."""
    function = getattr(m, "forward", m) if not inspect.isfunction(m) else m
    bound = inspect.signature(function).bind(*args, **(kwargs or {})).arguments
    kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
    return {key: inner for name, value in bound.items()
            for key, inner in (value.items() if kinds[name] is inspect.Parameter.VAR_KEYWORD else [(name, value)])}


class AdditionalInputs:
    """Sizes that stay open because further examples have other ones.

    Example:
        >>> import rushlight
        >>> from rushlight.export import AdditionalInputs
        >>> more = AdditionalInputs()
        >>> more.add((rushlight.ones(5, 2),))
        >>> more.dynamic_shapes(lambda x: x, (rushlight.ones(3, 2),))
        {'x': (DimHint(DYNAMIC), None)}
    """

    def __init__(self) -> None:
        self._examples: list[tuple[tuple, dict]] = []

    def add(self, args: tuple, kwargs: dict | None = None) -> None:
        """Add an example."""
        if not isinstance(args, tuple) or not isinstance(kwargs, dict | None):
            raise AssertionError("AdditionalInputs: expected a tuple and a dict of arguments")
        self._examples.append((args, kwargs or {}))

    def dynamic_shapes(self, m: Callable, args: tuple, kwargs: dict | None = None) -> dict[str, Any]:
        """What `export` takes: DYNAMIC where an example has another size than the first. ValueError for examples that
        are built otherwise.
        """
        leaves, spec = tree_flatten((args, kwargs or {}))
        others = [flatten_arguments(*example, spec) for example in self._examples]
        hints = [_differing(leaf, [other[i] for other in others]) for i, leaf in enumerate(leaves)]
        places = iter(hints)
        marked = {name: tree_map(lambda _: next(places), value) for name, value in _bound(m, args, kwargs).items()}
        return marked

    def verify(self, ep: Any) -> None:
        """Call a program with every example; raises what the program raises."""
        run = ep.module()
        for args, kwargs in self._examples:
            run(*args, **kwargs)


def _differing(leaf: Any, others: list) -> Any:
    if not isinstance(leaf, Tensor):
        if any(type(x) is not type(leaf) or x != leaf for x in others):
            raise ValueError(f"AdditionalInputs: {leaf!r} has other values in further examples; only sizes of tensors "
                             "stay open")
        return None
    if any(not isinstance(x, Tensor) or x.ndim != leaf.ndim or x.dtype != leaf.dtype for x in others):
        raise ValueError("AdditionalInputs: a tensor has another dtype or number of dimensions in a further example")
    return tuple([Dim.DYNAMIC if any(x.shape[d] != size for x in others) else None
                  for d, size in enumerate(leaf.shape)])
