"""Lists and dicts as the program sees them: the real ones with the program's own writes laid over.

All reads of a container that existed before the call pass through here, so no write of the program can be missed, and
each read says what it depended on: one key, the length, or the whole order.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import ObjectKey, Value

PLAIN_KEYS = (str, int, bool, float, bytes, type(None))


class ListV(Value):
    """A list: made by the program (`base` None), or an existing one with pending writes.

    `items` stays None until something depends on the contents, so `log.append(x)` alone does not fix the length.
    """

    __slots__ = ("base", "source", "items", "log")

    def __init__(self, items: list[Value] | None = None, base: list | None = None,
                 source: Source | None = None) -> None:
        self.items, self.base, self.source = items, base, source
        self.log: list[tuple] = []

    def load(self) -> list[Value]:
        """The current items; fixes length and order of an existing list."""
        if self.items is None:
            self.source.check_type()
            self.source.check("len", len(self.base))
            self.items = [self.source.read("item", i, x) for i, x in enumerate(self.base)]
            for method, *arguments in self.log:
                apply_to_list(self.items, method, arguments)
        return self.items

    def write(self, method: str, *arguments: Any) -> Any:
        """Apply a list method that changes the list, and remember it for the real one."""
        if self.base is not None:
            self.source.check_type()
        if method in ("append", "extend") and self.items is None:
            self.log.append((method, *arguments))
            return None
        result = apply_to_list(self.load(), method, arguments)
        if self.base is not None:
            self.log.append((method, *arguments))
        return result

    @property
    def mutated(self) -> bool:
        """Was an existing list written to?"""
        return bool(self.log)


def apply_to_list(items: list[Value], method: str, arguments: Any) -> Any:
    """Change a list of values the way the list method does."""
    if method == "setitem":
        items[arguments[0]] = arguments[1]
    elif method == "delitem":
        del items[arguments[0]]
    elif method == "setslice":
        items[arguments[0]] = arguments[1]
    else:
        return getattr(items, method)(*arguments)
    return None


class DequeV(ListV):
    """A deque: made by the program, or an existing one with pending writes. It is no list: nothing else treats it so.
    """

    __slots__ = ("most",)

    def __init__(self, items: list[Value] | None = None, most: int | None = None, base: Any = None,
                 source: Source | None = None) -> None:
        super().__init__(items, base, source)
        self.most = most

    def load(self) -> list[Value]:
        """The current items; fixes length and order of an existing deque, and how long it may be."""
        if self.items is None:
            self.source.child("attr", "maxlen", self.base.maxlen).check("eq", type(self.base.maxlen), self.base.maxlen)
        return super().load()

    def write(self, method: str, *arguments: Any) -> Any:
        """Apply a method that changes the deque, and remember it for the real one."""
        items = self.load()
        before = len(items)
        match method:
            case "appendleft":
                result = items.insert(0, arguments[0])
            case "extendleft":
                items[:0] = reversed(arguments[0])
                result = None
            case "popleft":
                result = items.pop(0)
            case "rotate":
                places = -arguments[0] % before if before else 0
                items[:] = items[places:] + items[:places]
                result = None
            case _:
                result = apply_to_list(items, method, arguments)
        if self.most is not None and len(items) > self.most:
            if method.endswith("left"):
                del items[self.most:]
            else:
                del items[:len(items) - self.most]
        if self.base is not None:
            self.log.append((method, *arguments))
        return result


DELETED = object()


class DictV(Value):
    """A dict with string or other plain keys: made by the program, or an existing one with pending writes.

    `entries` holds what was read or written (None: known to be absent). Only when the order or the number of keys
    matters is the whole dict `complete`.
    """

    __slots__ = ("base", "source", "entries", "complete", "log", "kind", "shape", "factory", "attrs")

    def __init__(self, entries: dict[Any, Value] | None = None, base: dict | None = None, source: Source | None = None,
                 kind: type = dict) -> None:
        self.base, self.source, self.kind = base, source, kind
        self.factory: Value | None = None  # of a defaultdict
        self.attrs: dict[str, Value] = {}  # of an OrderedDict that the program made
        self.entries: dict[Any, Value | None] = {} if entries is None else entries
        self.complete = base is None
        self.shape = 0  # counts insertions and deletions
        self.log: list[tuple] = []
        if base is not None and len(base) < 4096 and not all(map(_harmless, base)):
            raise Abort("a dict with keys of a class that defines its own hash")

    def get(self, key: Any) -> Value | None:
        """The value of a key, None when absent; depends on this key only."""
        if key in self.entries:
            return self.entries[key]
        if type(key) is ObjectKey and not self.complete:
            raise Abort("an existing dict with objects as keys")
        if self.complete:
            return None
        if key in self.base:
            found = self.base[key]
            value: Value | None = self.source.read("item", key, found)
        else:
            self.source.check("lacks", type(key), key)
            value = None
        self.entries[key] = value
        return value

    def missing(self) -> Value | None:
        """What a defaultdict makes new values with; None in other dicts."""
        if not issubclass(self.kind, defaultdict):
            return None
        if self.factory is None:
            self.factory = self.source.read("attr", "default_factory", self.base.default_factory)
        return self.factory

    def load(self) -> dict[Any, Value]:
        """All entries in order; fixes the keys and their order."""
        if not self.complete:
            if len(self.base) > 1024:
                raise Abort("iterating over a dict with more than 1024 keys")
            self.source.check("keys", tuple(map(type, self.base)), tuple(self.base))
            entries: dict[Any, Value | None] = {}
            for key, found in self.base.items():
                entries[key] = self.source.read("item", key, found)
            for key, value in self.log:
                if value is DELETED:
                    del entries[key]
                else:
                    entries[key] = value
            self.entries, self.complete = entries, True
        return self.entries

    def set(self, key: Any, value: Value) -> None:
        """`d[key] = value`."""
        if type(key) is ObjectKey and self.base is not None:
            raise Abort("an existing dict with objects as keys")
        if not self.complete or key not in self.entries:
            self.shape += 1
        self.entries[key] = value
        if self.base is not None:
            self.log.append((key, value))

    def delete(self, key: Any) -> bool:
        """`del d[key]`; False when there is no such key."""
        if self.get(key) is None:
            return False
        self.shape += 1
        if self.complete:
            del self.entries[key]
        else:
            self.entries[key] = None
        if self.base is not None:
            self.log.append((key, DELETED))
        return True

    def empty(self) -> bool:
        """Is it empty? Depends on that alone, unless the program wrote to it."""
        if self.complete:
            return not self.entries
        if self.log:
            return not self.load()
        self.source.check("true" if self.base else "empty")
        return not self.base

    @property
    def mutated(self) -> bool:
        """Was an existing dict written to?"""
        return bool(self.log)


def _harmless(key: Any) -> bool:
    """Does looking up a key beside this one run no user code?"""
    kind = type(key)
    return kind in PLAIN_KEYS or kind.__hash__ is object.__hash__ or kind is tuple and all(map(_harmless, key))


class DictView(Value):
    """`d.keys()`, `d.values()` or `d.items()`."""

    __slots__ = ("mapping", "what")

    def __init__(self, mapping: DictV, what: str) -> None:
        self.mapping, self.what = mapping, what


class ExistingSetV(Value):
    """A set that existed before the call, with pending writes; only membership can be asked."""

    __slots__ = ("base", "source", "changed", "log")

    def __init__(self, base: set, source: Source) -> None:
        self.base, self.source = base, source
        self.changed: dict[Any, bool] = {}
        self.log: list[tuple[str, Any]] = []
        if not all(map(_harmless, base)):
            raise Abort("a set with keys of a class that defines its own hash")

    def has(self, key: Any) -> bool:
        """Is the key in the set?"""
        if type(key) is ObjectKey:
            raise Abort("membership of an object in an existing set")
        if key not in self.changed:
            found = key in self.base
            self.source.check("in" if found else "not_in", type(key), key)
            self.changed[key] = found
        return self.changed[key]

    def write(self, method: str, key: Any) -> None:
        """`add` or `discard` a key."""
        if type(key) is ObjectKey:
            raise Abort("an object as key of an existing set")
        self.changed[key] = method == "add"
        self.log.append((method, key))

    @property
    def mutated(self) -> bool:
        """Was it written to?"""
        return bool(self.log)
