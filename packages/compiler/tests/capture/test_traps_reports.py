"""Traps made from public reports of compilers that gave other results than eager calls; each names its report."""

from __future__ import annotations

import pytest

import rushlight as torch

# report: what it sets up; the function; what happens between calls (separated by bars); the arguments of each call.
REPORTS = {
    "pytorch 176851: class attribute set between calls": (
        "class State: factor = 1.0", "def f(x): return x * State.factor", "State.factor = 10.0 | State.factor = 1.0"),
    "pytorch 197860: code of an inlined bound method": (
        "class C:\n    def act(self, x): return x + 1\no = C()", "def f(x): return o.act(x)",
        "C.act.__code__ = (lambda self, x: x * 7).__code__"),
    "pytorch 169253: list of a class appended to": (
        "class M:\n    items = []\n    def forward(self, x): M.items.append(x)\nm = M()",
        "def f(x): m.forward(x); return len(M.items)", "M.items.clear() | M.items = []"),
    "pytorch 197896: container of the closure changed by a method of a local class": (
        "log = []; table = {'n': 0}",
        "def f(x):\n    class Helper:\n        def touch(self): log.append(1); table['n'] += 1\n    Helper().touch()\n"
        "    return x + len(log) + table['n']", "log.clear()"),
    "pytorch 139789: written input that later aliases another": (
        "base = torch.ones(8); pair = (torch.ones(4), torch.ones(4))",
        "def f(x):\n    a, b = pair\n    a.mul_(2)\n    return a + b", "pair = (base[:4], base[2:6]) | pair = (b, b)"),
    "pytorch 128319: counter attribute": (
        "class C: n = 0\no = C()", "def f(x): o.n += 1; return x * o.n", "pass | o.n = 50 | o.n = 0.5"),
    "pytorch 167504: one function compiled over many modules": (
        "ms = [torch.nn.Linear(3, 3) for _ in range(12)]; at = 0",
        "def f(x):\n    global at\n    at += 1\n    return ms[at](x)", "pass | pass | pass | at = 0 | ms.reverse()"),
    "pytorch 175025: default dtype at the call": (
        "", "def f(x): return torch.zeros(3) + x.sum()",
        "torch.set_default_dtype(torch.float64) | torch.set_default_dtype(torch.float32)"),
    "pytorch 115774: buffer written by index, then replaced": (
        "class M: pass\nm = M(); m.cache = torch.zeros(3); at = torch.tensor([0])",
        "def f(x): m.cache[at] = x[0]; return m.cache", "m.cache = torch.zeros(3) | at = torch.tensor([2])"),
    "pytorch 196173: control by identity of a mutable object": (
        "class Box: pass\na = Box(); a.n = 0; b = a", "def f(x):\n    a.n += 1\n    return x if a is b else -x",
        "b = Box() | a = b; a.n = 3 | b = a"),
    "pytorch 124717: flag of a module": (
        "m = torch.nn.Module(); m.off = False", "def f(x): return x * x if m.off else x * x + 1",
        "m.off = True | m.off = False"),
    "pytorch 195422: write through what dropout hands back": (
        "", "def f(x):\n    y = torch.nn.functional.dropout(x, 0.5, False)\n    y += y\n    return y", "pass"),
    "pytorch 93722: two lists that become one": (
        "a = []; b = []", "def f(x):\n    a.append(x + 1)\n    b.append(x - 1)\n    return a[0] + b[-1]",
        "b = a | a = [] | a = []; b = []"),
    "pytorch 97083: squeeze, write, read": (
        "", "def f(x):\n    a = x[0:1]\n    b = a.squeeze()\n    a[0] = 0\n    a[0] = 2\n    return b", "pass"),
    "pytorch 152425: write into an expanded tensor": (
        "", "def f(x):\n    a = x[0].expand((2,))\n    a[-1] = 3\n    return a", "pass"),
    "pytorch 198100: unsqueeze_ of what contiguous hands back": (
        "", "def f(x):\n    v = x.contiguous()\n    v.unsqueeze_(0)\n    return x", "pass"),
    "pytorch 138908: indexed addition": (
        "i = torch.tensor([[0, 2]])", "def f(x):\n    x[i] += x[i]\n    return x", "i = torch.tensor([[1, 1]])"),
    "pytorch 111133: index_add_ into a transposed view": (
        "i = torch.tensor([2, 0])",
        "def f(x):\n    y = x.expand(2, 3).contiguous()\n    z = y.permute(1, 0)\n"
        "    z.index_add_(0, i, torch.ones(2, 2))\n    return y, z", "i = torch.tensor([1, 1])"),
    "pytorch 191821: global object replaced inside a loop": (
        "class R: pass\nr = R(); r.h = torch.zeros(3)\ndef region(): return r.h + 1",
        "def f(x):\n    global r\n    for _ in range(2):\n        r = R()\n        r.h = x\n"
        "        x = region()\n    return x",
        "r = R()"),
    "pytorch 93782: lambda of a list, altered": (
        "total = lambda items: sum(items)", "def f(x): return total([x, x]) + total([x])",
        "total = lambda items: items[0]"),
    "pytorch 117496: float argument": (
        "t = 8.0", "def f(x): return x + x + t", "t = 4.0 | t = 2.0 | t = 1.0"),
    "pytorch 197811: method descriptors of one factory": (
        "def make(op): return lambda a, b: op(a, b)\ng = make(torch.Tensor.__add__)", "def f(x): return g(x, x + 1)",
        "g = make(torch.Tensor.__mul__) | g = make(torch.sub)"),
    "pytorch 194976: limit of a clamp that changes": (
        "limit = 1.5", "def f(x):\n    a, b = x[:1], x[1:]\n    return a.clamp(max=limit) * b.clamp(-limit, limit)",
        "limit = 0.5 | limit = 2.5 | limit = 1"),
    "pytorch 126474: refused overlap that is caught": (
        "", "def f(x):\n    try: torch.addcmul(x[:-1], x[1:], x[1:], out=x[1:])\n"
        "    except Exception: pass\n    return x",
        "pass"),
    "pytorch 94773: set_ of a tensor with views": (
        "", "def f(x):\n    v = x[:]\n    x.set_(torch.ones(2))\n    return v", "pass"),
    "pytorch 136662: addition to a column": (
        "w = torch.zeros(2, 3)", "def f(x):\n    y = w.clone()\n    y[:, 0] += x.abs()[:2]\n    return y", "w.add_(1)"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("report", REPORTS)
def test_report(report, check, calls):
    if any("torch.nn" in text for text in REPORTS[report]):
        pytest.importorskip("rushlight.nn")
    try:
        expected = calls(*REPORTS[report], lambda fn: fn)
        torch.set_default_dtype(torch.float32)
        assert calls(*REPORTS[report], check.compile) == expected
    finally:
        torch.set_default_dtype(torch.float32)
