"""Random programs on shapes, called with sizes that change; `python fuzz_sizes.py 0 1000` tries these seeds.

`python fuzz_sizes.py 0 1000 inductor` tries them with a backend that adds in another order: floats may differ by
rounding there, see `near`; all else must be equal.
"""

from __future__ import annotations

import math
import operator
import random
import re
import sys
from typing import Any

import rushlight as torch


def texts(block: str) -> list[str]:
    """The lines of a block."""
    return [line.strip() for line in block.strip().splitlines()]


NUMBERS = texts("""
    T.shape[0]
    T.shape[-1]
    T.size(0) * N
    len(T)
    T.numel() // (N or 1)
    N + M
    N - M
    N * 2 - 1
    N // 2
    N % 3
    -N
    max(N, M)
    min(N, 4)
    int(N)
    sum(T.shape)
    T.dim()
    T.stride(0)
    k
    N if N > 2 else M
    T.shape[T.dim() // 2]
    abs(N - M)
""")
TENSORS = texts("""
    T.view(-1)
    T.reshape(-1)
    T.reshape(N, -1)
    T.reshape(-1, M)
    T.view(T.shape[0], -1)
    T.transpose(0, -1)
    T.flatten(0, -1)
    T.unsqueeze(0)
    T.unsqueeze(-1)
    T[:N]
    T[N:]
    T[..., :M]
    T[::2]
    T[1:]
    T[:-1]
    T[-1]
    T[None, :N]
    torch.cat([T, T])
    torch.cat([T, T[:N]])
    torch.stack([T, T])
    T + U
    T * U.sum()
    T * N
    T / (N or 1)
    T - M * 0.5
    torch.zeros(abs(N), 3)
    torch.ones(T.shape)
    torch.zeros_like(T)
    T.new_full((abs(N), 2), 3.0)
    torch.arange(abs(N)) * 0.5
    T.sum(0)
    T.mean(-1, keepdim=True)
    T.softmax(-1)
    T.cumsum(0)
    T.sort(-1)[0]
    T @ T.transpose(-1, -2)
    T.expand(2, *T.shape)
    T.repeat(2, *[1] * (T.dim() - 1))
    T.chunk(2)[0]
    T.split(2)[-1]
    T.split([1, T.shape[0] - 1])[1]
    T.contiguous()
    T.clone().add_(N)
    T.flip(0)
    T.permute(*reversed(range(T.dim())))
    T.squeeze()
    T.index_select(0, torch.arange(T.shape[0]))
    T.tril()
    T.unbind(-1)[0]
    T.where(T > 0, N)
    T.clamp(max=M)
    T.roll(1, 0)
    T.abs().max() + T
    T.repeat_interleave(2, 0)
    torch.nn.functional.pad(T, (1, N % 3))
    torch.nn.functional.layer_norm(T, T.shape[-1:])
    torch.nn.functional.dropout(T, 0.5)
    T.view(N, T.numel() // (N or 1))
    T.unflatten(0, (-1, 1))
    T.narrow(0, 0, min(N, T.shape[0]))
    T.diagonal() if T.dim() == 2 else T
""")
CONDITIONS = texts("""
    N > M
    N % 2
    T.shape == U.shape
    T.shape[0] == U.shape[0]
    T.dim() > 1 and T.shape[1] > 3
    T.numel() < 12
    N in (2, 7)
    not N
    T.is_contiguous()
    T.sum() > 0
    N is None
""")
SIZES = (0, 1, 2, 3, 4, 7, 8, 12)


class Writer:
    """Writes a program on tensors t, u and v and numbers n and m."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def fill(self, text: str) -> str:
        """Put variables in the places of capitals."""
        for letter, names in (("T", "tuv"), ("U", "tuv"), ("N", "nm"), ("M", "nm")):
            parts, name = text.split(letter), self.rng.choice(names)
            joined = parts[0]
            for before, after in zip(parts, parts[1:]):
                alone = not (before[-1:].isalnum() or before[-1:] == "_" or after[:1].isalnum())
                joined += (name if alone else letter) + after
            text = joined
        return text

    def statements(self, count: int, depth: int) -> list[str]:
        """Some statements."""
        lines: list[str] = []
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.3:
                lines.append(f"{self.rng.choice('nm')} = {self.fill(self.rng.choice(NUMBERS))}")
            elif kind < 0.75 or not depth:
                lines.append(f"{self.rng.choice('tuv')} = {self.fill(self.rng.choice(TENSORS))}")
            elif kind < 0.9:
                lines.append(f"if {self.fill(self.rng.choice(CONDITIONS))}:")
                lines += [f"    {line}" for line in self.statements(2, depth - 1)]
                lines.append("else:")
                lines += [f"    {line}" for line in self.statements(1, depth - 1)]
            elif kind < 0.95:
                lines.append("t = t.clone()")
                lines.append(self.fill(self.rng.choice(("t[:N] = M", "t[0] = 1", "t[..., -1] += N", "t[1:].mul_(2)"))))
            else:
                lines.append("try:")
                lines += [f"    {line}" for line in self.statements(2, 0)]
                lines += ["except (RuntimeError, IndexError):", "    t = t + 1"]
        return lines


def scenario(seed: int) -> tuple[list[str], list[tuple]]:
    """A program, and the sizes of its calls."""
    rng = random.Random(seed)
    body = ["t, u, v = x, y, x * 2", "n, m = x.shape[0], y.shape[-1]", *Writer(rng).statements(rng.randint(3, 7), 2),
            "return t, u, n, m, t.shape, u.stride(), v"]
    calls = []
    a, b, c = [rng.choice(SIZES[2:]) for _ in range(3)]
    for _ in range(7):
        change = rng.random()
        if change < 0.6:
            a = rng.choice(SIZES)
        if change > 0.4:
            b = rng.choice(SIZES)
        if change > 0.7:
            c = rng.choice((a, rng.choice(SIZES)))
        calls.append((a, b, c, rng.choice((1, 2, 3, 5)), rng.random() < 0.15))
    return body, calls


def run(body: list[str], calls: list[tuple], compile: Any, observed: Any) -> list[Any]:
    """What the calls give."""
    world: dict[str, Any] = {"torch": torch}
    exec("\n    ".join(["def f(x, y, k):", *body]), world)
    f, results = compile(world["f"]), []
    torch.manual_seed(1)
    for a, b, c, k, turned in calls:
        x = torch.arange(a * b * 1.0).sin()
        x = x.reshape(b, a).t() if turned else x.reshape(a, b)
        y = torch.arange(c * b * 1.0).cos().reshape(c, b)
        try:
            results.append((observed(f(x, y, k)), observed([x, y]), torch.default_generator.get_offset()))
        except (RuntimeError, IndexError, ValueError, ZeroDivisionError, TypeError, MemoryError) as error:
            results.append((type(error).__name__, str(error)))
    return results


def differs(body: list[str], calls: list[tuple], compile: Any, observed: Any, equal: Any = operator.eq) -> bool:
    """Does the compiled program give anything else than the eager one?"""
    return not equal(run(body, calls, compile, observed), run(body, calls, lambda fn: fn, observed))


FLOAT = re.compile(r"-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\binf\b|\bnan\b)")
ROUNDING = 1e-5  # of the largest element, and of the inputs, which are up to 1: sums of 144 elements in float32


def near(a: Any, b: Any) -> bool:
    """Are two results equal but for the rounding of floats?"""
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(near, a, b))
    if not isinstance(a, str) or a == b:
        return a == b
    if FLOAT.sub("#", a) != FLOAT.sub("#", b):
        return False
    pairs = [(float(x), float(y)) for x, y in zip(FLOAT.findall(a), FLOAT.findall(b))]
    scale = max([abs(x) for x, _ in pairs if math.isfinite(x)], default=0.0)
    return all(x == y or x != x and y != y or abs(x - y) <= ROUNDING * max(scale, 1) for x, y in pairs)


if __name__ == "__main__":
    from conftest import observed

    from rushlight.compiler import _config

    _config.raise_internal_errors = True
    captures = opened = 0
    states: list[Any] = []

    def compiling(fn: Any) -> Any:
        """Compile, and remember the state."""
        made = torch.compile(fn, backend=backend)
        states.append(made._rushlight_state)
        return made

    backend = (sys.argv[3:] or ["eager"])[0]
    equal = operator.eq if backend == "eager" else near
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        states.clear()
        body, calls = scenario(seed)
        if differs(body, calls, compiling, observed, equal):
            expected, found = [run(body, calls, compile, observed) for compile in (lambda fn: fn, compiling)]
            print(f"seed {seed}:", *body, sep="\n    ")
            for call, a, b in zip(calls, expected, found):
                if not equal(a, b):
                    print(call, f"eager {str(a)[:300]}", f"compiled {str(b)[:300]}", sep="\n  ")
                    break
        captures += states[0].captures
        opened += any(entry.sizes.places for entry in states[0].entries)
    print(f"{captures} captures, {opened} programs with open sizes")
