"""Loops with more operands than the thread team's shared words hold."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

from rushlight.kernels.cpu.elementwise import elementwise_kernel


@pytest.mark.parametrize("count", [23, 24, 30])
def test_many_operands_on_several_threads(count):
    arrays = [np.full(200_000, i, np.float32) for i in range(count)]
    kernel = elementwise_kernel(lambda *x: functools.reduce(operator.add, x), [np.float32] * count, np.float32)
    assert set(kernel(np.empty(200_000, np.float32), *arrays).tolist()) == {sum(range(count))}
