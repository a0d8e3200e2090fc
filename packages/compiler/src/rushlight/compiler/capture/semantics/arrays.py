"""Numbers and arrays of numpy that a program computes from numbers, beside its tensors: they run natively.

Arrays that the program made are real ones, and nothing writes to them. What it does with arrays from outside, and with
the memory of tensors, is left to eager execution.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import BoundBuiltin, Obj, TupleV, Value, constant
from rushlight.compiler.capture.view import ListV
from rushlight.ops.create import from_numpy, tensor
from rushlight.ops.interop import as_tensor

Args = list[Value]
Kwargs = dict[str, Value]
LARGEST = 1 << 16  # elements of an array that a dry run makes

# Functions that give a result and do nothing else; ufuncs are all of that kind.
_NAMES = """
    prod sum mean std var max min amax amin argmax argmin clip round around linspace arange zeros ones full eye array
    cumsum cumprod dot outer diff concatenate stack interp logspace geomspace hanning hamming blackman median percentile
    quantile any all isclose allclose where ptp trapezoid sort argsort unique reshape ravel squeeze transpose flip roll
"""
FUNCTIONS = {id(found): found for found in [getattr(np, name, None) for name in _NAMES.split()] + [
    x for x in vars(np).values() if isinstance(x, np.ufunc)]}
METHODS = frozenset("""
    astype sum mean std var min max argmin argmax reshape tolist item copy cumsum prod round clip any all flatten ravel
    squeeze transpose
""".split())
ATTRIBUTES = frozenset(("shape", "ndim", "size", "T", "nbytes"))


def is_own(value: Value) -> bool:
    """Is it an array that the program made?"""
    return isinstance(value, Obj) and type(value.obj) is np.ndarray and value.source is None


def is_function(obj: Any) -> bool:
    """Is it a function of numpy that may run natively?"""
    return obj is not None and FUNCTIONS.get(id(obj)) is obj


def call(session: Session, fn: Obj, args: Args, kwargs: Kwargs) -> Value:
    """A call of such a function with numbers, sequences of them, and arrays that the program made."""
    if fn.source is not None:
        fn.source.check_identity()
    if "out" in kwargs or "where" in kwargs:
        raise Abort("a numpy function that writes")
    return run(session, fn.obj, [_plain(session, a) for a in args], {k: _plain(session, v) for k, v in kwargs.items()})


def adopted(session: Session, args: Args, kwargs: Kwargs, again: bool = False) -> Value | None:
    """`from_numpy(array)` of an array from outside: a tensor that existed before, for a second one would be another
    object.
    """
    array = args[0].obj if args and isinstance(args[0], Obj) else None
    source = args[0].source if args and isinstance(args[0], Obj) else None
    if type(array) is not np.ndarray or source is None or len(args) != 1 or kwargs:
        return None
    if not array.flags.writeable or array.dtype.kind not in "biufc":
        raise Abort("an array that must not be written, or one of objects")
    source.check_type()
    try:
        made = from_numpy(array)
    except (TypeError, ValueError):
        raise Abort("an array that no tensor lies over") from None
    if not again and source.child("adopted", None, made) in session.recorder.by_source:
        raise Abort("an array that becomes a tensor twice")
    return source.read("adopted", None, made)


def copied(session: Session, args: Args, kwargs: Kwargs) -> Value | None:
    """`tensor(array, dtype=...)` of an array from outside."""
    found = adopted(session, args, {}, again=True) if kwargs.keys() <= {"dtype"} else None
    if found is None or not args[0].obj.flags.c_contiguous:  # type: ignore[attr-defined]
        return None
    made = found.tracer.clone()  # type: ignore[attr-defined]
    return session.recorder.value_of(made.to(session.concrete(kwargs["dtype"])) if "dtype" in kwargs else made)


def taken(session: Session, args: Args, kwargs: Kwargs) -> Value | None:
    """`as_tensor(array, dtype=...)` of an array from outside."""
    dtype = session.concrete(kwargs["dtype"]) if kwargs.keys() == {"dtype"} else None
    found = adopted(session, args, kwargs if dtype is None else {})
    if found is None or dtype is None:
        return found
    return session.recorder.value_of(found.tracer.to(dtype))  # type: ignore[attr-defined]


CONVERSIONS = {from_numpy: adopted, tensor: copied, as_tensor: taken}


def load(session: Session, value: Obj, name: str) -> Value:
    """`array.name`."""
    if name in METHODS:
        return BoundBuiltin(name, value)
    if name in ATTRIBUTES:
        return _result(getattr(value.obj, name))
    raise Abort(f"the attribute {name} of an array")


def method(session: Session, value: Obj, name: str, args: Args, kwargs: Kwargs) -> Value:
    """`array.name(*args, **kwargs)`."""
    if "out" in kwargs:
        raise Abort("a numpy function that writes")
    return run(session, getattr(value.obj, name), [_plain(session, a) for a in args],
               {k: _plain(session, v) for k, v in kwargs.items()})


def operator(session: Session, function: Any, *operands: Value) -> Value:
    """An operator of which an operand is an array that the program made, or a number of numpy."""
    return run(session, function, [_plain(session, x) for x in operands], {})


def is_operand(*operands: Value) -> bool:
    """Does an operator between these values run code of numpy?"""
    return any(is_own(x) or isinstance(x, Obj) and type(x.obj) in allow.NUMPY_NUMBERS for x in operands)


def holds_numbers(*found: Any) -> bool:
    """Are numbers of numpy among some plain objects, or in their tuples and lists?"""
    return any(holds_numbers(*x) if type(x) in (tuple, list) else holds_numbers(*x.values()) if type(x) is dict
               else type(x) in allow.NUMPY_NUMBERS for x in found)


def watch_texts(session: Session) -> None:
    """Make the program depend on how numpy writes numbers."""
    session.settings.append((_legacy, _legacy()))


def _legacy() -> Any:
    found = np.get_printoptions()["legacy"]
    return sys.intern(found) if type(found) is str else found


def run(session: Session, function: Any, args: list, kwargs: dict) -> Value:
    """Call a function natively. What numpy would warn of is left to eager execution, which warns."""
    try:
        with np.errstate(all="raise"), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = function(*args, **kwargs)
    except FloatingPointError:
        raise Abort("a number that numpy warns of") from None
    except MemoryError:
        raise Abort("an array that there is no memory for") from None
    except Exception as error:
        if "read-only" in str(error):
            raise Abort("a numpy function that writes") from None
        raise Raised(error.with_traceback(None)) from None
    if said:
        raise Abort("a number that numpy warns of")
    if isinstance(found, str):
        watch_texts(session)
    return _result(found)


def _result(found: Any) -> Value:
    if type(found) is np.ndarray:
        if found.size > LARGEST or found.dtype.kind not in "biufc":
            raise Abort("a large array, or one of objects")
        found.flags.writeable = False
        return Obj(found)
    if type(found) is tuple:
        return TupleV([_result(x) for x in found])
    if isinstance(found, list):
        return ListV([_result(x) for x in found])
    return constant(found)


def _plain(session: Session, value: Value) -> Any:
    """A number, a sequence of numbers, or an array."""
    if is_own(value):
        return value.obj  # type: ignore[attr-defined]
    items = session.as_list(value)
    if items is not None:
        return [_plain(session, x) for x in items.load()]
    if isinstance(value, TupleV):
        return tuple([_plain(session, x) for x in value.items])
    found = session.plain(value)
    if isinstance(found, type) and found not in allow.NUMPY_NUMBERS and found not in allow.BUILTIN_TYPES:
        raise Abort("a class given to a function of numpy")  # which looks at its attributes
    return found
