"""Remembering what a public function made of its arguments, so that a second call like the first is one plan.

`zeros(16)` or `x.transpose(0, 1)` take apart their arguments, check them, and end in one op call. For functions that
say so (`@function(memo=True)`) the first call is recorded; the next with the same metadata of the tensors, and the same
other arguments, goes straight to the plan: 0.3 us instead of 1 to 3. That is for functions whose result depends on no
more than that: they look at no element and call ops, or return the tensor itself. A draw of random numbers takes
its counters from the default generator anew.

Several calls become a function of their plans, one after the other, where no tensor requires grad: which intermediate
results do depends on more than the arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.core import devices, dispatch, dtypes, native
from rushlight.core.generator import default_generator
from rushlight.core.meta import Meta, Size
from rushlight.core.op import HANDLERS, PLAN_LIMIT, Op, plan_key
from rushlight.core.steps import Steps
from rushlight.core.tensor import Tensor

MEMOS: list[dict] = []  # all that is remembered here and by indexing and joining, besides the plans of the ops

# Arguments of these types may stand in a key: equal ones mean the same to every function.
_PLAIN = (bool, str, type(None), dtypes.dtype, devices.device, Meta)


def remembering(fn: Callable, call: Callable) -> Callable:
    """`call`, a form of `fn`, with memory. `fn` creates tensors and takes none, or takes one first, called `input`, or
    takes several: their annotations say so."""
    memo = native.Plans()
    dtypes.DECIDED.append(memo)
    MEMOS.append(memo)
    tensors = [name for name, kind in fn.__annotations__.items() if "Tensor" in str(kind) and name != "return"]
    how, make = (0, _creating) if not tensors else (1, _taking) if tensors == ["input"] else (2, _taking_several)
    remembered = functools.wraps(fn)(make(call, memo))
    return native.front(remembered, memo, "recall", how, entry=functools.partial(_entry, memo, how))


def _creating(call: Callable, memo: native.Plans) -> Callable:
    find = memo.get

    def enter(args: tuple, kwargs: dict) -> Any:
        if HANDLERS:
            return call(*args, **kwargs)
        key: tuple = (devices.defaults[-1], args)
        if kwargs:
            key = (*key, *kwargs.items(), *map(type, kwargs.values()))
        try:
            plan, same = find(key) or _NOTHING
            if plan is not None and same(args):
                return plan()
        except TypeError:  # lists cannot be keys
            return call(*args, **kwargs)
        return _learn(memo, key, call, (), args, kwargs)

    def remembered(*args: Any, **kwargs: Any) -> Any:
        return enter(args, kwargs)

    return remembered


def _taking(call: Callable, memo: native.Plans) -> Callable:
    find = memo.get

    def enter(input: Any, args: tuple, kwargs: dict) -> Any:
        if HANDLERS:
            return call(input, *args, **kwargs)
        try:
            key = (input._meta, args)
            if kwargs:
                key = (*key, *kwargs.items(), *map(type, kwargs.values()))
            plan, same = find(key) or _NOTHING
            known = plan is not None and same(args)
        except (TypeError, AttributeError):
            return call(input, *args, **kwargs)
        return plan(input) if known else _learn(memo, key, call, (input,), args, kwargs)

    def remembered(input: Any, *args: Any, **kwargs: Any) -> Any:
        return enter(input, args, kwargs)

    return remembered


def _taking_several(call: Callable, memo: native.Plans) -> Callable:
    find = memo.get

    def enter(args: tuple, kwargs: dict) -> Any:
        if HANDLERS:
            return call(*args, **kwargs)
        given = _metas((*args, *kwargs.values()) if kwargs else args)
        key = (*kwargs, given)
        try:
            plan, same = find(key) or _NOTHING
            known = plan is not None and same(given)
        except TypeError:
            return call(*args, **kwargs)
        if known:
            return plan(*_tensors((*args, *kwargs.values()) if kwargs else args))
        if "out" in kwargs or _is_new(memo, key):
            return call(*args, **kwargs)
        return _learn_several(memo, key, call, given, args, kwargs)

    def remembered(*args: Any, **kwargs: Any) -> Any:
        return enter(args, kwargs)

    return remembered


def _is_new(memo: native.Plans, key: tuple) -> bool:
    """Does a call come for the first time? A number that is another one each time is not worth learning."""
    seen = memo.seen
    if key in seen:
        return False
    if len(seen) >= PLAN_LIMIT:
        seen.clear()
    seen.add(key)
    return True


def _metas(args: tuple) -> tuple:
    """The arguments with the metadata of tensors in their places."""
    return tuple([getattr(x, "_meta", x) for x in args])


def _tensors(args: tuple) -> list:
    return [x for x in args if hasattr(x, "_meta")]


def _entry(memo: native.Plans, how: int, *given: Any) -> tuple | None:
    """What the native form of `enter` remembers of a call."""
    *tensors, args, kwargs = given
    if how == 2:
        names, given = tuple(kwargs), _metas((*args, *kwargs.values()))
        try:
            plan, same = memo.get((*names, given)) or _NOTHING
        except TypeError:
            return None
        if plan is None or not same(given):
            return None
        named = [part for pair in zip(names, given[len(args) :]) for part in pair]
        return True, given[: len(args)], tuple(named), plan
    first = tensors[0]._meta if tensors else devices.defaults[-1]
    try:
        plan, same = memo.get((first, args, *kwargs.items(), *map(type, kwargs.values()))) or _NOTHING
    except TypeError:
        return None
    if plan is None or not same(args):
        return None
    return first, args, tuple([part for pair in kwargs.items() for part in pair]), plan


_NOTHING = (None, None)


def _learn(memo: native.Plans, key: tuple, call: Callable, tensors: tuple, args: tuple, kwargs: dict) -> Any:
    same = _check(args)
    plain = all(type(x) is int or type(x) in _PLAIN for x in kwargs.values())
    if same is None or not plain or key in memo or _is_new(memo, key):
        return call(*tensors, *args, **kwargs)
    return _recorded(memo, key, same, tensors, call, (*tensors, *args), kwargs)


def _learn_several(memo: native.Plans, key: tuple, call: Callable, given: tuple, args: tuple, kwargs: dict) -> Any:
    same, tensors = _check(given), _tensors((*args, *kwargs.values()))
    if key in memo or same is None:
        return call(*args, **kwargs)
    if len(set(map(id, tensors))) == len(tensors):
        return _recorded(memo, key, same, tuple(tensors), call, args, kwargs)
    if any(x._meta.requires_grad for x in tensors):  # which of its places does a tensor come from?
        return call(*args, **kwargs)
    args = tuple([_apart(x) for x in args])
    kwargs = {name: _apart(x) for name, x in kwargs.items()}
    apart = _tensors((*args, *kwargs.values()))
    result = _recorded(memo, key, same, tuple(apart), call, args, kwargs)
    return next((x for x, other in zip(tensors, apart) if other is result), result)  # the caller's own, in place


def _apart(x: Any) -> Any:
    """Another tensor object over the same memory."""
    return x.as_subclass(Tensor) if isinstance(x, Tensor) else x


def _recorded(
    memo: dict, key: tuple, same: Callable, tensors: tuple, call: Callable, args: tuple, kwargs: dict
) -> Any:
    recorder = Recorder()
    with dispatch.push(recorder):
        result = call(*args, **kwargs)
    if len(memo) >= PLAN_LIMIT:
        memo.clear()
    memo[key] = recorder.plan(tensors, result) or _again(call, args, kwargs), same
    return result


def _again(call: Callable, args: tuple, kwargs: dict) -> Callable:
    """The call itself as a function of its tensors, for one that may take other steps each time."""
    places = [k for k, x in enumerate(args) if hasattr(x, "_meta")]
    names = [name for name, x in kwargs.items() if hasattr(x, "_meta")]
    given = [None if k in places else x for k, x in enumerate(args)]
    named = {name: x for name, x in kwargs.items() if name not in names}

    def again(*tensors: Any) -> Any:
        arguments = given.copy()
        for k, x in zip(places, tensors):
            arguments[k] = x
        return call(*arguments, **named, **dict(zip(names, tensors[len(places) :])))

    return again


# Equal arguments are not always the same: 2.0 equals 2, but is no size.


def _check(args: tuple) -> Callable[[tuple], bool] | None:
    """The function that says of arguments equal to these whether they mean the same; None: they are not to be kept."""
    if not args:
        return _any
    if all(type(x) is int for x in args):
        return _ints
    if len(args) == 1 and type(args[0]) in (tuple, Size) and all(type(x) is int for x in args[0]):
        return _ints_inside
    kinds = tuple(map(type, args))
    if all(kind is int or kind in _PLAIN for kind in kinds):
        return lambda others: tuple(map(type, others)) == kinds
    parts = [x for part in args for x in (part if type(part) in (tuple, Size) else (part,))]
    if all(type(x) in (int, float) and x == x or type(x) in _PLAIN for x in parts):
        text = _text(args)
        return lambda others: _text(others) == text
    return None


def _text(args: tuple) -> str:
    """Tells 2.0 from 2 and 0.0 from -0.0, inside of a tuple, too."""
    return repr([x for x in args if type(x) is not Meta])


def _any(args: tuple) -> bool:
    return True


def _ints(args: tuple) -> bool:
    for x in args:  # the quickest way to ask; True is no int here, `std(True)` is not `std(1)`
        if x.__class__ is not int:
            return False
    return True


def _ints_inside(args: tuple) -> bool:
    return _ints(args[0])


class Recorder:
    """The handler that notes the op calls of one run of a function."""

    def __init__(self) -> None:
        self.calls: list[tuple[Op, tuple, tuple, Any, Any]] = []

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        with dispatch.below():
            result = op.execute(operands, params)
        self.calls.append((op, operands, params, result, getattr(result, "_meta", None)))
        return result

    def took(self, tensors: tuple) -> bool:
        """Were all the tensors operands? The function may have read elements of another one, as its numbers."""
        taken = {id(x) for _, operands, *_ in self.calls for x in operands}
        return all(id(x) in taken for x in tensors)

    def plan(self, tensors: tuple, result: Any) -> Callable | None:
        """The function of the tensors that does what was recorded; None where that may not be the same each time."""
        if not self.calls and tensors and result is tensors[0]:
            return lambda input, *others: input
        if len(tensors) > 1 and not self.took(tensors[1:]):
            return None
        if len(self.calls) != 1:
            return Steps(self.calls, tensors, result).function()
        op, operands, params, returned, meta = self.calls[0]
        plan = op.plans.get(plan_key(operands, params))
        if plan is None or returned is not result:
            return Steps(self.calls, tensors, result).function()
        if getattr(result, "_meta", None) is not meta:
            return None  # requires_grad_() changes a result, for instance
        if op.counters is not None and not [x for x in operands if isinstance(x, Tensor)]:
            counters, take = op.counters(*params), default_generator.take
            return lambda *tensors: plan(*take(counters))
        if len(operands) == len(tensors) and all(x is y for x, y in zip(operands, tensors)) and tensors:
            return plan
        if tensors or op.mutates:
            return Steps(self.calls, tensors, result).function()
        made = functools.partial(plan, *operands)
        if not op.random:
            made = native.form("copy", made, result)  # the same each time, as the function looks at no element
        return None if [x for x in operands if isinstance(x, Tensor)] else made
