"""Containers of the standard library, and functions on lists that it has: collections, heapq, bisect."""

from __future__ import annotations

import bisect
import collections
import heapq
from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import attr, call, compare, container, iterate, methods
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import NONE, Value, constant
from rushlight.compiler.capture.view import DequeV, DictV, ListV

Args = list[Value]
Kwargs = dict[str, Value]


def _deque(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if kwargs.keys() - {"iterable", "maxlen"}:
        raise Abort(f"the arguments {', '.join(kwargs)}")
    given = dict(zip(("iterable", "maxlen"), args)) | kwargs
    most = session.concrete(given["maxlen"]) if "maxlen" in given else None
    if most is not None and type(most) is not int:
        raise Abort(f"a {type(most).__name__} as a count")
    items = iterate.unpack(session, given["iterable"]) if "iterable" in given else []
    return DequeV(items if most is None else items[len(items) - min(most, len(items)):], most)


def _defaultdict(session: Session, args: Args, kwargs: Kwargs) -> Value:
    made = DictV(kind=collections.defaultdict)
    made.factory = args[0] if args else NONE
    methods.update(session, made, args[1:], kwargs)
    return made


def _count_elements(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """What `Counter.update` does with an iterable."""
    mapping = session.as_dict(args[0])
    if mapping is None or attr.lookup(session, mapping.kind, "get")[0] is not dict.get:
        raise Abort("counting in something else than a Counter")
    for item in iterate.steps(session, args[1]):
        key = container.key_of(session, item)
        mapping.set(key, compare.binary(session, "+", mapping.get(key) or constant(0), constant(1), inplace=False))
    return NONE


# heapq: what it does besides moving items is written in Python


def _heap(session: Session, value: Value) -> ListV:
    found = session.as_list(value)
    if found is None:
        raise Abort(f"a heap that is a {session.type_name(value)}")
    return found


def _sift(session: Session, heap: ListV, function: Any, *numbers: int) -> None:
    call.call_function(session, function, [heap, *map(constant, numbers)], {})


def _heappush(session: Session, args: Args, kwargs: Kwargs) -> Value:
    heap = _heap(session, args[0])
    heap.load()
    heap.write("append", args[1])
    _sift(session, heap, heapq._siftdown, 0, len(heap.load()) - 1)  # type: ignore[attr-defined]
    return NONE


def _heappop(session: Session, args: Args, kwargs: Kwargs) -> Value:
    heap = _heap(session, args[0])
    if not heap.load():
        return raise_(IndexError, "index out of range")
    last = heap.write("pop")
    if not heap.load():
        return last
    return _replaced(session, heap, last)


def _replaced(session: Session, heap: ListV, item: Value) -> Value:
    first = heap.load()[0]
    heap.write("setitem", 0, item)
    _sift(session, heap, heapq._siftup, 0)  # type: ignore[attr-defined]
    return first


def _heapreplace(session: Session, args: Args, kwargs: Kwargs) -> Value:
    heap = _heap(session, args[0])
    if not heap.load():
        return raise_(IndexError, "index out of range")
    return _replaced(session, heap, args[1])


def _heappushpop(session: Session, args: Args, kwargs: Kwargs) -> Value:
    heap = _heap(session, args[0])
    if heap.load() and container.truth(session, compare.rich(session, "<", heap.load()[0], args[1])):
        return _replaced(session, heap, args[1])
    return args[1]


def _heapify(session: Session, args: Args, kwargs: Kwargs) -> Value:
    heap = _heap(session, args[0])
    for at in reversed(range(len(heap.load()) // 2)):
        _sift(session, heap, heapq._siftup, at)  # type: ignore[attr-defined]
    return NONE


def _bisected(function: Callable) -> Callable:
    """`bisect_left` and its like, on numbers and texts."""
    def find(session: Session, args: Args, kwargs: Kwargs) -> Value:
        if "key" in kwargs or not args:
            raise Abort(f"{function.__name__} with a key")
        if session.as_list(args[0]) is None and session.type_of(args[0]) not in (tuple, range, str):
            raise Abort(f"{function.__name__} in a {session.type_name(args[0])}")
        items = [session.plain(x) for x in iterate.unpack(session, args[0])]
        given, named = [session.plain(a) for a in args[1:]], {k: session.plain(v) for k, v in kwargs.items()}
        try:
            return constant(function(items, *given, **named))
        except Exception as error:
            raise Raised(error.with_traceback(None)) from None

    return find


CONSTRUCTORS: dict[Any, Callable] = {collections.deque: _deque, collections.defaultdict: _defaultdict}
FUNCTIONS: dict[Any, Callable] = {
    collections._count_elements: _count_elements,  # type: ignore[attr-defined]
    heapq.heappush: _heappush, heapq.heappop: _heappop, heapq.heapreplace: _heapreplace,
    heapq.heappushpop: _heappushpop, heapq.heapify: _heapify,
    bisect.bisect_left: _bisected(bisect.bisect_left), bisect.bisect_right: _bisected(bisect.bisect_right),
}
