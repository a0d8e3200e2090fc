"""Arguments and results as flat lists: by what tree they are put together, checked against it, and its JSON form.

A file names classes; none is imported for it. Named tuples are rebuilt from their fields where the class is not loaded;
other classes must have been registered.
"""

from __future__ import annotations

import dataclasses
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from rushlight.core import dtypes
from rushlight.core.devices import device
from rushlight.core.meta import Size
from rushlight.core.tensor import Tensor
from rushlight.export.readable import is_name
from rushlight.utils import _pytree as pytree
from rushlight.utils._pytree import TreeSpec

__all__ = ["flatten_as", "register_dataclass", "spec_from_json", "spec_to_json"]


class _Registered(NamedTuple):
    cls: type
    name: str
    fields: tuple[str, ...]
    dropped: tuple[str, ...]


_by_class: dict[type, _Registered] = {}
_by_name: dict[str, _Registered] = {}


def register_dataclass(cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Let arguments and results of exported programs be instances of a dataclass.

    `serialized_type_name` is the name under which files know it (default: module and class name). Fields named in
    `drop_field_names` are left out, and have their defaults afterwards. Raises TypeError for other classes, ValueError
    for a name that is taken and for fields that are not the class's.

    Example:
        >>> import dataclasses, rushlight
        >>> @dataclasses.dataclass
        ... class Pair:
        ...     a: rushlight.Tensor
        ...     b: rushlight.Tensor
        >>> rushlight.export.register_dataclass(Pair, serialized_type_name="docs.Pair")
        >>> program = rushlight.export.export(lambda p: Pair(p.b, p.a), (Pair(rushlight.ones(1), rushlight.zeros(2)),))
        >>> program.module()(Pair(rushlight.ones(1), rushlight.zeros(2))).b
        tensor([1.])
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise TypeError(f"register_dataclass: expected a dataclass, got {getattr(cls, '__name__', cls)!r}")
    fields = [f.name for f in dataclasses.fields(cls) if f.init]
    dropped = tuple(drop_field_names or ())
    kept = tuple(field_names) if field_names is not None else tuple([name for name in fields if name not in dropped])
    if set(kept) | set(dropped) != set(fields):
        raise ValueError(f"register_dataclass: field_names and drop_field_names name {sorted({*kept, *dropped})}, the "
                         f"fields of {cls.__name__} that its constructor takes are {sorted(fields)}")
    name = serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"
    if name in _by_name and _by_name[name].cls is not cls:
        raise ValueError(f"register_dataclass: the name {name!r} belongs to {_by_name[name].cls.__qualname__}")
    entry = _by_name[name] = _by_class[cls] = _Registered(cls, name, kept, dropped)
    pytree.register_pytree_node(
        cls,
        lambda value: ([getattr(value, field) for field in entry.fields], list(entry.fields)),
        lambda children, fields: cls(**dict(zip(fields, children))),
    )


# flattening by a known tree


def flatten_as(tree: Any, spec: TreeSpec, where: str = "the arguments") -> list:
    """The leaves of a tree that is built as `spec` says; dicts may have their keys in any order. ValueError, naming the
    place, when it is built otherwise.
    """
    if spec.is_leaf():
        return [tree]
    if not _fits(tree, spec):
        raise ValueError(f"{where}: expected {_described(spec)}, as in the export, got {_given(tree)}")
    children = _children(tree, spec)
    if isinstance(tree, dict):
        names = [f"{where}[{key!r}]" for key in spec.context[0]]
    elif type(tree) in _by_class:
        names = [f"{where}.{name}" for name in _by_class[type(tree)].fields]
    else:
        names = [f"{where}[{i}]" for i in range(len(children))]
    return [leaf for child, inner, name in zip(children, spec.children_specs, names)
            for leaf in flatten_as(child, inner, name)]


def flatten_arguments(args: tuple, kwargs: dict, spec: TreeSpec) -> list:
    """The leaves of a call's arguments. ValueError when they are built otherwise than `spec` says."""
    positional, named = spec.children_specs
    expected = named.context[0]
    if set(kwargs) != set(expected):
        raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected "
                         f"{list(expected)}")
    return [*flatten_as(args, positional, "args"), *flatten_as(kwargs, named, "kwargs")]


def build(leaves: list, spec: TreeSpec) -> Any:
    """The tree with these leaves. Written so that a compiled caller can follow it."""
    return _build(leaves, spec, 0)[0]


def _build(leaves: list, spec: TreeSpec, at: int) -> tuple[Any, int]:
    kind = spec.type
    if kind is None:
        return leaves[at], at + 1
    children = []
    for child in spec.children_specs:
        value, at = _build(leaves, child, at)
        children.append(value)
    if kind is tuple:
        return tuple(children), at
    if kind is list:
        return children, at
    if kind is Size:
        return Size(children), at
    if kind is dict:
        return dict(zip(spec.context[0], children)), at
    if kind in _by_class:
        return kind(**dict(zip(spec.context, children))), at
    if issubclass(kind, tuple):
        return kind(*children), at
    return pytree._node(kind).unflatten(children, spec.context), at  # type: ignore[union-attr]


def _fits(tree: Any, spec: TreeSpec) -> bool:
    kind = type(tree)
    if _is_named_tuple(spec.type):
        return kind is spec.type or _is_named_tuple(kind) and (kind.__name__, kind._fields) == (
            spec.type.__name__, spec.type._fields)
    if kind is not spec.type:
        return False
    if isinstance(tree, dict):
        return set(tree) == set(spec.context[0])
    return len(_children(tree, spec)) == len(spec.children_specs)


def _children(tree: Any, spec: TreeSpec) -> list:
    if isinstance(tree, (list, tuple)):
        return list(tree)
    if isinstance(tree, dict):
        return [tree[key] for key in spec.context[0]]
    if type(tree) in _by_class:
        return [getattr(tree, field) for field in _by_class[type(tree)].fields]
    return list(pytree._node(type(tree)).flatten(tree)[0])  # type: ignore[union-attr]


def _described(spec: TreeSpec) -> str:
    if issubclass(spec.type, dict):
        return f"a {spec.type.__name__} with the keys {spec.context[0]}"
    return f"a {spec.type.__name__} of {len(spec.children_specs)}"


def _given(tree: Any) -> str:
    if isinstance(tree, dict):
        return f"a {type(tree).__name__} with the keys {list(tree)}"
    return f"a {type(tree).__name__}" + (f" of {len(tree)}" if isinstance(tree, (list, tuple)) else "")


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


# names of leaves


def leaf_names(spec: TreeSpec, name: str) -> list[str]:
    """Names for the leaves below an argument: its own, and the keys and places that lead to the leaf."""
    if spec.is_leaf():
        return [name]
    if issubclass(spec.type, dict):
        keys = spec.context[0]
    elif spec.type in _by_class:
        keys = _by_class[spec.type].fields
    else:
        keys = getattr(spec.type, "_fields", None) or range(len(spec.children_specs))
    return [leaf for key, child in zip(keys, spec.children_specs) for leaf in leaf_names(child, f"{name}_{key}")]


# JSON


_PLAIN: dict[str, type] = {"list": list, "tuple": tuple, "dict": dict, "OrderedDict": OrderedDict, "size": Size}


def spec_to_json(spec: TreeSpec) -> Any:
    """A tree as JSON can hold it. TypeError for classes that files cannot name."""
    if spec.is_leaf():
        return "*"
    children = [spec_to_json(child) for child in spec.children_specs]
    for name, cls in _PLAIN.items():
        if spec.type is cls:
            keys = {"keys": [value_to_json(key) for key in spec.context[0]]} if issubclass(cls, dict) else {}
            return {"type": name, **keys, "children": children}
    if _is_named_tuple(spec.type):
        return {"type": "namedtuple", "module": spec.type.__module__, "class": spec.type.__qualname__,
                "fields": list(spec.type._fields), "children": children}
    if spec.type in _by_class:
        return {"type": "dataclass", "class": _by_class[spec.type].name, "fields": list(spec.context),
                "children": children}
    raise TypeError(f"save: a file cannot hold a program that takes or returns a {spec.type.__qualname__}; use tuples, "
                    "dicts, named tuples or a class registered with rushlight.export.register_dataclass")


def spec_from_json(data: Any) -> TreeSpec:
    """The tree of its JSON form. ValueError for what is none."""
    if data == "*":
        return pytree._LEAF
    children = tuple([spec_from_json(child) for child in _list(data["children"])])
    kind = data["type"]
    if kind in ("list", "tuple", "size"):
        return TreeSpec(_PLAIN[kind], None, children)
    if kind in ("dict", "OrderedDict"):
        keys = [value_from_json(key) for key in _list(data["keys"])]
        if len(set(keys)) != len(children):
            raise ValueError(f"{len(children)} entries for the keys {keys}")
        return TreeSpec(_PLAIN[kind], (keys, None), children)
    fields = _list(data["fields"])
    if len(fields) != len(children):
        raise ValueError(f"{len(children)} entries for the fields {fields}")
    if kind == "namedtuple":
        cls = _named_tuple(str(data["module"]), str(data["class"]), fields)
        return TreeSpec(cls, cls, children)
    if kind == "dataclass":
        entry = _by_name.get(data["class"])
        if entry is None:
            raise Unregistered(f"load: the program takes or returns a {data['class']!r}; register the class before: "
                               f"rushlight.export.register_dataclass(cls, serialized_type_name={data['class']!r})")
        if list(entry.fields) != fields:
            raise ValueError(f"the class {data['class']} has the fields {entry.fields}, in the file it has {fields}")
        return TreeSpec(entry.cls, fields, children)
    raise ValueError(f"no container: {kind!r}")


class Unregistered(ValueError):
    """A file names a class that nobody registered."""


def _list(data: Any) -> list:
    if type(data) is not list:
        raise ValueError(f"expected a list, got {data!r}")
    return data


_rebuilt: dict[tuple, type] = {}


def _named_tuple(module: str, name: str, fields: list) -> type:
    """The loaded class of a name, or one like it; nothing is imported."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = vars(found).get(part) if type(found) is ModuleType or isinstance(found, type) else None
    if _is_named_tuple(found) and list(found._fields) == fields:
        return found
    short = name.rpartition(".")[2]
    if not all(isinstance(x, str) and is_name(x) and not x.startswith("_") for x in (short.strip("_"), *fields)):
        raise ValueError(f"no named tuple: {name!r} with the fields {fields}")
    key = (module, name, *fields)
    if key not in _rebuilt:
        _rebuilt[key] = namedtuple(short, fields)  # noqa: PYI024  the names are known to be names
    return _rebuilt[key]


# leaves that are no tensors

_CONSTANTS: tuple[type, ...] = (type(None), bool, int, float, complex, str)


def is_constant(leaf: Any) -> bool:
    """May this stand among the arguments or results of a program, without being a tensor?"""
    return type(leaf) in _CONSTANTS or isinstance(leaf, (dtypes.dtype, device, Size))


def same_constant(a: Any, b: Any) -> bool:
    """Are two leaves the same, in type and value?"""
    return type(a) is type(b) and (a == b or a != a and b != b) and repr(a) == repr(b)


def value_to_json(value: Any) -> Any:
    """A constant as JSON can hold it."""
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, device):
        return {"device": str(value)}
    if isinstance(value, Size):
        return {"size": list(value)}
    if type(value) is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if type(value) is float:
        return {"float": value.hex()}  # JSON has neither NaN nor all digits
    if type(value) in (type(None), bool, int, str):
        return value
    raise TypeError(f"save: a file cannot hold a {type(value).__name__} as argument, result or key")


_READ: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda x: dtypes.named(str(x)),
    "device": lambda x: device(str(x)),
    "size": lambda x: Size([int(i) for i in _list(x)]),
    "complex": lambda x: complex(*[float(part) for part in _list(x)]),
    "float": lambda x: float.fromhex(str(x)),
}


def value_from_json(data: Any) -> Any:
    """The constant of its JSON form."""
    if type(data) is dict and len(data) == 1:
        (kind, value), = data.items()
        return _READ[kind](value)
    if type(data) in (type(None), bool, int, str):
        return data
    raise ValueError(f"no constant: {data!r}")


def is_tensor(leaf: Any) -> bool:
    """Is it a tensor?"""
    return isinstance(leaf, Tensor)
