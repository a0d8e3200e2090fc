"""The translation of Python functions to machine code."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from rushlight.kernels.cpu.machine import call, compile_function, half, put_half, put_word, real, stack, word

pytestmark = pytest.mark.skipif(sys.maxsize < 1 << 62, reason="words have 64 bits")
LIMIT = 7


def _compiled(function):
    address = compile_function(function)
    count = function.__code__.co_argcount
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * count)(address)


def branches(a, b):
    if a < b and b > 0 or a == LIMIT:
        return a - b if not a == 3 else -1
    elif a >> 1 == 4:
        a += 100
    return a * 2


def helper(n):
    return n * n if n < LIMIT else LIMIT


def loops(n):
    total, steps = 0, stack(2)
    put_word(steps + 8, 5)
    for i in range(n):
        if i == 9:
            break
        for k in range(i, 0, 2):  # nothing: it counts upwards
            total += k
        total += helper(i)
    for k in range(2, n, 3):
        total -= k
    return total + word(steps + 8)


def memory(at):
    put_half(at + 8, word(at) + half(at + 4))
    if real(at + 16) > 1.5:
        return word(at + 8)
    return 0


def calling(function, x):
    return call(function, x) + 1


def test_branches_and_conditions():
    made = _compiled(branches)
    for a in range(-3, 12):
        for b in range(-2, 9):
            assert made(a, b) == branches(a, b)


def test_loops_and_calls():
    made = _compiled(loops)
    for n in range(14):
        total = sum([helper(i) for i in range(min(n, 9))])
        assert made(n) == total - sum(range(2, n, 3)) + 5


def test_memory():
    made = _compiled(memory)
    words = np.array([(3 << 32) + 5, -1, 0], np.int64)
    words[2:].view(np.float64)[0] = 1.75
    assert made(words.ctypes.data) == (0xFFFFFFFF << 32) + 8 - (1 << 64)
    words[2:].view(np.float64)[0] = 1.25
    assert made(words.ctypes.data) == 0


def test_functions_by_address():
    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
    assert _compiled(calling)(ctypes.cast(double, ctypes.c_void_p).value, 20) == 41


def test_outside_of_machine_code_memory_is_out_of_reach():
    with pytest.raises(NotImplementedError):
        word(0)
