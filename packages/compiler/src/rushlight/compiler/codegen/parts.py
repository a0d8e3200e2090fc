"""Parts of a program that are one native call: kernels on small arrays, one after the other.

A kernel of a few microseconds costs a third of one more as a line of Python, and its result as much again. So calls in
a row are collected; where nothing but Python lines can follow, they become one builtin (`native.program_code`) and one
line. Where there are no native calls they stay lines, which is also what the builtin does in the end for wrong values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.compiler.codegen.opened import OpenRecord, is_open
from rushlight.compiler.graph.ir import Value
from rushlight.compiler.graph.symbolic import hint, never_less
from rushlight.compiler.native import programs
from rushlight.core import native
from rushlight.core.meta import Meta, below
from rushlight.kernels.cpu import allocator
from rushlight.kernels.cpu.jit import address_of

_ALIGNMENT = 64
# Bytes that the kernels of a part touch from which on other threads may run meanwhile: some 20 us.
_LONG = 1 << 18
MOST_SLOTS, MOST_ARGUMENTS = 400, 16


@dataclass
class Step:
    """A call: a kernel by its address, or `fill` or `check` of the machine code; numbers, arrays and values."""

    kind: str
    address: int
    arguments: list[Any]


@dataclass
class Part:
    """Calls that are to become one, and the lines that they are in Python.

    `made` are values whose memory the part takes, `same` those that lie in the memory of another.
    """

    steps: list[Step] = field(default_factory=list)
    lines: list[tuple[str, Any, str]] = field(default_factory=list)  # kind, the value it is about, text
    made: list[Value] = field(default_factory=list)
    same: dict[Value, Value] = field(default_factory=dict)
    dead: list[Value] = field(default_factory=list)
    nbytes: int = 0

    def root(self, value: Value) -> Value:
        """The value whose memory another one lies in."""
        while value in self.same:
            value = self.same[value]
        return value

    def overwrites(self) -> bool:
        """Does the part write to memory of the outside? Then Python cannot run it again because a check fails."""
        made = set(self.made)
        return any(self.root(value) not in made for value in self.same)

    def takes(self, m: Meta) -> bool:
        """Can a value with this metadata be made inside?"""
        size = m.numel * m.dtype.itemsize
        return m.contiguous and below(self.nbytes + size, allocator.LARGE)

    def inputs(self) -> list[Value]:
        """Values that lie in memory of the outside."""
        read = [self.root(x) for step in self.steps for x in step.arguments if isinstance(x, Value)]
        return [v for v in dict.fromkeys(read) if v not in self.made]

    def outputs(self) -> dict[Value, list[Value]]:
        """What is made inside and needed afterwards: roots, and the values as which each lives on. There are several
        where the next line takes over memory that it still reads.
        """
        dead = set(self.dead)
        groups: dict[Value, list[Value]] = {v: [v] for v in self.made}
        for value in self.same:
            groups.get(self.root(value), []).append(value)
        return {root: alive for root, values in groups.items() if (alive := [v for v in values if v not in dead])}


def step_of(kernel: Callable, arguments: list[Any]) -> Step | None:
    """A kernel's call as a step; None where it is not one that machine code can make."""
    try:
        address = address_of(kernel)
    except (KeyError, TypeError):
        return None
    return Step("kernel", address, arguments) if 3 <= len(arguments) <= MOST_ARGUMENTS else None


def possible() -> bool:
    """Can parts be native here?"""
    return native.possible()


def build(
    part: Part, inputs: list[Value], outputs: list[Value], python: Callable, metas: list[Meta] | None = None
) -> Any:
    """The builtin of a part: arrays `inputs` give a tuple of arrays `outputs`. With `metas` both are tensors.

    An `OpenRecord` where sizes are open; None where it cannot be.
    """
    inner = [v for v in part.made if v not in outputs]
    places, block = (_lanes if any(is_open(v.meta) for v in inner) else _planned)(part, inner)
    if len(inputs) + len(outputs) + len(inner) > MOST_SLOTS or not programs.ready():
        return None
    slots = {v: number for number, v in enumerate([*inputs, *outputs, *inner])}
    steps, touched = [], 0
    for step in part.steps:
        words: list[tuple[bool, Any]] = []
        for x in step.arguments:
            if isinstance(x, Value):
                words.append((True, slots[part.root(x)]))
                touched += x.meta.numel * x.meta.dtype.itemsize
            else:
                words.append((False, x))
        steps.append((step.kind, step.address, words))
    made = [(v.meta.numpy, v.meta.shape, m) for v, m in zip(outputs, metas or [v.meta for v in outputs])]
    record = programs.record(
        len(inputs), made, [places[v] for v in inner], block, steps, tensors=metas is not None, long=touched // _LONG
    )  # fmt: skip
    return OpenRecord(record) if any(map(is_open, record)) else programs.builtin(python, record)


def _lives(part: Part) -> tuple[dict[Value, int], dict[Value, int]]:
    """The first and the last step that uses each value."""
    first: dict[Value, int] = {}
    last: dict[Value, int] = {}
    for number, step in enumerate(part.steps):
        for x in step.arguments:
            if isinstance(x, Value):
                root = part.root(x)
                first.setdefault(root, number)
                last[root] = number
    return first, last


def _lanes(part: Part, inner: list[Value]) -> tuple[dict[Value, Any], Any]:
    """The same for values of open sizes, in lanes beside each other: a value takes that of another one only where that
    is at least as large whatever the sizes are.
    """
    first, last = _lives(part)
    lanes: list[tuple[Any, list[Value]]] = []
    for value in sorted(inner, key=lambda v: -hint(_bytes(v))):
        for size, values in lanes:
            if never_less(size, _bytes(value)) and all(
                    last.get(v, 0) < first.get(value, 0) or last.get(value, 0) < first.get(v, 0) for v in values):
                values.append(value)
                break
        else:
            lanes.append((_bytes(value), [value]))
    places: dict[Value, Any] = {}
    start: Any = 0
    for size, values in lanes:
        places |= dict.fromkeys(values, start)
        start += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, start


def _planned(part: Part, inner: list[Value]) -> tuple[dict[Value, int], int]:
    """Where in a block each value lives, by its first and last use, and how large the block is."""
    first, last = _lives(part)
    places: dict[Value, int] = {}
    taken: list[tuple[int, int, int, int]] = []  # start, end, first, last
    for value in sorted(inner, key=lambda v: -_bytes(v)):
        size = math.ceil(max(_bytes(value), 1) / _ALIGNMENT) * _ALIGNMENT
        start = 0
        for low, high, begin, end in sorted(taken):
            if begin <= last.get(value, 0) and first.get(value, 0) <= end and low < start + size and start < high:
                start = high
        places[value] = start
        taken.append((start, start + size, first.get(value, 0), last.get(value, 0)))
    return places, max([high for _, high, _, _ in taken], default=0)


def _bytes(value: Value) -> int:
    return value.meta.numel * value.meta.dtype.itemsize
