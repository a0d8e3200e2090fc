"""Records of operations that wait, and running them.

A result of a call that was put off is an ordinary tensor with metadata only. Reading its memory, its storage or its
gradient state, from Python or from machine code, ends in `late_memory`, which has everything run that waits.

What changes a record is assignments in a row, with no call between a check and what depends on it: the interpreter
switches threads, collects garbage and runs signal handlers at calls and jumps only. So a finalizer or another thread
that comes in between finds everything in order, and there is no lock to take for each operation. A record that is about
to run is taken off its session first. It is pure, and what has its memory keeps it, so running it a second time, from a
finalizer in the middle of the first or after an interrupt, goes on where the first one is.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from typing import Any

from rushlight.compiler import _failures
from rushlight.compiler._verify import Mismatch
from rushlight.compiler.capture import state
from rushlight.compiler.lazy.program import Program, Switch, replay
from rushlight.compiler.lazy.trie import Node
from rushlight.core import dispatch, dtypes, tensor
from rushlight.core.op import STACK
from rushlight.core.tensor import Tensor

RECORDS: list[Record] = []  # what waits or is about to run, of all threads
Programs = Callable[[Node, tuple[int, ...]], "Program | None"]


class Record:
    """Calls that wait: the node they have led to, their results and inputs by number."""

    __slots__ = ("node", "results", "inputs", "numbers", "known", "lock", "begun", "done", "floating")

    def __init__(self, root: Node) -> None:
        self.node = root
        self.results: dict[int, Tensor] = {}
        self.inputs: dict[int, Tensor] = {}
        self.numbers: dict[int, int] = {}  # by the id of a tensor, `~number` for inputs; see `number`
        self.known = root  # up to which node
        self.lock = threading.RLock()
        self.begun = False  # to run one by one: then some of what programs read may have gone
        self.done = False
        self.floating = dtypes._Defaults.floating

    def number(self, x: Any) -> int | None:
        """The number of a result, `~number` of an input; None for other objects."""
        node, numbers = self.node, self.numbers
        if self.known is not node:
            results, inputs = self.results, self.inputs
            start = self.known
            for i in range(start.first + len(start.metas), node.first + len(node.metas)):
                if i in results:
                    numbers[id(results[i])] = i
            for i in range(start.inputs + len(start.new), node.inputs + len(node.new)):
                if i in inputs:
                    numbers[id(inputs[i])] = ~i
            self.known = node  # last: another thread may ask meanwhile
        return numbers.get(id(x))

    def waits(self, x: Any) -> bool:
        """Is it a result of a call that waits here?"""
        found = self.number(x)
        return found is not None and found >= 0 and self.results.get(found) is x

    def burden(self) -> int:
        """How many bytes of inputs nobody else holds any more."""
        return sum(x.nbytes for x, count in zip(self.inputs.values(), _references(self.inputs)) if count <= _UNHELD)

    def run(self, programs: Programs) -> None:
        """Give memory to all results that somebody holds. `programs(node, live)` gives the program, None for none."""
        with self.lock:
            if self.done:
                return
            live = tuple([i for i, count in enumerate(_references(self.results)) if count > _UNHELD])
            if live:
                self._run(programs, live)
            self.done = True
            self.results, self.inputs = {}, {}
        self.forget()

    def forget(self) -> None:
        """Wait no longer, whether everything has run or not."""
        with contextlib.suppress(ValueError):  # another thread may be quicker
            RECORDS.remove(self)

    def _run(self, programs: Programs, live: tuple[int, ...]) -> None:
        """Run as if nothing were around the calls: no handlers, no hooks, and the default dtype of the record."""
        modes = state.grad_modes()
        stack, settles, floating = STACK.handlers, STACK.settles, dtypes._Defaults.floating
        enabled, hooks, anomaly = modes.enabled, getattr(modes, "saved_hooks", None), getattr(modes, "anomaly", None)
        switch = _switch if state.has_gradients() else _no_switch
        try:  # an interrupt may come in any line
            STACK.handlers, STACK.settles, dtypes._Defaults.floating = [None], False, self.floating
            if switch is _switch:
                modes.saved_hooks, modes.anomaly = [], False
            self._run_alone(None if self.begun else programs(self.node, live), switch)
        finally:
            STACK.handlers, STACK.settles, dtypes._Defaults.floating = stack, settles, floating
            if switch is _switch:
                modes.saved_hooks, modes.anomaly = hooks, anomaly
                switch(enabled)

    def _run_alone(self, program: Program | None, switch: Switch) -> None:
        failure: Exception | None = None
        if program is not None:
            try:
                program.run(self.inputs, self.results, switch)
                return
            except (Mismatch, MemoryError):
                raise
            except Exception as error:
                program.failed, failure = str(error) or type(error).__name__, error
        self.begun = True
        replay(self.node, self.inputs, self.results, switch)
        if failure is not None:  # and its operations did not fail
            _failures.report("a program of operations that were put off failed", failure)


def _references(results: dict[int, Tensor]) -> list[int]:
    return [sys.getrefcount(x) for x in results.values()]


# What it says of a result that only the record holds.
_UNHELD = _references({0: object()})[0]  # type: ignore[dict-item]


def _switch(enabled: bool) -> None:
    modes = state.grad_modes()
    modes.enabled = enabled
    modes.update()


def _no_switch(enabled: bool) -> None:
    pass


def _late_memory(x: Tensor, name: str) -> Any:
    """What a tensor has not yet: have its operation run."""
    for record in tuple(RECORDS):
        if record.waits(x):
            for handler in tuple(dispatch.PUTTING_OFF):
                if handler.record is record:
                    handler.flush("a value is looked at")
            record.run(_op_by_op)  # unless it has run: another thread may have taken it, or an interrupt have come
            break
    try:
        return object.__getattribute__(x, name)
    except AttributeError:
        if not hasattr(x, "_meta"):  # it is being made
            raise
        raise RuntimeError("a tensor has no values: the call of a compiled function that was to compute them was "
                           "interrupted; call it again") from None


def _op_by_op(node: Node, live: tuple[int, ...]) -> None:
    """No program: for what is left over of a session."""
    return None


tensor.late_memory = _late_memory
