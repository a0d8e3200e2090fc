"""Traps for places in the capture whose guards no other trap needs: those of each place were deleted in turn."""

from __future__ import annotations

import pytest

# what it sets up; the function; what happens between calls (separated by bars)
PLACES = {
    "constructor of a named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'a b', defaults=(2.0,))",
        "def f(x): return P(x) + P(x, 3.0)",
        "P.__new__.__defaults__ = (5.0,) | P.__new__ = lambda cls, a, b=7.0: tuple.__new__(cls, (a, b * 2))"),
    "named tuple whose class does more": (
        "from collections import namedtuple\nlog = []\nclass P(namedtuple('P', 'a b')): pass",
        "def f(x): return P(x, 1.0)[1], len(log)",
        "P.__new__.__code__ = (lambda _cls, a, b: (b, 7)).__code__ | P.__init__ = lambda self, *a: log.append(a)"),
    "named tuple that is changed in two ways": (
        "from collections import namedtuple\nlog = []\nclass P(namedtuple('P', 'a b')): pass",
        "def f(x): return P(x, 1.0)[1], len(log)", "P.__init__ = lambda self, *a: log.append(a) | del P.__init__"),
    "length and items of a named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\np = P(1.0, 2.0)",
        "def f(x): return x * p.b",
        "p = P(1.0, 3.0) | p = tuple.__new__(P, (4.0,)) | P.b = property(lambda self: 9.0)"),
    "bases of a class that issubclass asks about": (
        "class A: pass\nclass B: pass\nclass C(A): pass",
        "def f(x): return x if issubclass(C, A) else -x", "C.__bases__ = (B,) | C.__bases__ = (A,)"),
    "setter of a property": (
        "class C: n = property(lambda self: self.k, lambda self, v: setattr(self, 'k', v))\nc = C()",
        "def f(x): c.n = 2; return x * c.k",
        "C.n = property(lambda self: 1, lambda self, v: setattr(self, 'k', 9)) | del C.n"),
    "slot that becomes a property": (
        "class C: __slots__ = ('k', 'm')\nc = C(); c.k = 1; c.m = 5\nkept = C.k",
        "def f(x): c.k = c.k + 1; return x * c.k",
        "c.k = 5 | C.k = C.m | C.k = property(lambda self: 3, lambda self, v: None) | C.k = kept"),
    "cached property": (
        "from functools import cached_property\nclass C:\n    @cached_property\n    def n(self): return 2\nc = C()",
        "def f(x): return x * c.n",
        "c = C() | C.n = property(lambda self: 5) | C.n = 7; c = C()"),
    "type of a descriptor": (
        "class D:\n    def __get__(self, o, t): return 2\n    def __set__(self, o, v): pass\n"
        "class E(D):\n    def __get__(self, o, t): return 5\n    def __set__(self, o, v): o.__dict__['m'] = v\n"
        "class C: d = D()\nc = C(); c.m = 1",
        "def f(x): c.d = 7; return x * c.d * c.m", "C.d = E() | C.d = D() | C.d = 3"),
    "data attribute hidden by a later descriptor": (
        "class C: n = 1\nc = C(); c.n = 2", "def f(x): return x * c.n",
        "C.n = lambda self: 5 | C.n = property(lambda self: 9) | C.n = 1 | del c.n"),
    "module whose attribute is written": (
        "import types\na = types.ModuleType('a'); b = types.ModuleType('b'); a.n = b.n = 1; m = a",
        "def f(x): m.n = m.n + 1; return x * a.n", "m = b | m = a"),
    "generator of random numbers": (
        "import random\na = random.Random(1); b = random.Random(1); g = a",
        "def f(x): return x * g.random() + a.random()", "g = b | g = a | g = random.Random(5)"),
    "level of a logger": (
        "import logging\na = logging.Logger('a', 10); b = logging.Logger('b', 50); g = a",
        "def f(x): return x if g.isEnabledFor(20) else -x", "a.setLevel(40) | g = b | g = a | a.setLevel(10)"),
    "parts of a slice and length of a tuple": (
        "s = slice(0, 2); t = (1, 2)", "def f(x): return x[s] * len(t), t == (1, 2)",
        "s = slice(0, 3) | t = (1, 2, 3) | s = slice(None, None, 2) | s = 1"),
    "function whose attributes are read": (
        "def g(): pass\ndef h(): pass\ng.k = 2; h.k = 3", "def f(x): return x * g.k, g.__name__",
        "g.k = 5 | g = h | g.__name__ = 'other'"),
    "special method of a dict's class": (
        "class A(dict): pass\nclass B(A): pass\nd = B(n=1)", "def f(x): return x * d['n'] * len(d)",
        "A.__getitem__ = lambda self, k: 7 | del A.__getitem__ | B.__len__ = lambda self: 3 | "
        "B.__bases__ = (type('O', (dict,), {'__getitem__': lambda s, k: 4}),)"),
    "number beside a number that the graph computes": (
        "k = 2", "def f(x): return x * (x.sum().item() * k), x.sum().item() > k", "k = 2.5 | k = 3 | k = True"),
    "object that has a truth of its own": (
        "class A:\n    def __len__(self): return 2\nclass B:\n    def __bool__(self): return False\no = A()",
        "def f(x): return x if o else -x", "o = B() | o = [] | o = [1] | o = A() | o = {}"),
    "operator that is made of others": (
        "for name, k in (('a', 2), ('b', 3)):\n    torch.library.define('places::' + name, '(Tensor x) -> Tensor')\n"
        "    torch.library.impl('places::' + name, 'CompositeImplicitAutograd', lambda x, k=k: x * k)\n"
        "o = torch.ops.places.a",
        "def f(x): return o(x)", "o = torch.ops.places.b | kept = o._composed; o._composed = lambda x: x * 5 | "
        "o._composed = kept | o = torch.ops.places.a; o.register_autocast('cpu', torch.bfloat16)"),
    "module, function or class that only gets an attribute": (
        "import types\na = types.ModuleType('a'); b = types.ModuleType('b'); a.n = b.n = 1; m = a\n"
        "def g(): pass\ndef h(): pass\ng.k = h.k = 1; t = g\n"
        "class A: k = 1\nclass B: k = 1\nC = A",
        "def f(x): seen = (a.n, b.n, g.k, h.k, A.k, B.k); m.n = 5; t.k = 6; C.k = 7; return x, seen",
        "m = b | a.n = b.n = 1; m = a | t = h | g.k = h.k = 1; t = g | C = B | A.k = B.k = 1; C = A"),
    "slot whose property counts how often it is asked": (
        "log = []\nclass C: __slots__ = ('k',)\nc = C(); c.k = 2", "def f(x): return x * c.k, len(log)",
        "C.k = property(lambda self: log.append(1) or 7)"),
    "property of an enum": (
        "from enum import Enum\nclass K(Enum):\n    A = 1\n    twice = property(lambda self: self._value_ * 2)",
        "def f(x): return x * K.A.twice", "K.twice = property(lambda self: 9)"),
    "slice that becomes another range": (
        "s = slice(0, 2, 1)", "def f(x): return x[s]", "s = range(0, 2, 1) | s = slice(0, 2, 1)"),
    "frozen set that becomes a set": (
        "d = {frozenset({1}): 2.0}; k = frozenset({1})", "def f(x): return x * d[k]", "k = {1} | k = frozenset({1})"),
    "tuple that is no longer empty": (
        "t = ()", "def f(x): return x if t else -x", "t = (1,) | t = () | t = [] | t = (0,)"),
    "method hidden by an instance": (
        "class C:\n    def n(self): pass\nc = C(); c.n = 2", "def f(x): return x * c.n",
        "C.n = property(lambda self: 9) | C.n = 3"),
    "dict whose keys are attributes": (
        "class D(dict): __getattr__ = dict.__getitem__\nd = D(n=2)", "def f(x): return x * d.n",
        "D.__getattr__ = lambda self, name: 7 | del D.__getattr__"),
    "attributes of an exception's class": (
        "class E(Exception):\n    code = property(lambda self: 2)\n    level = 3",
        "def f(x):\n    try: raise E()\n    except E as e: return x * e.code + e.level",
        "E.code = property(lambda self: 5) | E.level = property(lambda self: 6) | E.level = 7"),
    "function of numpy": (
        "import numpy as np\ng = np.sqrt", "def f(x): return x * float(g(4.0))", "g = np.square | g = np.sqrt"),
}


@pytest.mark.parametrize("place", PLACES)
def test_place(place, check, calls):
    if "torch.library" in PLACES[place][0]:
        pytest.importorskip("rushlight.library")
    expected = calls(*PLACES[place], lambda fn: fn)
    assert calls(*PLACES[place], check.compile) == expected
