"""`Op`: the one declaration of an operation, and the registry of all of them.

Everything about an operation hangs on its `Op`: how its result looks (`infer`), how it is computed (`scalar`, `reduce`,
`numpy` or registered kernels), with what it is tested (`samples`, `errors`). Calling an op looks up a *plan*, the
function that runs it for operands with the given metadata; see `rushlight.core.eager`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rushlight.core import dtypes, native
from rushlight.core.meta import Meta, of_number

Infer = Callable[..., "Meta | tuple[Meta, ...] | None"]

HANDLERS: list = []  # one entry per handler pushed by any thread; empty means that no call needs a look at the stack
GUEST: list = []  # the handler of threads that have none, as long as another one puts operations off; at most one
WATCHERS: list[Callable] = []  # what `rushlight.core.recording` puts around new plans: `watch(op, key, plan)`

PLAN_LIMIT = 4096  # plans kept per op; a program with endless new shapes starts over instead of growing


class _Stack(threading.local):
    """The handlers of a thread, the innermost last; None among them stands for calls below all handlers."""

    def __init__(self) -> None:
        self.handlers: list = []
        self.settles = True  # False while operations run that were put off: those write to memory of their own only


STACK = _Stack()


@dataclass(frozen=True)
class Sample:
    """Arguments to test an op with: operands (numpy arrays, numbers or None) and params. A numpy scalar stands for a
    0-dim tensor.
    """

    operands: tuple
    params: tuple = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "operands", tuple([np.asarray(x) if isinstance(x, np.generic) else x for x in self.operands])
        )


@dataclass(frozen=True)
class ErrorSample:
    """Arguments that an op must refuse, and how."""

    operands: tuple
    params: tuple
    error: type[Exception]
    match: str


class Fold(NamedTuple):
    """How a reduction folds elements, in scalar functions: `init` changes nothing, `combine` folds two, `finish` makes
    the result from what was folded and the number of elements, `pre` what is folded from an element.
    """

    init: Any
    combine: Callable
    finish: Callable | None = None
    pre: Callable | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """A primitive operation. Make one with the builders in `rushlight.core.declare`.

    Kinds: `elementwise` (one scalar function), `reduction` (init, combine, finish), `view` (shares the memory of
    operand 0), `structured` (kernels per device), `inplace` (twin of an elementwise op that writes into operand 0).
    `bounded` is a limit, a quicker scalar definition for real operands, and the measure that must be at most the limit
    for all of them.
    `places(input_meta, *params)` are the least number that a view with a number takes, negative ones counting from the
    end, and the first that is too large; a view with `anywhere` may lie outside of its operand, or
    depends on where in memory that lies.
    `autocast` is `narrow` for products, whose operands a mixed-precision region makes half ones.
    `counters(*params)` says how many counters of its generator a random op takes, whose operands are seed and offset.
    """

    name: str
    kind: str
    operands: tuple[str, ...]
    params: tuple[str, ...]
    infer: Infer
    doc: str = ""
    scalar: Callable | None = None
    numpy: Callable | None = None
    promote: str = "default"
    reduce: Any = None
    variadic: bool = False
    mutates: tuple[int, ...] = ()
    functional: Op | None = None
    random: bool = False
    counters: Callable[..., int] | None = None
    places: Callable[..., tuple[int, int]] | None = None
    anywhere: bool = False
    autocast: str = ""
    reference: Callable | None = None
    samples: Callable[[], list[Sample]] = list
    errors: Callable[[], list[ErrorSample]] = list
    domain: tuple[float, float] | None = None
    bounded: tuple[float, Callable, Callable] | None = None
    supports: str = "all"
    decomposition: Callable | None = None
    plans: native.Plans = field(default_factory=native.Plans)
    kernels: dict[str, Callable] = field(default_factory=dict)

    def __post_init__(self) -> None:
        dtypes.DECIDED.append(self.plans)

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Run on operands by position and params by name."""
        return self.apply(operands, tuple([params[name] for name in self.params]) if params else ())

    def apply(self, operands: tuple, params: tuple = ()) -> Any:
        """Run the op: the canonical call, with all operands and all params in declaration order."""
        if HANDLERS:
            stack = STACK.handlers
            handler = stack[-1] if stack else GUEST[-1] if GUEST else None
            if handler is not None:
                return handler.handle(self, operands, params)
        if len(operands) == 1:  # spelled out, like the next ones, because every call passes here
            x = operands[0]
            plan = self.plans.get((getattr(x, "_meta", None) or type(x), *params))
        elif len(operands) == 2:
            x, y = operands
            key = (getattr(x, "_meta", None) or type(x), getattr(y, "_meta", None) or type(y), *params)
            plan = self.plans.get(key)
        elif operands:
            plan = self.plans.get(plan_key(operands, params))
        else:
            plan = self.plans.get(params)
        return self.first_call(operands, params) if plan is None else plan(*operands)

    def execute(self, operands: tuple, params: tuple = ()) -> Any:
        """Run the op below all handlers: through its plan."""
        plan = self.plans.get(plan_key(operands, params))
        return self.first_call(operands, params) if plan is None else plan(*operands)

    def first_call(self, operands: tuple, params: tuple = ()) -> Any:
        """Make, keep and run the plan for operands like these."""
        from rushlight.core import eager  # the planner imports the tensor class, which needs ops

        operands = tuple([eager.operand(self, i, x) for i, x in enumerate(operands)])
        metas = tuple([meta_of(x) for x in operands])
        if self.kind != "structured" and None in (metas if self.kind in ("elementwise", "inplace") else metas[:1]):
            name = self.operand_name(metas.index(None))
            raise TypeError(f"{self.name}: {name} must be a Tensor, got NoneType; pass a tensor or a number")
        plan = native.counted(eager.make_plan(self, metas, params))
        if len(self.plans) >= PLAN_LIMIT:
            self.plans.clear()
        key = plan_key(operands, params)
        if WATCHERS:
            plan = WATCHERS[-1](self, key, plan)
        self.plans[key] = plan
        return plan(*operands)

    def infer_metas(self, operands: tuple, params: tuple = ()) -> Meta | tuple[Meta, ...] | None:
        """Metadata of the result for operands that have a `_meta` (tensors, tracers), are numbers, or None."""
        return self.infer(*[meta_of(x) for x in operands], *params)

    def fold(self, params: tuple) -> Fold | None:
        """How the op folds for given params, if it is a reduction that says so."""
        return self.reduce(*params) if callable(self.reduce) else self.reduce

    def operand_name(self, index: int) -> str:
        """The name of an operand; operands of a variadic op share the last name."""
        if index < len(self.operands) - self.variadic:
            return self.operands[index]
        return f"{self.operands[-1]}[{index - len(self.operands) + 1}]"

    def __repr__(self) -> str:
        return f"<Op {self.name}>"

    def __reduce__(self):
        return (lookup, (self.name,))


def plan_key(operands: tuple, params: tuple) -> tuple:
    """What a plan depends on: metadata of tensors, types of numbers, params."""
    return (*[getattr(x, "_meta", None) or type(x) for x in operands], *params)


def meta_of(x: Any) -> Meta | None:
    """The metadata of an operand: a tensor's own, a weak one for a number, None for None."""
    found = getattr(x, "_meta", None)
    if found is not None or x is None:
        return found
    return of_number(type(x))


REGISTRY: dict[str, Op] = {}


class _Prims:
    """The registry by attribute: `prims.exp` is `REGISTRY["exp"]`."""

    def __getattr__(self, name: str) -> Op:
        try:
            return REGISTRY[name]
        except KeyError:
            raise AttributeError(f"no op named {name!r} is declared") from None

    def __dir__(self) -> list[str]:
        return sorted(REGISTRY)


prims = _Prims()


def register(op: Op) -> Op:
    """Enter an op into the registry; a second op of the same name is an error."""
    if op.name in REGISTRY:
        raise ValueError(f"op {op.name!r} is declared twice")
    REGISTRY[op.name] = op
    return op


def lookup(name: str) -> Op:
    """The op of a name, in-place twins (`add_`) included."""
    if name in REGISTRY:
        return REGISTRY[name]
    return INPLACE[REGISTRY[name.removesuffix("_")]]


INPLACE: dict[Op, Op] = {}  # op -> its twin that writes into operand 0


def kernel(op: Op, device_type: str, *, exact: bool = False) -> Callable[[Callable], Callable]:
    """Register the decorated function as the kernel of an op on a device type.

    A CPU kernel takes the operands as numpy arrays (numbers and None as they are), then the params by position, and
    returns one array or a tuple of arrays with the inferred dtypes and shapes. For a `mutates` op it writes into the
    array. An `exact` one returns the inferred strides, too, and lets numpy warn of nothing, so that nobody looks after
    it: that saves 0.5 us.
    """

    def add(function: Callable) -> Callable:
        if device_type in op.kernels:
            raise ValueError(f"op {op.name!r} has two kernels for {device_type!r}")
        op.kernels[device_type] = function
        if exact:
            EXACT.add(function)
        return function

    return add


def planner(op: Op, quicker: bool = False) -> Callable[[Callable], Callable]:
    """Register the decorated function as the maker of an op's plans on the CPU: `make(metas, params, out)`.

    It returns a function of the operands, or None where the usual plan, around the kernel, is to be made. For calls
    that are common, and so small that what a kernel decides anew each time shows. `quicker` says that large calls gain,
    too, so compiled programs make tensors of arrays to call such a plan.
    """

    def add(make: Callable) -> Callable:
        PLANNERS[op] = make
        if quicker:
            QUICKER.add(op)
        return make

    return add


PLANNERS: dict[Op, Callable] = {}
QUICKER: set[Op] = set()
EXACT: set[Callable] = set()  # kernels whose results need no look
