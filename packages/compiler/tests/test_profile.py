"""What a profiler sees of compiled functions."""

from __future__ import annotations

import rushlight
from rushlight.profiler import profile


def curve(x):
    return (x * 2 + 1).sin().sum()


def test_compiled_calls_stay_compiled_and_are_one_event():
    compiled = rushlight.compile(curve)
    x = rushlight.ones(1000)
    expected = compiled(x).item()
    with profile() as prof:
        assert compiled(x).item() == expected
        curve(x)
    names = [event.name for event in prof.events()]
    assert names.count("compiled curve") == 1
    inside = next(event for event in prof.events() if event.name == "compiled curve")
    assert inside.cpu_children == [] and {"mul", "add", "sin", "sum"} <= set(names)


def test_first_call_within_a_profile_is_compiled():
    compiled = rushlight.compile(curve)
    with profile() as prof:
        compiled(rushlight.ones(100))
        compiled(rushlight.ones(100))
    assert [event.name for event in prof.events()].count("compiled curve") == 2
    assert compiled._rushlight_state.captures == 1
