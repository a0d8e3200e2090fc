"""Guards as machine code: they notice what guards in Python notice, and each kind of instruction is needed."""

from __future__ import annotations

import gc
import sys
import threading
import timeit
from collections import namedtuple

import pytest

import rushlight as torch
from rushlight.compiler import _config
from rushlight.compiler.native import guard_code, guard_records, layouts

nn = pytest.importorskip("rushlight.nn")
pytestmark = pytest.mark.skipif(not layouts.ready(), reason="this interpreter has no native calls")

# For each instruction a trap that catches programs whose guards lack it. Those that look at types, or at the number of
# arguments, keep machine code from reading what is not there: without them it would crash.
NEEDED = {
    "IS": "test_gradient_changed_inside", "IS_NOT": "test_something_becomes_none",
    "SAME": "test_one_list_by_two_paths", "DIFFERENT": "test_same_tensor_twice_without_writes",
    "ABSENT": "test_class_attribute_shadowed_by_instance", "COUNT": "test_length_after_append",
    "EMPTY": "test_hooks", "KEYS": "test_dict_order_matters", "BITS": "test_nan_and_zero_signs",
    "TEXT": "test_strings", "INTEGER": "test_property_and_its_replacement", "NAMES": "test_star_arguments",
    "TAG": "test_class_attribute_in_base_shadowed", "CODE": "test_code_swapped",
    "LEAVES": "test_different_leaves_become_one", "ASK": "test_full_becomes_empty",
    "MEMORY": "test_input_changed_in_place", "DISTINCT": "test_one_list_by_two_paths",
}  # fmt: skip


@pytest.fixture
def at_once(monkeypatch):
    """Guards are native from the second call on."""
    monkeypatch.setattr(_config, "CALLS_BEFORE_NATIVE_GUARDS", 0)
    made = []
    original = guard_records.native_guard

    def native_guard(*args):
        made.append(original(*args))
        return made[-1]

    monkeypatch.setattr(guard_records, "native_guard", native_guard)
    return made


def test_traps_pass(check, traps, at_once):
    for test in traps:
        test(type(check)())
    assert sum(guard is not None for guard in at_once) > 0.8 * len(at_once)


@pytest.mark.parametrize("kind", NEEDED)
def test_traps_need_each_instruction(check, traps, at_once, kind, monkeypatch):
    (trap,) = [test for test in traps if test.__name__ == NEEDED[kind]]
    trap(type(check)())
    add, code = guard_records._Record._add, getattr(guard_code, kind)

    def without(self, what, *operands, **more):
        if what != code:
            add(self, what, *operands, **more)

    monkeypatch.setattr(guard_records._Record, "_add", without)
    with pytest.raises((AssertionError, RuntimeError)):
        trap(type(check)())


def is_native(state):
    """Is the first entry of a compiled function native?"""
    return state.entries[0].run.__name__ == "entry" and "guard" in state.entries[0].run.__globals__


def model():
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))


def test_other_attributes_of_a_class_are_none_of_its_business(check, at_once):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return self.layer(x)

    net = Net()
    call = check.compile(net)
    x = torch.ones(1, 2)
    expected = net(x)
    for n in range(6):
        assert call(x).equal(expected)
        Net.note = n  # a new version of the class: Python answers once, and the guard is made anew
    call(x), call(x)
    (state,) = check.states
    assert len(state.entries) == 1
    assert is_native(state)
    Net.forward = lambda self, x: x
    assert call(x).equal(x)


def test_keywords_and_their_order(check, at_once):
    def scenario(compile):
        c = compile(lambda x, **named: [(key, value * x) for key, value in named.items()])
        x = torch.ones(1)
        return [c(x, a=x), c(x, a=x), c(x, b=x), c(x, a=x, b=x), c(x, b=x, a=x), c(x, b=x, a=x)]

    check(scenario)


def test_dicts_with_other_keys_are_left_to_python(check, at_once):
    net = model()

    def scenario(compile):
        c = compile(net)
        x = torch.ones(1, 2)
        seen = [c(x), c(x)]
        vars(net)[1] = 2
        seen.append(c(x))
        del vars(net)[1]
        return [*seen, c(x)]

    check(scenario)


def test_equal_keys_that_are_other_objects(check, at_once):
    def scenario(compile):
        options = {"scale one": 2.0}
        c = compile(lambda x: x * options["scale one"])
        seen = [c(torch.ones(1)), c(torch.ones(1))]
        options.clear()
        options["".join(["scale", " one"])] = 2.0
        return [*seen, c(torch.ones(1)), c(torch.ones(1))]

    check(scenario, variants=1)


@pytest.mark.parametrize("count", [3, 300, 70_000])  # indices of one, two and four bytes
def test_dicts_of_all_sizes(check, at_once, count):
    def scenario(compile):
        scales = {f"scale {n}": float(n) for n in range(count)}
        c = compile(lambda x: x * scales["scale 2"])
        seen = [c(torch.ones(1)) for _ in range(3)]
        for value in (3.0, 4.0):
            del scales["scale 2"]  # its place stays empty
            scales["scale 2"] = value
            seen += [c(torch.ones(1)), c(torch.ones(1))]
        return seen

    check(scenario, variants=2)
    assert None not in at_once


def test_membership(check, at_once):
    def scenario(compile):
        flags = {"a": 1}
        c = compile(lambda x: x + 1 if "a" in flags else x - 1)
        seen = [c(torch.ones(1)), c(torch.ones(1))]
        flags.pop("a")
        seen += [c(torch.ones(1)), c(torch.ones(1))]
        flags["a"] = None
        return [*seen, c(torch.ones(1))]

    check(scenario, variants=2)


def native_entries(call):
    return sum("guard" in getattr(entry.run, "__globals__", {}) for entry in call._rushlight_state.entries)


def test_calls_that_other_entries_answer_keep_none_in_python(monkeypatch):
    monkeypatch.setattr(_config, "CALLS_BEFORE_NATIVE_GUARDS", 3)
    factors = [2, 3, 4, 5]
    call = torch.compile(lambda x, n: x * factors[n], dynamic=False)
    for _ in range(6):
        assert [call(torch.ones(1), n).item() for n in range(4)] == factors
    assert native_entries(call) == 4


def test_a_class_attribute_that_goes_before_the_guard_is_native(check, monkeypatch):
    monkeypatch.setattr(_config, "CALLS_BEFORE_NATIVE_GUARDS", 1)

    def scenario(compile):
        class Base:
            scales = [5.0]

        class Derived(Base):
            scales = [2.0, 3.0]

        it = Derived()
        c = compile(lambda x, scale: x * it.scales[0] if scale else x)
        x = torch.ones(1)
        seen = [c(x, True), c(x, False)]
        del Derived.scales
        return [*seen, *[c(x, scale) for _ in range(3) for scale in (False, True)]]

    check(scenario, variants=3)


def test_named_tuples(check, at_once):
    Scales = namedtuple("Scales", "first second")

    class Own(Scales):  # the items of which machine code is not to look for
        def __getitem__(self, index):
            return 7.0

    def scenario(compile):
        it = {"scales": Scales(torch.ones(1), 2.0)}
        c = compile(lambda x: x * it["scales"][0] + it["scales"].second)
        seen = [c(torch.ones(1)) for _ in range(3)]
        for scales in (Scales(torch.ones(1), 3.0), Own(torch.ones(1), 2.0), Own(torch.ones(1), 2.0)):
            it["scales"] = scales
            seen.append(c(torch.ones(1)))
        return seen

    check(scenario, captured=None)  # the named tuples of a class of their own are not
    assert at_once[0] is not None


def test_keywords_are_native_in_their_order_alone(at_once):
    call = torch.compile(lambda x, **named: [(key, value * x) for key, value in named.items()])
    x = torch.ones(1)
    for _ in range(3):
        assert [key for key, _ in call(x, a=x, b=x)] == ["a", "b"]
    assert native_entries(call) == 1
    assert [key for key, _ in call(x, b=x, a=x)] == ["b", "a"]
    assert [key for key, _ in call(x, b=x, c=x)] == ["b", "c"]


@pytest.mark.parametrize("number", [1000, -1000, (1 << 30) - 1])
def test_equal_integers_are_the_same_however_they_came(at_once, number):
    call = torch.compile(lambda x, n: x + n, dynamic=False)
    x = torch.zeros(1, dtype=torch.float64)
    for _ in range(60):
        assert call(x, int(str(number))).item() == number
    assert native_entries(call) == 1 and len(at_once) == 1  # never written anew
    for other in (-number, number + 1, number - (1 << 30), number + (1 << 32), float(number), True):
        assert call(x, other).item() == other


def test_large_integers(check, at_once):
    def scenario(compile):
        c = compile(lambda x, n: x + n)
        x = torch.zeros(1, dtype=torch.float64)
        return [c(x, n) for n in (1 << 40, 1 << 40, int(str(1 << 40)), 1 << 41, 1 << 40, 256, -(1 << 40))]

    check(scenario)


def test_equal_strings_are_the_same_however_they_came(at_once):
    options = {"scale one": 2.0, "other": 1.0}

    def program(x, how):
        return x * options["scale one"] + len(options) if how == "some way" else x

    call, x = torch.compile(program), torch.ones(1)
    for _ in range(3):
        options.clear()
        options.update({"".join(["scale", " one"]): 2.0, "other": 1.0})
        for _ in range(3):
            assert call(x, "".join(["some", " way"])).item() == 4
    assert native_entries(call) == 1 and len(at_once) == 1
    for how in ("some waz", "some wa", "some way ", b"some way", "söme way", None):
        assert call(x, how).item() == 1
    options["".join(["scale", " one"])] = 3.0
    assert call(x, "".join(["some", " way"])).item() == 5


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_the_checks_in_python_raise(at_once, error, monkeypatch):
    original, failing = guard_records._Record._python_check, []

    def check_of(self, node, check):
        function = original(self, node, check)

        def run(v):
            if failing:
                raise error
            return function(v)

        return function and run

    monkeypatch.setattr(guard_records._Record, "_python_check", check_of)
    call, x = torch.compile(lambda x, more: x + 1 if more else x), torch.ones(1)
    call(x, {1}), call(x, {1})
    assert native_entries(call) == 1
    failing.append(True)
    if error is ValueError:  # as in Python's guard: it does not fit
        assert call(x, {1}).item() == 2
    else:
        with pytest.raises(KeyboardInterrupt):
            call(x, {1})


def test_the_collector_is_as_the_program_left_it(at_once):
    call = torch.compile(lambda x: x + 1)
    x = torch.ones(1)
    try:
        for switch in (gc.disable, gc.enable):
            switch()
            state = gc.isenabled()
            for _ in range(3):
                call(x)
                assert gc.isenabled() is state
    finally:
        gc.enable()


def test_nothing_is_kept_or_lost(at_once):
    net, x = model(), torch.ones(4, 2)
    call = torch.compile(net, backend="eager")
    with torch.no_grad():
        for _ in range(3):
            call(x)
        watched = [x, net, *net.parameters(), net[0].__dict__, net._modules, call._compiled_call._rushlight_state]
        before = [sys.getrefcount(thing) for thing in watched]
        for _ in range(300):
            call(x)
        assert [sys.getrefcount(thing) for thing in watched] == before


def test_threads(at_once):
    net, results = model(), []
    call = torch.compile(net)
    inputs = [torch.full((4, 2), float(n)) for n in range(8)]
    expected = [net(x) for x in inputs]

    def work():
        for _ in range(100):
            results.extend(torch.equal(call(x), y) for x, y in zip(inputs, expected))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2400 and all(results)


def test_a_module_with_20_parameters_is_cheap(at_once):
    net, x = nn.Sequential(*[nn.Linear(4, 4) for _ in range(10)]), torch.ones(1, 4)
    call = torch.compile(net, backend=lambda graph, metas, options: lambda inputs: [x])
    with torch.no_grad():
        call(x), call(x)
        assert min(timeit.repeat(lambda: call(x), number=200, repeat=9)) / 200 < 20e-6  # 3 us on a quiet machine


def test_guards_of_open_sizes_and_numbers(check, at_once):
    def scenario(compile):
        model = nn.Linear(4, 4)
        options = {"scale": 1.0, "steps": 0}

        def f(x, y):
            options["steps"] += 1
            return model(x) * options["scale"] + y[: x.shape[0] // 2].sum() + options["steps"] % 3

        torch.manual_seed(0)
        with torch.no_grad():
            for p in model.parameters():
                p.fill_(0.5)
        c, results = compile(f), []
        for i, (n, m) in enumerate(((2, 3), (4, 3), (5, 9), (4, 3), (5, 9), (6, 2), (1, 4), (6, 2), (0, 5), (7, 8))):
            options["scale"] = 0.5 + i if i != 7 else True
            results.append(c(torch.arange(n * 4.0).reshape(n, 4), torch.arange(m * 1.0)))
            if i == 8:
                model.bias = nn.Parameter(torch.ones(4))
        return [x.detach() for x in results], options["steps"]

    check(scenario)
    entries = [entry for state in check.states for entry in state.entries if entry.sizes.places]
    assert entries and all("guard" in entry.run.__globals__ for entry in entries[:1]), [e.run for e in entries]
