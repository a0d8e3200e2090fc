"""Traps: attributes, classes, properties, slots and identity."""

from __future__ import annotations

import collections
import dataclasses
import enum
from abc import ABC, abstractmethod

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


def test_class_attribute_shadowed_by_instance(check):
    def scenario(compile):
        class Thing:
            k = 2

        thing = Thing()
        g = compile(lambda x: x * thing.k)
        seen = [g(ones())]
        thing.k = 5
        seen.append(g(ones()))
        del thing.k
        Thing.k = 7
        return [*seen, g(ones())]

    check(scenario)


def test_class_attribute_in_base_shadowed(check):
    def scenario(compile):
        class Base:
            k = 2

        class Derived(Base):
            pass

        g = compile(lambda x, thing: x * thing.k)
        seen = [g(ones(), Derived())]
        Derived.k = 5
        seen.append(g(ones(), Derived()))
        del Derived.k
        Base.k = 9
        return [*seen, g(ones(), Derived())]

    check(scenario)


def test_mro_changes(check):
    def scenario(compile):
        class A:
            def act(self, x):
                return x + 1

        class B:
            def act(self, x):
                return x * 7

        class C(A):
            pass

        thing = C()
        g = compile(lambda x: thing.act(x))
        a = g(ones())
        C.__bases__ = (B,)
        return a, g(ones())

    check(scenario)


def test_class_assignment(check):
    def scenario(compile):
        class A:
            def act(self, x):
                return x + 1

        class B:
            def act(self, x):
                return x * 7

        thing = A()
        g = compile(lambda x: thing.act(x))
        a = g(ones())
        thing.__class__ = B
        return a, g(ones())

    check(scenario)


def test_property_and_its_replacement(check):
    def scenario(compile):
        class Thing:
            def __init__(self):
                self._k = 2

            @property
            def k(self):
                return self._k + 1

            @k.setter
            def k(self, value):
                self._k = value * 10

        thing = Thing()

        def f(x):
            thing.k = thing.k + 1
            return x * thing.k

        g = compile(f)
        seen = [g(ones()), thing._k, g(ones()), thing._k]
        Thing.k = property(lambda self: 5, lambda self, v: None)
        return [*seen, g(ones()), thing._k]

    check(scenario)


def test_property_over_instance_dict(check):
    def scenario(compile):
        class Thing:
            pass

        thing = Thing()
        thing.k = 2
        g = compile(lambda x: x * thing.k)
        a = g(ones())
        Thing.k = property(lambda self: 50)
        return a, g(ones())

    check(scenario)


def test_getattr_hook(check):
    def scenario(compile):
        class Thing:
            def __init__(self):
                self.table = {"k": 3}

            def __getattr__(self, name):
                try:
                    return self.__dict__["table"][name]
                except KeyError:
                    raise AttributeError(name) from None

        thing = Thing()
        g = compile(lambda x: x * thing.k + getattr(thing, "z", 0))
        seen = [g(ones())]
        thing.table["z"] = 4
        seen.append(g(ones()))
        thing.k = 100
        return [*seen, g(ones())]

    check(scenario)


def test_setattr_hook(check):
    def scenario(compile):
        class Thing:
            def __setattr__(self, name, value):
                object.__setattr__(self, "log", getattr(self, "log", 0) + 1)
                super().__setattr__(name, value)

        thing = Thing()

        def f(x):
            thing.a = 1
            thing.b = x + thing.a
            return thing.b

        g = compile(f)
        return g(ones()), g(ones()), thing

    check(scenario)


def test_custom_getattribute_is_left_to_eager(check):
    def scenario(compile):
        class Thing:
            def __getattribute__(self, name):
                return 4

        thing = Thing()
        g = compile(lambda x: x * thing.anything)
        return g(ones()), g(ones())

    check(scenario, captured=False)


def test_slots(check):
    def scenario(compile):
        class Thing:
            __slots__ = ("k",)

        thing = Thing()
        thing.k = 2

        def f(x):
            thing.k = thing.k + 1
            return x * thing.k

        g = compile(f)
        a = g(ones()), thing.k
        thing.k = 9
        return a, g(ones()), thing.k

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


def test_dataclass(check):
    @dataclasses.dataclass
    class Config:
        k: int
        scale: float = 2.0
        tags: list = dataclasses.field(default_factory=list)

    def scenario(compile):
        def f(x, config):
            made = Config(config.k + 1)
            made.tags.append(config.k)
            return x * made.k * config.scale, made, config == Config(2)

        g = compile(f)
        return g(ones(), Config(2)), g(ones(), Config(3, 4.0))

    check(scenario)


def test_objects_made_inside(check):
    class Node:
        count = 0

        def __init__(self, value, parent=None):
            self.value, self.parent = value, parent

        def total(self):
            return self.value + (self.parent.total() if self.parent is not None else 0)

        def __call__(self, x):
            return x * self.value

        def __len__(self):
            return 0

        def __eq__(self, other):
            return isinstance(other, Node) and self.value == other.value

        __hash__ = None

    def scenario(compile):
        def f(x, n):
            node = Node(n, Node(n + 1))
            picked = node or Node(100)
            return node(x) + node.total() + picked.value, node, node == Node(n), node != Node(n + 1)

        g = compile(f)
        return g(ones(), 1), g(ones(), 2)

    check(scenario)


def test_named_tuple(check):
    Pair = collections.namedtuple("Pair", "left right", defaults=(0,))

    def scenario(compile):
        def f(x, p):
            left, right = p
            return Pair(x * p.left, right + p[1]), Pair(1)._asdict(), len(p)

        g = compile(f)
        return g(ones(), Pair(2, 3)), g(ones(), Pair(ones(), 4))

    check(scenario)


def test_enum(check):
    class Kind(enum.Enum):
        A = 1
        B = 2

    def scenario(compile):
        def f(x, kind):
            return x + 1 if kind is Kind.A else x * kind.value

        g = compile(f)
        return g(ones(), Kind.A), g(ones(), Kind.B), g(ones(), Kind.A)

    check(scenario)


def test_abstract_base(check):
    class Shape(ABC):
        @abstractmethod
        def area(self, x): ...

    class Square(Shape):
        @classmethod
        def make(cls):
            return cls()

        @staticmethod
        def factor():
            return 3

        def area(self, x):
            return x * x * self.factor()

    def scenario(compile):
        g = compile(lambda x: Square.make().area(x) if issubclass(Square, Shape) else x)
        a = g(ones())
        Square.factor = staticmethod(lambda: 4)
        b = g(ones())
        Square.factor = staticmethod(lambda: 3)
        return a, b

    check(scenario)


def test_static_becomes_plain(check):
    def scenario(compile):
        def act(*args):
            return len(args)

        class Thing:
            f = staticmethod(act)

        thing = Thing()
        g = compile(lambda x: x * thing.f())
        a = g(ones())
        Thing.f = act
        return a, g(ones())

    check(scenario)


def test_super_chain(check):
    class A:
        def act(self, x):
            return x + 1

    class B(A):
        def act(self, x):
            return super().act(x) * 2

    class C(B):
        def act(self, x):
            return super().act(x) - 3

    def scenario(compile):
        thing = C()
        g = compile(lambda x: thing.act(x))
        a = g(ones())
        kept = A.act
        A.act = lambda self, x: x + 100
        try:
            return a, g(ones())
        finally:
            A.act = kept

    check(scenario)


def test_descriptor_in_python(check):
    class Doubling:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, obj, kind=None):
            return getattr(obj, self.name) * 2

    class Thing:
        k = Doubling()

    def scenario(compile):
        thing = Thing()
        thing._k = 3
        g = compile(lambda x: x * thing.k)
        a = g(ones())
        thing._k = 4
        return a, g(ones())

    check(scenario)


def test_operators_of_user_classes(check):
    class Money:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return Money(self.n + other.n) if isinstance(other, Money) else NotImplemented

        def __radd__(self, other):
            return Money(self.n + other)

        def __lt__(self, other):
            return self.n < other.n

        def __getitem__(self, i):
            return self.n * i

        def __contains__(self, i):
            return i == self.n

        def __iter__(self):
            return iter([self.n, self.n + 1])

        def __bool__(self):
            return self.n > 1

        def __neg__(self):
            return Money(-self.n)

    def scenario(compile):
        def f(x, m):
            total = sum([m, Money(2)])
            a, b = m
            return x * total.n + m[3], m < Money(5), 4 in m, a + b, bool(m), (-m).n

        g = compile(f)
        return g(ones(), Money(1)), g(ones(), Money(4))

    check(scenario)


def test_counters_need_one_more_variant(check):
    def scenario(compile):
        box = Box(n=0, total=1, log=[])

        def f(x, step):
            box.n += 1
            box.total = box.total * 2 + box.n - step
            box.log.append((box.n, -1))
            return x * 2, box.n

        g = compile(f)
        return [g(ones(), 1) for _ in range(7)], box

    check(scenario, variants=3)


def test_counters_that_are_looked_at(check):
    def scenario(compile):
        box = Box(n=0)

        def f(x):
            box.n += 1
            if box.n % 3 == 0:
                x = x * box.n
            return x, box.n, [0] * box.n, f"{box.n}", box.n == 2, {box.n: 1}

        g = compile(f)
        return [g(ones()) for _ in range(5)], box

    check(scenario)


def test_counter_becomes_something_else(check):
    def scenario(compile):
        box = Box(n=0)

        def f(x):
            box.n += 1
            return x, box.n

        g = compile(f)
        seen = [g(ones()) for _ in range(4)]
        for value in (True, 2.5, 1 << 80, 3):
            box.n = value
            seen.append(g(ones()))
        return seen, box

    check(scenario)


def test_enum_with_code_of_its_own(check):
    factor = [2]

    class Kind(enum.Enum):
        A = 1
        B = 2

        @property
        def scaled(self):
            return self.value * factor[0]

        def __str__(self):
            return f"<{factor[0]}>"

        def act(self, x):
            return x * self.scaled

    class Level(enum.IntEnum):
        LOW = 1
        HIGH = 5

    def scenario(compile):
        factor[0] = 2
        f = compile(lambda x, kind: kind.act(x) + kind.scaled)
        g = compile(lambda x, kind: (x, str(kind)))
        h = compile(lambda x, level: x * (level.value + 1) if level == Level.HIGH else x)
        seen = [f(ones(), Kind.A), g(ones(), Kind.A), h(ones(), Level.LOW), h(ones(), Level.HIGH)]
        factor[0] = 3
        return [*seen, f(ones(), Kind.A), g(ones(), Kind.A), f(ones(), Kind.B)]

    check(scenario, captured=None)


def test_class_renamed(check):
    class Thing:
        pass

    def scenario(compile):
        Thing.__name__ = "Thing"
        g = compile(lambda x, thing: (x, type(thing).__name__))
        first = g(ones(), Thing())
        Thing.__name__ = "Other"
        return first, g(ones(), Thing())

    check(scenario)
