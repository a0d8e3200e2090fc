"""The handler of a call whose operations are put off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture import state
from rushlight.compiler.capture.symbolic import scalar
from rushlight.compiler.lazy import trie
from rushlight.compiler.lazy.record import RECORDS, Programs, Record
from rushlight.compiler.lazy.take import taking
from rushlight.compiler.lazy.trie import Node
from rushlight.core import dispatch, dtypes, eager
from rushlight.core.meta import meta
from rushlight.core.op import WATCHERS, Op
from rushlight.core.storage import ADDRESSED
from rushlight.core.tensor import Tensor

_new = object.__new__
_NUMBERS = frozenset((int, float, bool, complex))
# The classes of tensors whose operations may wait: no subclass of a user, whose functions would see their results.
_PLAIN: dict[type, bool] = {Tensor: True}
MOST_HELD = 1 << 26  # bytes of inputs that would be free by now if nothing waited
MOST_NUMBERS = 2  # numbers at one place that get programs of their own; after that they are inputs


class Session:
    """The dispatch handler of one call."""

    def __init__(self, root: Callable[[], Node], programs: Programs, note: Callable[[Node, str], None]) -> None:
        self.root, self.programs, self.note = root, programs, note
        self.modes = state.grad_modes()
        self.running: list[Record] = []
        self.closed = False
        self.record = Record(root())
        RECORDS.append(self.record)

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Answer one call of an operation."""
        record = self.record
        latest = record.node.latest
        if latest is not None and latest.op is op and (latest.params is params or latest.params == params):
            try:
                made = latest.take(self, record, operands)
            except KeyError:  # somebody has had everything run in the meantime
                made = None
            if made is not None:
                return made
        return self._search(op, operands, params)

    def _search(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Find the node of a call by its key, or make it."""
        if op.mutates:
            return self.at_once(op, operands, params)
        record = self.record
        node, recording = record.node, self.modes.plain
        if WATCHERS or not recording and self.modes.enabled:
            return self.at_once(op, operands, params, "somebody watches each operation")
        start = node.inputs + len(node.new)
        refs: list[Any] = []
        parts: list[Any] = []
        new: list[Tensor] = []
        for x in operands:
            kind = x.__class__
            if kind is Tensor or _is_plain(kind):
                ref = record.number(x)
                if ref is None:
                    ref = next((~(start + i) for i, y in enumerate(new) if y is x), None)
                    if ref is None:
                        storage = x._storage
                        if storage is not None and (storage.exposed or ADDRESSED and storage in ADDRESSED):
                            return self.at_once(op, operands, params, "memory that others may write")
                        ref = ~(start + len(new))
                        new.append(x)
                        parts.append(x._meta)
                        refs.append(ref)
                        continue
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
            opened = _opened(node, key, operands)
            if opened is not None:
                return self._search(op, opened, params)
            found = None
            if record.burden() <= MOST_HELD:
                found = trie.child(node, op, operands, params, recording, refs, [x._meta for x in new])
            if found is not None:
                found.take = taking(found, tuple([x.__class__ for x in new]))
            if len(node.children) < trie.MOST_CHILDREN:
                node.children[key] = found
            if found is None:
                return self.at_once(op, operands, params)
        node.latest = found
        results = []
        for m in found.metas:
            result = _new(Tensor)
            result._meta = m
            results.append(result)
        made = results[0] if found.single else tuple(results)
        inputs = dict(enumerate(new, found.inputs))
        numbered = dict(enumerate(results, found.first))
        if self.record is not record or record.node is not node:
            return self.handle(op, operands, params)  # somebody came in between
        record.inputs |= inputs
        record.results |= numbered
        record.node = found
        return made

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
        elif self.record.node.depth and any(map(self.record.waits, operands)):
            self.flush(why or f"{op.name} runs at once")
        with dispatch.below():
            return op.execute(operands, params)

    def settle(self, why: str = "memory is looked at or written without an operation") -> None:
        """Have everything run that waits."""
        if self.record.node.depth:
            self.flush(why)
        for record in tuple(self.running):  # on another thread, or after an interrupt
            record.run(self.programs)

    def flush(self, why: str) -> None:
        """Have everything run that waits, and say why."""
        fresh = Record(self.root())
        RECORDS.append(fresh)
        record = self.record
        self.running.append(record)
        taken = self.record is not record  # somebody was quicker
        if not taken:
            self.record = fresh
        if taken or self.closed:
            fresh.forget()
        if record.node.depth:
            self.note(record.node, why)
        record.run(self.programs)
        self.running.remove(record)  # not after an interrupt: then `settle` goes on with it

    def close(self) -> None:
        """The call ends: from now on nobody says when memory is written."""
        try:
            self.settle("the call ends")
        except BaseException:  # an interrupt; what is held stays whole
            self.settle()
            raise
        finally:
            self.closed = True
            for record in (self.record, *self.running):
                record.forget()


def _is_plain(kind: type) -> bool:
    found = _PLAIN.get(kind)
    if found is None:
        found = _PLAIN[kind] = issubclass(kind, Tensor) and kind.__module__.startswith("rushlight.nn.")
    return found


_OPEN = frozenset(("add", "sub", "mul", "true_divide"))  # where a number is the same as a 0-dim tensor of it


def _opened(node: Node, key: tuple, operands: tuple) -> tuple | None:
    """The operands with numbers as tensors, and so as inputs, when ever new ones come at this place; None otherwise."""
    op, tensors = key[0], [x._meta for x in operands if isinstance(x, Tensor)]
    places = [i for i, x in enumerate(operands) if x.__class__ in (int, float)]
    if op.name not in _OPEN or not places or not tensors[0].ndim or tensors[0].dtype not in _FLOATS:
        return None
    same = sum(other[:3] == key[:3] and len(other) == len(key)
               and all(a == b for i, (a, b) in enumerate(zip(other[3:], key[3:])) if i not in places)
               for other in node.children)
    if same < MOST_NUMBERS:
        return None
    m = meta(tensors[0].dtype, ())
    return tuple([scalar(x, m) if i in places else x for i, x in enumerate(operands)])


_FLOATS = (dtypes.float32, dtypes.float64)


class _Decided(dict):
    """Stands first among what the default dtype decides: what waits runs before anything is forgotten."""

    def clear(self) -> None:
        for handler in tuple(dispatch.PUTTING_OFF):
            handler.flush("the default dtype changes")


dtypes.DECIDED.insert(0, _Decided())
