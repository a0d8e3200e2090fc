"""Native loops written by hand, for what no scalar definition describes: rows that are normalized, windows, scatters.

A source defines `kernel(lo, hi, layout, arrays...)`, a share of independent tasks, in the language of `source.py`'s
loops; `T` stands for the element type, and an assignment `y = exp(...)` becomes the vectorisable polynomial. Arrays
must be C-contiguous.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.native import installed
from rushlight.kernels.build import build_program
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.source import SHORT, emit

# Below so many elements numpy is as fast, and nobody should wait for a compiler (0.3 to 1 s, once per machine).
WORTH = 32768
# The same once small calls are native, as then the process has LLVM in memory, and goes on for a while.
FEW = 512
# Elements to a piece of work, and to a part of an array that is copied first.
GRAIN, PART = 32768, 65536

_ELEMENT = re.compile(r"\bT\b")
_EXP = re.compile(r"(\s*)(\w+) = exp\((.+)\)")


def enough(elements: int, few: int = FEW) -> bool:
    """Is it worth a native loop, where a few microseconds a call count as well as the wait for a compiler?"""
    return elements >= WORTH or elements >= few and installed()


def worthwhile(*arrays: np.ndarray) -> bool:
    """Are these float32 arrays, contiguous, and the first of them large enough for native code?"""
    return arrays[0].size >= WORTH and all(x.dtype == np.float32 and x.flags.c_contiguous for x in arrays)


def parts(shape: tuple[int, ...], lead: int, *arrays: np.ndarray) -> Iterator[tuple[slice, ...]]:
    """Indices of the first `lead` dimensions that take the arrays apart, in order, so that copies of a part are small;
    of contiguous arrays, which need no copies, the whole."""
    if not lead or math.prod(shape) <= PART or all(x.flags.c_contiguous for x in arrays):
        yield ()
        return
    each = math.prod(shape[1:])
    step = max(1, PART // each)
    for at in range(0, shape[0], step):
        for rest in parts(shape[1:], lead - 1 if step == 1 else 0, *arrays):
            yield (slice(at, at + step), *rest)


@cache
def compiled(
    source: str, arrays: str, dtype: np.dtype | None = None, simple: bool = False
) -> Callable[..., None]:
    """The native kernel of a source. `arrays` has a letter per array: T (elements of `dtype`, float32), i (int64),
    d (float64). Without vectors in its loops it is `simple`, and ready sooner (see `jit.compile_source`)."""
    dtype = np.dtype(np.float32 if dtype is None else dtype)
    short = SHORT[dtype.name]
    kinds = {"T": f"*{short}", "i": "*i64", "d": "*f64"}
    signature = ("u64", "u64", "*i64", *[kinds[array] for array in arrays])
    return compile_source(_ELEMENT.sub(short, with_exp(source, dtype)), signature, simple=simple)


def with_exp(source: str, dtype: np.dtype) -> str:
    """The source with the polynomial written out where a line says `y = exp(...)`."""
    lines: list[str] = []
    for number, line in enumerate(source.splitlines()):
        found = _EXP.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        indent, name, argument = found.groups()
        program = build_program(s.exp, [dtype], [dtype], tables=(POLYNOMIALS,))
        steps, (result,) = emit(program, [f"argument{number}"], prefix=f"exp{number}_")
        lines += [f"{indent}{step}" for step in (f"argument{number} = {argument}", *steps, f"{name} = {result}")]
    return "\n".join(lines) + "\n"


def over(
    kernel: Callable[..., None], tasks: int, elements_each: int, layout: tuple[int, ...], *arrays: np.ndarray
) -> None:
    """Run a kernel for all tasks, on all threads when there is work for them."""
    if tasks:
        run_kernel(kernel, tasks, max(1, GRAIN // max(1, elements_each)), np.array(layout, np.int64), *arrays)
