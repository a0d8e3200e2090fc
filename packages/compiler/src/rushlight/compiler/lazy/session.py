"""The handler of a call whose operations are put off, and the records of what waits.

A result of a call that was put off is an ordinary tensor with metadata only. Reading its memory, its storage or its
gradient state, from Python or from machine code, ends in `late_memory`, which has everything run that waits.

What changes a session is single assignments, with no call between a check and what depends on it: the interpreter
switches threads, collects garbage and runs signal handlers at calls only. So a finalizer or another thread that comes
in between finds everything in order, and there is no lock to take for each operation. A record that is about to run is
taken off the session first. It is pure, so running it a second time, from a finalizer in the middle of the first, does
no harm.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.compiler import _config
from rushlight.compiler._verify import Mismatch
from rushlight.compiler.capture import state
from rushlight.compiler.lazy import trie
from rushlight.compiler.lazy.program import replay
from rushlight.compiler.lazy.trie import Node
from rushlight.core import dispatch, dtypes, eager, tensor
from rushlight.core.op import STACK, WATCHERS, Op
from rushlight.core.tensor import Tensor

_new = object.__new__
_NUMBERS = frozenset((int, float, bool, complex))
RECORDS: list[Record] = []  # what waits or is about to run, of all threads
# The classes of tensors whose operations may wait: no subclass of a user, whose functions would see their results.
_PLAIN: dict[type, bool] = {Tensor: True}


class Record:
    """Calls that wait: the node they have led to, and per call its results and the inputs that came in with it."""

    __slots__ = ("node", "steps", "index", "lock", "values", "inputs", "done", "floating")

    def __init__(self, root: Node) -> None:
        self.node = root
        self.steps: dict[int, tuple[Any, tuple]] = {}  # by the depth of the node
        self.index: dict[int, int] = {}  # from the id of a tensor to its number, `~number` for inputs
        self.lock = threading.RLock()
        self.values: list[Tensor] | None = None  # all results, once the record is about to run
        self.inputs: list[Tensor] = []
        self.done = False
        self.floating = dtypes.get_default_dtype()

    def run(self, programs: Callable[[Node, tuple[int, ...]], Any]) -> None:
        """Give memory to all results that somebody holds. `programs(node, live)` gives the program, None for none."""
        with self.lock:
            if self.values is None:
                values, inputs = self._gathered()
                self.values, self.inputs, self.steps = values, inputs, {}
            if self.done:
                return
            values, inputs = self.values, self.inputs
            live = tuple([i for i, count in enumerate(_references(values)) if count > _UNHELD])
            if live:
                self._run(programs(self.node, live), inputs, values)
            self.done = True
            self.values, self.inputs = [], []
        RECORDS.remove(self)

    def _gathered(self) -> tuple[list[Tensor], list[Tensor]]:
        values: list[Tensor] = []
        inputs: list[Tensor] = []
        for depth in range(1, self.node.depth + 1):
            results, new = self.steps[depth]
            inputs.extend(new)
            values.extend(results if type(results) is tuple else (results,))
        return values, inputs

    def _run(self, program: Any, inputs: list[Tensor], values: list[Tensor]) -> None:
        with _as_recorded(self.floating) as switch:
            if program is not None:
                try:
                    program.run(inputs, values, switch)
                    return
                except (Mismatch, MemoryError):
                    raise
                except Exception as error:
                    if _config.raise_internal_errors:
                        raise
                    program.failed = str(error)
            replay(self.node, inputs, values, switch)


def _references(values: list[Tensor]) -> list[int]:
    return [sys.getrefcount(x) for x in values]


# What it says of a result that only the list holds.
_UNHELD = _references([object()])[0]  # type: ignore[list-item]


@contextmanager
def _as_recorded(floating: dtypes.dtype) -> Iterator[Callable[[bool], None]]:
    """Run the block as if nothing were around it: no handlers, no hooks, and the default dtype of the record. The
    function that this gives switches gradients on and off.
    """
    modes = state.grad_modes()
    before, hooks, anomaly = modes.enabled, getattr(modes, "saved_hooks", None), getattr(modes, "anomaly", False)
    default = dtypes._Defaults.floating

    def switch(enabled: bool) -> None:
        modes.enabled = enabled
        modes.update()

    own = state.has_gradients()
    with dispatch.without(tuple(STACK.handlers)):
        try:
            dtypes._Defaults.floating = floating
            if own:
                modes.saved_hooks, modes.anomaly = [], False
            yield switch if own else _no_switch
        finally:
            dtypes._Defaults.floating = default
            if own:
                modes.saved_hooks, modes.anomaly = hooks, anomaly
                switch(before)


def _no_switch(enabled: bool) -> None:
    pass


class Session:
    """The dispatch handler of one call."""

    def __init__(self, root: Callable[[], Node], programs: Callable[[Node, tuple[int, ...]], Any],
                 note: Callable[[Node, str], None]) -> None:
        self.root, self.programs, self.note = root, programs, note
        self.modes = state.grad_modes()
        self.record = Record(root())
        RECORDS.append(self.record)

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Answer one call of an operation."""
        record = self.record
        node, index = record.node, record.index
        recording = self.modes.plain
        if WATCHERS or not recording and self.modes.enabled:
            return self.at_once(op, operands, params, "somebody watches each operation")
        refs: list[Any] = []
        parts: list[Any] = []
        new: tuple = ()
        for x in operands:
            kind = x.__class__
            if kind is Tensor or _is_plain(kind):
                ref = index.get(id(x))
                if ref is None:
                    for i, y in enumerate(new):
                        if y is x:
                            ref = ~(node.inputs + len(node.new) + i)
                            parts.append(ref)
                            break
                    else:
                        storage = x._storage
                        if storage is not None and storage.exposed:
                            return self.at_once(op, operands, params, "memory that numpy shares")
                        ref = ~(node.inputs + len(node.new) + len(new))
                        new = (*new, x)
                        parts.append(x._meta)
                else:
                    parts.append(ref)
                refs.append(ref)
            elif kind in _NUMBERS:
                parts.append((kind, x if x and x == x else repr(x)))  # tells -0.0 from 0.0
                refs.append(None)
            elif x is None:
                parts.append(None)
                refs.append(None)
            else:
                return self._other(op, operands, params)
        key = (op, params, recording, *parts)
        found = node.children.get(key)
        if found is None:
            tensors = [ref for ref in refs if ref is not None]
            if key in node.children or not tensors or op.kind == "view" and tensors[0] < 0:
                return self.at_once(op, operands, params)  # views of tensors that are there, and what takes none, too
            found = trie.child(node, op, operands, params, recording, refs, [x._meta for x in new])
            if len(node.children) < trie.MOST_CHILDREN:
                node.children[key] = found
            if found is None:
                return self.at_once(op, operands, params)
        results: Any
        if found.single:
            results = _new(Tensor)
            results._meta = found.metas[0]
        else:
            made = []
            for m in found.metas:
                result = _new(Tensor)
                result._meta = m
                made.append(result)
            results = tuple(made)
        step = (results, new)
        if self.record is not record or record.node is not node:
            return self.handle(op, operands, params)  # somebody came in between
        record.steps[found.depth] = step
        record.node = found
        first = found.first
        for i, result in enumerate((results,) if found.single else results):
            index[id(result)] = first + i
        for i, x in enumerate(new):
            index[id(x)] = ~(found.inputs + i)
        return results

    def _other(self, op: Op, operands: tuple, params: tuple) -> Any:
        """A call with operands of other types."""
        given = tuple([eager.operand(op, i, x) for i, x in enumerate(operands)])
        if any(x.__class__ in _NUMBERS and y.__class__ not in _NUMBERS for x, y in zip(given, operands)):
            return self.handle(op, given, params)
        return self.at_once(op, operands, params, "a tensor of another class")

    def at_once(self, op: Op, operands: tuple, params: tuple, why: str = "") -> Any:
        """Run a call now, and before it what it may depend on, or change."""
        if op.mutates:
            if self.record.node.depth:
                self.flush(f"{op.name} writes in place")
            dispatch.settle()
        else:
            index = self.record.index
            if index and any(index.get(id(x), -1) >= 0 for x in operands):
                self.flush(why or f"{op.name} runs at once")
        with dispatch.below():
            return op.execute(operands, params)

    def settle(self) -> None:
        """Have everything run that waits."""
        if self.record.node.depth:
            self.flush("memory is looked at or written without an operation")

    def flush(self, why: str) -> None:
        """Have everything run that waits, and say why."""
        fresh = Record(self.root())
        RECORDS.append(fresh)
        record = self.record
        self.record = fresh
        if record.node.depth:
            self.note(record.node, why)
            record.run(self.programs)
        else:
            RECORDS.remove(record)

    def close(self) -> None:
        """The call ends."""
        self.flush("the call ends")
        RECORDS.remove(self.record)


def _is_plain(kind: type) -> bool:
    found = _PLAIN.get(kind)
    if found is None:
        found = _PLAIN[kind] = issubclass(kind, Tensor) and kind.__module__.startswith("rushlight.nn.")
    return found


def _late_memory(x: Tensor, name: str) -> Any:
    """What a tensor has not yet: have its operation run."""
    for record in tuple(RECORDS):
        if record.index.get(id(x), -1) >= 0:
            for handler in tuple(dispatch.PUTTING_OFF):
                if handler.record is record:
                    handler.flush("a value is looked at")
                    break
            else:
                record.run(_op_by_op)
            break
    return object.__getattribute__(x, name)


def _op_by_op(node: Node, live: tuple[int, ...]) -> None:
    """No program: for what is left over of a session."""
    return None


class _Decided(dict):
    """Stands first among what the default dtype decides: what waits runs before anything is forgotten."""

    def clear(self) -> None:
        for handler in tuple(dispatch.PUTTING_OFF):
            handler.flush("the default dtype changes")


dtypes.DECIDED.insert(0, _Decided())
tensor.late_memory = _late_memory
