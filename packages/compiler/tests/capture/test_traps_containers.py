"""Traps: lists, dicts, sets and tuples that are read, written and aliased."""

from __future__ import annotations

from collections import OrderedDict, defaultdict

import rushlight as torch


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def ones(n: int = 3):
    return torch.ones(n)


def test_log_list_grows_without_new_variants(check):
    def scenario(compile):
        log = []

        def f(x):
            log.append(tuple(x.shape))
            return x * 2

        g = compile(f)
        return [g(ones()) for _ in range(5)], log

    check(scenario, variants=1)


def test_length_after_append(check):
    def scenario(compile):
        log = [1]

        def f(x):
            log.append(x)
            return x * len(log)

        g = compile(f)
        return g(ones()), g(ones()), log

    check(scenario)


def test_list_replaced_and_changed(check):
    def scenario(compile):
        box = Box(items=[1, 2])
        g = compile(lambda x: x * sum(box.items) + len(box.items))
        seen = [g(ones())]
        box.items.append(3)
        seen.append(g(ones()))
        box.items[0] = 10
        seen.append(g(ones()))
        box.items = (1, 2)
        seen.append(g(ones()))
        box.items = [1, 2]
        return [*seen, g(ones())]

    check(scenario)


def test_every_list_method(check):
    def scenario(compile):
        items = [3, 1, 2]

        def f(x):
            items.extend([4, 5])
            items.insert(1, 9)
            popped = items.pop()
            first = items.pop(0)
            items.remove(9)
            items[0] += 10
            items[1:2] = [7, 8]
            del items[-1]
            where = items.index(8)
            items.reverse()
            copied = items.copy()
            copied.append(0)
            items.append(x)
            return popped, first, where, copied, items, items[::-1], 7 in items

        g = compile(f)
        return g(ones()), items

    check(scenario)


def test_list_sorted(check):
    def scenario(compile):
        items = [3, 1, 2]

        def f(x):
            a = sorted(items, reverse=True)
            b = sorted(items, key=lambda v: -v)
            items.sort(key=lambda v: v % 3)
            return x * items[0], a, b, max(items), min(items, key=lambda v: -v)

        g = compile(f)
        seen = [g(ones()), list(items)]
        items[:] = [5, 4]
        return [*seen, g(ones()), items]

    check(scenario)


def test_one_list_by_two_paths(check):
    def scenario(compile):
        def f(x, a, b):
            a.append(1)
            return x * len(b)

        g = compile(f)
        same = []
        return g(ones(), [], []), g(ones(), same, same), g(ones(), [], [])

    check(scenario)


def test_list_in_itself(check):
    def scenario(compile):
        items = [1]
        items.append(items)
        g = compile(lambda x: x * len(items[1][1]))
        return g(ones()), g(ones())

    check(scenario)


def test_dict_argument_written(check):
    def scenario(compile):
        def step(s):
            s["loss"] = (s["obs"] * 2).sum()
            s["n"] = s.get("n", 0) + 1
            return s["loss"] + 1

        c = compile(step)
        s = {"obs": ones()}
        seen = [c(s), dict(s)]
        s["obs"] = ones() * 2
        return [*seen, c(s), c(s), s]

    check(scenario)


def test_every_dict_method(check):
    def scenario(compile):
        d = {"a": 1, "b": 2}

        def f(x):
            d["c"] = x
            d.update(e=5, a=10)
            d.update([("z", 0)])
            gone = d.pop("b")
            nothing = d.pop("nope", None)
            old = d.setdefault("a", 99)
            new = d.setdefault("q", 98)
            del d["z"]
            last = d.popitem()
            merged = d | {"m": 1}
            order = list(d), list(d.values())[0], dict(d)
            return gone, nothing, old, new, last, order, merged, len(d), "a" in d, {**d, "k": 1}

        g = compile(f)
        return g(ones()), d

    check(scenario)


def test_dict_order_matters(check):
    def scenario(compile):
        g = compile(lambda x, d: [x * v for v in d.values()])
        return g(ones(), {"a": 1, "b": 2}), g(ones(), {"b": 2, "a": 1}), g(ones(), {"a": 1})

    check(scenario)


def test_dict_key_reinserted(check):
    def scenario(compile):
        d = {"a": 1, "b": 2}

        def f(x):
            v = d.pop("a")
            d["a"] = v + 1
            return x * v

        g = compile(f)
        return g(ones()), list(d), g(ones()), list(d.items())

    check(scenario)


def test_other_dict_keys(check):
    def scenario(compile):
        d = {1: 2, (1, "x"): 3, None: 4, 2.5: 6}
        g = compile(lambda x: x * d[1] + d[(1, "x")] + d[None] + d[2.5] + len(d))
        a = g(ones())
        d[1.0] = 7
        return a, g(ones())

    check(scenario)


def test_keys_equal_but_of_other_types(check):
    def scenario(compile):
        g = compile(lambda x, d: (x, [repr(k) for k in d]))
        return g(ones(), {1: 0}), g(ones(), {True: 0}), g(ones(), {1.0: 0})

    check(scenario)


def test_emptiness_of_a_dict(check):
    def scenario(compile):
        hooks = {}
        g = compile(lambda x: x + 1 if hooks else x - 1)
        seen = [g(ones())]
        hooks["a"] = 1
        seen.append(g(ones()))
        hooks["b"] = 1
        seen.append(g(ones()))
        return seen

    check(scenario, variants=2)


def test_ordered_and_default_dicts(check):
    def scenario(compile):
        ordered, default = OrderedDict(a=1), defaultdict(int)

        def f(x):
            ordered["b"] = 2
            return x * sum(ordered.values())

        def h(x):
            return x * default["new"]

        g, k = compile(f), compile(h)
        return g(ones()), ordered, g(ones()), k(ones()), dict(default)

    check(scenario, captured=None)


def test_dict_iteration_with_change(check):
    def scenario(compile):
        d = {"a": 1, "b": 2}

        def f(x):
            try:
                for key in d:
                    d[key + "x"] = 1
            except RuntimeError as error:
                return x, str(error)
            return x

        g = compile(f)
        return g(ones()), d

    check(scenario, captured=None)


def test_list_grows_while_iterated(check):
    def scenario(compile):
        def f(x, n):
            items = [1]
            for i in items:
                if len(items) < n:
                    items.append(i + 1)
            return x * sum(items), items

        g = compile(f)
        return g(ones(), 3), g(ones(), 5)

    check(scenario)


def test_sets(check):
    def scenario(compile):
        allowed = {"a", "b"}

        def f(x, key):
            seen = set()
            for k in ("a", "b", "a", key):
                if k not in seen:
                    seen.add(k)
                    x = x + (1 if k in allowed else 10)
            return x, seen, len(seen), len(seen.union({"q"}))

        g = compile(f)
        a = g(ones(), "c")
        allowed.add("c")
        return a, g(ones(), "c"), g(ones(), "d")

    check(scenario)


def test_tuples(check):
    def scenario(compile):
        box = Box(t=(1, 2.0, "a", (3,)))

        def f(x):
            a, b, *rest = box.t
            (c,) = rest[-1]
            return x * a + b + c, box.t[1:], box.t + (5,), box.t * 2, box.t.index("a"), box.t == (1, 2.0, "a", (3,))

        g = compile(f)
        seen = [g(ones())]
        box.t = (1, 2.0, "a", (4,))
        seen.append(g(ones()))
        box.t = (1, 2.0, "a", "b", (4,))
        return [*seen, g(ones())]

    check(scenario)


def test_container_subclasses_are_left_to_eager(check):
    class Loud(list):
        def __len__(self):
            return 100

    class Keyed(dict):
        def __missing__(self, key):
            return 7

    def scenario(compile):
        g = compile(lambda x: x * len(LOUD))
        h = compile(lambda x: x * KEYED["none"])
        return g(ones()), h(ones())

    LOUD, KEYED = Loud(), Keyed()
    check(scenario, captured=None)


def test_list_becomes_a_subclass(check):
    class Loud(list):
        def __len__(self):
            return 100

    def scenario(compile):
        g = compile(lambda x, items: x * len(items))
        return g(ones(), [1]), g(ones(), Loud([1]))

    check(scenario, captured=None)


def test_returned_containers_are_fresh(check):
    def scenario(compile):
        def f(x):
            a = [x, 1]
            return a, a, {"a": a, "t": (a, x)}

        g = compile(f)
        one, two = g(ones()), g(ones())
        one[0].append(5)
        return one, two, one[0] is one[1]

    check(scenario, variants=1)


def test_returned_existing_container(check):
    def scenario(compile):
        items = [1, 2]

        def f(x):
            items.append(3)
            return items, x

        g = compile(f)
        return g(ones())[0] is items, g(ones())[0] is items, items

    check(scenario, variants=1)


def test_fresh_list_stored_in_two_places(check):
    def scenario(compile):
        box = Box()

        def f(x):
            fresh = [x]
            box.a = fresh
            box.b = {"f": fresh}
            fresh.append(1)
            return x

        g = compile(f)
        g(ones())
        return box, box.a is box.b["f"]

    check(scenario)


def test_comprehensions(check):
    def scenario(compile):
        def f(x, n):
            a = [i * i for i in range(n) if i % 2]
            b = {i: x + i for i in a}
            c = {i % 2 for i in range(n)}
            d = sum(x * v for v in a)
            e = [[i + j for j in range(2)] for i in range(2)]
            return a, b, c, d, e, [y + 1 for y in reversed(a)]

        g = compile(f)
        return g(ones(), 4), g(ones(), 6)

    check(scenario)


def test_nan_and_zero_signs(check):
    def scenario(compile):
        box = Box(k=0.0)
        g = compile(lambda x: x / box.k)
        seen = [g(ones())]
        for k in (-0.0, float("inf"), float("nan"), 0.0):
            box.k = k
            seen.append(g(ones()))
        return seen

    check(scenario, captured=None)


def test_strings(check):
    def scenario(compile):
        def f(x, name):
            text = f"{name!r:>5}|{len(name):03d}|{1.5:.2f}"
            parts = ",".join([p.upper() for p in name.split("_")])
            return x * len(text), text, parts, name.startswith("a"), name[1:]

        g = compile(f)
        return g(ones(), "a_b"), g(ones(), "b_c")

    check(scenario)


def test_numbers(check):
    def scenario(compile):
        def f(x, n, k):
            import math

            whole, rest = divmod(n, 3)
            return (x * (n // 2) + math.sqrt(n) - (n << 2), whole, rest, round(k, 1), abs(-n), int(k), float(n),
                    pow(n, 2),
                    n / 2, bool(n), -n, ~n, k.is_integer(), n.bit_length(), 1 < n < 10, math.prod([n, 2]), hex(n))

        g = compile(f)
        return g(ones(), 5, 2.25), g(ones(), 7, 2.0)

    check(scenario)


def test_full_becomes_empty(check):
    def scenario(compile):
        box = Box(items=[1], table={"a": 1}, pair=(1,))
        g = compile(lambda x: x + (1 if box.items else 10) + (2 if box.table else 20) + (4 if box.pair else 40))
        seen = [g(ones())]
        box.items.clear()
        seen.append(g(ones()))
        box.table.clear()
        seen.append(g(ones()))
        box.pair = ()
        return [*seen, g(ones())]

    check(scenario)


def test_key_leaves_a_set(check):
    def scenario(compile):
        allowed = {"a", "b"}
        g = compile(lambda x: x + 1 if "a" in allowed and "z" not in allowed else x - 1)
        seen = [g(ones())]
        allowed.discard("a")
        seen.append(g(ones()))
        allowed.update("az")
        return [*seen, g(ones())]

    check(scenario)


def test_something_becomes_none(check):
    def scenario(compile):
        box = Box(extra=Box(), other=None)
        g = compile(lambda x: x + (1 if box.extra is None else 10) + (2 if box.other is not None else 20))
        seen = [g(ones())]
        box.extra = None
        seen.append(g(ones()))
        box.other = Box()
        return [*seen, g(ones())]

    check(scenario)


def test_existing_set_written(check):
    def scenario(compile):
        seen, other = {1}, {1}

        def f(x, n, a, b):
            fresh = n not in a
            a.add(n)
            a.discard(7)
            if n in b:
                x = x * 10
            a.update([n + 1, "k"])
            try:
                b.remove("gone")
            except KeyError:
                x = x + 1
            return x, fresh

        g = compile(f)
        apart = [g(ones(), n, seen, other) for n in (1, 2, 2)]
        return apart, g(ones(), 5, seen, seen), g(ones(), 6, seen, other), seen, other

    check(scenario)


def test_equal_frozen_sets_in_another_order(check):
    def scenario(compile):
        g = compile(lambda x, items: ([x * i for i in items], repr(items)))
        one, two = frozenset([0, 8]), frozenset([8, 0])
        assert one == two and list(one) != list(two)
        return g(ones(), one), g(ones(), two), g(ones(), one)

    check(scenario)
