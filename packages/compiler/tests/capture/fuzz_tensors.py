"""Random tensor programs: views, in-place writes and aliases, run eagerly and compiled.

After each call the results and the arguments are written to, so that memory shared in one run and not in the other
shows. `tools/fuzz_compiler.py` runs it for longer.
"""

from __future__ import annotations

import random
from typing import Any

import rushlight as torch


def texts(block: str) -> list[str]:
    """The texts between the bars of a block."""
    return [text.strip() for text in block.replace("\n", "|").split("|") if text.strip()]


# A, B and C stand for variables, K for a small number.
VIEWS = texts("""
    A[K] | A[1:] | A[:K] | A.t() | A.view(-1) | A.unsqueeze(0) | A.detach() | A.unbind(0)[K] | A.split(1)[0]
    A[..., 0] | A[:]
    A.expand(2, 2, 2) | A.permute(1, 0) | A.reshape(-1) | A.transpose(0, 1) | A.squeeze() | A.contiguous()
    A.select(1, K) | A
    A.narrow(0, 0, 1) | A.flatten() | A[None] | A.to(torch.float32) | A.view_as(A) | A.chunk(2)[1] | A[::2]
    A.diagonal()
""")
PURE = texts("""
    A + B | A * 2 | A - K | A.sum() | A.clone() | A.exp() * K | torch.cat([A, B]) | torch.stack([A, A]) | A * A + B
    torch.where(A > K, A, B) | A.sum(0) | torch.zeros(2, 2) | torch.ones(2) * K | torch.tensor([1.0, 2.0])
    A.float() | -A
    A.max() | (A > B).float() | A.double() | torch.relu(A) | A.mean(0, keepdim=True) | torch.zeros_like(A) | A.matmul(B)
""")
WRITES = texts("""
    A.add_(K) | A.mul_(B) | A.copy_(B) | A.zero_() | A.fill_(K) | A += B | A -= K | A[0] = K | A[1:] = B
    A[A > 1] = K | A[:, 0] = B
    A[K] = B[0] | A.sub_(B, alpha=2) | A.masked_fill_(A > 2, K) | A.addcmul_(B, B) | A *= A | A.clamp_(0, 3)
    A.exp_() | A.t_()
    A.div_(2) | A[torch.tensor([0, 1])] = K | A.relu_() | A.index_fill_(0, torch.tensor([0]), K) | A.neg_()
    A.swap_(B) | A.pow_(2)
""")
CALLS = texts("""
    ones(2, 2), ones(2, 2) * 2, ones(2) | a, a, ones(2) | a, a[0], a[1] | a.t(), ones(2, 2), ones(2)
    ones(2, 2), ones(2, 2), a[:, 0]
    leaf, ones(2, 2), ones(2) | ones(2, 2), leaf, ones(2) | leaf * 1, ones(2, 2), ones(2)
    ones(2, 2), leaf * 2, leaf[0]
    ones(2, 2).double(), ones(2, 2), ones(2) | a, b, b[0] | ones(3, 2), ones(2, 2), ones(2)
    a[:1].expand(2, 2), b, ones(2)
""")


class Writer:
    """Writes one random program."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = ["x", "y", "z"]

    def fill(self, text: str) -> str:
        """A template with its letters replaced."""
        rng = self.rng
        words = {"A": rng.choice(self.names), "B": rng.choice(self.names), "K": rng.choice(["0", "1", "1"])}
        out, at = [], 0
        while at < len(text):
            alone = not (text[at - 1:at].isalnum() or text[at + 1:at + 2].isalnum() or text[at - 1:at] == "_")
            out.append(words[text[at]] if text[at] in words and alone else text[at])
            at += 1
        return "".join(out)

    def line(self) -> str:
        """One statement."""
        roll = self.rng.random()
        if roll < 0.4:
            return self.fill(self.rng.choice(WRITES))
        target = self.rng.choice([*self.names, f"v{len(self.names)}"])
        text = f"{target} = {self.fill(self.rng.choice(VIEWS if roll < 0.75 else PURE))}"
        if target not in self.names:
            self.names.append(target)
        return text

    def program(self) -> list[str]:
        """The body of a function and what it returns."""
        body = [self.line() for _ in range(self.rng.randint(2, 8))]
        if self.rng.random() < 0.3:
            at = self.rng.randrange(len(body))
            body[at:at + 2] = ["with torch.no_grad():", *[f"    {line}" for line in body[at:at + 2]]]
        returned = [self.rng.choice(self.names) for _ in range(self.rng.randint(1, 3))]
        return [*body, f"return [{', '.join(returned)}]"]


def scenario(seed: int) -> tuple[list[str], list[str]]:
    """The body of a program and the arguments of its calls."""
    rng = random.Random(seed)
    body = Writer(rng).program()
    first = rng.choice([CALLS[0], CALLS[0], *CALLS])
    return body, [first, rng.choice(CALLS), first, rng.choice(CALLS)]


def run(body: list[str], calls: list[str], compile: Any, observed: Any) -> list[Any]:
    """What is observed in all calls."""
    world: dict[str, Any] = {"torch": torch}
    exec("\n    ".join(["def f(x, y, z):", *body]), world)
    f = compile(world["f"])
    seen: list[Any] = []
    for call in calls:
        space = {"ones": torch.ones, "a": torch.ones(2, 2), "b": torch.ones(2, 2) * 3,
                 "leaf": torch.ones(2, 2, requires_grad=True)}
        inputs = eval(f"[{call}]", space)
        try:
            outputs = f(*inputs) or []
        except Exception as error:
            seen.append((type(error).__name__, str(error)))
            outputs = []
        everything = [*outputs, *inputs, space["a"], space["b"], space["leaf"]]
        seen.append(observed([everything, [[x is y for y in everything] for x in everything]]))
        total = [x.sum() for x in outputs if x.requires_grad]
        if total:
            try:
                sum(total).backward()
            except RuntimeError:  # a saved tensor was overwritten; a compiled program is pure and refuses nothing
                return seen
            seen.append(observed(space["leaf"]))
        with torch.no_grad():
            for number, x in enumerate(everything):
                if 0 not in x.stride() or x.numel() < 2:
                    x.add_(10 ** (number % 5))
        seen.append([repr(x.detach().tolist()) for x in everything])
    return seen


def differs(body: list[str], calls: list[str], compile: Any, observed: Any) -> bool:
    """Do eager and compiled runs differ?"""
    try:
        expected = run(body, calls, lambda fn: fn, observed)
    except SyntaxError:
        return False
    actual = run(body, calls, compile, observed)
    return actual[:len(expected)] != expected
