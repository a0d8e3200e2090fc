"""Random programs with random changes of the world between calls, run eagerly and compiled.

`tools/fuzz_compiler.py` looks for differences for as long as it is told to and shrinks what it finds.
"""

from __future__ import annotations

import random
from typing import Any

import rushlight as torch

PRELUDE = '''
import rushlight as torch
G = 2
F = 1.5
L = [1, 2, 3]
D = {"a": 1, "b": 2}
class C:
    k = 3
    def __init__(self, v):
        self.v = v
        self.items = [v]
        self.w = torch.ones(2, 3)
    def act(self, x):
        return x * self.k + self.v
    @property
    def twice(self):
        return self.v * 2
    def __len__(self):
        return len(self.items)
class E(C):
    def act(self, x, extra=1):
        return super().act(x) - extra
class S:
    __slots__ = ("a", "b")
    def __init__(self, a, b=None):
        self.a, self.b = a, b
class Scope:
    depth = 0
    def __init__(self, hide=False):
        self.hide = hide
    def __enter__(self):
        Scope.log.append(len(Scope.log))
        return self
    def __exit__(self, kind, error, trace):
        Scope.log.append(kind.__name__ if kind else None)
        return self.hide
    log = []
class Made:
    def __init__(self, n, *rest, scale=2):
        self.n = n
        self.rest = rest
        self.scale = scale
    def __add__(self, other):
        return Made(self.n + (other.n if isinstance(other, Made) else other), *self.rest)
    __radd__ = __add__
    def __eq__(self, other):
        return isinstance(other, Made) and self.n == other.n
    def __getitem__(self, i):
        return self.rest[i]
    def __iter__(self):
        yield self.n
        yield from self.rest
    def __contains__(self, v):
        return v in self.rest
    def __call__(self, y, **more):
        return y * self.scale + self.n + len(more)
    @classmethod
    def zero(cls):
        return cls(0)
    @staticmethod
    def double(v):
        return v * 2
Pair = __import__("collections").namedtuple("Pair", "left right")
T = S(3, 4)
SET = {1, 2}
W = torch.ones(2, 3, requires_grad=True)
def outer(v):
    def middle(u):
        return lambda y: y * v + u
    return middle
def rec(n):
    return 0 if n <= 0 else n + rec(n - 1)
def apply(fn, *args, **kwargs):
    return fn(*args, **kwargs)
O = C(1)
P = E(2)
Q = O
def helper(a, b=2, *rest, c=3, **more):
    return a * b + c + sum(rest) + len(more)
def steps(n):
    for i in range(n):
        yield i * 2
count = iter(range(10 ** 6))
def make():
    cell = 4
    def get():
        return cell
    def bump(by=1):
        nonlocal cell
        cell += by
        return cell
    return get, bump
get, bump = make()
'''


def texts(block: str) -> list[str]:
    """The texts between the bars of a block."""
    return [text.strip() for text in block.replace("\n", "|").split("|") if text.strip()]


NUMBERS = texts("""
    G | n | O.v | P.v | O.k | P.k | len(L) | D['a'] | D.get('z', 5) | L[0] | L[-1] | O.twice | get() | len(O)
    helper(n)
    helper(G, c=n) | helper(1, 2, 3, z=4) | max(L) | sum(steps(n % 4)) | i | x.shape[0] | x.dim() | len(D) | int(F)
    bump()
    getattr(O, 'extra', 7) | (n if n > 1 else -1) | sum(v for v in L if v) | O.items[0] | x.numel() | 3 | 0 | -1 | True
    sum([v * 2 for v in L[:2]]) | sorted(L)[0] | P.items.count(2) | T.a | T.b | Made(n, 1, 2).n | Made(1, n)[0]
    rec(n % 5)
    (Made(n) + 2).n | sum(Made(n, 2)) | Made.zero().n | Made.double(n) | len({*L, n}) | Pair(n, 2).left
    apply(helper, n, c=1)
    (lambda *a, k=1: len(a) + k)(*L) | [v for v in L if v > 1][-1] | {k: v for k, v in D.items()}["a"]
    next(iter(D.values()))
    min(L, key=lambda v: -v) | sum(1 for _ in zip(L, D)) | len([*L, *D]) | (m := n + 1) | dict(a=1, **D) ["a"]
    divmod(n, 2)[1]
    max(n, 2, G) | len(str(n)) | abs(n - 3) | round(F) | list(reversed(L))[0] | next((v for v in L if v > 5), -1)
    1 in SET
    (n if 1 < n < 5 else 0) | (None or n) | (n and 2) | not n | [L, [n]][1][0] | len(f"{n:>4}{G}") | sum(map(int, L))
""")
TENSORS = texts("""
    x | t | O.w | P.w | O.act(x) | P.act(t) | x + 1 | t * G | x * F | x.exp() | t.sum(0) | torch.ones(3) | x[0]
    x.t().t()
    t.detach() | torch.relu(x) | -t | x.view(-1) | helper(x) | (x if x.dim() == 2 else t) | x.clone()
    torch.zeros(2, 3)
    t - O.w | x.float()
""")
KEYS = texts("'a' | 'z' | n")
CONDITIONS = texts("""
    n > 2 | G == 2 | O is Q | O is P | x.dim() == 2 | 'a' in D | 'z' in D | L | isinstance(O, E)
    hasattr(O, 'extra') | O == P
    Made(n) == Made(2) | Made(n) != Made(2) | 2 in Made(1, n) | L == [1, 2, 3] | (n, 1) == (2, 1) | n in SET
    T.b is None | D == {}
    O.k < P.k | not D | x is t | type(G) is int | 2 in L | O.items is L | x.requires_grad | n % 2 | len(O)
""")
# NUM, TEN and KEY stand for a random number, tensor and key.
SIMPLE = texts("""
    t = TEN | x = TEN | G = NUM | O.v = NUM | P.k = NUM | L.append(NUM) | L.pop() | L[0] = NUM | D[KEY] = NUM
    D.pop('a', None)
    O.extra = NUM | del O.extra | O.items.extend([NUM]) | t.add_(1) | t.mul_(NUM) | t.sub_(2) | t += 1 | O.last = t
    x.add_(2)
    x.mul_(2) | t[0] = 5 | O.w.add_(1) | P.w = t | O.items = L | a, *b = L; t = t + a + len(b) + NUM | Q = P | bump(2)
    D.update(b=NUM, c=1) | t = t * len([v for v in D.values() if v != NUM]) | L[1:2] = [NUM, 9] | keep.append((n, x))
    t = t + sum(map(lambda v: v + n, L)) | K = {k: v + 1 for k, v in D.items()}; t = t + len(K) | C.k = C.k + 1
    t = (lambda y, s=NUM: y * s)(t) | keep.append(t) | v = t.view(-1); v.add_(1) | s = t.detach(); keep.append(s)
    L.sort()
    L.reverse() | T.a = NUM | T.b = None | SET.add(NUM) | made = Made(NUM, NUM); keep.append(made.n)
    t = Made(NUM)(t, q=1)
    O.v += NUM | L[-1] += 1 | D['a'] = D.get('a', 0) + 1 | p = Pair(t, NUM); keep.append(p)
    a, (b, *c) = NUM, (1, 2, 3); t = t + b
    L.insert(1, NUM) | del L[0] | del D['b'] | keep.append({'n': NUM, 't': t}) | t = t + sum(Made(1, NUM))
    keep.append([t, [t]])
    O.items[:] = [NUM] | q = [NUM]; q += [1]; keep.append(q) | D.setdefault('s', []).append(NUM)
    keep.append((t.shape, t.dim()))
    g = (v * t for v in L); t = next(g) + sum(g) | t = [t, t + 1][NUM % 2] | keep.append(sorted(D))
    O.made = Made(NUM) | C.extra = 1
    keep.append([k for k in D]) | keep.append(list(enumerate(L))) | globals_now = G; G = globals_now + 1
    keep.append(SET == {1})
    assert NUM != 3, 'three' | keep.append(tuple(L) + (NUM,)) | O.box = {'l': L} | x, t = t, x
    keep.append(Pair(1, L)._asdict())
    t = t + torch.rand(2, 3) | t = torch.nn.functional.dropout(t, 0.5) | t = t * torch.randn(3)
    ((W * t).sum() * NUM).backward(); keep.append(W.grad) | W.grad = None | t = t * W | W = W.detach().requires_grad_()
    with torch.no_grad(): W.sub_(0.5)
    with torch.no_grad(): W.copy_(t)
    t = outer(NUM)(n)(t) | t = t.clone(); t.t().add_(1) | t = t.clone(); t[:, 0] = NUM | t = t.clone(); t[t > 2] = 0
    del L[:] | L = [NUM] * 2 | D = {**D, 'c': NUM} | x = x.contiguous(); x.mul_(2) | W.tag = NUM | O.w = W
    t = torch.cat([t, t])[:2] | t = torch.stack([t, x]).sum(0) | t = t.reshape(3, 2).t() | t, x = x.split(1)[0] + t, x
""")
CAUGHT = texts("(KeyError, IndexError) | ZeroDivisionError | AttributeError | Exception | TypeError")
UNUSUAL = texts("""
    t = t * t.sum().item() | keep.append(str(n)) | keep.append(f'{G}-{n:>3}') | assert n < 3, 'big'
    print(end='') | keep.append(sorted(locals())) | import math; t = t * math.floor(F) | exec('G = 3')
    keep.append(t.tolist())
    t = t * float(t.sum()) | keep.append(t.numpy().tolist()) | t = t if t.sum() > 3 else -t
    keep.append(id(t) == id(x))
    class Local: k = n
    keep.append(vars(O).get('v')) | keep.append(next(count)) | import random; random.random() | del O.v; O.v = 3
    raise KeyError(n) | t[9] | t @ t | undefined | O.nothing | L[99] | D['nope'] | t + torch.ones(7) | 1 // 0
""")


class Writer:
    """Writes one random program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, items: list[str]) -> str:
        """One of several texts."""
        return self.rng.choice(items)

    def number(self) -> str:
        """An expression that gives a number, if all goes well."""
        if self.rng.random() < 0.3:
            return f"({self.number()} {self.pick(['+', '-', '*', '//', '%'])} {self.number()})"
        return self.pick(NUMBERS)

    def tensor(self) -> str:
        """An expression that gives a tensor, if all goes well."""
        roll = self.rng.random()
        if roll < 0.2:
            return f"({self.tensor()} {self.pick(['+', '-', '*'])} {self.tensor()})"
        if roll < 0.4:
            return f"({self.pick(TENSORS)} {self.pick(['+', '*'])} {self.number()})"
        return self.pick(TENSORS)

    def simple(self) -> str:
        """A statement on one line."""
        text = self.pick(SIMPLE)
        for mark, make in (("NUM", self.number), ("TEN", self.tensor), ("KEY", lambda: self.pick(KEYS))):
            text = text.replace(mark, make())
        return text

    def block(self, depth: int, count: int) -> list[str]:
        """Some statements."""
        lines: list[str] = []
        for _ in range(count):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        """A statement of one or more lines."""
        roll = self.rng.random()
        inner = [f"    {line}" for line in self.block(depth - 1, self.rng.randint(1, 2))] if depth else []
        if not depth or roll < 0.6:
            return [self.simple()]
        if roll < 0.72:
            other = [f"    {line}" for line in self.block(depth - 1, 1)]
            return [f"if {self.pick(CONDITIONS)}:", *inner, "else:", *other]
        if roll < 0.8:
            return [f"for i in {self.pick(['range(3)', 'list(L)', 'steps(2)', 'range(n % 3)', 'D.values()'])}:", *inner]
        if roll < 0.88:
            caught = self.pick(CAUGHT)
            return ["try:", *inner, f"except {caught}:", f"    {self.simple()}"]
        if roll < 0.92:
            return ["with torch.no_grad():", *inner]
        if roll < 0.935:
            hide = self.rng.choice(["True", "False"])
            return [f"with Scope({hide}) as scope:", *inner]
        if roll < 0.945:
            return ["try:", *inner, "finally:", f"    {self.simple()}"]
        if roll < 0.955:
            return ["while len(keep) < 9:", "    keep.append(len(keep))", *inner]
        if roll < 0.965:
            return [f"return t * {self.number()}" if self.rng.random() < 0.5 else f"raise ValueError({self.number()})"]
        if roll < 0.98:
            return [self.pick(UNUSUAL)]
        return [f"def local(y, k={self.number()}):", f"    return y * k + {self.number()}", "t = local(t)"]

    def program(self) -> list[str]:
        """The body of the function."""
        return self.block(2, self.rng.randint(2, 6))


MUTATIONS = texts("""
    G = G + 1 | G = float(G) | G = 2 | F = -0.0 | F = 2.5 | L.append(7) | L[:] = [4, 5] | L = [9, 8, 7]
    D['z'] = 3 | D = {}
    D.pop('b', None) | D = {'b': 5, 'a': 6} | O.v = 10 | O.extra = 2 | O = E(5) | P = O | Q = P | O.items = L
    C.k = 8 | O.k = 4
    O.__class__ = E | C.act = lambda self, x: x - 100 | E.__bases__ = (C,) | helper = lambda *a, **k: 1 | bump(3)
    E.k = 9
    helper.__defaults__ = (5,) | O.w = torch.ones(2, 3) * 4 | O.w = torch.ones(2, 3, requires_grad=True)
    P.w = O.w | pass
    O.items.append(1) | steps = lambda n: [n, n] | O.twice2 = 1 | L = (1, 2, 3) | O.v = 1.0 | O.v = True
    len = lambda x: 2
    T.a = 1.0 | T.b = [] | SET.discard(1) | SET = {5} | Made.scale = 3
    Made.zero = classmethod(lambda cls: cls(9)) | T = S(7, 8)
    Made.__call__ = lambda self, y, **more: y - 1 | rec = lambda n: 5 | Made.double = lambda self=0, v=0: 7
    Scope.log.clear()
    W.grad = None | W = torch.zeros(2, 3, requires_grad=True) | W.grad = torch.ones(2, 3) | W = O.w
    torch.manual_seed(n)
    W.requires_grad_(False) | outer = lambda v: lambda u: lambda y: y | O.w.mul_(2) | W.data.add_(1) | torch.rand(1)
    get, bump = make() | C.twice = property(lambda self: 77) | O.w = torch.ones(3)
""")
ARGUMENTS = texts("""
    torch.ones(2, 3), 1 | torch.ones(2, 3), 3 | torch.ones(2, 3) * 2, 2 | torch.ones(3, 2).t(), 2
    torch.ones(2, 3), 1.5
    torch.ones(2, 3, requires_grad=True) * 1, 2 | O.w, 2 | torch.ones(3), 2 | torch.ones(2, 3, dtype=torch.float64), 1
""")


def scenario(seed: int) -> tuple[list[str], list[tuple[str, str]]]:
    """The body of a program, and the steps: a change of the world and the arguments of a call."""
    rng = random.Random(seed)
    writer = Writer(rng)
    body = writer.program()
    steps = [("pass", rng.choice(ARGUMENTS[:2]))]
    for _ in range(rng.randint(2, 5)):
        steps.append((rng.choice(MUTATIONS) if rng.random() < 0.8 else "pass",
                      rng.choice(ARGUMENTS) if rng.random() < 0.4 else steps[0][1]))
    return body, steps


def run(body: list[str], steps: list[tuple[str, str]], compile: Any, observed: Any) -> list[Any]:
    """What is observed when the steps are run."""
    world: dict[str, Any] = {"keep": []}
    lines = ["global G, Q, W, D, L", "t = x + 0", "i = 0", *body, "return x, t, G, i"]
    text = "\n    ".join(["def f(x, n):", *lines])
    torch.manual_seed(0)
    exec(PRELUDE, world)
    exec(text, world)
    f = compile(world["f"])
    seen: list[Any] = []
    for change, arguments in steps:
        try:
            exec(change, world)
        except Exception as error:
            seen.append(type(error).__name__)
        inputs = ()
        try:
            inputs = eval(f"({arguments})", world)
            seen.append(observed(f(*inputs)))
        except Exception as error:
            seen.append((type(error).__name__, str(error)))
        seen.append(observed([[_look(place, world) for place in STATE], inputs, torch.get_rng_state().tolist(),
                              torch.is_grad_enabled()]))
    return seen


STATE = ("G", "L", "D", "O", "P", "keep", "SET", "Q is O", "Q is P", "W", "T.a", "T.b", "Scope.log", "C.k",
         "vars(C).get('extra')", "get()")


def _look(place: str, world: dict[str, Any]) -> Any:
    try:
        return eval(place, world)
    except Exception as error:
        return type(error).__name__


def differs(body: list[str], steps: list[tuple[str, str]], compile: Any, observed: Any) -> bool:
    """Do eager and compiled runs differ?"""
    try:
        expected = run(body, steps, lambda fn: fn, observed)
    except SyntaxError:
        return False
    return run(body, steps, compile, observed) != expected
