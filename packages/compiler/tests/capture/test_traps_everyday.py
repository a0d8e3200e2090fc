"""Traps: what programs do between tensors every day: copies, caches, enums, texts, subclasses of dict, `out=`."""

import collections
import copy
import dataclasses
import enum
import functools
import itertools
from contextlib import nullcontext
from typing import Any

import pytest

import rushlight


def numbers(*shape):
    return rushlight.linspace(-1.0, 1.0, rushlight.Size(shape).numel()).reshape(shape)


@dataclasses.dataclass
class Output:
    logits: Any
    loss: Any = None
    extra: dict = dataclasses.field(default_factory=dict)


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


class Config(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def scaled(self, x):
        return x * self.scale


class Record(dict):
    __getattr__ = dict.__getitem__


def test_copies_share_nothing_or_only_what_they_hold(check):
    def scenario(compile):
        config = {"layers": [1, 2], "name": "a"}

        def f(x):
            shallow, deep = copy.copy(config), copy.deepcopy(config)
            shallow["layers"].append(3)
            deep["layers"].append(4)
            twice = [y := x * 2, y]
            both = copy.deepcopy(twice)
            both[0] += 1
            return shallow, deep, both, both[0] is both[1], copy.copy(twice)[0] is twice[0]

        call = compile(f)
        return call(numbers(2)), call(numbers(2)), config

    check(scenario)


def test_dataclasses_as_dicts(check):
    def scenario(compile):
        kept = Output(1, 2.0, {"a": [1]})

        def f(x):
            made = Output(x * 2)
            found = dataclasses.asdict(kept)
            found["extra"]["a"].append(5)
            return made, found, dataclasses.replace(made, loss=3), copy.copy(kept).extra is kept.extra

        return compile(f)(numbers(2)), kept

    check(scenario)


@pytest.mark.parametrize("kind", ["own copy", "own state", "slots"])
def test_objects_that_copy_themselves_are_left_to_eager_execution(check, kind):
    class Slotted:
        __slots__ = ("a",)

    class Own:
        if kind == "own copy":
            def __deepcopy__(self, memo):
                return "copied"
        else:
            def __getstate__(self):
                return {"a": 5}

    def scenario(compile):
        found = Slotted() if kind == "slots" else Own()
        found.a = 1

        def f(x):
            made = copy.deepcopy(found)
            return x, made if isinstance(made, str) else made.a

        return compile(f)(numbers(2))

    check(scenario, captured=False)


def test_a_deepcopy_of_a_parameter_is_left_to_eager_execution(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        net = nn.Linear(2, 2)
        net.weight.data.fill_(1.0)
        return compile(lambda x: (copy.deepcopy(net.weight) is net.weight, x))(numbers(2))

    check(scenario, captured=False)


def test_enums_in_order(check):
    def scenario(compile):
        def f(x, name):
            picked = Mode[name]
            return {m.name: x * m.value for m in Mode}, len(Mode), list(Mode)[0] is picked, picked.value

        call = compile(f)
        return call(numbers(2), "FAST"), call(numbers(2), "EXACT")

    check(scenario)


@pytest.mark.parametrize("cleared", [False, True])
def test_cached_functions_give_what_they_have_kept(check, cleared):
    def scenario(compile):
        scale = [2]

        @functools.lru_cache
        def factor(n):
            return n ** 0.5 * scale[0]

        @functools.lru_cache
        def mask(n):
            return rushlight.tril(rushlight.ones(n, n))

        for n in (3, 4):
            factor(n), mask(n)
        call = compile(lambda x: x @ mask(x.size(-1)) * factor(x.size(-1)))
        results = [call(numbers(2, 3)), call(numbers(2, 3))]
        scale[0] = 3
        results += [call(numbers(2, 3)), call(numbers(2, 4))]
        mask(3).mul_(2)
        results.append(call(numbers(2, 3)))
        if cleared:
            factor.cache_clear()
            mask.cache_clear()
        return *results, call(numbers(2, 3)), factor.cache_info().currsize, mask(3) is mask(3)

    check(scenario, captured=None if cleared else True)


def test_cached_functions_run_when_the_program_comes_to_them(check):
    def scenario(compile):
        scale = [2]

        @functools.lru_cache(typed=True)
        def factor(n, *, more=0):
            return n * scale[0] + more

        def f(x, new):
            scale[0] = new
            return x * factor(3, more=0.5) if x.sum() > 0 else x

        call = compile(f)
        results = [call(numbers(2) + shift, new) for shift, new in ((3, 2), (-3, 3), (3, 4))]
        factor.cache_clear()
        results += [call(numbers(2) + shift, new) for shift, new in ((-3, 5), (-3, 6), (3, 7), (3, 8))]
        return results, factor.cache_info().misses

    check(scenario, captured=None)


def test_a_cached_function_with_effects_is_left_to_eager_execution(check):
    def scenario(compile):
        seen = []

        @functools.lru_cache
        def factor(n):
            seen.append(n)
            return n * 2.0

        call = compile(lambda x: x * factor(x.size(0)))
        return call(numbers(2)), call(numbers(2)), call(numbers(3)), seen

    check(scenario, captured=None)


def test_functions_that_dispatch_on_a_type(check):
    def scenario(compile):
        @functools.singledispatch
        def weight(x):
            return 1.0

        @weight.register
        def _(x: int):
            return x * 2.0

        call = compile(lambda x: x * weight(3) + weight("abc") + weight(x))
        results = [call(numbers(2)), call(numbers(2))]
        weight.register(str, lambda x: len(x) * 1.0)
        return *results, call(numbers(2))

    check(scenario)


def test_decorators_inside(check):
    def scenario(compile):
        def doubled(function):
            @functools.wraps(function)
            def wrapper(*args):
                """Another text."""
                return function(*args) * 2

            return wrapper

        def f(x):
            @doubled
            def inner(y):
                """The text."""
                return y + 1

            return inner(x), inner.__name__, inner.__doc__, inner.__wrapped__(x), inner

        out = compile(f)(numbers(2))
        return *out[:4], out[4].__name__, out[4].__doc__, out[4](numbers(2)), out[4].__wrapped__(numbers(2))

    check(scenario)


def test_dicts_of_classes_of_the_program(check):
    def scenario(compile):
        config = Config(scale=2.0, sizes=[1, 2])

        def f(x):
            made = Record(logits=x, n=1)
            missing = hasattr(config, "missing")
            return (config.scaled(x) + sum(config.sizes) + made.logits, made, missing, "scale" in config, {**config},
                    config.copy(), made.copy())

        call = compile(f)
        results = [call(numbers(2))]
        config["scale"] = 5.0
        results.append(call(numbers(2)))
        Config.__contains__ = lambda self, key: False
        try:
            results.append(call(numbers(2)))
        finally:
            del Config.__contains__
        return results

    check(scenario, captured=None)


def test_texts_of_containers(check):
    def scenario(compile):
        def f(x):
            sizes = [*x.shape]
            return f"{sizes} {(1, 'a')} {x.shape}", str({"a": [1, None]}), repr(sizes)

        return compile(f)(numbers(2, 3))

    check(scenario)


def test_arguments_of_exceptions_and_names_of_builtins(check):
    def scenario(compile):
        def f(x, d):
            try:
                return x * d["k"]
            except KeyError as error:
                return x, error.args, len.__name__, type(x).__name__

        call = compile(f)
        return call(numbers(2), {}), call(numbers(2), {"k": 3})

    check(scenario)


def test_groups(check):
    def scenario(compile):
        def f(x):
            groups = [(k, [*g]) for k, g in itertools.groupby([1, 1, 2, 1])]
            keys = [k for k, _ in itertools.groupby("aabA", key=str.lower)]
            return x, groups, keys

        return compile(f)(numbers(2))

    check(scenario)


def test_results_put_into_a_tensor(check):
    def scenario(compile):
        buffer = rushlight.zeros(3)
        view = buffer[:]

        def f(x):
            same = rushlight.add(x, 1, out=buffer) is buffer
            rushlight.matmul(rushlight.eye(3), x, out=buffer)
            return buffer.sum(), same

        call = compile(f)
        return call(numbers(3)), call(numbers(3) * 2), buffer, view

    check(scenario)


@pytest.mark.parametrize("what", ["operand", "shape", "gradient"])
def test_other_uses_of_out_are_left_to_eager_execution(check, what):
    def scenario(compile):
        x = numbers(3).requires_grad_(what == "gradient")
        out = x if what == "operand" else rushlight.zeros(2 if what == "shape" else 3)

        def f(x, out):
            return rushlight.add(x, 1, out=out)

        try:
            return compile(f)(x, out), out
        except RuntimeError as error:
            return str(error)

    with pytest.warns() if what == "shape" else nullcontext():
        check(scenario, captured=False)


def test_data_that_is_changed_in_place(check):
    def scenario(compile):
        w = numbers(3).requires_grad_()

        def step(x):
            (x * w).sum().backward()
            w.data -= 0.1 * w.grad.data
            w.grad.data.zero_()
            return w.detach().clone()

        call = compile(step)
        return call(numbers(3)), call(numbers(3) + 1), w

    check(scenario)


def test_steps_that_compute_the_loss_themselves(check):
    pytest.importorskip("rushlight.nn")

    def scenario(compile):
        w = numbers(3).requires_grad_()
        optimizer = rushlight.optim.SGD([w], 0.1)

        def step(x):
            def closure():
                optimizer.zero_grad()
                loss = ((x * w) ** 2).sum()
                loss.backward()
                return loss

            with rushlight.no_grad():
                return optimizer.step(closure)

        call = compile(step)
        return [call(numbers(3)).detach() for _ in range(3)], w

    check(scenario)


def test_averages_of_parameters_by_state_dict(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        net = nn.Linear(2, 1)
        for p in net.parameters():
            p.data.fill_(0.5)
        teacher = copy.deepcopy(net).requires_grad_(False)
        optimizer = rushlight.optim.SGD(net.parameters(), 0.1)

        def step(x):
            loss = (net(x) - teacher(x) - 1).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with rushlight.no_grad():
                state = net.state_dict()
                for name, value in teacher.state_dict().items():
                    value.copy_(value * 0.9 + state[name] * 0.1)
            return loss.item()

        call = compile(step)
        return [call(numbers(3, 2)) for _ in range(3)], net, teacher

    check(scenario, variants=1)


def test_a_decision_before_and_a_value_after_a_step(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        net, count = nn.Linear(2, 1), rushlight.tensor(0)
        for p in net.parameters():
            p.data.fill_(0.5)
        mean = [p.detach().clone() for p in net.parameters()]
        optimizer = rushlight.optim.SGD(net.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            net(x).sum().backward()
            optimizer.step()
            first = bool(count == 0)
            for a, p in zip(mean, net.parameters()):
                a.copy_(p.detach() if first else 0.9 * a + 0.1 * p.detach())
            count.add_(1)

        call = compile(step)
        for _ in range(4):
            call(numbers(3, 2))
        return mean, count, net

    check(scenario, variants=2)


def test_sums_divided_by_counts_do_not_capture_again(check):
    def scenario(compile):
        meter = collections.namedtuple("Meter", "state")({"sum": 0.0, "n": 0})

        def update(x):
            state = meter.state
            state["sum"] += x.mean().item() * x.size(0)
            state["n"] += x.size(0)
            return state["sum"] / max(state["n"], 1)

        call = compile(update)
        return [call(numbers(4)) for _ in range(6)], meter.state

    check(scenario, variants=2)


PLAIN = frozenset((int, str, None))


def test_membership_in_a_set_of_types(check):
    def scenario(compile):
        global PLAIN
        before = PLAIN

        def f(x, key):
            return x * (2 if type(key) in PLAIN else 3) + (None in PLAIN)

        call = compile(f)
        results = [call(numbers(2), key) for key in (1, "a", 1.5)]
        PLAIN = frozenset((float,))
        try:
            return *results, call(numbers(2), 1)
        finally:
            PLAIN = before

    check(scenario)
