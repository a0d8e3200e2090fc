"""Loops of compiled programs without numba: the same bits as with it, at once, and nothing compiled a second time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import rushlight
from rushlight.compiler import _logs
from rushlight.compiler.codegen.program import compile_program
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.lower.scalars import compose
from rushlight.core.meta import meta
from rushlight.core.op import prims
from rushlight.kernels.cpu import jit
from rushlight.kernels.cpu.elementwise import elementwise_kernel

rushlight.tensor(0)
UNARY = ("neg", "exp", "tanh", "sigmoid", "relu", "sqrt", "erf", "abs")
BINARY = ("add", "sub", "mul", "true_divide", "maximum", "minimum")
SPECIAL = [0.0, -0.0, 1.0, -1.5, 1e-3, 3e38, 88.8, -104.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40]


def chain(seed: int, dtype: rushlight.dtype) -> Graph:
    """A graph of ten elementwise calls on two vectors, with two results."""
    draw, graph = random.Random(seed), Graph()
    values = [graph.input(meta(dtype, (len(SPECIAL) ** 2,))) for _ in range(2)]
    for name in draw.choices(UNARY + BINARY, k=10):
        op = getattr(prims, name)
        operands = tuple([draw.choice(values[-4:]) for _ in op.operands])
        values.append(graph.call(op, operands, (), op.infer(*[x.meta for x in operands])))
    graph.output(values[-2:])
    return graph


@pytest.mark.parametrize("seed, name", [(0, "float32"), (1, "float64"), (2, "bfloat16")])
def test_fused_chains_have_the_bits_of_numba(seed, name):
    graph = chain(seed, getattr(rushlight, name))
    dtype = graph.inputs[0].meta.numpy
    fused = elementwise_kernel(compose(graph.nodes, graph.inputs, graph.outputs), [dtype] * 2, (dtype, dtype))
    ours, source = fused.loop(("c",) * 4, 1), fused.source()
    assert jit.made_by(ours) == "llvm"
    signature = ("u64", "u64", *[{2: "*u16", 4: "*f32", 8: "*f64"}[dtype.itemsize]] * 4)
    numbas, _ = jit._by_numba((source,), source, signature, (), "")
    with np.errstate(over="ignore"):
        columns = [np.array(x).astype(dtype) for x in (np.repeat(SPECIAL, len(SPECIAL)), SPECIAL * len(SPECIAL))]
    results = []
    for kernel in (ours, numbas):
        outs = [np.zeros_like(columns[0]) for _ in range(2)]
        kernel(0, outs[0].size, *outs, *columns)
        results.append(outs)
    for a, b in zip(*results):
        a, b = (x.astype(np.float32) if dtype.itemsize == 2 else x for x in (a, b))
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a[a == 0]), np.signbit(b[a == 0]))


def test_the_log_shows_what_is_left_to_numba(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(_logs, "_wanted", frozenset({"kernels"}))
    original = jit._translated
    monkeypatch.setattr(jit, "_translated", lambda source, *rest: original(source, *rest) if "i32" in source else b"")
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    graph = Graph()
    x = graph.input(meta(rushlight.float64, (8,)))
    y = graph.input(meta(rushlight.int32, (8,)))
    graph.output([graph.call(prims.mul, (graph.call(prims.add, (v, v), (), v.meta), v), (), v.meta) for v in (x, y)])
    monkeypatch.setattr(jit, "_kernels", {})
    compile_program(graph)
    printed = capsys.readouterr().err
    assert printed.count("left to numba") == 1 and "*" in printed.split("left to numba")[1]


STEP = """
import sys
import rushlight as torch
from rushlight import nn
from rushlight.kernels.cpu.jit import compile_statistics
model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters())
@torch.compile
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
for _ in range(2):
    step(torch.ones(8, 20), torch.zeros(8, dtype=torch.int64))
print(compile_statistics()["compiled"], compile_statistics()["disk"], "numba" in sys.modules)
"""


@pytest.mark.skipif(find_spec("rushlight.nn") is None, reason="needs rushlight-nn")
def test_a_training_step_needs_no_numba_and_a_second_process_compiles_nothing(tmp_path):
    environment = os.environ | {"RUSHLIGHT_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    found = []
    for _ in range(2):
        run = subprocess.run([sys.executable, "-c", STEP], env=environment, capture_output=True, text=True, check=True)
        found.append(run.stdout.split())
    (compiled, loaded, with_numba), (again, from_disk, still) = found
    assert (with_numba, still) == ("False", "False")
    assert int(compiled) > 0 == int(loaded) == int(again) and from_disk == compiled
