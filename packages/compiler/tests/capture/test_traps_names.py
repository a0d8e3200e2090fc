"""Traps: globals, builtins, closures, defaults and code that change between calls."""

from __future__ import annotations

import types

import rushlight as torch

SCALE = 2.0
TABLE = {"k": 3}
HELPER = None


def ones(n: int = 3):
    return torch.ones(n)


def test_global_number_rebound(check):
    def scenario(compile):
        global SCALE
        SCALE = 2.0
        f = compile(lambda x: x * SCALE)
        seen = [f(ones())]
        SCALE = 3.0
        seen.append(f(ones()))
        SCALE = 3
        seen.append(f(torch.ones(3, dtype=torch.int64)))
        SCALE = 2.0
        return [*seen, f(ones())]

    check(scenario)


def test_global_function_rebound(check):
    def scenario(compile):
        global HELPER
        HELPER = lambda x: x + 1  # noqa: E731
        f = compile(lambda x: HELPER(x))
        a = f(ones())
        HELPER = lambda x: x * 5  # noqa: E731
        return a, f(ones())

    check(scenario)


def test_global_shadows_builtin(check):
    def scenario(compile):
        f = compile(lambda x: x * len([1, 2]))
        a = f(ones())
        globals()["len"] = lambda items: 10
        try:
            b = f(ones())
        finally:
            del globals()["len"]
        return a, b, f(ones())

    check(scenario)


def test_global_dict_entry_changes(check):
    def scenario(compile):
        TABLE["k"] = 3
        f = compile(lambda x: x * TABLE["k"] + TABLE.get("missing", 0))
        seen = [f(ones())]
        TABLE["k"] = 4
        seen.append(f(ones()))
        TABLE["missing"] = 7
        seen.append(f(ones()))
        del TABLE["missing"]
        return [*seen, f(ones())]

    check(scenario)


def test_global_written(check):
    def scenario(compile):
        def f(x):
            global SCALE
            SCALE = SCALE + 1.0
            return x * SCALE

        global SCALE
        SCALE = 1.0
        g = compile(f)
        seen = [g(ones()), SCALE, g(ones()), SCALE]
        SCALE = 2.0
        return seen

    check(scenario)


def test_global_deleted(check):
    def scenario(compile):
        def f(x):
            global EXTRA
            try:
                return x + EXTRA
            except NameError:
                EXTRA = 2
                return x

        g = compile(f)
        seen = [g(ones()), g(ones())]
        del globals()["EXTRA"]
        seen.append(g(ones()))
        del globals()["EXTRA"]
        return seen

    check(scenario)


def test_closure_cell_rebound(check):
    def scenario(compile):
        k = 5.0

        def f(x):
            return x + k

        g = compile(f)
        a = g(ones())
        k = 6.0
        return a, g(ones())

    check(scenario)


def test_closure_cell_written_inside(check):
    def scenario(compile):
        count = 0

        def f(x):
            nonlocal count
            count += 1
            return x + count

        g = compile(f)
        return g(ones()), count, g(ones()), count

    check(scenario)


def test_two_functions_share_a_cell(check):
    def scenario(compile):
        value = 1

        def bump():
            nonlocal value
            value *= 3

        def f(x):
            bump()
            return x * value

        g = compile(f)
        return g(ones()), value, g(ones()), value

    check(scenario)


def test_empty_cell_is_filled_later(check):
    def scenario(compile):
        def f(x):
            try:
                return x + late
            except NameError:
                return x

        g = compile(f)
        a = g(ones())
        late = 4
        return a, g(ones()), late

    check(scenario)


def test_defaults_replaced(check):
    def scenario(compile):
        def f(x, k=2, *, m=3):
            return x * k + m

        g = compile(f)
        seen = [g(ones())]
        f.__defaults__ = (5,)
        seen.append(g(ones()))
        f.__kwdefaults__ = {"m": 9}
        seen.append(g(ones()))
        f.__kwdefaults__["m"] = 10
        return [*seen, g(ones())]

    check(scenario)


def test_mutable_default(check):
    def scenario(compile):
        def f(x, log=[]):  # noqa: B006
            log.append(1)
            return x * len(log)

        g = compile(f)
        return g(ones()), g(ones()), f.__defaults__

    check(scenario)


def test_code_swapped(check):
    def scenario(compile):
        def f(x):
            return x + 1

        def other(x):
            return x - 1

        def outer(x):
            return f(x)

        g = compile(outer)
        a = g(ones())
        f.__code__ = other.__code__
        return a, g(ones())

    check(scenario)


def test_bound_method_function_replaced(check):
    def scenario(compile):
        class Thing:
            def act(self, x):
                return x + 1

        thing = Thing()
        g = compile(lambda x: thing.act(x))
        a = g(ones())
        Thing.act = lambda self, x: x * 10
        b = g(ones())
        thing.act = lambda x: x * 100
        return a, b, g(ones())

    check(scenario)


def test_bound_method_code_swapped(check):
    def scenario(compile):
        class Thing:
            k = 2

            def act(self, x):
                return x + self.k

            def other(self, x):
                return x * self.k

        method = Thing().act
        g = compile(method)
        a = g(ones())
        Thing.act.__code__ = Thing.other.__code__
        return a, g(ones())

    check(scenario)


def test_module_attribute_rebound(check):
    def scenario(compile):
        module = types.ModuleType("settings")
        module.rate = 2
        g = compile(lambda x: x * module.rate)
        a = g(ones())
        module.rate = 3
        b = g(ones())
        module.rate = 2.0
        return a, b, g(torch.ones(2, dtype=torch.int64))

    check(scenario)


def test_method_descriptors_in_closures(check):
    def scenario(compile):
        def binary(method):
            def apply(p, q):
                return method(p, q)

            return apply

        minus, times = compile(binary(torch.Tensor.__sub__)), compile(binary(torch.Tensor.__mul__))
        p, q = torch.tensor([7.0]), torch.tensor([2.0])
        return minus(p, q), times(p, q), minus(p, q)

    check(scenario)


def test_import_inside(check):
    def scenario(compile):
        def f(x):
            import math
            from math import sqrt

            return x * math.pi + sqrt(4.0)

        g = compile(f)
        return g(ones()), g(ones())

    check(scenario)


def test_nested_function_and_default_capture(check):
    def scenario(compile):
        def f(x, n):
            steps = [lambda v, i=i: v + i for i in range(n)]
            for step in steps:
                x = step(x)

            def last(v, *, k=n):
                return v * k

            return last(x)

        g = compile(f)
        return g(ones(), 3), g(ones(), 4)

    check(scenario)


def test_function_returned(check):
    def scenario(compile):
        def f(x, n):
            y = x + n

            def later(z, k=2):
                return z * y * k + n

            return later

        g = compile(f)
        return g(ones(), 3)(ones()), g(ones(), 4)(ones(), 5)

    check(scenario)


def test_name_unbound(check):
    def scenario(compile):
        def f(x, flag):
            if flag:
                y = x
            try:
                return y + 1
            except UnboundLocalError:
                return x - 1

        g = compile(f)
        return g(ones(), True), g(ones(), False)

    check(scenario)
