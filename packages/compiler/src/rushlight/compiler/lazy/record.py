"""Records of operations that wait, and running them.

A result of a call that was put off is an ordinary tensor with metadata only. Reading its memory, its storage or its
gradient state, from Python or from machine code, ends in `late_memory`, which has everything run that waits.

What changes a record is assignments in a row, with no call between a check and what depends on it: the interpreter
switches threads, collects garbage and runs signal handlers at calls and jumps only. So a finalizer or another thread
that comes in between finds everything in order, and there is no lock to take for each operation. A record that is about
to run is taken off its session first. It is pure, so running it a second time, from a finalizer in the middle of the
first, does no harm.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

from rushlight.compiler import _config
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

    __slots__ = ("node", "results", "inputs", "numbers", "known", "lock", "done", "floating")

    def __init__(self, root: Node) -> None:
        self.node = root
        self.results: dict[int, Tensor] = {}
        self.inputs: dict[int, Tensor] = {}
        self.numbers: dict[int, int] = {}  # by the id of a tensor, `~number` for inputs; see `number`
        self.known = root  # up to which node
        self.lock = threading.RLock()
        self.done = False
        self.floating = dtypes._Defaults.floating

    def number(self, x: Any) -> int | None:
        """The number of a result, `~number` of an input; None for other objects."""
        node, numbers = self.node, self.numbers
        if self.known is not node:
            results, inputs = self.results, self.inputs
            start, self.known = self.known, node
            for i in range(start.first + len(start.metas), node.first + len(node.metas)):
                if i in results:
                    numbers[id(results[i])] = i
            for i in range(start.inputs + len(start.new), node.inputs + len(node.new)):
                if i in inputs:
                    numbers[id(inputs[i])] = ~i
        return numbers.get(id(x))

    def waits(self, x: Any) -> bool:
        """Is it a result of a call that waits here?"""
        found = self.number(x)
        return found is not None and found >= 0

    def run(self, programs: Programs) -> None:
        """Give memory to all results that somebody holds. `programs(node, live)` gives the program, None for none."""
        with self.lock:
            if self.done:
                return
            live = tuple([i for i, count in enumerate(_references(self.results)) if count > _UNHELD])
            if live:
                with _AsRecorded(self.floating) as switch:
                    self._run(programs(self.node, live), switch)
            self.done = True
            self.results, self.inputs = {}, {}
        RECORDS.remove(self)

    def _run(self, program: Program | None, switch: Switch) -> None:
        if program is not None:
            try:
                program.run(self.inputs, self.results, switch)
                return
            except (Mismatch, MemoryError):
                raise
            except Exception as error:
                if _config.raise_internal_errors:
                    raise
                program.failed = str(error)
        collects = gc.isenabled()
        gc.disable()  # results go as soon as nothing needs them: no finalizer must ask for those of this record now
        try:
            replay(self.node, self.inputs, self.results, switch)
        finally:
            if collects:
                gc.enable()


def _references(results: dict[int, Tensor]) -> list[int]:
    return [sys.getrefcount(x) for x in results.values()]


# What it says of a result that only the record holds.
_UNHELD = _references({0: object()})[0]  # type: ignore[dict-item]


class _AsRecorded:
    """Run the block as if nothing were around it: no handlers, no hooks, and the default dtype of the record. The
    function that this gives switches gradients on and off.
    """

    __slots__ = ("modes", "before", "floating", "stack")

    def __init__(self, floating: dtypes.dtype) -> None:
        self.modes, self.floating = state.grad_modes(), floating

    def __enter__(self) -> Any:
        self.stack = STACK.handlers, STACK.settles
        STACK.handlers, STACK.settles = [None], False
        modes = self.modes
        self.floating, dtypes._Defaults.floating = dtypes._Defaults.floating, self.floating
        self.before = None
        if not state.has_gradients():
            return _no_switch
        self.before = modes.enabled, modes.saved_hooks, modes.anomaly
        modes.saved_hooks, modes.anomaly = [], False
        return self._switch

    def __exit__(self, *exception: Any) -> None:
        dtypes._Defaults.floating = self.floating
        if self.before is not None:
            enabled, self.modes.saved_hooks, self.modes.anomaly = self.before
            self._switch(enabled)
        STACK.handlers, STACK.settles = self.stack

    def _switch(self, enabled: bool) -> None:
        self.modes.enabled = enabled
        self.modes.update()


def _no_switch(enabled: bool) -> None:
    pass


def _late_memory(x: Tensor, name: str) -> Any:
    """What a tensor has not yet: have its operation run."""
    for record in tuple(RECORDS):
        if record.waits(x):
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


tensor.late_memory = _late_memory
