"""Traps: control flow, calls, generators, exceptions, context managers."""

from __future__ import annotations

import contextlib
import functools

import pytest

import rushlight as torch


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def ones(n: int = 3):
    return torch.ones(n)


def test_branches_on_arguments(check):
    def scenario(compile):
        def f(x, k, flag=False):
            y = x * k
            return y + 1 if flag else y

        c = compile(f)
        seen = [c(ones(), k) for k in (8.0, 4.0, 3, -1, 0)]
        return [*seen, c(ones(), 2, flag=True), c(ones(), k=2, flag=True), c(torch.tensor([1, 2]), 2)]

    check(scenario)


def test_branch_on_data_has_a_variant_per_path(check):
    def scenario(compile):
        def f(x):
            if x.sum() > 0:
                return x + 1
            return x - 1

        c = compile(f)
        return c(ones()), c(-ones()), c(ones())

    check(scenario, variants=2)


def test_branch_on_shape_and_dtype(check):
    def scenario(compile):
        def f(x):
            if x.dim() == 2 and x.shape[0] > 1:
                return x.sum(0)
            if x.dtype == torch.int64:
                return x + 1
            return x * x.numel()

        c = compile(f)
        return c(ones()), c(torch.ones(2, 3)), c(torch.ones(1, 3)), c(torch.ones(2, dtype=torch.int64)), c(ones(0))

    check(scenario)


def test_loops_with_break_continue_else(check):
    def scenario(compile):
        def f(x, n):
            for i in range(n):
                if i == 1:
                    continue
                if i == 4:
                    break
                x = x + i
            else:
                x = x * 100
            while n > 0:
                n -= 2
                x = x - 1
            return x

        c = compile(f)
        return [c(ones(), n) for n in (0, 1, 3, 5, 7)]

    check(scenario)


def test_star_arguments(check):
    def scenario(compile):
        def inner(a, /, b, *rest, key, other=5, **more):
            return a * b + sum(rest) + key + other + sum(more.values()), list(more)

        def f(x, *args, **kwargs):
            return inner(x, *args, **kwargs)

        c = compile(f)
        return (c(ones(), 2, key=1), c(ones(), 2, 3, 4, key=1, z=2, a=1), c(ones(), 2, 3, 4, key=1, a=1, z=2),
                c(ones(), b=2, key=3))

    check(scenario)


def test_wrong_arguments_raise_eagerly(check):
    c = check.compile(lambda x, y: x + y)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'y'"):
        c(ones())
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        c(ones(), z=1)


def test_generators(check):
    def scenario(compile):
        def count(n):
            for i in range(n):
                yield i + 0
            return "end"

        def outer(n):
            result = yield from count(n)
            yield result

        def echo():
            got = None
            while True:
                got = yield got

        def f(x, n):
            parts = list(outer(n))
            gen = echo()
            next(gen)
            return x * len(parts), parts, gen.send(5), next(count(n), None), all(v < 5 for v in count(n)), sum(count(n))

        c = compile(f)
        return c(ones(), 3), c(ones(), 6)

    check(scenario)


def test_generator_returned_is_left_to_eager(check):
    def scenario(compile):
        def f(x):
            return (x * i for i in range(2))

        c = compile(f)
        return list(c(ones()))

    check(scenario, captured=False)


def test_zip_enumerate_map_filter(check):
    def scenario(compile):
        def f(x, items):
            for i, (a, b) in enumerate(zip(items, reversed(items)), 1):
                x = x + i * a - b
            x = x * sum(map(float, items))
            return x, list(filter(None, items)), list(map(max, items, items[::-1])), dict(zip("ab", items))

        c = compile(f)
        return c(ones(), [1, 0, 3]), c(ones(), [4, 5, 6, 7])

    check(scenario)


def test_exceptions_caught(check):
    def scenario(compile):
        class Mine(ValueError):
            pass

        def check_it(n):
            if n > 2:
                raise Mine("big", n)
            return n

        def f(x, n):
            log = []
            try:
                x = x * check_it(n)
                log.append("ok")
            except (KeyError, Mine) as error:
                log.append(type(error).__name__)
                x = x - 1
            else:
                log.append("else")
            finally:
                log.append("finally")
            try:
                {}["missing"]
            except KeyError:
                log.append("key")
            try:
                [1][5]
            except IndexError:
                log.append("index")
            try:
                try:
                    raise RuntimeError("a")
                except RuntimeError:
                    log.append("again")
                    raise
            except Exception as error:
                log.append(str(type(error)))
            return x, log

        c = compile(f)
        return c(ones(), 1), c(ones(), 3), c(ones(), 1)

    check(scenario, captured=None)


def test_exception_out_of_the_function(check):
    def scenario(compile):
        box = Box(log=[])

        def f(x, n):
            box.log.append("in")
            if n > 1:
                raise ValueError(f"n is {n}")
            return x * n

        c = compile(f)
        seen = [c(ones(), 1)]
        for n in (2, 3):
            try:
                c(ones(), n)
            except ValueError as error:
                seen.append(str(error))
        return [*seen, c(ones(), 1), box]

    check(scenario, captured=None)


def test_shape_error_is_the_eager_one(check):
    c = check.compile(lambda x, y: x + y)
    c(ones(), ones())
    with pytest.raises(RuntimeError, match="do not broadcast"):
        c(ones(3), ones(4))


def test_shape_error_caught_inside(check):
    def scenario(compile):
        def f(x, y):
            try:
                return x + y
            except RuntimeError as error:
                return x.sum(), type(error).__name__

        c = compile(f)
        return c(ones(), ones()), c(ones(3), ones(4)), c(ones(), ones())

    check(scenario)


def test_context_managers(check):
    def scenario(compile):
        log = []

        class Scope:
            def __init__(self, name, swallow=False):
                self.name, self.swallow = name, swallow

            def __enter__(self):
                log.append("+" + self.name)
                return self

            def __exit__(self, kind, error, trace):
                log.append(f"-{self.name}:{kind.__name__ if kind else None}")
                return self.swallow

        @contextlib.contextmanager
        def scope(name):
            log.append("(" + name)
            try:
                yield name + "!"
            finally:
                log.append(name + ")")

        def f(x, n):
            with Scope("a") as a, scope("b") as b:
                x = x + len(a.name) + len(b)
            with Scope("c", True):
                if n:
                    raise KeyError("x")
                x = x * 5
            with contextlib.suppress(ZeroDivisionError):
                x = x + 1 / n
            return x

        c = compile(f)
        return c(ones(), 0), c(ones(), 1), c(ones(), 0), log

    check(scenario, captured=None)


def test_decorators_partials_and_wraps(check):
    def scenario(compile):
        def twice(fn):
            @functools.wraps(fn)
            def wrapped(*args, **kwargs):
                return fn(fn(*args, **kwargs), **kwargs)

            return wrapped

        @twice
        def step(x, k=1):
            return x * k + 1

        half = functools.partial(step, k=0.5)
        c = compile(lambda x: half(x) + step(x, k=3))
        a = c(ones())
        half.keywords["k"] = 2
        return a, c(ones())

    check(scenario)


def test_recursion(check):
    def scenario(compile):
        def power(x, n):
            return x if n == 0 else power(x * 2, n - 1)

        def deep(n):
            return 0 if n == 0 else 1 + deep(n - 1)

        c, d = compile(lambda x, n: power(x, n)), compile(lambda x: x * deep(300))
        return c(ones(), 3), c(ones(), 5), d(ones())

    check(scenario, captured=None)


def test_print_and_io_are_left_to_eager(check, capsys):
    def f(x):
        print("hello", x.shape[0])
        return x + 1

    c = check.compile(f)
    for _ in range(3):
        c(ones())
    assert capsys.readouterr().out == "hello 3\n" * 3


def test_random_module_is_left_to_eager(check):
    import random

    c = check.compile(lambda x: x * random.random())
    assert c(ones()).tolist() != c(ones()).tolist()


def test_walrus_ternary_chains(check):
    def scenario(compile):
        def f(x, n):
            if (half := n // 2) > 1 and not n % 2 or n == 7:
                x = x * half
            a = None if n else 1
            b = n or "none"
            c = n and "some"
            assert n >= 0, "negative"
            return x, a, b, c, a is None, n is not None, 0 <= n < 5

        c = compile(f)
        return [c(ones(), n) for n in (0, 2, 4, 7)]

    check(scenario)


def test_match_statement(check):
    class Point:
        __match_args__ = ("a", "b")

        def __init__(self, a, b):
            self.a, self.b = a, b

    def scenario(compile):
        def f(x, command):
            match command:
                case torch.Tensor():
                    return x + command
                case ["add", k]:
                    return x + k
                case ["more", *rest] if len(rest) > 1:
                    return x * len(rest)
                case {"mul": k, **rest}:
                    return x * k + len(rest)
                case Point(0, b):
                    return x - b
                case Point(a=a):
                    return x - 2 * a
                case str() as name:
                    return x - len(name)
                case int(n) if n > 100:
                    return x + n
                case 7 | 8:
                    return x
                case _:
                    return x * 0

        c = compile(f)
        commands = [["add", 2], ("add", 3), ["more", 1, 2, 3], ["more"], {"mul": 3}, {"mul": 3, "z": 1}, {},
                    Point(0, 5), Point(1, 5),
                    "abc", 7, 8, 9, 1000, 2.5, None, ones()]
        return [c(ones(), v) for v in commands]

    check(scenario)


def test_class_made_inside_is_left_to_eager(check):
    def scenario(compile):
        def f(x):
            class Local:
                k = 3

            return x * Local.k

        c = compile(f)
        return c(ones()), c(ones())

    check(scenario, captured=False)


def test_is_compiling(graph_of):
    from rushlight.compiler import is_compiling

    assert not is_compiling()
    assert len(graph_of(lambda x: x + 1 + 1 if is_compiling() else x, ones()).nodes) == 2


def test_disabled_function(check):
    from rushlight.compiler import disable

    def scenario(compile):
        log = []

        @disable
        def inner(x):
            log.append(1)
            return x + 1

        c = compile(lambda x: inner(x) * 2)
        return c(ones()), c(ones()), log

    check(scenario, captured=False)


def test_compiled_calls_compiled(check):
    def scenario(compile):
        inner = compile(lambda x: x + 1)
        outer = compile(lambda x: inner(x) * 2)
        return outer(ones()), inner(ones()), outer(ones())

    check(scenario)
