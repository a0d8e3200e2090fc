"""Standalone files: every op that has a form in them, whole programs with and without numba, saved and loaded."""

from __future__ import annotations

import cmath
import math
import subprocess
import sys

import numpy as np
import pytest

import rushlight
from rushlight.compiler import precompile
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.standalone.printer import Printer
from rushlight.compiler.standalone.rows import ROWS
from rushlight.core import dtypes
from rushlight.core.op import REGISTRY
from rushlight.core.samples import samples_of
from rushlight.core.tensor import Tensor

nn = pytest.importorskip("rushlight.nn")
rushlight.tensor(0)  # the first use declares all ops
CASES = [
    pytest.param(op, sample, id=f"{name}-{i}")
    for name, op in sorted(REGISTRY.items())
    if not op.mutates and op.name != "empty"
    for i, sample in enumerate(samples_of(op)[: 1 if op.kind == "elementwise" else None])
]


def has_form(op) -> bool:
    return op.kind == "elementwise" or op.name in ROWS or op.decomposition is not None


def test_rows_are_of_ops_that_need_them():
    assert ROWS.keys() <= REGISTRY.keys()
    assert not [name for name in ROWS if REGISTRY[name].kind == "elementwise" or REGISTRY[name].decomposition]
    assert sum(map(has_form, REGISTRY.values())) >= 0.88 * len(REGISTRY)


def run_plain(graph: Graph, inputs: list[np.ndarray]) -> list:
    """What the lines of a printed graph compute, with loops as plain Python."""
    names = [f"x{chr(97 + i)}" for i in range(len(inputs))]
    printer = Printer(graph, names)
    lines = [*printer.lines, f"found = [{', '.join([printer.names[v] for v in printer.graph.outputs])}]"]
    space = {"np": np, "math": math, "cmath": cmath, "kernel": lambda f: f, "inner": lambda f: f, **dict(
        zip(names, inputs))}
    for text in (printer.scalars.text(), printer.functions.text(), *printer.sources, "\n".join(lines)):
        exec(text, space)
    return space["found"]


@pytest.mark.filterwarnings("ignore")  # loops in plain Python warn of overflow
@pytest.mark.parametrize("op, sample", CASES)
def test_forms_equal_eager(op, sample):
    operands = tuple([rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in sample.operands])
    metas = op.infer_metas(operands, sample.params)
    if metas is None:
        pytest.skip("a shape that depends on data cannot be captured")
    graph = Graph()
    values = tuple([graph.input(x._meta) if isinstance(x, Tensor) else x for x in operands])
    found = graph.call(op, values, sample.params, metas)
    graph.output(list(found) if isinstance(found, tuple) else [found])
    inputs = [x.numpy() if x.dtype is not dtypes.bfloat16 else x for x in operands if isinstance(x, Tensor)]
    if any(v.meta.dtype is dtypes.bfloat16 for v in (*graph.inputs, *graph.outputs)):
        with pytest.raises(NotImplementedError, match="convert bfloat16 to"):
            Printer(graph, [f"x{i}" for i in range(len(inputs))])
        return
    if not has_form(op):
        with pytest.raises(NotImplementedError, match=f"{op.name} has no form in numpy"):
            run_plain(graph, inputs)
        return
    try:
        got = run_plain(graph, [x.copy() for x in inputs])
    except NotImplementedError as error:  # of packed sequences, or of a part
        assert op.decomposition is not None and ("asks for tolist" in str(error) or "has no form" in str(error))
        return
    expected = op.apply(operands, sample.params)
    for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert (a.shape, a.dtype) == (tuple(b.shape), b.numpy().dtype)
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-4, atol=1e-5)


class Net(nn.Module):
    """Convolution, normalisation, attention and a loss of integers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.rows = nn.LayerNorm(16)
        self.out = nn.Linear(16, 3)

    def forward(self, x, target):
        h = nn.functional.max_pool2d(self.norm(self.conv(x)).relu(), 2).flatten(2)
        h = self.rows(h + self.attention(h, h, h, need_weights=False)[0])
        scores = self.out(h.mean(1))
        return scores.softmax(-1), nn.functional.cross_entropy(scores, target), scores.argmax(-1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model, its example inputs, and the file that it was saved to."""
    rushlight.manual_seed(0)
    model = Net().eval()
    inputs = rushlight.randn(2, 1, 8, 8), rushlight.tensor([0, 2])
    path = tmp_path_factory.mktemp("precompiled") / "net.py"
    precompile.save(precompile(model, *inputs), path)
    return model, inputs, path


def test_a_saved_model_computes_what_it_did(saved):
    model, inputs, path = saved
    run = precompile.load(path)
    for _ in range(2):
        for got, expected in zip(run(*inputs), model(*inputs), strict=True):
            np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
        model.out.weight.data.mul_(2)
        run.weights["out.weight"] = model.out.weight
    model.out.weight.data.div_(4)


def test_a_file_runs_without_rushlight_and_checks_itself(saved):
    _, _, path = saved
    alone = "import sys; sys.modules['rushlight'] = None"
    check = f"{alone}; import runpy; runpy.run_path({str(path)!r}, None, '__main__')"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout.strip() == "3 outputs as expected", done.stderr
    wrong = path.with_name("wrong.npz")
    with np.load(path.with_suffix(".npz")) as file:
        np.savez(wrong, **{name: array if "target" in name or array.dtype.kind == "i" else array + 1
                           for name, array in file.items()})
    with pytest.raises(AssertionError, match="output 1"):
        precompile.load(path).module.main(wrong)


def test_wrong_inputs_are_named(saved):
    _, (x, target), path = saved
    run = precompile.load(path)
    with pytest.raises(ValueError, match=r"input x: expected shape \(2, 1, 8, 8\), got \(3, 1, 8, 8\)"):
        run(rushlight.zeros(3, 1, 8, 8), target)
    with pytest.raises(TypeError, match="input target: expected int64, got int32"):
        run(x, target.int())
    with pytest.raises(TypeError, match="expected 2 inputs, got 1"):
        run(x)
    with pytest.raises(KeyError, match="missing weights: conv.weight"):
        precompile.load(path, {})(x, target)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        precompile.load(path.with_name("none.py"))


def test_what_a_file_cannot_say():
    with pytest.raises(NotImplementedError, match="bfloat16"):
        precompile(lambda x: x + 1, rushlight.ones(2).bfloat16())
    with pytest.raises(NotImplementedError, match="matrix_exp has no form in numpy"):
        precompile(lambda x: rushlight.linalg.matrix_exp(x), rushlight.ones(2, 2))
    with pytest.raises(ValueError, match="must end in .py"):
        precompile.save(precompile(lambda x: x + 1, rushlight.ones(2)), "model.txt")
    with pytest.raises(TypeError, match="expected what precompile returned"):
        precompile.save("import os", "model.py")


@pytest.fixture
def plain(monkeypatch):
    """Loops run as Python: that they are made machine code is shown by `saved`."""
    monkeypatch.setattr(pytest.importorskip("numba").config, "DISABLE_JIT", True)


@pytest.mark.filterwarnings("ignore")  # of overflow, then
def test_what_is_not_finite_and_single_elements(tmp_path, plain):
    numbers = [float("nan"), float("inf"), 1.0]
    turned = rushlight.tensor([complex(1, float("inf"))])
    path = tmp_path / 'an "odd" \\name.py'
    precompile.save(precompile(lambda x, n: (x * n, x[0], x[2] + 1, x + turned), rushlight.tensor(numbers), 2), path)
    run = precompile.load(path)
    scaled, first, last, shifted = run(rushlight.tensor(numbers))
    assert first.shape == last.shape == () and last.item() == 2 and first.isnan()
    np.testing.assert_array_equal(scaled.numpy(), [2 * x for x in numbers])
    assert shifted.dtype is rushlight.complex64 and shifted[2].item() == complex(2, float("inf"))
    run.module.main(path.with_suffix(".npz"))
    with pytest.raises(TypeError, match="input 1: expected a tensor, got int; other arguments of the model were fixed"):
        run(rushlight.tensor(numbers), 2)


def test_buffers_are_written_in_place(tmp_path, plain):
    norm = nn.BatchNorm1d(3)
    x = rushlight.randn(8, 3)
    path = tmp_path / "norm.py"
    precompile.save(precompile(norm, x), path)
    run = precompile.load(path)
    got, expected = run(x), norm(x)
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(run.weights["running_mean"].numpy(), norm.running_mean.numpy(), rtol=1e-5)
    assert int(run.weights["num_batches_tracked"]) == 1


@pytest.mark.filterwarnings("ignore")  # numpy's loops warn of overflow in halves
def test_random_numbers_halves_and_transforms(tmp_path, plain):
    def f(x, z):
        noise = rushlight.randn(3, 5, dtype=rushlight.float64) + rushlight.randint(-2, 3, (5,))
        rushlight.rand(2)  # counts, though nobody looks at it
        kept = nn.functional.dropout(x, 0.5) * rushlight.rand(4)
        back = rushlight.fft.irfft(rushlight.fft.rfft(x) * 2)
        return noise, kept, (z @ z.t()).softmax(-1) / 3, back, rushlight.randperm(7)

    x, z = rushlight.linspace(-1, 1, 12).view(3, 4), rushlight.linspace(-1, 2, 6).view(2, 3).half()
    path = tmp_path / "drawing.py"
    precompile.save(precompile(f, x, z), path)
    run = precompile.load(path)
    for seed in (0, 7):
        rushlight.manual_seed(seed)
        expected = [f(x, z), f(x, z), rushlight.rand(2)]
        rushlight.manual_seed(seed)
        for got, wanted in zip([run(x, z), run(x, z), rushlight.rand(2)], expected, strict=True):
            for a, b in zip(got, wanted, strict=True):
                assert a.dtype is b.dtype
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3 if a.dtype is rushlight.float16 else 1e-6,
                                           atol=1e-6)
    run.module.main(path.with_suffix(".npz"))
