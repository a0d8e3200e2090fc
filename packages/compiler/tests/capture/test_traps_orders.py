"""Traps as a table: a world, a program in it, and what changes the world between calls, in every order.

Each program runs eagerly and compiled: first in a world that one change has already hit (cold), then with calls between
the changes (warm), in each order of the changes. Counted by changes, this is where most traps of the suite are.
"""

from __future__ import annotations

import itertools
import linecache
import traceback
import types
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as torch

pytest.importorskip("rushlight.nn")  # worlds hold modules and optimizers

WORLD = """
import collections, dataclasses, enum, functools, itertools, math, operator, types
import rushlight as torch
class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)
"""

# name: world; program; changes. Lines of a part are separated by ";;", changes by " | ".
TABLE = {
    # names
    "global int": ("K = 2", "return x * K", "K = 3 | K = 2.0 | K = True"),
    "global float zero": ("K = 0.0", "return x / K", "K = -0.0 | K = 0"),
    "global nan": ("K = float('nan')", "return x * K", "K = 1.0 | K = float('inf')"),
    "global str": ("K = 'a'", "return x * len(K)", "K = 'bc' | K = b'abc' | K = ()"),
    "global none": ("K = None", "return x if K is None else x * 2", "K = 0 | K = False | K = torch.ones(3)"),
    "global tensor": ("K = torch.ones(3)", "return x * K", "K = torch.zeros(3) | K.add_(1) | K = torch.ones(1)"),
    "global gone": ("K = 1", "return x + K", "del K | K = 5"),
    "global tuple": ("K = (1, (2, 3))", "return x * K[1][0]", "K = (1, (4, 3)) | K = (9, (2, 3)) | K = [1, [2, 3]]"),
    "global complex": ("K = 1+0j", "return x * K", "K = 1-0j | K = 1 | K = 1+1j"),
    "global range": ("K = range(3)", "return x * sum(K)", "K = range(1, 4) | K = [0, 1, 2] | K = range(0)"),
    "builtin shadowed": ("pass", "return x * max(1, 2)", "max = min | abs = None"),
    "builtin patched": ("import builtins", "return x * abs(-2)",
                        "abs = lambda v: 7 | del globals()['abs']"),
    "helper": ("def h(v): return v + 1", "return h(x)",
               "h = lambda v: v * 5 | h.__code__ = (lambda v: v - 1).__code__ | h = torch.neg"),
    "defaults": ("def h(v, k=1, *, j=2): return v * k + j", "return h(x)",
                 "h.__defaults__ = (3,) | h.__kwdefaults__ = {'j': 9} | h.__defaults__ = None"),
    "nested defaults": ("def h(v, k=[1]): return v * k[0]", "return h(x)",
                        "h.__defaults__[0][0] = 4 | h.__defaults__ = ([2],)"),
    "cells": ("def make(k):;;    def h(v): return v * k;;    return h;;h = make(2)", "return h(x)",
              "h.__closure__[0].cell_contents = 3 | h = make(2.0) | h.__closure__[0].cell_contents = torch.ones(3)"),
    "cells of two": ("def make(k):;;    def put(v):;;        nonlocal k;;        k = v;;    return (lambda: k), put;;"
                     "get, put = make(1)", "put(get() + 1);;return x * get()", "put(5) | get, put = make(3)"),
    "partial": ("h = functools.partial(lambda a, k: a * k, k=2)", "return h(x)",
                "h = functools.partial(lambda a, k: a + k, k=2) | h.keywords['k'] = 7"),
    "lambda in list": ("F = [torch.exp, torch.neg]", "for g in F: x = g(x);;return x",
                       "F.reverse() | F.append(torch.abs) | F[0] = lambda v: v"),
    "module attribute": ("m = types.ModuleType('m');;m.k = 2", "return x * m.k",
                         "m.k = 3 | m.k = 2.5 | del m.k | m = Box(k=2)"),
    "function attribute": ("def h(v): return v * h.k;;h.k = 2", "return h(x)", "h.k = 3 | del h.k | h.k = 2.0"),
    "wrapped": ("def deco(fn):;;    @functools.wraps(fn);;    def inner(*a): return fn(*a) * inner.k;;"
                "    inner.k = 2;;    return inner;;h = deco(lambda v: v + 1)", "return h(x)",
                "h.k = 3 | h.__wrapped__ = None | h = h.__wrapped__"),
    "operator": ("op = operator.add", "return op(x, 2)", "op = operator.mul | op = lambda a, b: a"),
    "method descriptor": ("op = torch.Tensor.add", "return op(x, 2)", "op = torch.Tensor.mul | op = torch.sub"),
    "bound builtin": ("L = [];;put = L.append", "put(1);;return x * len(L)", "L.clear() | put = L.remove"),
    "name called type": ("K = 3", "return x * type(K)(2.7)", "K = 3.0 | K = True | type = lambda v: float"),
    # attributes and classes
    "attribute": ("o = Box(k=2)", "return x * o.k", "o.k = 3 | o = Box(k=2) | o.k = 2.0 | del o.k"),
    "class attribute": ("class C: k = 2;;o = C()", "return x * o.k",
                        "C.k = 3 | o.k = 5 | o = type('D', (C,), {'k': 8})() | del C.k"),
    "class attribute by class": ("class C: k = 2", "return x * C.k", "C.k = 10 | C.k = 2.0 | C = Box(k=2)"),
    "inherited": ("class A: k = 1;;class B(A): pass;;class C(B): pass;;o = C()", "return x * o.k",
                  "B.k = 2 | A.k = 3 | C.k = 4 | C.__bases__ = (A,)"),
    "method": ("class C:;;    def act(self, v): return v + 1;;o = C()", "return o.act(x)",
               "C.act = lambda self, v: v * 9 | o.act = lambda v: v | C.act.__code__ = (lambda self, v: -v).__code__"),
    "bound method kept": ("class C:;;    k = 1;;    def act(self, v): return v * self.k;;o = C();;b = o.act",
                          "return b(x)", "o.k = 2 | C.k = 3 | C.act = None | b = C().act"),
    "property": ("class C:;;    @property;;    def k(self): return self.j;;o = C();;o.j = 2", "return x * o.k",
                 "o.j = 3 | C.k = 7 | C.k = property(lambda self: 9) | o.__dict__['k'] = 5"),
    "cached property": ("class C:;;    @functools.cached_property;;    def k(self): return self.j;;o = C();;o.j = 2",
                        "return x * o.k", "o.j = 3 | del o.__dict__['k'] | o = C(); o.j = 4"),
    "static and class methods": ("class C:;;    k = 2;;    @staticmethod;;    def s(v): return v + 1;;    @classmethod"
                                 ";;    def c(cls, v): return v * cls.k", "return C.c(C.s(x))",
                                 "C.k = 3 | C.s = staticmethod(lambda v: v) | C.c = classmethod(lambda cls, v: -v)"),
    "getattr default": ("o = Box()", "return x * getattr(o, 'k', 2)", "o.k = 3 | Box.k = 4 | o = 5"),
    "hasattr": ("o = Box()", "return x if hasattr(o, 'k') else -x", "o.k = None | Box.k = 1 | o = None"),
    "dunder getattr": ("class C:;;    def __getattr__(self, name): return len(name);;o = C()", "return x * o.abc",
                       "o.abc = 9 | C.__getattr__ = lambda self, name: 5 | C.abc = 7"),
    "dunder getattribute": ("class C:;;    def __getattribute__(self, name): return 4;;o = C()", "return x * o.k",
                            "del C.__getattribute__ | C.__getattribute__ = lambda self, name: 6"),
    "data descriptor": ("class D:;;    def __get__(self, o, t): return o.__dict__.get('h', 1);;"
                        "    def __set__(self, o, v): o.__dict__['h'] = v * 2;;class C: k = D();;o = C()",
                        "o.k = o.k + 1;;return x * o.k", "o.k = 5 | C.k = 1 | D.__get__ = lambda self, o, t: 3"),
    "dunder call": ("class C:;;    def __call__(self, v): return v + 1;;o = C()", "return o(x)",
                    "C.__call__ = lambda self, v: v * 3 | o.__call__ = None | o = torch.neg"),
    "dunder len and bool": ("class C:;;    n = 0;;    def __len__(self): return self.n;;o = C()",
                            "return x if o else -x", "o.n = 2 | C.__bool__ = lambda self: True | C.n = 1"),
    "dunder eq": ("class C:;;    def __eq__(self, other): return self.k == other;;o = C();;o.k = 1",
                  "return x if o == 1 else -x", "o.k = 2 | del C.__eq__ | C.__eq__ = lambda self, other: True"),
    "operators": ("class C:;;    def __add__(self, v): return v * 2;;    def __radd__(self, v): return v * 3;;o = C()",
                  "return (o + x) + (1 + o)", "C.__add__ = lambda self, v: v | del C.__radd__"),
    "class assigned": ("class A: k = 1;;class B: k = 2;;o = A()", "return x * o.k", "o.__class__ = B | A.k = 5"),
    "slots": ("class C:;;    __slots__ = ('k',);;o = C();;o.k = 2", "o.k = o.k + 1;;return x * o.k",
              "o.k = 9 | o = C() | C.k = 3"),
    "super": ("class A:;;    def act(self, v): return v + 1;;class B(A):;;    def act(self, v): "
              "return super().act(v) * 2;;o = B()", "return o.act(x)",
              "A.act = lambda self, v: v | class Z(A):;;    def act(self, v): return v * 7;;B.__bases__ = (Z,)"),
    "isinstance": ("class A: pass;;class B(A): pass;;o = B()", "return x if isinstance(o, A) else -x",
                   "B.__bases__ = (Box,) | o = 1 | A = int"),
    "dataclass": ("@dataclasses.dataclass;;class P:;;    a: int = 1;;    b: float = 2.0;;p = P()",
                  "return x * p.a + P(b=3.0).b", "p.a = 4 | P.b = 9.0 | p = P(2, 2) | P.__init__ = lambda s, b: None"),
    "frozen dataclass": ("@dataclasses.dataclass(frozen=True);;class P:;;    a: int = 1;;p = P()",
                         "return x * p.a", "p = P(2) | object.__setattr__(p, 'a', 5) | p = P(True)"),
    "enum": ("class E(enum.Enum):;;    A = 1;;    B = 2;;e = E.A", "return x * e.value if e is E.A else -x",
             "e = E.B | e = 1 | E.A._value_ = 5"),
    "named tuple": ("P = collections.namedtuple('P', 'a b');;p = P(1, 2)", "return x * p.a + p[1]",
                    "p = P(3, 2) | p = (1, 2) | P.a = property(lambda s: 8) | p = P(1.0, 2)"),
    "int subclass": ("class I(int):;;    def __mul__(self, v): return 7;;    __rmul__ = __mul__;;k = I(2)",
                     "return x + k * 2", "k = 2 | I.__mul__ = lambda self, v: 9"),
    "str subclass": ("class S(str):;;    def __len__(self): return 5;;k = S('a')", "return x * len(k)",
                     "k = 'a' | S.__len__ = lambda self: 1"),
    "metaclass": ("class M(type):;;    @property;;    def k(cls): return 3;;class C(metaclass=M): pass",
                  "return x * C.k", "M.k = 5 | C = Box(k=1)"),
    "instance made": ("class C:;;    def __init__(self, v): self.v = v;;    def get(self): return self.v",
                      "return C(x).get() + C(2).get()", "C.get = lambda self: self.v * 2 | C.__init__ = lambda s, v: "
                      "setattr(s, 'v', 1) | C.__new__ = lambda cls, v: Box(get=lambda: 4)"),
    "setattr hook": ("class C:;;    def __setattr__(self, n, v): object.__setattr__(self, n, v + 1);;o = C()",
                     "o.k = 1;;return x * o.k", "del C.__setattr__ | o.k = 5 | C.k = property(lambda s: 3)"),
    # containers
    "list": ("L = [1, 2]", "return x * sum(L) + L[0]", "L.append(3) | L[0] = 5 | L = (1, 2) | L[:] = [2.0, 1]"),
    "list truth": ("L = []", "return x if L else -x", "L.append(0) | L = None | L = [[]]"),
    "list identity": ("L = [1];;M = L", "return x if L is M else -x", "M = [1] | L = M"),
    "list written": ("L = []", "L.append(n);;L[0] += 1;;return x * L[0]", "L.insert(0, 9) | L = [0.5] | del L[:]"),
    "list of tensors": ("L = [torch.ones(3), torch.ones(3)]", "return L[0] * x + L[1]",
                        "L[0] = torch.zeros(3) | L[1] = L[0] | L[0].add_(1) | L.pop()"),
    "two lists": ("A = [];;B = []", "A.append(1);;B.append(2);;return x * len(A)", "B = A | A = [] | A = B = []"),
    "list in": ("L = [1, 'a', None]", "return x if 'a' in L else -x", "L[1] = 'b' | L[0] = 'a' | L = 'cab'"),
    "list slice": ("L = [1, 2, 3]", "L[1:2] = [n, n];;return x * L[-1]", "L = [5, 6] | L.reverse() | L = (1, 2)"),
    "list compare": ("L = [1, 2]", "return x if L == [1, 2] else -x", "L[1] = 2.0 | L[1] = 3 | L = (1, 2)"),
    "list sorted": ("L = [3, 1, 2];;key = None", "L.sort(key=key);;return x * L[0]",
                    "key = lambda v: -v | L.append(0) | L = ['b', 'a']"),
    "dict": ("D = {'a': 1}", "return x * D['a'] + D.get('b', 4)", "D['a'] = 2 | D['b'] = 3 | del D['a'] | D = {}"),
    "dict order": ("D = {'a': 1, 'b': 2}", "return x * next(iter(D.values()))",
                   "D['a'] = D.pop('a') | D = {'b': 2, 'a': 1} | D['a'] = 7"),
    "dict written": ("D = {}", "D[n] = D.get(n, 0) + 1;;return x * D[n]", "D.clear() | D = {2: 9, 3: 1} | D[2] = 0.5"),
    "dict keys of other types": ("D = {1: 'int'}", "return x * len(D[1])",
                                 "D = {True: 'bool'} | D = {1.0: 'float'} | D[1] = ''"),
    "dict update": ("D = {'a': 1};;E = {'b': 2}", "D.update(E);;return x * len(D)",
                    "E['c'] = 3 | E = D | D = {} | E = [('z', 1)]"),
    "default dict": ("D = collections.defaultdict(int)", "D['a'] += 1;;return x * D['a']",
                     "D['a'] = 5 | D.clear() | D.default_factory = None"),
    "ordered dict": ("D = collections.OrderedDict(a=1, b=2)", "return x * list(D)[0].__len__() + D['a']",
                     "D.move_to_end('a') | D['a'] = 4 | D = {'a': 1}"),
    "dict subclass": ("class M(dict):;;    def __missing__(self, k): return 6;;D = M()", "return x * D['q']",
                      "D['q'] = 1 | M.__missing__ = lambda self, k: 8 | D = {'q': 3}"),
    "counter": ("D = collections.Counter('aab')", "return x * D['a'] + D['z']",
                "D['a'] = 9 | D = collections.Counter()"),
    "deque": ("Q = collections.deque([1, 2], maxlen=2)", "Q.append(n);;return x * Q[0]", "Q.append(7) | Q = [1, 2]"),
    "set": ("S = {1, 2}", "S.add(n);;return x if 5 in S else -x", "S.add(5) | S = {5} | S.discard(2) | S = [5]"),
    "frozenset": ("S = frozenset((1, 2))", "return x * len(S) + (2 in S)", "S = frozenset() | S = {1, 2} | "
                  "S = frozenset((1.0, 2))"),
    "nested containers": ("D = {'l': [{'k': 1}]}", "D['l'][0]['k'] += 1;;return x * D['l'][0]['k']",
                          "D['l'][0] = {'k': 9} | D['l'].insert(0, {'k': 3}) | D = {'l': ({'k': 1},)}"),
    "container that holds itself": ("L_in_itself = [];;L_in_itself.append(L_in_itself)",
                                   "return x if L_in_itself[0] is L_in_itself else -x",
                                   "L_in_itself[0] = [] | L_in_itself = [[]]"),
    "tuple of lists": ("T = ([1], [2])", "T[0].append(n);;return x * len(T[0]) + len(T[1])",
                       "T = (T[0], T[0]) | T[1].append(1) | T = [[1], [2]]"),
    "iterator shared": ("I = iter([1, 2, 3, 4, 5, 6, 7, 8, 9] * 9)", "return x * next(I)",
                        "I = iter([7] * 99) | next(I)"),
    "generator shared": ("def g():;;    k = 0;;    while True:;;        k += 1;;        yield k;;G = g()",
                         "return x * next(G)", "next(G) | G = g()"),
    "zip and map": ("A = [1, 2];;B = [3, 4]", "return x * sum(map(lambda a, b: a * b, A, B)) + len(list(zip(A, B)))",
                    "B.append(9) | A.append(5) | map = lambda *a: [1] | B = 'ab'"),
    # control flow and exceptions
    "loop": ("N = 2", "for i in range(N): x = x * 2 + i;;return x", "N = 3 | N = 0 | N = 2.0 | range = lambda n: [1]"),
    "while": ("N = 2", "while N > x.dim():;;    x = x.unsqueeze(0);;return x", "N = 3 | N = 0 | N = 1.5"),
    "try": ("D = {}", "try: return x * D['k'];;except KeyError: return -x",
            "D['k'] = 3 | D = [] | KeyError = IndexError"),
    "try tensor": ("w = torch.ones(3)", "try: return x + w;;except RuntimeError as e: return -x",
                   "w = torch.ones(2) | w = torch.ones(1) | RuntimeError = ValueError"),
    "finally": ("L = [];;k = 1", "try: return x / (1 // k);;finally: L.append(k)", "k = 0 | k = -1 | L = {}"),
    "raise": ("E = ValueError", "if n == 2: raise E('no');;return x", "E = KeyError | E = lambda m: None | n = 3"),
    "raise after writes": ("L = [];;w = torch.zeros(3);;bad = False",
                           "L.append(1);;w.add_(1);;if bad: raise ValueError('late');;return x + w",
                           "bad = True | bad = False | L = ()"),
    "raise in helper": ("def h(v):;;    return v[7]", "y = x + 1;;return h(y)",
                        "h = lambda v: v[0] | h = lambda v: v.q"),
    "assert": ("k = 1", "assert k, f'k is {k}';;return x", "k = 0 | k = '' | k = torch.ones(1) | k = torch.zeros(1)"),
    "context manager": ("class C:;;    log = [];;    def __enter__(self): self.log.append(1);;"
                        "    def __exit__(self, *a): "
                        "self.log.append(a[0]); return True", "with C(): x = x[9];;return x",
                        "C.__exit__ = lambda self, *a: False | C.log = [] | C.__enter__ = lambda self: 3"),
    "no_grad": ("on = True;;w = torch.ones(3, requires_grad=True)",
                "with torch.set_grad_enabled(on): y = x * w;;return y", "on = False | w = torch.ones(3) | on = 0"),
    "match": ("v = ('a', 2)", "match v:;;    case ('a', int(k)): return x * k;;    case _: return -x",
              "v = ('a', 2.0) | v = ('b', 2) | v = ['a', 5] | v = ('a', True)"),
    "chained compare": ("a = 1;;b = 2", "return x if 0 < a < b else -x", "a = 3 | b = 0.5 | a = -1"),
    "unpacking": ("t = (1, 2, 3)", "a, *b = t;;return x * a + len(b)", "t = (1,) | t = [2, 3] | t = 'ab' | t = ()"),
    "format": ("k = 2", "return x * len(f'{k:>3}{k!r}')", "k = 100 | k = 2.0 | k = 'aaaa' | k = None"),
    "recursion": ("def h(v, k): return v if k == 0 else h(v * 2, k - 1);;d = 2", "return h(x, d)",
                  "d = 4 | h = lambda v, k: v | d = 0"),
    "generator": ("def g(k):;;    for i in range(k): yield i;;d = 3", "return x * sum(g(d))",
                  "d = 1 | g = lambda k: [9] | d = 0"),
    "generator with return": ("def g():;;    r = yield from h();;    yield r;;def h():;;    yield 1;;    return 5",
                              "return x * sum(g())", "h = lambda: [1, 2] | g = lambda: [7]"),
    "comprehension": ("L = [1, 2];;k = 1", "return x * sum([v * k for v in L if v > k])",
                      "k = 0 | L.append(4) | k = 1.5"),
    "walrus": ("k = 3", "return x * (m := k + 1) + m", "k = 1 | k = 1.0"),
    "lambda default": ("k = 2", "f = lambda v, j=k: v * j;;return f(x)", "k = 3 | k = 2.0"),
    "star arguments": ("a = (1,);;d = {'q': 2}", "return (lambda *p, **r: x * len(p) + sum(r.values()))(*a, **d)",
                       "a = (1, 2) | d['z'] = 5 | d = {1: 2} | a = 'abc'"),
    "identity of numbers": ("k = 1000", "return x if k is 1000 else -x", "k = 10 ** 3 | k = 1001"),
    # tensors
    "in place on a global": ("w = torch.zeros(3)", "w.add_(x);;return w * 2",
                             "w = torch.ones(3) | w = x0 | w = torch.zeros(3, requires_grad=True)"),
    "in place on an attribute": ("o = Box(w=torch.zeros(3))", "o.w += 1;;return o.w",
                                 "o.w = torch.ones(3) | o.w = 4 | o.w = o.w[:2]"),
    "attribute and its view": ("o = Box(w=torch.zeros(4));;v = o.w[:2]", "o.w.add_(1);;return v * 1",
                               "v = torch.zeros(2) | o.w = torch.zeros(4) | v = o.w[2:]"),
    "view returned": ("w = torch.arange(6.0)", "return w[2:5], w.view(2, 3), w",
                      "w = torch.ones(6) | w = torch.arange(12.0)[::2] | w.mul_(2)"),
    "same tensor returned": ("flag = True", "return x if flag else x + 0", "flag = False | flag = 1"),
    "identity ops": ("t = torch.float32", "return x.to(t), x.contiguous(), x.float()",
                     "t = torch.float64 | t = torch.int32"),
    "shape": ("w = torch.ones(2, 3)", "return x.sum() * w.shape[0] + len(w)",
              "w = torch.ones(3, 2) | w = torch.ones(2, 3).t() | w = torch.ones(2)"),
    "strides": ("w = torch.ones(3, 3)", "return w + 1, w.is_contiguous()",
                "w = torch.ones(3, 3).t() | w = torch.ones(1, 3).expand(3, 3)"),
    "dtype": ("w = torch.ones(3)", "return x * w", "w = w.double() | w = w.long() | w = w > 0 | w = w.bfloat16()"),
    "scalar tensor": ("w = torch.tensor(2.0)", "return x.long() * w",
                      "w = 2.0 | w = torch.tensor(2) | w = torch.ones(1)"),
    "requires grad": ("w = torch.ones(3)", "return x * w", "w.requires_grad_() | w = w.detach() | w = w * 1"),
    "grad read": ("w = torch.ones(3, requires_grad=True)", "return x * 2 if w.grad is None else x + w.grad",
                  "w.grad = torch.ones(3) | w.grad = None | w.grad = w.detach() * 3"),
    "data written": ("w = torch.ones(3, requires_grad=True)", "with torch.no_grad(): w.mul_(2);;return (w * x).sum()",
                     "w = torch.ones(3) | w.requires_grad_(False)"),
    "backward inside": ("w = torch.ones(3, requires_grad=True)", "(w * x).sum().backward();;return w.grad",
                        "w.grad = None | w = torch.zeros(3, requires_grad=True) | w.grad.mul_(2) | "
                        "w.requires_grad_(False)"),
    "random": ("k = 0.5", "return torch.rand(3) + torch.nn.functional.dropout(x, k)",
               "torch.manual_seed(5) | k = 0.0 | torch.rand(2)"),
    "random branch": ("on = False", "y = torch.randn(3);;return y if on else torch.randn(3)",
                      "on = True | torch.manual_seed(1)"),
    "generator object": ("g = torch.Generator()", "return torch.rand(3, generator=g)", "g.manual_seed(3) | g = None"),
    "factories": ("dt = None", "return torch.zeros(2, dtype=dt) + torch.arange(2)",
                  "dt = torch.int32 | torch.set_default_dtype(torch.float64) | "
                  "torch.set_default_dtype(torch.float32)"),
    "grad mode outside": ("w = torch.ones(3, requires_grad=True)", "return x * w, torch.is_grad_enabled()",
                          "torch.set_grad_enabled(False) | torch.set_grad_enabled(True)"),
    "user attribute of a tensor": ("w = torch.ones(3);;w.k = 2", "return x * w.k",
                                   "w.k = 3 | w = torch.ones(3) | del w.k"),
    "numpy memory": ("import numpy as np;;a = np.zeros(3, 'f');;w = torch.from_numpy(a)", "w.add_(1);;return x * w",
                     "a[:] = 5 | w = torch.from_numpy(a[::-1].copy()) | w = torch.from_numpy(a)"),
    "item": ("w = torch.tensor(2)", "return x * w.item()", "w = torch.tensor(3) | w.add_(1) | w = torch.tensor(2.5)"),
    "data branch": ("w = torch.tensor(2)", "return x if w > 1 else -x", "w = torch.tensor(0) | w.fill_(5)"),
    "index tensor": ("i = torch.tensor([0, 2])", "return x[i]",
                     "i = torch.tensor([1]) | i = torch.tensor([7]) | i[0] = -1 | "
                     "i = x0 > 0 | i = 1"),
    "index written": ("i = torch.tensor([0, 2]);;w = torch.zeros(3)", "w[i] = x[i] * 2;;return w",
                      "i = torch.tensor([1, 1]) | i = torch.tensor([5]) | w = torch.zeros(2) | i = slice(None)"),
    "is and in": ("w = x0", "return x * 2 if x is w else x", "w = torch.ones(3) | w = x0[:]"),
    "out": ("o = torch.empty(3)", "torch.add(x, 1, out=o);;return o", "o = torch.empty(3) | o = torch.empty(0)"),
    "foreach and sum": ("L = [torch.ones(3)] * 2", "return sum(L) + x", "L = [torch.ones(3)] | L = [] | L.append(3)"),
    "module": ("m = torch.nn.Linear(3, 2)", "return m(x)",
               "m = torch.nn.Linear(3, 2, bias=False) | m.bias = None | "
               "m.weight = torch.nn.Parameter(torch.ones(4, 3)) | "
               "m.forward = lambda v: v | m.weight.data = torch.ones(2, 3) | m.requires_grad_(False)"),
    "module mode": ("m = torch.nn.Dropout(0.5)", "return m(x)", "m.eval() | m.p = 0.0 | m.train() | m.training = 0"),
    "module hooks": ("m = torch.nn.ReLU()", "return m(x - 2)",
                     "m._forward_hooks[7] = lambda mod, a, r: r + 1 | "
                     "m._forward_pre_hooks[8] = lambda mod, a: (a[0] * 2,) | m._forward_hooks.clear()"),
    "module list": ("m = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())", "return m(x - 1.5)",
                    "m.append(torch.nn.Sigmoid()) | m[0] = torch.nn.Identity() | del m[1]"),
    "buffer": ("m = torch.nn.Module();;m.register_buffer('b', torch.zeros(3))",
               "m.b += 1;;m.b = m.b * 2;;return x + m.b",
               "m.b = torch.ones(3) | m.b = None | m.b = torch.ones(3).double()"),
    "batch norm": ("m = torch.nn.BatchNorm1d(3)", "return m(x.expand(2, 3) * torch.tensor([[1.0], [2.0]]))",
                   "m.eval() | m.momentum = None | m.track_running_stats = False | m.reset_running_stats()"),
    "optimizer": ("w = torch.nn.Parameter(torch.ones(3));;o = torch.optim.SGD([w], lr=0.1, momentum=0.9)",
                  "o.zero_grad();;(w * x).sum().backward();;o.step();;return w",
                  "o.param_groups[0]['lr'] = 0.5 | o.state.clear() | w.requires_grad_(False)"),
    "print": ("k = 1", "print(end='');;return x * k", "k = 2 | print = lambda *a, **b: globals().update(k=7)"),
    "locals": ("k = 1", "return x * len(locals())", "k = 2"),
    "eval": ("k = 1", "return x * eval('k')", "k = 5"),
    "import inside": ("pass", "import math;;return x * math.floor(2.5)", "import math; math.floor2 = 1"),
    "id": ("a = Box();;b = a", "return x if id(a) == id(b) else -x", "b = Box() | a = b"),
    "hash and set of objects": ("a = Box();;b = Box()", "return x * len({a, b})", "b = a | a = Box()"),
    "closure made inside": ("k = 2", "def g(v): return v * k;;return g(x)", "k = 3 | k = 2.0"),
    "class made inside": ("L = []", "class H:;;    def touch(self): L.append(1);;H().touch();;return x * len(L)",
                          "L.clear() | L = [5, 5]"),
    "function returned": ("k = 2", "def g(v): return v * k;;return g(x), g.__name__", "k = 3"),
    "sizes": ("s = (1, 3)", "return x.view(s), x.reshape(*s)",
              "s = (3, 1) | s = [3] | s = (2, 2) | s = torch.Size([1, 3])"),
    "axis": ("d = 0", "return x.sum(d)", "d = -1 | d = 1 | d = None | d = (0,) | d = True"),
    "device and dtype objects": ("d = 'cpu'", "return torch.zeros(3, device=d) + x",
                                 "d = torch.device('cpu') | d = 'nowhere'"),
    "clamp by a number": ("k = 0.5", "return x.clamp(max=k)", "k = 0.25 | k = 2 | k = None | k = torch.tensor(0.1)"),
}

_spec = spec_from_file_location("rushlight_orders_library", Path(__file__).with_name("orders_library.py"))
_more = module_from_spec(_spec)
_spec.loader.exec_module(_more)
TABLE |= _more.TABLE


def program(text: str) -> str:
    """The source of the program, one statement a line."""
    lines = text.split(";;")
    return "def f(x, n=2):\n" + "\n".join("    " + line for line in lines) + "\n"


def statements(text: str) -> list[str]:
    """The changes of a row."""
    return [change.replace(";;", "\n").strip() for change in text.split(" | ")]


def user_line(error: BaseException) -> Any:
    """The last line of the program that an error passed through."""
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == "<trap>"][-1:]


def world_of(setup: str, text: str, compile: Any) -> dict[str, Any]:
    """A fresh world with the program, compiled."""
    torch.manual_seed(0)
    world: dict[str, Any] = {"x0": torch.tensor([1.0, 2.0, 3.0])}
    exec(WORLD + setup.replace(";;", "\n"), world)
    source = program(text)
    linecache.cache["<trap>"] = (len(source), None, source.splitlines(True), "<trap>")
    exec(compile_source(source), world)
    world["f"] = compile(world["f"])
    return world


def compile_source(source: str) -> types.CodeType:
    """The code of a program, whose lines tracebacks can name."""
    return compile(source, "<trap>", "exec")


def step(world: dict[str, Any], observe: Any) -> Any:
    """What a call does, and the world afterwards."""
    x = world["x0"]
    try:
        outcome = observe([world["f"](x), x])
    except Exception as error:
        outcome = (type(error).__name__, str(error), user_line(error))
    plain = {name: value for name, value in world.items() if name not in ("__builtins__", "f", "L_in_itself")
             and not issubclass(type(value), (types.ModuleType, torch.optim.Optimizer))}  # asks no `__class__`
    return [outcome, observe([plain]), torch.get_rng_state().tolist(), torch.is_grad_enabled()]


def change(world: dict[str, Any], text: str) -> str | None:
    """Change the world; changes that came before may forbid it."""
    try:
        exec(text, world)
    except Exception as error:
        return type(error).__name__
    return None


def outcomes(setup: str, text: str, changes: list[str], compile: Any, observe: Any) -> list[Any]:
    """All that is seen, cold and warm."""
    seen = []
    for first in changes:
        world = world_of(setup, text, compile)
        seen += [first, change(world, first), step(world, observe)]
    orders = list(itertools.permutations(changes)) if len(changes) < 4 else \
        [(*changes[i:], *changes[:i]) for i in range(len(changes))] + [tuple(reversed(changes))]
    for order in orders:
        world = world_of(setup, text, compile)
        seen += [order, step(world, observe), step(world, observe)]
        for text_of_change in order:
            seen += [text_of_change, change(world, text_of_change), step(world, observe), step(world, observe)]
    return seen


@pytest.fixture(autouse=True)
def framework_state():
    """Put back what programs change of it, and of numpy."""
    with np.printoptions():
        yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.filterwarnings("ignore")
def test_same_as_eager(name, check, observe):
    setup, text, changes = TABLE[name]
    expected = outcomes(setup, text, statements(changes), lambda fn: fn, observe)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    actual = outcomes(setup, text, statements(changes), check.compile, observe)
    for at, (a, b) in enumerate(zip(expected, actual, strict=True)):
        assert b == a, f"step {at}, after {[x for x in expected[:at] if isinstance(x, (str, tuple))][-1:]}"


def test_there_are_enough_traps():
    assert sum(len(statements(changes)) for _, _, changes in TABLE.values()) >= 300
