"""Random training steps: two parameters, two optimizers, gradients, writes in place, and changes between calls."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import rushlight as torch

TENSORS = ("x", "w.detach()", "v.detach()", "w", "v", "h", "k", "w.data", "b")
WRITES = ("mul_(0.5)", "add_(1)", "clamp_(-1, 1)", "add_(x * 0.1)", "copy_(v)", "lerp_(v, 0.3)")
RESULTS = ("h.detach(), k.detach()", "w.grad, v.grad", "h.detach(), w.detach(), b", "w.sum().item(), k.detach()",
           "h, k")


def _expression(r: random.Random) -> str:
    a, b = r.choice(TENSORS), r.choice(TENSORS)
    return r.choice([f"{a} * {b}", f"{a} + {b}", f"({a}).tanh()", f"{a} * 0.5", f"({a}).sum() * {b}", f"({a}).clone()",
                     f"({a}).detach()"])


def _line(r: random.Random) -> str:
    keep = r.choice([True, False])
    kinds: list[tuple[int, Callable[[], str]]] = [
        (25, lambda: f"h = {_expression(r)}"),
        (7, lambda: f"k = {_expression(r)}"),
        (9, lambda: f"(({_expression(r)}) * {r.choice(['w', 'v', 'w * v'])}).pow(2).sum().backward()"),
        (4, lambda: f"if h.requires_grad: h.sum().backward(retain_graph={keep})"),
        (15, lambda: f"{r.choice(['ow', 'ov'])}.step()"),
        (8, lambda: f"{r.choice(['ow', 'ov'])}.zero_grad(set_to_none={keep})"),
        (10, lambda: f"with torch.no_grad(): {r.choice(['w', 'v', 'b', 'h.detach()', 'w.data'])}.{r.choice(WRITES)}"),
        (6, lambda: f"log.append({r.choice(['h.detach()', 'w.sum().item()', 'h.sum().item()', 'w.grad', 'b'])})"),
        (4, lambda: "if h.requires_grad and w.requires_grad: k = torch.autograd.grad(h.sum(), w, allow_unused=True, "
                    f"create_graph={keep}, retain_graph=True)[0] if w is not h else k\n    k = x if k is None else k"),
        (4, lambda: "if w.grad is not None: w.grad.mul_(0.5)"),
        (3, lambda: "w.data = w.data * 0.9 + v.data * 0.1"),
        (2, lambda: "h = h.detach().requires_grad_()"),
    ]
    return r.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]()


def program(seed: int) -> str:
    """The source of a step `f(x)`."""
    r = random.Random(seed)
    lines = ["h, k = x * 1, x + 1", *[_line(r) for _ in range(r.randint(4, 14))], f"return {r.choice(RESULTS)}"]
    return "def f(x):\n    " + "\n    ".join(lines) + "\n"


def run(source: str, compile: Callable, seed: int) -> Any:
    """What four calls give and leave behind, with a change after the second."""
    r = random.Random(seed + 7)
    w, v = torch.tensor([0.5, -1.0], requires_grad=True), torch.tensor([1.5, 2.0], requires_grad=True)
    make = r.choice([lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
                     lambda p: torch.optim.Adam(p, lr=0.1)])
    space: dict[str, Any] = {"torch": torch, "w": w, "v": v, "b": torch.ones(2), "log": [], "ow": make([w]),
                             "ov": make([v] if r.random() < 0.7 else [v, w])}
    exec(source, space)
    step, seen = compile(space["f"]), []
    changes: list[Callable[[], Any]] = [
        lambda: space.update(b=w.detach()), lambda: space.update(b=v.data), lambda: space.update(w=v),
        lambda: space["ow"].add_param_group({"params": [torch.ones(2, requires_grad=True)]}),
        lambda: setattr(w, "grad", None), lambda: space.update(ow=space["ov"], ov=space["ow"]),
        lambda: w.register_hook(lambda g: g * 2), lambda: None]
    for i in range(4):
        if i == 2:
            r.choice(changes)()
        seen.append(_called(step, torch.tensor([1.0, 2.0]) * (i + 1)))
        for t in seen[-1] if isinstance(seen[-1], tuple) else ():
            if isinstance(t, torch.Tensor) and t.requires_grad and not t.is_leaf:
                seen.append(_called(t.sum().backward))
    return [seen, space["log"], w, v, space["b"], w.grad, v.grad, space["ow"].state_dict(), space["ov"].state_dict()]


def _called(function: Callable, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error).partition(":")[0]


def near(a: Any, b: Any) -> bool:
    """Are two outcomes equal but for rounding? Gradients of several paths may be added in another order."""
    if isinstance(a, torch.Tensor):
        same = isinstance(b, torch.Tensor) and (a.requires_grad, a.stride(), a.dtype) == (
            b.requires_grad, b.stride(), b.dtype) and (not a.is_leaf or a._version == b._version)
        return same and bool(torch.allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-5, equal_nan=True))
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(near, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if isinstance(a, float):
        return isinstance(b, float) and (math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5) or a != a and b != b)
    return bool(a == b)
