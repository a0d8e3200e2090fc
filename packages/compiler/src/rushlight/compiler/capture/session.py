"""The state of one capture, and how values are looked at.

The session owns the tree of sources, the views over existing objects, and the recorder of tensor operations. Looking at
a value through `concrete`, `type_of` or `truth` is what makes the captured program depend on it.
"""

from __future__ import annotations

import enum
import functools
import math
from abc import ABCMeta
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, BuiltinMethodType, FunctionType, GeneratorType, ModuleType
from typing import Any

import rushlight.core.dtypes as dtypes
from rushlight.compiler.capture import allow, control, late, symbolic, unsized
from rushlight.compiler.capture.decisions import Decisions
from rushlight.compiler.capture.deferred import Deferred
from rushlight.compiler.capture.derived import Asked, Derived
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.gradients import Gradients
from rushlight.compiler.capture.outside import Outside
from rushlight.compiler.capture.protocols import DICT_CORE, TUPLE_CORE, by_identity, is_dict, lacks, watches
from rushlight.compiler.capture.sizes import Sizes
from rushlight.compiler.capture.source import IMMUTABLE_TYPE, Source, SourceTree
from rushlight.compiler.capture.tensors import Recorder, Tracer
from rushlight.compiler.capture.value import (
    CellV,
    FunctionV,
    GeneratorV,
    InstanceV,
    Obj,
    ObjectKey,
    SetV,
    TensorV,
    TupleV,
    Value,
)
from rushlight.compiler.capture.view import DequeV, DictV, ExistingSetV, ListV
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.core.devices import device
from rushlight.core.layout import layout, memory_format
from rushlight.core.meta import Meta, Size
from rushlight.core.tensor import Tensor

# Immutable types whose values a guard compares with `==`.
BY_VALUE = frozenset((int, float, bool, complex, str, bytes, type(None), type(...), type(NotImplemented), range, Size))
# Things that a guard compares with `is`, and that the entry may keep alive.
BY_IDENTITY = (type, FunctionType, BuiltinFunctionType, ModuleType, dtypes.dtype, device, Meta, memory_format, layout,
               enum.Enum)

STEP_LIMIT = 400_000
DEPTH_LIMIT = 80


class Session:
    """One dry run of a function."""

    def __init__(self, sizes: Sizes, decides: bool = False) -> None:
        self.sizes = sizes
        self.decisions = Decisions(self, decides)
        self.tree = SourceTree(self.lift)
        self.recorder = Recorder(sizes)
        self.recorder.decide = functools.partial(late.decide, self)
        self.recorder.unsized = functools.partial(unsized.decide, self)
        self.recorder.control = None if decides else control.both
        self.gradients = Gradients()
        self.deferred: list[Deferred] = []
        self.views: dict[int, Any] = {}
        self.keep: list[Any] = []
        self.seen: dict[int, dict[Source, None]] = {}
        self.compared: dict[int, dict[Source, None]] = {}  # objects used as keys, by identity
        self.frames: list[Any] = []
        self.generators: list[GeneratorV] = []
        self.slots: dict[tuple[int, str], tuple[Source, str, Value]] = {}
        self.class_writes: set[str] = set()  # names of attributes of classes among them
        self.regions: list[Any] = []  # autocast regions that are open, the innermost last
        self.outer_regions = 0  # how many of them stand for those around the call
        self.asked: list[Asked] = []
        self.settings: list[tuple[Callable[[], Any], Any]] = []  # functions that must go on giving an object
        self.checkpointed: list[Any] = []  # values that must not be changed in place, on pain of an error
        self.foreign: list[tuple[ListV, list]] = []  # lists that stand for ones which a deferred call makes
        self.outside = Outside(self)
        self.hooks: dict[GraphValue, dict[int, Value]] = {}  # of tensors that the program computed
        self.hooked = 0  # how many were registered
        self.retained: dict[GraphValue, Tracer] = {}  # tensors whose `grad` is kept
        self._dict_classes: dict[type, bool] = {}
        self._tuple_classes: set[type] = {tuple, Size}
        self.steps = 0
        self.errors: dict[int, tuple[DictV, BaseException]] = {}  # attributes of exceptions that the program made
        self.exports = False  # is the graph to be a program of its own, for `is_exporting`?

    # frames

    def enter(self, frame: Any) -> None:
        """A frame starts or resumes."""
        if len(self.frames) >= DEPTH_LIMIT:
            raise Abort("calls nest too deeply")
        self.frames.append(frame)

    def leave(self, frame: Any) -> None:
        """The innermost frame returns, yields or raises."""
        self.frames.pop()

    def check_budget(self) -> None:
        """Give up on programs that mostly run Python."""
        if self.steps > STEP_LIMIT:
            raise Abort(f"more than {STEP_LIMIT} instructions")

    # looking at values

    def lift(self, obj: Any, source: Source) -> Value:
        """The value of something that existed before the call."""
        kind = type(obj)
        if issubclass(kind, Tensor):
            return TensorV(self.recorder.input(obj, source), source)
        if kind in (int, float):
            return self.sizes.number(obj, source) or Obj(obj, source)
        if not kind.__flags__ & IMMUTABLE_TYPE and watches(kind):
            raise Abort(f"a {kind.__name__}, whose class runs code when it is looked at")
        return Obj(obj, source)

    def concrete(self, value: Value) -> Any:
        """The Python object of an immutable value; the program now depends on it."""
        if type(value) is Obj:
            if value.source is not None:
                self.guard_value(value.obj, value.source)
            return value.obj
        if type(value) is TupleV:
            items = [self.concrete(item) for item in value.items]
            if value.kind is tuple:
                return tuple(items)
            return Size(items) if value.kind is Size else value.kind(*items)
        if type(value) is SetV:
            return frozenset(value.keys)
        if type(value) is late.LateV:
            return late.value(self, value)
        raise Abort(f"the value of a {self.type_name(value)} is needed")

    def plain(self, value: Value) -> Any:
        """The Python object of an immutable value that is safe to compute with."""
        obj = self.concrete(value)
        if allow.own_code(obj):
            raise Abort(f"computing with a {type(obj).__name__}")
        return obj

    def guard_value(self, obj: Any, source: Source) -> None:
        """Make the program depend on an immutable object."""
        kind = type(obj)
        if type(source) is Derived and symbolic.asked(self, source, obj):
            return
        if kind in BY_VALUE:
            if kind is float and math.isnan(obj) or kind is complex and obj != obj:
                raise Abort("control over a NaN")
            source.check("eq", kind, repr(obj) if kind in (float, complex) else obj)
        elif isinstance(obj, BY_IDENTITY):
            source.check_identity()
        elif kind in allow.NUMPY_NUMBERS:
            source.check("bits", kind, obj.tobytes())
        elif kind is tuple:
            source.check_type()
            source.check("len", len(obj))
            for i, item in enumerate(obj):
                self.guard_value(item, source.child("item", i, item))
        elif kind is slice:
            source.check_type()
            for part in ("start", "stop", "step"):
                self.guard_value(getattr(obj, part), source.child("attr", part, getattr(obj, part)))
        elif kind is frozenset and all(type(x) in BY_VALUE for x in obj):
            source.check_type()
            source.check("keys", tuple(map(type, obj)), tuple(obj))  # equal sets may differ in their order
        else:
            raise Abort(f"the value of a {kind.__name__} from {source} is needed")

    def is_none(self, value: Value) -> bool:
        """`value is None`; the program now depends on it."""
        if type(value) is not Obj:
            return False
        if value.source is not None:
            value.source.check_type()
        return value.obj is None

    def is_concrete(self, value: Value) -> bool:
        """Would `concrete` succeed?"""
        if type(value) is TupleV:
            return all(map(self.is_concrete, value.items))
        return type(value) is Obj and immutable(value.obj)

    def type_of(self, value: Value) -> type:
        """The type of a value; the program now depends on it."""
        if type(value) is Obj:
            if value.source is not None:
                value.source.check_type()
            return type(value.obj)
        if type(value) is TensorV:
            return value.tracer._kind
        if type(value) is TupleV:
            return value.kind
        if type(value) is InstanceV:
            return value.cls
        if type(value) is DictV:
            return value.kind
        if type(value) is FunctionV:
            return FunctionType
        if type(value) is GeneratorV:
            return GeneratorType
        if type(value) is late.LateV:
            return value.kind
        found = {ListV: list, SetV: set, DequeV: deque}.get(type(value))
        if found is None:
            raise Abort(f"the type of a {self.type_name(value)} is needed")
        return found

    def type_name(self, value: Value) -> str:
        """What a value is, for messages."""
        if type(value) is Obj:
            return type(value.obj).__name__
        return type(value).__name__.removesuffix("V").lower()

    # views over existing objects

    def note(self, obj: Any, source: Source) -> None:
        """Remember that a mutable object was reached through a source, for the alias checks at the end."""
        found = self.seen.get(id(obj))
        if found is None:
            found = self.seen[id(obj)] = {}
            self.keep.append(obj)
        if source not in found:
            found[source] = None
            source.wanted = True

    def object_key(self, value: Value, number: bool = False) -> ObjectKey | None:
        """A key that stands for an object compared by identity, None for values that are not."""
        if type(value) is TensorV:
            source = value.source
            identity = value.tracer if source is None else self.recorder.real(value.tracer)
        elif type(value) is Obj and value.source is not None and by_identity(type(value.obj)):
            source, identity = value.source, value.obj
            self.type_of(value)
        elif type(value) is InstanceV and by_identity(value.cls):
            source, identity = None, value
        else:
            return None
        if source is not None:
            self.compared.setdefault(id(identity), {})[source] = None
            self.keep.append(identity)
            source.wanted = True
        return ObjectKey(identity, value, number)

    def as_list(self, value: Value) -> ListV | None:
        """The view of a list value, None for anything else."""
        if type(value) is ListV:
            return value
        if type(value) is Obj and type(value.obj) is list:
            return self._view(value, ListV)
        return None

    def as_deque(self, value: Value) -> DequeV | None:
        """The view of a deque, None for anything else."""
        if type(value) is DequeV:
            return value
        if type(value) is Obj and type(value.obj) is deque:
            found = self._view(value, DequeV)
            found.most = value.obj.maxlen
            return found
        return None

    def as_dict(self, value: Value) -> DictV | None:
        """The view of a dict, OrderedDict or defaultdict, None for anything else."""
        if type(value) is DictV:
            return value
        if type(value) is Obj and self.is_dict(type(value.obj)):
            return self._view(value, DictV)
        return None

    def is_dict(self, cls: type) -> bool:
        """Do instances of a class behave as dicts do? The program depends on that, where it is a class of a program."""
        if is_dict(cls):
            return True
        if not issubclass(cls, dict) or type(cls) not in (type, ABCMeta):
            return False
        if cls not in self._dict_classes:
            self._dict_classes[cls] = self._adds_nothing(cls)
        return self._dict_classes[cls]

    def _adds_nothing(self, cls: type) -> bool:
        return lacks(self.tree, self.tree.mro(cls)[:cls.__mro__.index(dict)], DICT_CORE)

    def check_tuple(self, cls: type) -> None:
        """Make the program depend on that instances of a named tuple class behave as tuples do."""
        if cls in self._tuple_classes:
            return
        if not lacks(self.tree, self.tree.mro(cls)[:cls.__mro__.index(tuple)], TUPLE_CORE):
            raise Abort(f"the named tuple {cls.__name__}, which changes what tuples do")
        self._tuple_classes.add(cls)

    def as_set(self, value: Value) -> ExistingSetV | None:
        """The view of a set that existed before the call, None for anything else."""
        if type(value) is Obj and type(value.obj) is set:
            return self._view(value, ExistingSetV)
        return None

    def _view(self, value: Obj, kind: type) -> Any:
        obj, source = value.obj, value.source
        if source is None:
            raise Abort(f"a {type(obj).__name__} of unknown origin")
        source.check_type()
        self.note(obj, source)
        found = self.views.get(id(obj))
        if found is None:
            found = self.views[id(obj)] = kind(base=obj, source=source)
            if kind is DictV:
                found.kind = type(obj)
        return found

    def namespace(self, obj: dict) -> DictV:
        """The view of a module's or function's global namespace, which is known by identity."""
        found = self.views.get(id(obj))
        if found is None:
            found = self.views[id(obj)] = DictV(base=obj, source=self.tree.constant(obj))
            self.keep.append(obj)
        return found

    def of_function(self, fn: FunctionType) -> DictV:
        """The view of the attributes of a function."""
        real = fn.__dict__
        if type(real) is not dict:
            raise Abort(f"{fn.__name__}.__dict__ is not a plain dict")
        found = self.views.get(id(real))
        if found is None:
            source = self.tree.constant(fn).child("vars", None, real)
            source.check_type()
            found = self.views[id(real)] = DictV(base=real, source=source)
            self.keep.append(real)
        return found

    def attributes(self, value: Value) -> DictV | None:
        """The view of an instance's `__dict__`, None when it has none."""
        if type(value) is InstanceV:
            return value.attrs
        obj, source = value.obj, value.source
        if isinstance(obj, ModuleType):
            return self.namespace(obj.__dict__)
        if source is None:
            if isinstance(obj, BaseException) and not obj.__dict__:
                return self.errors.setdefault(id(obj), (DictV(), obj))[0]
            raise Abort(f"a {type(obj).__name__} of unknown origin")
        try:
            real = object.__getattribute__(obj, "__dict__")
        except AttributeError:
            return None
        if type(real) is not dict:
            raise Abort(f"{type(obj).__name__}.__dict__ is not a dict")
        source.check_type()
        self.note(obj, source)
        found = self.views.get(id(real))
        if found is None:
            found = self.views[id(real)] = DictV(base=real, source=source.child("vars", None, real))
            self.keep.append(real)
        return found

    def cell(self, real: Any) -> CellV:
        """The view of an existing closure cell."""
        found = self.views.get(id(real))
        if found is None:
            source = self.tree.constant(real)
            try:
                contents = real.cell_contents
            except ValueError:
                source.check("empty_cell")
                content = None
            else:
                content = source.read("cell", None, contents)
            found = self.views[id(real)] = CellV(content, real, source)
            self.keep.append(real)
        return found


def immutable(obj: Any) -> bool:
    """Can a guard pin this object down?"""
    kind = type(obj)
    if kind in BY_VALUE or isinstance(obj, BY_IDENTITY) or kind in allow.NUMPY_NUMBERS:
        return True
    if kind is tuple:
        return all(map(immutable, obj))
    return kind in (slice, BuiltinMethodType) or kind is frozenset and all(type(x) in BY_VALUE for x in obj)


def raise_(kind: type[BaseException], *arguments: Any) -> Any:
    """Raise an exception in the interpreted program. What CPython says of missing attributes and wrong arguments has
    names of classes and functions in it, and other words in other versions: only its type is known.
    """
    error = kind(*arguments)
    if kind in (AttributeError, TypeError):
        error.__dict__["worded"] = True
    raise Raised(error)
