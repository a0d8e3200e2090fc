#!/usr/bin/env python3
"""Measure the first call of every operation: with an empty cache of kernels, and with a warm one.

Each operation runs in processes of its own on the samples of its declaration, enlarged so that native kernels are
used. Processes are forked from one that has imported the code generator, which everybody who compiles pays once.
Seconds are CPU seconds of the calling thread, so that other programs do not count, beyond those of a second call.

    python tools/first_calls.py                     every operation; lists those above the limits
    python tools/first_calls.py --only softmax -v   some, with the slowest call of each
    python tools/first_calls.py --dtype complex64   on numbers of another dtype, where an operation takes them
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np

LARGE = 1 << 16  # elements of an enlarged operand: above every threshold
COLD, WARM, END = 2.0, 0.3, 300.0


def enlarged(op: Any, sample: Any) -> tuple[tuple, tuple] | None:
    """Operands like a sample's, with more elements; None where no way to repeat them fits."""
    arrays = [i for i, x in enumerate(sample.operands) if isinstance(x, np.ndarray) and x.size]
    if not arrays:
        return None
    largest = max(arrays, key=lambda i: sample.operands[i].size)
    times = -(-LARGE // sample.operands[largest].size)
    half = int(np.ceil(np.sqrt(times)))
    for axis in (0, -1, None):
        for chosen in (arrays, [largest], arrays[:1], arrays[-1:]):
            operands = list(sample.operands)
            for i in chosen:
                operands[i] = repeated(operands[i], axis, times, half)
            if fits(op, operands, sample.params):
                return tuple(operands), sample.params
    return None


def repeated(x: np.ndarray, axis: int | None, times: int, half: int) -> np.ndarray:
    """An array repeated along its first, its last, or its last two dimensions; of size 1 where it broadcasts."""
    counts = [1] * x.ndim
    if axis is None and x.ndim > 1:
        counts[-1] = counts[-2] = half
    elif x.ndim:
        counts[axis or 0] = times
    return np.tile(x, [1 if size == 1 else count for size, count in zip(x.shape, counts)])


def fits(op: Any, operands: list, params: tuple) -> bool:
    """Does the operation accept them, and give a result of a size that is quickly computed?"""
    import rushlight

    try:
        found = op.infer_metas([rushlight.from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands], params)
    except Exception:
        return False
    return all(m.numel <= 16 * LARGE for m in (found if isinstance(found, tuple) else (found,)) if m is not None)


def converted(op: Any, sample: Any, dtype: str) -> Any:
    """A sample whose numbers have another dtype; indices and conditions stay."""
    from rushlight.core.op import Sample

    def numbers(i: int, x: Any) -> Any:
        if not isinstance(x, np.ndarray) or op.promote == "where" and i == 0:
            return x
        return x.astype(dtype) if x.dtype.kind in "fc" or op.kind == "elementwise" else x

    return Sample(tuple([numbers(i, x) for i, x in enumerate(sample.operands)]), sample.params)


def measure(name: str, directory: str, dtype: str) -> tuple[float, int, str]:
    """The slowest first call of an operation: seconds, which sample, and how many kernels were compiled for all."""
    import rushlight
    from rushlight.core.op import REGISTRY
    from rushlight.core.samples import samples_of
    from rushlight.kernels.cpu.jit import compile_statistics

    os.environ["RUSHLIGHT_CACHE_DIR"] = directory
    warnings.simplefilter("ignore")
    op, slowest, calls = REGISTRY[name], (0.0, 0), 0
    for number, sample in enumerate(samples_of(op)):
        sample = converted(op, sample, dtype) if dtype else sample
        for operands, params in filter(None, (enlarged(op, sample), (sample.operands, sample.params))):
            tensors = tuple([rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in operands])
            times = [time.thread_time()]
            try:
                for _ in range(2):
                    op.apply(tensors, params)
                    times.append(time.thread_time())
            except (RuntimeError, TypeError, IndexError, ValueError, OverflowError):
                continue  # data that an enlarged operand may not have, or a dtype that it does not take
            slowest = max(slowest, (times[1] - times[0] - (times[2] - times[1]), number))
            calls += 1
    return (*slowest, f"{calls} calls, {compile_statistics()['compiled']} kernels")


def in_child(context: Any, name: str, directory: str, dtype: str) -> tuple[float, int, str]:
    """`measure` in a forked process."""
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(measure(name, directory, dtype)))
    child.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(END) else (END, -1, "no end")
    except EOFError:
        return (END, -1, "the process died")
    finally:
        child.terminate()
        child.join()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression for names of operations")
    parser.add_argument("--dtype", default="", help="numpy's name of a dtype for all numbers")
    parser.add_argument("-v", "--verbose", action="store_true", help="list all that were measured")
    options = parser.parse_args()

    import rushlight
    from rushlight.core.op import REGISTRY
    from rushlight.kernels.cpu import fingerprint, jit

    rushlight.tensor(0)
    jit._names(), fingerprint.environment()
    context, failed = multiprocessing.get_context("fork"), 0
    for name in sorted(name for name in REGISTRY if re.search(options.only, name)):
        with tempfile.TemporaryDirectory() as directory:
            cold, sample, what = in_child(context, name, directory, options.dtype)
            warm, _, _ = in_child(context, name, directory, options.dtype)
        slow = cold > COLD or warm > WARM
        failed += slow
        if slow or options.verbose:
            print(f"{name:35} cold {cold:6.2f} s   warm {warm:6.2f} s   sample {sample}, {what}", flush=True)
    print(f"{failed} operations above {COLD} s cold or {WARM} s warm")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
