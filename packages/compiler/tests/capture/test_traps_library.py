"""Traps: the standard library inside captured programs."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import io
import itertools
import operator
import re
import warnings
from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

import pytest

import rushlight as torch


def ones(n: int = 2):
    return torch.ones(n)


@pytest.mark.parametrize("f", [
    lambda x: list(itertools.chain([1], (x, 2), "ab")),
    lambda x: list(itertools.chain.from_iterable([[1, x], [2]])),
    lambda x: [a * b for a, b in itertools.product([x, 2.0], repeat=2)],
    lambda x: list(itertools.product()),
    lambda x: list(itertools.combinations([x, 1, 2], 2)),
    lambda x: list(itertools.permutations([x, 1, 2])),
    lambda x: [list(itertools.islice(itertools.count(3, 2), *b)) for b in ((4,), (1, 7, 3), (0,), (2, 2), (5, 3))],
    lambda x: (lambda it: (list(itertools.islice(it, 2)), next(it), list(itertools.islice(it, 0)), list(it)))(
        iter([1, x, 3, 4, 5])),
    lambda x: [a for a, _ in zip(itertools.cycle([x, 1]), range(5))],
    lambda x: list(itertools.repeat(x, 2)),
    lambda x: list(itertools.accumulate([x, 1, 2])) + list(itertools.accumulate([1, 2, 3], operator.mul, initial=2)),
    lambda x: list(itertools.pairwise([1, x, 3])) + list(itertools.starmap(pow, [(2, 3), (x, 2)])),
    lambda x: list(itertools.takewhile(lambda n: n < 3, [1, 2, 5, 1])),
    lambda x: list(itertools.dropwhile(lambda n: n < 3, [1, 2, 5, 1])),
    lambda x: list(itertools.zip_longest([1, x], [2], fillvalue=0)),
    lambda x: functools.reduce(lambda a, b: a + b, [x, 1, 2]) + functools.reduce(operator.add, [], 3),
    lambda x: functools.partial(torch.add, x, alpha=3)(x, alpha=2),
    lambda x: functools.partial(functools.partial(lambda *a, **k: (a, sorted(k)), 1, z=2), 2, y=1)(3),
    lambda x: operator.itemgetter(1)([1, x]) + operator.itemgetter("a", "b")({"a": 1, "b": 2})[1],
    lambda x: operator.attrgetter("shape", "dtype.itemsize")(x),
    lambda x: operator.methodcaller("mul", 3)(x),
    lambda x: sorted([(2, "b"), (1, "c")], key=operator.itemgetter(1)),
    lambda x: [sorted(d.keys() & {"a", "q"}) + list(d.keys() - {"b"}) + list({"z"} | d.keys())
               for d in [{"a": x, "b": 1}]],
    lambda x: len({1, 2} | {3}) + len({1, 2} & {2}) - len({1, 2} - {1}) + len({1} ^ {2}),
    lambda x: f"{x.sum().item():.2f} {x.sum().item()!r:>6} {float(x.max())} {x.shape[0]}",
    lambda x: Point(x, 1)._replace(y=3) + Point(1, 2)._replace(),
])
def test_functions(check, f):
    def scenario(compile):
        c = compile(f)
        return [c(ones() * i) for i in range(3)]

    check(scenario, variants=1)


class Point(NamedTuple):
    x: object
    y: int = 2


def test_deques_made_inside(check):
    def scenario(compile):
        def f(x):
            d = deque([1, 2, 3], maxlen=3)
            d.append(x)
            d.appendleft(0)
            d.extend([5, 6])
            d.extendleft([7, 8])
            first, last = d.popleft(), d.pop()
            d.rotate(1)
            d[0] = "first"
            e = d.copy()
            d.clear()
            return d, e, len(e), bool(d), first, last, list(e), 6 in e, e.maxlen if False else deque([x]), deque("ab")

        return compile(f)(ones())

    check(scenario)


def test_deques_that_existed(check):
    def scenario(compile):
        window, short = deque(maxlen=2), deque([1])

        def f(x):
            window.append(x.sum())
            short.appendleft(x.shape[0])
            short.rotate()
            return sum(window), len(short), short[0], x * len(window)

        c = compile(f)
        seen = [c(ones() * i) for i in range(5)]
        window.clear()
        seen.append(c(ones()))
        return seen, list(window), list(short)

    check(scenario)


def test_deque_of_another_length(check):
    def scenario(compile):
        box = {"d": deque([1, 2], maxlen=2)}

        def f(x):
            box["d"].append(3)
            return x * sum(box["d"])

        c = compile(f)
        seen = [c(ones())]
        box["d"] = deque([1, 2], maxlen=3)
        seen.append(c(ones()))
        box["d"] = [1, 2]
        return [*seen, c(ones())], box

    check(scenario)


@pytest.mark.parametrize("f", [
    lambda d, x: [d.append(x) for _ in d],
    lambda d, x: d == deque([1]),
    lambda d, x: torch.stack(d),
    lambda d, x: d[5],
    lambda d, x: [deque().pop(), 1],
])
def test_odd_uses_of_deques(check, f):
    def scenario(compile):
        try:
            return compile(f)(deque([1, 2]), ones())
        except Exception as error:
            return type(error).__name__, str(error)

    check(scenario, captured=None)


def test_defaultdicts(check):
    def scenario(compile):
        totals, groups = defaultdict(float), defaultdict(list)

        def f(x, key):
            totals[key] += x.shape[0]
            groups[key].append(x.sum().item())
            made = defaultdict(lambda: x, a=x + 1)
            made["b"] = made["c"] * 2
            plain = defaultdict(None, z=1)
            return made["a"], dict(made), "q" in made, made.get("q"), len(plain), defaultdict(int, k=2)

        c = compile(f)
        seen = [c(ones(), key) for key in "aaba"]
        totals.default_factory = lambda: 100.0
        seen.append(c(ones(), "z"))
        return seen, totals, groups, seen[0][-1].default_factory

    check(scenario)


def test_a_defaultdict_without_factory(check):
    def scenario(compile):
        d = defaultdict(None)
        try:
            return compile(lambda x: d["missing"])(ones())
        except KeyError as error:
            return repr(error)

    check(scenario, captured=None)


def test_ordered_dicts(check):
    def scenario(compile):
        def f(x):
            d = OrderedDict(a=1, b=x, c=3)
            d.move_to_end("a")
            d.move_to_end("c", last=False)
            return d, list(d)

        return compile(f)(ones())

    check(scenario)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Odd(enum.IntEnum):
    ONE = 1

    def __add__(self, other):
        return 100


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


def test_enums(check):
    def scenario(compile):
        def f(x, level, name):
            return x * level + (Level.HIGH - 1), Mode(name) is Mode.FAST, level > Level.LOW, Level(2), {level: 1}[level]

        c = compile(f)
        return [c(ones(), level, name) for level in Level for name in ("fast", "slow")]

    check(scenario)


def test_enums_with_operators_of_their_own(check):
    check(lambda compile: compile(lambda x: x * (Odd.ONE + 1))(ones()), captured=None)


def test_slots(check):
    def scenario(compile):
        class Meter:
            __slots__ = ("total", "count")

            def __init__(self):
                self.total, self.count = 0.0, 0

            def add(self, value):
                self.total += value
                self.count += 1
                return self

        class Both(Meter):
            def __init__(self, x):
                super().__init__()
                self.x = x

        def f(x):
            m, b = Meter().add(2).add(x), Both(x)
            b.add(5)
            missing = None
            try:
                m.other = 1
            except AttributeError:
                missing = True
            return m.total, m.count, m, b, b.x, missing, hasattr(b, "y")

        out = compile(f)(ones())
        return out[0], out[1], out[2].total, out[2].count, type(out[2]).__name__, out[3].total, out[3].x, out[5:]

    check(scenario)


def test_cached_properties(check):
    def scenario(compile):
        class Model:
            calls = 0

            def __init__(self):
                self.width = 2

            @functools.cached_property
            def scale(self):
                self.calls += 1
                return self.width * 3

        model = Model()
        c = compile(lambda x: x * model.scale)
        seen = [c(ones()) for _ in range(3)]
        model.width = 5
        seen.append(c(ones()))
        del model.scale
        seen.append(c(ones()))
        return seen, vars(model)

    check(scenario)


def test_print(check):
    def scenario(compile):
        def f(x, name):
            print("step", name, x.shape[0], sep="|")
            y = x * 2
            print(f"{name}: {y.sum().item():.1f}", y, end="!\n", flush=True)
            y.add_(1)
            print(y.max().item(), None, (1, "a"))
            return y

        c = compile(f)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            seen = [c(ones() * i, "ab"[i % 2]) for i in range(4)]
        return seen, out.getvalue()

    check(scenario, variants=2)


@pytest.mark.parametrize("f", [
    lambda x: print(x * torch.ones(2, requires_grad=True)),
    lambda x: print(Mode.FAST, Level.LOW),
    lambda x: print([x, 1]),
    lambda x: print(object),
])
def test_print_other_things(check, f):
    def scenario(compile):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            compile(f)(ones())
        return out.getvalue()

    check(scenario, captured=None)


def test_print_to_another_stream(check):
    def scenario(compile):
        out = io.StringIO()

        def f(x):
            with contextlib.redirect_stdout(out):
                print("inside", x.shape[0])
            return x + 1

        return compile(f)(ones()), out.getvalue()

    check(scenario, captured=None)


def test_as_tensor(check):
    def scenario(compile):
        def f(x):
            return torch.as_tensor(x) is x, torch.as_tensor([1.0, 2.0]) + x, torch.as_tensor(x, dtype=torch.float64)

        return compile(f)(ones())

    check(scenario)


def test_inference_mode(check):
    def scenario(compile):
        w = torch.ones(2, requires_grad=True)

        @torch.inference_mode()
        def g(x):
            return x * w, torch.is_inference_mode_enabled()

        def f(x):
            with torch.inference_mode():
                a = x * w
                with torch.inference_mode(False):
                    b = (x * w).requires_grad
            return a, b, g(x), (x * w).sum(), torch.is_inference_mode_enabled()

        out = compile(f)(ones())
        out[3].backward()
        return out[:3], out[4], w, torch.is_inference_mode_enabled()

    check(scenario)


def test_counters_are_left_alone(check):
    check(lambda compile: compile(lambda x: x * collections.Counter("aab")["a"])(ones()), captured=None)


def test_grouping_runs_as_the_program_asks_for_groups(check):
    def scenario(compile):
        seen, key = [], [None]

        def mark(x):
            seen.append(x)
            return x // 2

        def f(x, items):
            kept = [(at, group) for at, group in itertools.groupby(items)]
            for at, group in itertools.groupby(items, mark):
                seen.append((at, next(group)))
            groups = itertools.groupby(items, key[0])
            first = [(at, list(group)) for at, group in groups]
            return x * len(seen), [list(group) for _, group in kept], first

        call = compile(f)
        results = [call(torch.ones(2), [1, 1, 2, 3, 3]), call(torch.ones(2), [1, 1, 2, 3, 3])]
        key[0] = mark
        return results, call(torch.ones(2), [1, 1, 2, 3, 3]), seen

    check(scenario)


NONE = {
    "filter": lambda x, k: x * len(list(filter(k, [0, 1, 2]))),
    "out": lambda x, k: torch.add(x, 1, out=k),
    "default factory": lambda x, k: x * collections.defaultdict(k)["a"],
    "gradient": lambda x, k: torch.autograd.grad((x.detach().requires_grad_() * 2).sum(), x, k, allow_unused=True),
    "send": lambda x, k: x * (lambda: (yield 3))().send(k),
}


@pytest.mark.parametrize("what", NONE)
def test_none_that_becomes_something_else(check, what):
    def scenario(compile):
        box = [None]
        call = compile(lambda x: NONE[what](x, box[0]))
        results = []
        for value in (None, None, int, torch.zeros(2), None):
            box[0] = value
            try:
                results.append(call(torch.ones(2)))
            except Exception as error:
                results.append((type(error).__name__, str(error)))
        return results

    check(scenario, captured=None)


# what it sets up; the function; what happens between calls
PATTERNS = {
    "regular expressions": (
        "import re; kept = re.sub; p = re.compile(r'a(\\d+)'); s = 'a3 b'",
        "def f(x):\n    m = p.search(s)\n    if not m: return x, re.sub('b', 'c', s), m is None, re.match('z', s)[0]\n"
        "    return x * int(m[1]), m.groups(), m.start(), re.findall('[ab]', s), re.split(' ', s), m.group(0)",
        "s = 'a5 b' | s = 'zb' | p = re.compile('(b)') | s = 'a7' | p = re.compile(r'a(\\d+)') | s = 'z' | "
        "re.sub = lambda *given: 'q' | re.sub = kept | p = re.compile('(', re.X) if s == 'a' else 5 | s = b'a'"),
    "pattern or match that outlives the call": (
        "import re; s = 'ab'; log = []",
        "def f(x): m = re.search('b', s); log.append(m.span()); return x, re.compile(s)",
        "s = 'b' | s = '(' | s = 'bb'"),
}


@pytest.mark.parametrize("flags", [re.DEBUG, 128])
def test_a_pattern_that_is_printed(flags, check, capsys):
    def scenario(compile):
        f = compile(lambda x: x * len(re.findall("b", "abb", flags)))
        return [(f(ones()), capsys.readouterr().out) for _ in range(2)]

    check(scenario, captured=False)


def test_a_pattern_that_python_warns_of(check):
    def scenario(compile):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            f, results = compile(lambda x: x * len(re.findall("[[b]", "abb"))), []
            for _ in range(2):
                re.purge()
                results.append(f(ones()))
        return results, [str(x.message) for x in said]

    check(scenario, captured=False)


@pytest.mark.parametrize("case", PATTERNS)
def test_patterns(case, check, calls):
    expected = calls(*PATTERNS[case], lambda fn: fn)
    assert calls(*PATTERNS[case], check.compile) == expected
    assert case != "regular expressions" or check.states[0].captures > 3
