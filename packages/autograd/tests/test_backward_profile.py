"""What a profiler sees of backward passes."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.autograd import profiler
from rushlight.profiler import profile


def test_nodes_of_a_backward_pass_hold_their_operations():
    x = rushlight.ones(3, 3, requires_grad=True)
    with profile(profile_memory=True) as prof:
        (x @ x).exp().sum().backward()
    events = {e.name: e for e in prof.events()}
    assert [n for n in events if n.endswith("Backward0")] == ["SumBackward0", "ExpBackward0", "MatmulBackward0"]
    node = events["MatmulBackward0"]
    assert {child.name for child in node.cpu_children} >= {"matmul"}
    assert events["AccumulateGrad"].scope == node.scope == 1
    assert node.cpu_memory_usage > 0
    expected, x.grad = x.grad, None
    (x @ x).exp().sum().backward()
    assert x.grad.tolist() == expected.tolist()


def test_failing_node_is_recorded_and_raises():
    x = rushlight.ones(1, requires_grad=True)
    y = x * x
    y.backward()
    with profile() as prof, pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert "MulBackward0" in [e.name for e in prof.events()]


def test_older_names():
    x = rushlight.ones(2)
    with profiler.profile(record_shapes=True) as prof:
        assert str(prof) == "<unfinished profiler.profile>"
        with profiler.record_function("part"):
            x * 2
    assert [e.name for e in prof.function_events] == ["part", "mul"]
    assert prof.total_average().count == 2 and prof.self_cpu_time_total > 0
    assert "part" in prof.table(row_limit=1) and "mul" in str(prof)
    with profiler.profile(enabled=False) as prof:
        x * 2
    with pytest.raises(AssertionError):
        prof.events()
    for mark in (profiler.emit_nvtx, profiler.emit_itt):
        with mark(enabled=False):
            x * 2
        with pytest.raises(RuntimeError, match="not available here"), mark():
            x * 2
