"""Random graphs of the registry's ops, run by a backend and op by op.

The operands are values of every layout and with special values in them, or earlier results. What a graph computes may
be ill-conditioned (a floor of a sum, say): a result that moves as much when the inputs move by their last bits proves
nothing.
"""

from __future__ import annotations

import functools
import random
import warnings
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.compiler._verify import difference
from rushlight.compiler.backends.registry import lookup
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.passes.dce import eliminate_dead
from rushlight.core.op import REGISTRY, Op, meta_of
from rushlight.core.samples import samples_of
from rushlight.core.tensor import Tensor

torch.tensor(0)  # the first use declares all ops
SPECIAL = [float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.0, 1e38, 1e-40, 3.0]
SHAPES = [(2, 3), (2, 3), (3,), (1, 3), (2, 1), (), (0, 3), (1, 1), (4, 2, 3), (2, 40)]
KINDS = [torch.float32] * 6 + [torch.int64, torch.bool, torch.bfloat16, torch.float64]
# Their results are uninitialised memory, or not unique. (Polynomials take as many steps as an operand says.)
LEFT_OUT = {"empty", "svd", "eigh", "eig", "qr", "geqrf", "linalg_eig", "lstsq"}


@functools.cache
def candidates() -> list[tuple[Op, Any]]:
    """Ops with samples of their parameters; those that can be fused come as often as all others."""
    ops = [op for name, op in sorted(REGISTRY.items())
           if not op.mutates and not op.random and name not in LEFT_OUT and "polynomial" not in name]
    pairs = [(op, sample) for op in ops for sample in samples_of(op)[:4]]
    fusible = [pair for pair in pairs if pair[0].kind != "structured"]
    return pairs + fusible * max(1, len(pairs) // len(fusible))


def tensor(rng: random.Random) -> Tensor:
    """An input: any layout, sometimes with special values."""
    values = np.random.default_rng(rng.randrange(2**32))
    shape, kind = rng.choice(SHAPES), rng.choice(KINDS)
    x = np.asarray(np.round(values.uniform(-3, 3, shape), 2))
    if rng.random() < 0.3 and x.size:
        x.flat[values.integers(0, x.size)] = rng.choice(SPECIAL)
    if not kind.is_floating_point:
        x = np.nan_to_num(x, posinf=3, neginf=-3).clip(-3, 3)
    made = torch.tensor(x.tolist(), dtype=torch.float64).reshape(shape).to(kind)
    layout = rng.random()
    if layout < 0.2 and len(shape) > 1:
        return made.transpose(0, -1)
    if layout < 0.3:
        return made.expand(2, *shape)
    if layout < 0.4 and len(shape) > 1:
        return made[:, ::2]
    if layout < 0.45 and len(shape) == 2:
        return made.reshape(1, *shape, 1).expand(2, *shape, 2).contiguous(memory_format=torch.channels_last)
    return made


def scenario(seed: int) -> tuple[Graph, list[Tensor]]:
    """A graph and its inputs."""
    rng = random.Random(seed)
    graph, inputs, pool = Graph(), [], list[Value]()
    for _ in range(rng.randint(1, 3)):
        inputs.append(tensor(rng))
        pool.append(graph.input(inputs[-1]._meta))
    wanted = rng.randint(2, 9)
    for _ in range(20 * wanted):
        if len(graph.nodes) == wanted:
            break
        op, sample = rng.choice(candidates())
        operands = tuple([operand(rng, pool) if isinstance(x, np.ndarray) else x for x in sample.operands])
        try:
            metas = op.infer(*[x.meta if isinstance(x, Value) else meta_of(x) for x in operands], *sample.params)
        except Exception:  # these operands do not fit together
            continue
        if metas is None or not any(isinstance(x, Value) for x in operands) or huge(metas):
            continue
        found = graph.call(op, operands, sample.params, metas)
        pool += [*found] if isinstance(found, tuple) else [found]
    results = [v for v in pool if v.node is not None] or pool
    graph.output([results[-1], *rng.sample(results, min(len(results), rng.randint(0, 2)))])
    return eliminate_dead(graph), inputs


def operand(rng: random.Random, pool: list[Value]) -> Any:
    """A value, more often a late one, or a number."""
    return rng.choice(pool[-4:] + pool) if rng.random() < 0.9 else rng.choice([0.5, 2, -1, True])


def huge(metas: Any) -> bool:
    """Is a result too large for a quick look?"""
    return any(m.numel > 20_000 for m in (metas if isinstance(metas, tuple) else (metas,)))


def nudged(x: Tensor, rng: random.Random) -> Tensor:
    """The tensor moved by a few of its last bits, in the same layout; integers stay."""
    if not x.dtype.is_floating_point:
        return x
    if 0 in x.stride() and x.numel():
        once = x[tuple([slice(0, 1) if s == 0 else slice(None) for s in x.stride()])]
        return nudged(once.clone(), rng).expand(x.shape)
    eps = 8 * torch.finfo(x.dtype).eps
    signs = torch.tensor([rng.choice([-eps, eps]) for _ in range(x.numel())], dtype=torch.float64).reshape(x.shape)
    moved = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    return moved.copy_((x.double() * (1 + signs) + signs * 1e-3).to(x.dtype))


def differs(graph: Graph, inputs: list[Tensor], backend: str = "inductor") -> str | None:
    """How a backend's results differ from those of the ops one by one."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            expected = interpret(graph, inputs)
        except Exception:  # the values do not suit an op
            return None
        got = lookup(backend)(graph, [v.meta for v in graph.inputs], {})(list(inputs))
        for i, (a, b) in enumerate(zip(got, expected, strict=True)):
            reason = difference(a, b)
            if reason is not None and not moves(graph, inputs, i, b):
                return f"result {i} {reason}: {a.tolist()} instead of {b.tolist()}"
    return None


def moves(graph: Graph, inputs: list[Tensor], i: int, expected: Tensor) -> bool:
    """Does a result move when the inputs do, or with the signs of NaN?"""
    if differently_signed(graph, inputs, i, expected):
        return True
    rng = random.Random(0)
    for _ in range(6):
        try:
            moved = interpret(graph, [nudged(x, rng) for x in inputs])[i]
        except Exception:
            return True
        if moved._meta is not expected._meta or difference(moved, expected) is not None:
            return True
    return False


def differently_signed(graph: Graph, inputs: list[Tensor], i: int, expected: Tensor) -> bool:
    """Is a result another one where each operation gives NaN of the other sign? IEEE 754 leaves that sign open, so
    loops of numpy and ours may differ in it.
    """
    values: dict[Value, Any] = dict(zip(graph.inputs, inputs))
    for node in graph.nodes:
        found = node.op.apply(tuple([values[x] if isinstance(x, Value) else x for x in node.inputs]), node.params)
        for v, x in zip(node.outputs, found if isinstance(found, tuple) else (found,)):
            if node.op.kind != "view" and x.dtype.is_floating_point and bool(x.isnan().any()):
                x = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(torch.where(x.isnan(), -x, x))
            values[v] = x
    return difference(values[graph.outputs[i]], expected) is not None
