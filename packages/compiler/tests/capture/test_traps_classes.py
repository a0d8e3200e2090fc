"""Traps: classes, descriptors, enums, objects made by the program."""

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


def test_members_of_an_enum_that_come_and_go(check):
    def scenario(compile):
        class Kind(enum.Enum):
            A = 1.0
            B = 2.0

        programs = [
            lambda x: x * Kind(1.0).value, lambda x: x * len(Kind), lambda x: [x * kind.value for kind in Kind],
            lambda x: x * Kind["A"].value, lambda x: x * Kind.A.value, lambda x: x * (Kind(1.0) is Kind.A),
        ]
        calls = [compile(program) for program in programs]
        seen = [call(ones()) for call in calls]
        added = object.__new__(Kind)  # as libraries that extend enums do it
        added._name_, added._value_ = "C", 3.0
        Kind._member_names_.append("C")
        Kind._member_map_["C"] = Kind._value2member_map_[3.0] = added
        seen += [call(ones()) for call in calls]
        Kind._member_map_["A"] = Kind.B
        seen += [call(ones()) for call in calls]
        Kind._value2member_map_[1.0] = added
        seen += [call(ones()) for call in calls]
        type.__setattr__(Kind, "A", Kind.B)
        seen += [call(ones()) for call in calls]
        Kind.B._value_ = 7.0
        return [*seen, *[call(ones()) for call in calls]]

    check(scenario)


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
