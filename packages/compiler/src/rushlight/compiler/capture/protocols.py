"""What classes may define if their instances are to behave as those of the builtin class that they derive from."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from types import WrapperDescriptorType

from rushlight.compiler.capture.source import IMMUTABLE_TYPE, SourceTree

# What a class of the framework may not define itself if its instances are to behave as dicts do.
DICT_PROTOCOL = sorted({*dict.__dict__, "__missing__"} - {"__new__", "__init__", "__doc__", "__repr__", "__sizeof__"})
# What other classes may not: whoever looks an entry up, or goes through them, does not ask the class.
DICT_CORE = ("__bool__", "__contains__", "__getattribute__", "__getitem__", "__iter__", "__len__", "__reversed__",
             "__setitem__")
# What a named tuple may not define itself if it is to behave as a tuple does.
TUPLE_CORE = sorted({*tuple.__dict__, "__bool__", "__radd__", "__class__"} - {
    "__new__", "__doc__", "__repr__", "__getnewargs__", "__class_getitem__"})


def lacks(tree: SourceTree, classes: Sequence[type], names: Sequence[str]) -> bool:
    """Does none of some classes define one of these names? The program depends on it, where that is so."""
    classes = [c for c in classes if not c.__flags__ & IMMUTABLE_TYPE]
    if any(name in c.__dict__ for c in classes for name in names):
        return False
    for c in classes:
        node = tree.constant(c).child("class_vars", None, c.__dict__)
        for name in names:
            node.check("lacks", str, name)
    return True


def watches(kind: type) -> bool:
    """Do reads of an object's attributes, and so even `isinstance`, run code of its class?"""
    getter = type.__getattribute__(kind, "__getattribute__")
    return type(getter) is not WrapperDescriptorType or any("__class__" in base.__dict__ for base in kind.__mro__[:-1])


def by_identity(cls: type) -> bool:
    """Are instances of a class equal only to themselves?"""
    return cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__ and not issubclass(cls, type)


@functools.cache
def is_dict(cls: type) -> bool:
    """Do instances behave as dicts do? Subclasses only of the framework, where they change nothing of the protocol."""
    if cls in (dict, OrderedDict, defaultdict):
        return True
    if not issubclass(cls, dict) or not cls.__module__.startswith("rushlight."):
        return False
    between = cls.__mro__[:cls.__mro__.index(dict)]
    return not any(name in c.__dict__ for c in between for name in DICT_PROTOCOL)
