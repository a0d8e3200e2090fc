"""The profiler: what it sees, how it adds it up, what it writes, and that nothing of it stays behind."""

from __future__ import annotations

import gzip
import json
import threading
import time

import pytest

import rushlight
from rushlight.core import recording
from rushlight.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

# What `torch.profiler.schedule` of PyTorch 2.13 gives for twelve steps.
SCHEDULES = [
    ({"wait": 1, "warmup": 1, "active": 2, "repeat": 1}, "NWRSNNNNNNNN"),
    ({"wait": 2, "warmup": 1, "active": 1, "repeat": 2, "skip_first": 1, "skip_first_wait": 1}, "NWSNNWSNNNNN"),
    ({"wait": 0, "warmup": 0, "active": 1}, "SSSSSSSSSSSS"),
]
LETTERS = dict(zip("NWRS", ProfilerAction))


def names(prof) -> list[str]:
    return [event.name for event in prof.events()]


def test_operations_of_all_routes_are_seen():
    x = rushlight.ones(4, 4)
    for _ in range(3):  # the second time views, indices and joins come from memory
        with profile() as prof:
            x + x
            x.exp_()
            x.transpose(0, 1)
            x[1, 2]
            rushlight.cat([x, x])
            rushlight.stack([x, x])
            rushlight.zeros(3)
            x.sum()
        seen = names(prof)
        assert [n for n in seen if n in ("add", "exp_", "cat", "stack", "full", "sum")] == [
            n for n in ("add", "exp_", "cat", "stack", "full", "sum") if n in seen
        ]
        assert {"add", "exp_", "permute", "select", "cat", "sum"} <= set(seen)


def test_nothing_stays_behind():
    x = rushlight.ones(4)
    with profile(profile_memory=True, with_stack=True):
        x * 3
        x.reshape(2, 2)
    plans = [plan for op in recording._all_ops() for plan in op.plans.values()]
    assert plans and not [plan for plan in plans if hasattr(plan, "watched")]
    assert not recording.RECORDINGS and not recording.ops.WATCHERS


def test_results_are_the_same_while_recorded():
    x = rushlight.arange(6.0).reshape(2, 3)
    expected = [(x @ x.T).tolist(), x.split(2, 1)[1].tolist(), rushlight.add(x, x, out=rushlight.empty(2, 3)).tolist()]
    with profile(profile_memory=True, with_stack=True):
        assert [(x @ x.T).tolist(), x.split(2, 1)[1].tolist(),
                rushlight.add(x, x, out=rushlight.empty(2, 3)).tolist()] == expected
        with pytest.raises(RuntimeError, match="shape"):
            x + rushlight.ones(4)


def test_events_nest_and_times_add_up():
    x = rushlight.ones(100)
    with profile() as prof:
        with record_function("outer"):
            x + 1
            with record_function("inner"):
                time.sleep(0.01)
                x * 2
    outer, add, inner, mul = prof.events()
    assert [e.name for e in (outer, add, inner, mul)] == ["outer", "add", "inner", "mul"]
    assert (add.cpu_parent, inner.cpu_parent, mul.cpu_parent, outer.cpu_parent) == (outer, outer, inner, None)
    assert outer.cpu_children == [add, inner]
    assert outer.cpu_time_total >= inner.cpu_time_total > 10_000
    assert outer.self_cpu_time_total == pytest.approx(outer.cpu_time_total - add.cpu_time_total - inner.cpu_time_total)
    assert prof.events().self_cpu_time_total == pytest.approx(outer.cpu_time_total)
    assert prof.events().total_average().count == 4


def test_averages_by_name_shape_and_stack():
    with profile(record_shapes=True, with_stack=True) as prof:
        for n in (2, 3, 2):
            x = rushlight.ones(n)
            x * 2.0
    by_name = {e.key: e for e in prof.key_averages()}
    assert (by_name["mul"].count, by_name["mul"].input_shapes) == (3, [])
    assert by_name["mul"].cpu_time == pytest.approx(by_name["mul"].cpu_time_total / 3)
    shapes = [(e.input_shapes, e.count) for e in prof.key_averages(group_by_input_shape=True) if e.key == "mul"]
    assert shapes == [([[2], []], 2), ([[3], []], 1)]
    (line,) = {e.stack[0] for e in prof.key_averages(group_by_stack_n=1) if e.key == "mul"}
    assert "test_profiler.py" in line and "test_averages_by_name_shape_and_stack" in line


def test_recursive_ranges_are_counted_once():
    @record_function("again")
    def again(n):
        time.sleep(0.001)
        return n and again(n - 1)

    with profile() as prof:
        again(3)
    (average,) = prof.key_averages()
    assert average.count == 4
    assert average.cpu_time_total == pytest.approx(prof.events()[0].cpu_time_total)


def test_memory_of_results_views_and_frees():
    x = rushlight.ones(256)
    with profile(profile_memory=True) as prof:
        with record_function("kept"):
            y = x.exp().reshape(16, 16)
        with record_function("dropped"):
            x.exp()
            x.add_(1)
        x.unsqueeze(0)
    found = {e.key: (e.cpu_memory_usage, e.self_cpu_memory_usage) for e in prof.key_averages()}
    assert found["kept"] == (1024, 0)
    assert found["dropped"] == (0, -1024)
    assert found["exp"] == (2048, 2048)
    assert found["add_"] == (0, 0)
    with profile(profile_memory=True) as prof:
        z = y + 1
        del z
    assert [(e.name, e.cpu_memory_usage) for e in prof.events()] == [("add", 1024), ("[memory]", -1024)]


def test_flops():
    x, kernel = rushlight.ones(2, 3, 5, 5), rushlight.ones(4, 3, 2, 2)
    with profile(with_flops=True) as prof:
        rushlight.ones(2, 3) @ rushlight.ones(3, 4)
        rushlight.conv2d(x, kernel)
        rushlight.ones(7) * 2
    found = {e.key: e.flops for e in prof.key_averages()}
    assert (found["matmul"], found["conv"], found["mul"]) == (2 * 2 * 3 * 4, 2 * (2 * 4 * 4 * 4) * 3 * 2 * 2, 7)
    assert "Total FLOPs" in prof.key_averages().table()


def test_other_threads_are_recorded_and_told_apart():
    def work():
        with record_function("work"):
            rushlight.ones(2) + 1

    with profile() as prof:
        with record_function("main"):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    events = {e.name: e for e in prof.events()}
    assert events["work"].cpu_parent is None and events["add"].cpu_parent is events["work"]
    assert events["main"].thread != events["work"].thread == events["add"].thread


def test_table():
    x = rushlight.ones(4)
    with profile(record_shapes=True, profile_memory=True) as prof:
        x + x
        with record_function("a name of more than fifty-five characters, which is cut"):
            time.sleep(0.002)
    table = prof.key_averages(group_by_input_shape=True).table(sort_by="self_cpu_time_total", row_limit=1)
    assert "a name of more than fifty-five characters, which is cut" in table and "add" not in table
    assert "Self CPU Mem" in table and "Self CPU time total:" in table
    table = prof.key_averages(group_by_input_shape=True).table(header="head", time_unit="ms", max_name_column_width=20)
    assert "[[4], [4]]" in table and "head" in table and "us" not in table.replace("Source", "")
    assert "a name of more th..." in table
    assert "add" not in prof.events().table(top_level_events_only=True, sort_by="cpu_time_total", row_limit=1)
    with pytest.raises(AttributeError):
        prof.key_averages().table(sort_by="speed")
    with pytest.raises(ValueError, match="time_unit"):
        prof.key_averages().table(time_unit="h")


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_chrome_trace(tmp_path, suffix):
    path = str(tmp_path / f"trace{suffix}")
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        with record_function("range"):
            rushlight.ones(2, 3).sum(1)
    prof.add_metadata("who", "me")
    prof.add_metadata_json("list", "[1, 2]")
    prof.export_chrome_trace(path)
    with (gzip.open if suffix.endswith(".gz") else open)(path, "rt") as file:
        trace = json.load(file)
    assert (trace["who"], trace["list"], trace["trace_id"]) == ("me", [1, 2], prof.get_trace_id())
    spans = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert spans["range"]["cat"] == "user_annotation" and spans["sum"]["cat"] == "cpu_op"
    assert spans["sum"]["args"]["Input Dims"] == [[2, 3]] and spans["sum"]["args"]["Input type"] == ["float32"]
    assert spans["range"]["ts"] <= spans["sum"]["ts"]
    assert spans["sum"]["ts"] + spans["sum"]["dur"] <= spans["range"]["ts"] + spans["range"]["dur"]
    assert [e["args"]["Bytes"] for e in trace["traceEvents"] if e["ph"] == "i"][:2] == [24, 8]


def test_stacks_for_flame_graphs(tmp_path):
    path = tmp_path / "stacks.txt"
    with profile(with_stack=True) as prof:
        for _ in range(3):
            rushlight.ones(100_000).exp()
    prof.export_stacks(str(path))
    lines = [line for line in path.read_text().splitlines() if line.split()[0].endswith(";exp")]
    assert len(lines) == 1  # the three calls come from one place
    frames, spent = lines[0].rsplit(" ", 1)
    assert "test_stacks_for_flame_graphs" in frames and int(spent) > 0
    with pytest.raises(ValueError, match="metric"):
        prof.export_stacks(str(path), "self_cuda_time_total")


@pytest.mark.parametrize("arguments, expected", SCHEDULES)
def test_schedule(arguments, expected):
    plan = schedule(**arguments)
    assert [plan(step) for step in range(12)] == [LETTERS[c] for c in expected]


@pytest.mark.parametrize("arguments", [{"wait": -1, "warmup": 0, "active": 1}, {"wait": 0, "warmup": 0, "active": 0}])
def test_schedule_refuses(arguments):
    with pytest.raises(AssertionError, match="schedule"):
        schedule(**arguments)


@pytest.mark.parametrize("acc_events, seen", [(False, [[3, 4], [8, 9]]), (True, [[3, 4], [3, 4, 8, 9]])])
def test_steps_of_a_schedule(acc_events, seen):
    cycles = []

    def ready(prof):
        cycles.append([int(e.name.split("#")[1]) for e in prof.events() if e.name.startswith("ProfilerStep")])

    x = rushlight.ones(2)
    plan = schedule(wait=2, warmup=1, active=2, repeat=2)
    with profile(schedule=plan, on_trace_ready=ready, acc_events=acc_events) as prof:
        for step in range(12):
            assert bool(recording.RECORDINGS) is (step in (3, 4, 8, 9))
            x + 1
            prof.step()
    assert cycles == seen


def test_ending_within_a_cycle_makes_a_trace(tmp_path):
    folder = tmp_path / "log"
    with profile(on_trace_ready=tensorboard_trace_handler(str(folder), "me", use_gzip=True)):
        rushlight.ones(2) + 1
    (file,) = folder.iterdir()
    assert file.name.startswith("me.") and file.name.endswith(".pt.trace.json.gz")


def test_incorrect_schedule_warns():
    x = rushlight.ones(2)
    with profile(schedule=lambda step: [ProfilerAction.RECORD, ProfilerAction.NONE][step]) as prof:
        x + 1
        with pytest.warns(UserWarning, match="from RECORD to NONE"):
            prof.step()
    assert "add" in names(prof)


def test_pausing():
    x = rushlight.ones(2)
    with profile() as prof:
        x + 1
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
        x * 2
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
        x - 1
    assert names(prof) == ["add", "sub"]


def test_one_profile_at_a_time():
    with profile() as prof:
        with pytest.raises(RuntimeError, match="another profile"):
            profile().start()
        rushlight.ones(2) + 1
    assert "add" in names(prof)


def test_activities():
    assert supported_activities() == {ProfilerActivity.CPU}
    with pytest.raises(AssertionError, match="no activities"):
        profile(activities=[])
    with pytest.warns(UserWarning, match="CUDA is not available"), pytest.raises(AssertionError, match="none of"):
        profile(activities=[ProfilerActivity.CUDA])
    with pytest.raises(AssertionError, match="nothing is recorded yet"):
        profile().events()


def test_named_range_without_profile_does_nothing():
    with record_function("unseen"), profile() as prof:
        rushlight.ones(2) + 1
    assert "unseen" not in names(prof)


def test_threads_may_work_on_while_profiles_begin_and_end():
    stop = threading.Event()

    def work(seed):
        n = seed
        while not stop.is_set():
            n = n % 500 + 2  # plans are made all the time
            (rushlight.ones(n) + 1).sum()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (2, 250)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            with profile(profile_memory=True) as prof:
                time.sleep(0.002)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert {e.name for e in prof.events()} <= {"add", "sum", "full", "[memory]"}
    ended = len(prof._events)
    rushlight.ones(3) + 1
    assert len(prof._events) == ended
    plans = [plan for op in recording._all_ops() for plan in op.plans.values()]
    assert not [plan for plan in plans if hasattr(getattr(plan, "watched", plan), "watched")]


def test_overhead_is_small():
    """A loose bound, for a busy machine; about 0.5 us is measured on an idle one."""
    x = rushlight.ones(4)

    def cost() -> float:
        best = float("inf")
        for _ in range(20):
            start = time.perf_counter()
            for _ in range(500):
                x + x
            best = min(best, (time.perf_counter() - start) / 500)
        return best

    cost()
    off = cost()
    with profile():
        on = cost()
    assert on - off < 5e-6
    assert cost() < 1.5 * off + 1e-6
