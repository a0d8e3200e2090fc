"""Traps: attributes, classes, properties, slots and identity."""

from __future__ import annotations

import rushlight as torch


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def ones(n: int = 3):
    return torch.ones(n)


def test_attribute_changes(check):
    def scenario(compile):
        box = Box(k=2)
        g = compile(lambda x: x * box.k)
        seen = [g(ones())]
        for value in (3, 2.0, True, -0.0, 0.0):
            box.k = value
            seen.append(g(ones()))
        return seen

    check(scenario)


def test_attribute_type_flips_between_equal_values(check):
    def scenario(compile):
        box = Box(k=1)
        g = compile(lambda x: (x * 2, type(box.k).__name__, isinstance(box.k, bool)))
        seen = [g(ones())]
        for value in (True, 1.0, 1):
            box.k = value
            seen.append(g(ones()))
        return seen

    check(scenario)


def test_attribute_appears_and_disappears(check):
    def scenario(compile):
        box = Box()
        g = compile(lambda x: x + (box.extra if hasattr(box, "extra") else 0) + getattr(box, "more", 1))
        seen = [g(ones())]
        box.extra = 5
        seen.append(g(ones()))
        box.more = 6
        seen.append(g(ones()))
        del box.extra
        return [*seen, g(ones())]

    check(scenario)


def test_attribute_written(check):
    def scenario(compile):
        box = Box(n=0)

        def f(x):
            box.n += 1
            box.last = x * box.n
            return box.last + 1

        g = compile(f)
        return [g(ones()), g(ones()), box]

    check(scenario)


def test_attribute_deleted_inside(check):
    def scenario(compile):
        box = Box(k=3, j=1)

        def f(x):
            y = x * box.k
            del box.k
            return y, hasattr(box, "k"), hasattr(box, "j")

        g = compile(f)
        a = g(ones())
        box.k = 4
        return a, g(ones()), box

    check(scenario)


def test_identity_control_flow(check):
    def scenario(compile):
        s = Box()
        s.a, s.b = Box(), Box()
        s.cur, s.count = s.a, 0

        def f(x):
            s.count += 1
            if s.cur is s.a:
                s.cur = s.b
                return x + 1
            s.cur = s.a
            return x - 1

        c = compile(f)
        return [c(ones()) for _ in range(4)], s.count, s.cur is s.a

    check(scenario)


def test_two_paths_to_one_object(check):
    def scenario(compile):
        def f(x, a, b):
            a.k = 5
            return x * b.k

        g = compile(f)
        one, two = Box(k=1), Box(k=2)
        seen = [g(ones(), one, two)]
        same = Box(k=1)
        seen.append(g(ones(), same, same))
        return [*seen, g(ones(), Box(k=1), Box(k=2))]

    check(scenario)


def test_two_paths_to_one_object_the_other_way_round(check):
    def scenario(compile):
        def f(x, a, b):
            a.k = 5
            return x * b.k

        g = compile(f)
        same = Box(k=1)
        return g(ones(), same, same), g(ones(), Box(k=1), Box(k=1))

    check(scenario)


def test_two_paths_that_only_read(check):
    def scenario(compile):
        box = Box(k=2)
        pair = Box(a=box, b=box)
        g = compile(lambda x: x * pair.a.k + pair.b.k)
        first = g(ones())
        pair.b = Box(k=30)
        return first, g(ones())

    check(scenario)


def test_two_paths_to_the_object_of_a_written_tensor(check):
    def scenario(compile):
        box = Box(w=ones())
        pair = Box(a=box, b=box)

        def f(x):
            y = x + pair.a.w
            pair.b.w.add_(1)
            return y

        g = compile(f)
        seen = [g(ones())]
        pair.b = Box(w=ones())
        return [*seen, g(ones()), pair]

    check(scenario)


def test_objects_as_keys(check):
    def scenario(compile):
        def f(x, items):
            seen, by_id = set(), {}
            for item in items:
                if item not in seen:
                    seen.add(item)
                    x = x + item.k
                by_id[id(item)] = item.k
            return x, len(seen), list(by_id.values()), id(items[0]) == id(items[1])

        g = compile(f)
        a, b, c = Box(k=1), Box(k=2), Box(k=3)
        return g(ones(), [a, b, c]), g(ones(), [a, b, a]), g(ones(), [b, b, b]), g(ones(), [c, a, b])

    check(scenario)


def test_tensors_as_keys(check):
    def scenario(compile):
        def f(tensors):
            seen = {}
            for t in tensors:
                seen[t] = seen.get(t, 0) + 1
            fresh = {tensors[0] + 1, tensors[0] + 1}
            return list(seen.values()), len(fresh), tensors[0] in seen, [t * n for t, n in seen.items()]

        g = compile(f)
        a, b = ones(), ones()
        return g([a, b, a]), g([a, b, b]), g([b, a, b])

    check(scenario)
