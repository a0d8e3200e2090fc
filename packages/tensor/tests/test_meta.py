"""Interned metadata: equal is identical, also when several threads meet new metadata at once."""

import sys
import threading

import pytest

from rushlight.core import dtypes
from rushlight.core.meta import meta


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_get_one_object(frequent_switches):
    for size in range(300):
        barrier, found = threading.Barrier(4), []

        def enter(barrier=barrier, found=found, size=size):
            barrier.wait()
            found.append(meta(dtypes.float32, (size, 7, 3)))

        threads = [threading.Thread(target=enter) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(m) for m in found}) == 1
