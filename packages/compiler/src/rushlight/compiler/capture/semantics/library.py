"""Classes and functions of the standard library that programs compute with: itertools, functools, collections."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import (
    arrays,
    attr,
    call,
    compare,
    container,
    containers,
    context,
    copies,
    iterate,
    outside,
    patterns,
)
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import (
    NONE,
    FunctionV,
    InstanceV,
    IterV,
    Obj,
    Special,
    TupleV,
    Value,
    constant,
)

Args = list[Value]
Kwargs = dict[str, Value]
LONG = 10_000  # items that an iterator over all combinations may give


def _number(session: Session, value: Value) -> int | None:
    found = session.concrete(value)
    if found is not None and type(found) is not int:
        raise Abort(f"a {type(found).__name__} as a count")
    return found


def _plain_arguments(kwargs: Kwargs, *allowed: str) -> None:
    if kwargs.keys() - set(allowed):
        raise Abort(f"the arguments {', '.join(kwargs)}")


# itertools


def _chain(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return IterV(x for a in args for x in iterate.steps(session, a))


def _chain_of(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return IterV(x for a in iterate.steps(session, args[0]) for x in iterate.steps(session, a))


def _combined(combine: Callable) -> Callable:
    def made(session: Session, args: Args, kwargs: Kwargs) -> Value:
        _plain_arguments(kwargs, "repeat")
        pools = [iterate.unpack(session, args[0])] if combine is not itertools.product else [
            iterate.unpack(session, a) for a in args]
        numbers = [_number(session, a) for a in args[1:]] if combine is not itertools.product else []
        named = {name: _number(session, value) for name, value in kwargs.items()}
        found = list(itertools.islice(combine(*pools, *numbers, **named), LONG + 1))
        if len(found) > LONG:
            raise Abort(f"more than {LONG} combinations")
        return IterV(TupleV(list(items)) for items in found)

    return made


def _islice(session: Session, args: Args, kwargs: Kwargs) -> Value:
    bounds = slice(*[_number(session, a) for a in args[1:]])
    start, stop, step = bounds.start or 0, bounds.stop, bounds.step or 1
    if min(start, step - 1, 0 if stop is None else stop) < 0:
        raise Abort("islice with negative numbers")
    source = iterate.iterate(session, args[0])

    def items() -> Iterator[Value]:
        at, wanted = 0, start
        while stop is None or wanted < stop or at < stop:
            if stop is not None and at >= stop:
                return
            item = iterate.advance(session, source)
            if item is None:
                return
            if at == wanted:
                wanted += step
                yield item
            at += 1

    return IterV(items())


def _count(session: Session, args: Args, kwargs: Kwargs) -> Value:
    _plain_arguments(kwargs, "start", "step")
    start = args[0] if args else kwargs.get("start", constant(0))
    step = args[1] if len(args) > 1 else kwargs.get("step", constant(1))

    def items() -> Iterator[Value]:
        at = start
        while True:
            yield at
            at = compare.binary(session, "+", at, step, inplace=False)

    return IterV(items())


def _cycle(session: Session, args: Args, kwargs: Kwargs) -> Value:
    source = iterate.steps(session, args[0])

    def items() -> Iterator[Value]:
        seen = []
        for item in source:
            seen.append(item)
            yield item
        while seen:
            yield from seen

    return IterV(items())


def _repeat(session: Session, args: Args, kwargs: Kwargs) -> Value:
    _plain_arguments(kwargs, "times")
    times = args[1] if len(args) > 1 else kwargs.get("times")
    return IterV(itertools.repeat(args[0]) if times is None else itertools.repeat(args[0], _number(session, times)))


def _accumulate(session: Session, args: Args, kwargs: Kwargs) -> Value:
    _plain_arguments(kwargs, "initial", "func")
    function = args[1] if len(args) > 1 else kwargs.get("func", NONE)
    initial = kwargs.get("initial", NONE)

    def add(a: Value, b: Value) -> Value:
        if function is NONE:
            return compare.binary(session, "+", a, b, inplace=False)
        return call.call(session, function, [a, b], {})

    source = iterate.steps(session, args[0])
    return IterV(itertools.accumulate(source, add) if initial is NONE else
                 itertools.accumulate(source, add, initial=initial))


def _pairwise(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return IterV(TupleV([a, b]) for a, b in itertools.pairwise(iterate.steps(session, args[0])))


def _starmap(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return IterV(call.call(session, args[0], iterate.unpack(session, items), {})
                 for items in iterate.steps(session, args[1]))


def _while(take: bool) -> Callable:
    def made(session: Session, args: Args, kwargs: Kwargs) -> Value:
        function = itertools.takewhile if take else itertools.dropwhile
        return IterV(function(lambda x: container.truth(session, call.call(session, args[0], [x], {})),
                              iterate.steps(session, args[1])))

    return made


def _zip_longest(session: Session, args: Args, kwargs: Kwargs) -> Value:
    _plain_arguments(kwargs, "fillvalue")
    sources = [iterate.steps(session, a) for a in args]
    rows = itertools.zip_longest(*sources, fillvalue=kwargs.get("fillvalue", NONE))
    return IterV(TupleV(list(row)) for row in rows)


def _groupby(session: Session, args: Args, kwargs: Kwargs) -> Value:
    _plain_arguments(kwargs, "iterable", "key")
    given = dict(zip(("iterable", "key"), args)) | kwargs
    key = given.get("key", NONE)
    items = iterate.steps(session, given["iterable"])
    ahead: list[tuple[Value, Value]] = []  # the next item and what it is grouped by, if somebody has looked at it
    groups_made = 0

    def look() -> bool:
        if not ahead:
            item = next(items, None)
            if item is None:
                return False
            ahead.append((item, item if session.is_none(key) else call.call(session, key, [item], {})))
        return True

    def group(number: int, mark: Value) -> Iterator[Value]:
        while number == groups_made and look() and compare.same_or_equal(session, mark, ahead[0][1]):
            yield ahead.pop()[0]

    def groups() -> Iterator[Value]:
        nonlocal groups_made
        mark: Value | None = None
        while look():
            if mark is not None and compare.same_or_equal(session, mark, ahead[0][1]):
                ahead.clear()  # what is left of a group when the next one is asked for
                continue
            mark = ahead[0][1]
            yield TupleV([mark, IterV(group(groups_made, mark))])
            groups_made += 1

    return IterV(groups())


# functools and operator


def _partial(session: Session, args: Args, kwargs: Kwargs) -> Value:
    function, *fixed = args
    return Special("partial", lambda session, more, named: call.call(session, function, [*fixed, *more],
                                                                     {**kwargs, **named}))


def _update_wrapper(session: Session, args: Args, kwargs: Kwargs) -> Value | None:
    """What `functools.wraps` does to a function that the program made: it is seen when it is asked for its name."""
    wrapper = args[0]
    given = dict(zip(("wrapped", "assigned", "updated"), args[1:])) | kwargs
    if not isinstance(wrapper, FunctionV) or wrapper.wrapped is not None:
        return None
    for name, standard in (("assigned", functools.WRAPPER_ASSIGNMENTS), ("updated", functools.WRAPPER_UPDATES)):
        if name in given and session.concrete(given[name]) != standard:
            return None
    wrapper.wrapped = given["wrapped"]
    return wrapper


def _reduce(session: Session, args: Args, kwargs: Kwargs) -> Value:
    items = iterate.steps(session, args[1])
    total = args[2] if len(args) > 2 else next(items, None)
    if total is None:
        return raise_(TypeError, "reduce() of empty iterable with no initial value")
    for item in items:
        total = call.call(session, args[0], [total, item], {})
    return total


def _itemgetter(session: Session, args: Args, kwargs: Kwargs) -> Value:
    def get(session: Session, given: Args, named: Kwargs) -> Value:
        found = [container.get_item(session, given[0], key) for key in args]
        return found[0] if len(found) == 1 else TupleV(found)

    return Special("itemgetter", get)


def _attrgetter(session: Session, args: Args, kwargs: Kwargs) -> Value:
    names = [session.concrete(a).split(".") for a in args]

    def one(session: Session, value: Value, path: list[str]) -> Value:
        for name in path:
            value = attr.load(session, value, name)
        return value

    def get(session: Session, given: Args, named: Kwargs) -> Value:
        found = [one(session, given[0], path) for path in names]
        return found[0] if len(found) == 1 else TupleV(found)

    return Special("attrgetter", get)


def _methodcaller(session: Session, args: Args, kwargs: Kwargs) -> Value:
    name, *fixed = args

    def do(session: Session, given: Args, named: Kwargs) -> Value:
        return call.call(session, attr.load(session, given[0], session.concrete(name)), fixed, kwargs)

    return Special("methodcaller", do)


GETTERS = {operator.itemgetter: _itemgetter, operator.attrgetter: _attrgetter, operator.methodcaller: _methodcaller}


def getter(session: Session, value: Obj) -> Value | None:
    """An existing `itemgetter` or its like as the program would make it; None for other objects."""
    make = GETTERS.get(type(value.obj))
    if make is None:
        return None
    if value.source is None:
        raise Abort(f"a {type(value.obj).__name__} of unknown origin")
    value.source.check_identity()  # it cannot change
    reduced = value.obj.__reduce__()
    if reduced[0] is not type(value.obj):
        raise Abort("a methodcaller with keywords")
    return make(session, [constant(x) for x in reduced[1]], {})


def dispatched(session: Session, fn: FunctionType, args: Args) -> Value | None:
    """The implementation that a function made by `functools.singledispatch` has for its first argument."""
    choose = fn.__dict__.get("dispatch")
    if fn.__globals__ is not vars(functools) or "registry" not in fn.__dict__ or choose is None or not args:
        return None
    cls = session.type_of(args[0])
    found = choose(cls)
    session.settings.append((functools.partial(choose, cls), found))
    return Obj(found, session.tree.constant(found))


CACHED: type = functools._lru_cache_wrapper


def cached(session: Session, value: Obj, args: Args, kwargs: Kwargs) -> Value:
    """A call of a function with an `lru_cache`: what the cache has, as long as it has that.

    Whether it does is looked up where the cache keeps its results: asking the function would run it, too early or on
    a path that the program does not take. So the first call with some arguments is left to eager execution.
    """
    fn = value.obj
    if value.source is not None:
        value.source.check_identity()
    positional, named = [session.plain(a) for a in args], {name: session.plain(x) for name, x in kwargs.items()}
    holds = gc.get_referents(fn)
    kept = [x for x in holds if type(x) is dict and x is not fn.__dict__][-1]
    key: Any = tuple(positional)
    if named:
        key += ([x for x in holds if type(x) is object][-1], *itertools.chain.from_iterable(named.items()))
    about = fn.__dict__.get("cache_parameters")
    if getattr(about, "__globals__", None) is not vars(functools):
        raise Abort("a cached function that has lost its parameters")
    if about()["typed"]:
        key += (*map(type, positional), *map(type, named.values()))
    elif len(key) == 1 and type(key[0]) in (int, str):
        key = key[0]

    def ask() -> Any:
        return fn(*positional, **named) if key in kept else kept

    result = ask()
    if result is kept:
        raise Abort("a cached function that has no result yet for these arguments")
    session.settings.append((ask, result))
    return session.lift(result, session.tree.constant(result))


def _enter_context(session: Session, args: Args, kwargs: Kwargs) -> Value | None:
    """`ExitStack.enter_context(manager)`."""
    if len(args) != 2 or kwargs or not isinstance(args[0], InstanceV):
        return None
    leave, entered = context.enter(session, args[1])
    callbacks = session.as_deque(attr.load(session, args[0], "_exit_callbacks"))
    if callbacks is None:
        raise Abort("an ExitStack of another kind")
    callbacks.write("append", TupleV([constant(True), leave]))
    return entered


def _exc_info(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if any(frame.handled and frame.handled[-1] is not None for frame in session.frames):
        raise Abort("sys.exc_info() while an exception is handled")
    return TupleV([NONE, NONE, NONE])


CONSTRUCTORS: dict[Any, Callable] = {
    itertools.chain: _chain, itertools.product: _combined(itertools.product),
    itertools.combinations: _combined(itertools.combinations),
    itertools.permutations: _combined(itertools.permutations), itertools.islice: _islice, itertools.count: _count,
    itertools.cycle: _cycle, itertools.repeat: _repeat, itertools.accumulate: _accumulate,
    itertools.pairwise: _pairwise, itertools.starmap: _starmap, itertools.takewhile: _while(True),
    itertools.dropwhile: _while(False), itertools.zip_longest: _zip_longest, itertools.groupby: _groupby,
    functools.partial: _partial, **GETTERS, **containers.CONSTRUCTORS,
}
# A handler that gives None leaves the function to be interpreted.
PYTHON_FUNCTIONS: dict[Any, Callable] = {functools.update_wrapper: _update_wrapper,
                                         contextlib.ExitStack.enter_context: _enter_context, **arrays.CONVERSIONS,
                                         **copies.FUNCTIONS, **outside.FUNCTIONS, **patterns.FUNCTIONS}
FUNCTIONS: dict[Any, Callable] = {itertools.chain.from_iterable: _chain_of, functools.reduce: _reduce,
                                  sys.exc_info: _exc_info, **containers.FUNCTIONS}
