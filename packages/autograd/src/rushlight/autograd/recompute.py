"""Computing a part of the forward pass again: what stands behind `rushlight.utils.checkpoint`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from rushlight.autograd.batches import BatchLevel
from rushlight.autograd.duals import detached
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.autograd.modes import enable_grad, mode
from rushlight.autograd.saved import Packed
from rushlight.autograd.state import edge_of
from rushlight.core import dispatch
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor
from rushlight.random import get_rng_state, set_rng_state

Context = AbstractContextManager[Any]

# Functions called in a forward pass, which give one to make the context with that computing again has to happen in, or
# None when nothing is to be restored.
SURROUNDINGS: list[Callable[[], Callable[[], Context] | None]] = []


class CheckpointError(RuntimeError):
    """The second forward pass saved something else than the first."""


class _Enough(Exception):
    """Ends the second forward pass when everything is there."""


class _Settings(threading.local):
    """What this thread's context managers say; None where they say nothing."""

    early_stop: bool | None = None
    debug: bool | None = None
    group: GraphExecGroup | None = None

    @staticmethod
    def surroundings() -> Callable[[], Context]:
        """A function that makes the context in which a forward pass runs now."""
        made = [make for note in SURROUNDINGS if (make := note()) is not None]

        def again() -> Context:
            stack = ExitStack()
            for make in made:
                stack.enter_context(make())
            return stack

        return again


settings = _Settings()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Say for all checkpoints whose forward pass runs inside the block whether the second pass may stop early.

    Example:
        >>> import rushlight
        >>> from rushlight.utils.checkpoint import checkpoint, set_checkpoint_early_stop
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> with set_checkpoint_early_stop(False):
        ...     y = checkpoint(lambda x: print("running") or x.exp(), x, use_reentrant=False)
        running
    """
    before, settings.early_stop = settings.early_stop, enable
    try:
        yield
    finally:
        settings.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Say for all checkpoints inside the block whether errors list operations; None leaves it to their `debug`."""
    before, settings.debug = settings.debug, enabled
    try:
        yield
    finally:
        settings.debug = before


class GraphExecGroup:
    """Inside the block a checkpointed part is computed again once for several backward passes, which must use different
    parts of what it saved. RuntimeError inside of another group.
    """

    def __init__(self) -> None:
        self._at_end: list[Callable[[], None]] = []

    def __enter__(self) -> GraphExecGroup:
        if settings.group is not None:
            raise RuntimeError("GraphExecGroup: a group cannot be entered inside of another one")
        settings.group = self
        return self

    def __exit__(self, *exception: Any) -> None:
        settings.group = None
        for forget in self._at_end:
            forget()
        self._at_end.clear()


def noop_context_fn() -> tuple[Context, Context]:
    """Two context managers that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def random_state(state: Any) -> Iterator[None]:
    """The random numbers of an earlier moment inside the block, unless None; those of now go on after it."""
    if state is None:
        yield
        return
    now = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(now)


class _Slot:
    """Stands for a tensor that was not kept."""

    __slots__ = ("index", "meta", "tensor")
    has_tangents = True  # of forward mode: those of the tensor that the second pass makes

    def __init__(self, index: int, x: Tensor) -> None:
        self.index, self.meta, self.tensor = index, _described(x), None


def _described(x: Tensor) -> tuple:
    return x.shape, x.dtype, x.device


class _Log:
    """The handler that notes which operations run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        shapes = [list(x.shape) if isinstance(x, Tensor) else x for x in operands]
        self.lines.append(f"{op.name}({', '.join(map(str, [*shapes, *params]))})")
        with dispatch.below():
            return op.apply(operands, params)


class Frame:
    """A checkpointed call: counts what its first pass saves, and runs the second when the first of it is needed."""

    def __init__(
        self,
        function: Callable,
        args: tuple,
        kwargs: dict,
        rng: bool,
        context: Context,
        check: bool,
        early_stop: bool,
        debug: bool,
    ) -> None:
        self.function, self.context, self.check, self.early_stop = function, context, check, early_stop
        self.logs: list[_Log] | None = [] if debug else None
        self.surroundings = settings.surroundings()
        self.levels = [level for level in dispatch.handlers() if isinstance(level, BatchLevel)]
        self.state = get_rng_state() if rng else None
        self.slots: list[_Slot] = []
        # Inside of another checkpoint the arguments are intermediate tensors, which that one does not want kept either.
        self.args, self.kwargs = args, kwargs
        self._kept = tuple(map(_pack, args)), {name: _pack(x) for name, x in kwargs.items()}

    def run(self) -> Any:
        """The first pass."""
        args, kwargs = self.args, self.kwargs
        del self.args, self.kwargs
        with saved_tensors_hooks(self._pack, self._unpack):
            return self._call(args, kwargs)

    def _call(self, args: tuple, kwargs: dict) -> Any:
        if self.logs is None:
            return self.function(*args, **kwargs)
        self.logs.append(_Log())
        with dispatch.push(self.logs[-1]):
            return self.function(*args, **kwargs)

    def _pack(self, x: Tensor) -> _Slot:
        slot = _Slot(len(self.slots), x)
        self.slots.append(slot)
        return slot

    def _unpack(self, slot: _Slot) -> Tensor:
        if slot.tensor is None:
            self._run_again()
        x, slot.tensor = slot.tensor, None
        return x

    def _run_again(self) -> None:
        """The second pass: fills the slots, until they are used or the backward pass is over."""
        found: list[Tensor] = []
        expected = len(self.slots)
        early_stop = self.early_stop and dispatch.current() is None  # handlers have yet to see the last operation

        def keep(x: Tensor) -> Tensor:
            if len(found) == expected:
                raise self._error("recomputation is trying to save more tensors than the original forward pass did")
            found.append(x)
            if early_stop and len(found) == expected:
                raise _Enough
            return x

        args, kwargs = self._kept
        with (
            random_state(self.state),
            enable_grad(),
            saved_tensors_hooks(keep, lambda x: x),
            self._levels_again(),
            self.surroundings(),
            self.context,
            contextlib.suppress(_Enough),
        ):
            self._call(tuple(map(_open, args)), {name: _open(x) for name, x in kwargs.items()})
        if len(found) != expected:
            raise self._error(
                "a different number of tensors was saved during the original forward "
                f"({expected}) and recomputation ({len(found)}); the function must do the same in both passes"
            )
        for slot, x in zip(self.slots, found):
            if self.check and slot.meta != _described(x):
                raise self._error(
                    f"recomputed values for tensor {slot.index} have different metadata than during the forward pass: "
                    f"{slot.meta} then, {_described(x)} now"
                )
            slot.tensor = detached(x)  # now that the operation that made it is over, it has its tangents
        at_end = mode.at_end if settings.group is None else settings.group._at_end
        if at_end is not None:
            at_end.append(self._forget)

    def _levels_again(self) -> Context:
        """The levels of `vmap` around the first pass that have ended since."""
        stack, active = ExitStack(), dispatch.handlers()
        for level in self.levels:
            if level not in active:
                stack.enter_context(dispatch.push(level))
        return stack

    def _forget(self) -> None:
        for slot in self.slots:
            slot.tensor = None

    def _error(self, message: str) -> CheckpointError:
        if self.logs is None:
            return CheckpointError(f"checkpoint: {message}. With debug=True this error lists the operations")
        passes = [
            f"operations of the {name} pass:\n  " + "\n  ".join(log.lines or ["none"])
            for name, log in (("first", self.logs[0]), ("second", self.logs[-1]))
        ]
        return CheckpointError("\n".join([f"checkpoint: {message}", *passes]))


class _Argument:
    """A tensor that the second pass starts from as it was in the first."""

    __slots__ = ("tensor", "version")

    def __init__(self, x: Tensor) -> None:
        self.tensor, self.version = x, x._version

    def open(self) -> Tensor:
        """The tensor; RuntimeError when it was changed in place."""
        x = self.tensor
        if x._version != self.version:
            raise RuntimeError(
                "checkpoint: an argument needed for gradient computation has been modified by an inplace operation: "
                f"[{x.dtype.name} {list(x.shape)}] is at version {x._version}; expected version {self.version} "
                "instead, as the function is called again with it. Write out of place there, or pass a clone()."
            )
        return x


def _pack(x: Any) -> Any:
    """An argument as the hooks around a checkpoint want tensors kept."""
    if not isinstance(x, Tensor):
        return x
    if not mode.saved_hooks:
        return _Argument(x)
    return Packed(x, mode.saved_hooks[-1], edge_of(x) if x._meta.requires_grad else None)


def _open(x: Any) -> Any:
    return x.open() if isinstance(x, (_Argument, Packed)) else x
