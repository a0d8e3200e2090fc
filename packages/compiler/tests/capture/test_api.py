"""The public functions: compile in all its forms, disable, explain, backends, logs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import rushlight as torch
from rushlight import compiler


def ones(n: int = 3):
    return torch.ones(n)


def null(graph, metas, options):
    """A backend that notes what it is given."""
    null.seen = graph, metas, options
    return lambda inputs: [x + 1 for x in inputs[:1]]


def test_decorator_with_and_without_arguments():
    @torch.compile
    def f(x):
        """Doubles."""
        return x * 2

    @torch.compile(backend="eager", dynamic=False)
    def g(x, k=3):
        return x * k

    assert f(ones()).tolist() == [2.0] * 3 and f.__name__ == "f" and f.__doc__ == "Doubles."
    assert g(ones()).tolist() == [3.0] * 3 and g(ones(), k=4).tolist() == [4.0] * 3


def test_methods_and_callable_objects():
    class Thing:
        def __init__(self, k):
            self.k = k

        @torch.compile(backend="eager")
        def act(self, x):
            return x * self.k

        def __call__(self, x):
            return x + self.k

        @staticmethod
        def plain(x):
            return x - 1

    two, five = Thing(2), Thing(5)
    assert two.act(ones()).tolist() == [2.0] * 3 and five.act(ones()).tolist() == [5.0] * 3
    assert torch.compile(two, backend="eager")(ones()).tolist() == [3.0] * 3
    assert torch.compile(five.act, backend="eager")(ones()).tolist() == [5.0] * 3
    assert torch.compile(Thing.plain, backend="eager")(ones()).tolist() == [0.0] * 3
    assert torch.compile(torch.exp, backend="eager")(torch.zeros(2)).tolist() == [1.0, 1.0]


def test_wrong_arguments():
    with pytest.raises(TypeError, match="expected a function or module"):
        torch.compile(5)
    with pytest.raises(RuntimeError, match="either mode or options"):
        torch.compile(ones, mode="default", options={"a": 1})
    with pytest.raises(RuntimeError, match="unrecognized mode"):
        torch.compile(ones, mode="fastest")
    with pytest.raises((ValueError, RuntimeError), match="nowhere"):
        torch.compile(ones, backend="nowhere")
    with pytest.raises(RuntimeError, match="unknown stance"):
        compiler.set_stance("lazy")


def test_backend_function_gets_graph_metas_and_options():
    c = torch.compile(lambda x: x + 1, backend=null, options={"level": 3})
    assert c(ones()).tolist() == [2.0] * 3
    graph, metas, options = null.seen
    assert [n.op.name for n in graph.nodes] == ["add"] and metas == [ones()._meta] and options["level"] == 3


def test_a_failing_backend_means_eager_execution():
    def broken(graph, metas, options):
        raise KeyError("no kernel")

    c = torch.compile(lambda x: x + 1, backend=broken)
    with pytest.warns(RuntimeWarning, match="could not be compiled: KeyError: 'no kernel'"):
        assert c(ones()).tolist() == [2.0] * 3
    assert "no kernel" in c._rushlight_state.aborts[0]


@pytest.fixture(autouse=True)
def failures_of_the_compiler_show():
    """These tests see what users see."""


def test_a_failing_program_is_run_again_eagerly():
    def backend(graph, metas, options):
        def run(inputs):
            raise RuntimeError("out of luck")

        return run

    log = []

    def f(x):
        log.append(1)
        return x + 1

    c = torch.compile(f, backend=backend)
    with pytest.warns(RuntimeWarning, match="failed: RuntimeError: out of luck"):
        assert c(ones()).tolist() == [2.0] * 3 and log == [1]


def test_disable_and_is_compiling():
    @compiler.disable
    def inner(x):
        assert not compiler.is_compiling()
        return x + 1

    assert torch.compile(lambda x: inner(x) * 2, backend="eager")(ones()).tolist() == [4.0] * 3
    assert torch.compile(ones, disable=True) is ones
    nested = compiler.disable(torch.compile(lambda x: x + 1, backend="eager"))
    assert nested(ones()).tolist() == [2.0] * 3


def test_reset_and_register_backend():
    c = torch.compile(lambda x: x + 1, backend="eager")
    c(ones())
    assert c._rushlight_state.entries
    compiler.reset()
    assert not c._rushlight_state.entries
    compiler.register_backend("capture_test", null, tags=("debug",))
    assert "capture_test" not in compiler.list_backends()
    assert "capture_test" in compiler.list_backends(exclude_tags=())
    assert torch.compile(lambda x: x + 1, backend="capture_test")(ones()).tolist() == [2.0] * 3


def test_explain():
    c = torch.compile(lambda x, k: (x + k).sum(), backend="eager")
    for k in (1, 2):
        c(ones(), k)
    report = compiler.explain(c)(ones(), 3)
    assert (report.graph_count, report.graph_break_count, report.op_count) == (1, 0, 2)
    assert report.recompiles and "def entry" in str(report)
    assert "args[0]: is a Tensor with float32[3]@cpu" in report.conditions and report.variants == 2
    assert "holds while args[0]: is a Tensor" in str(report) and "was compiled again: args[1]: is not 1" in str(report)
    broken = compiler.explain(lambda x: x * round(x.sum().item()))(ones())
    assert broken.graph_count == 0 and "item" in str(broken)


def test_explain_says_what_ran_eagerly():
    c = torch.compile(lambda x: open("/dev/null").close() or x + 1, backend="eager")
    c(ones())
    report = compiler.explain(c)(ones())
    assert report.graph_break_count == 1 and report.eager_calls == report.break_reasons
    assert "ran eagerly: open()" in str(report) and 'line ' in report.break_reasons[0]


def test_logs():
    text = "import rushlight as t; f = t.compile(lambda x, k: x * k, backend='eager'); f(t.ones(2), 1); f(t.ones(2), 2)"
    environment = {**os.environ, "RUSHLIGHT_LOGS": "guards,recompiles"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], env=environment, capture_output=True, text=True,
                          check=True)
    assert "def entry(args, kwargs):" in done.stderr and "args[1]: is not 1" in done.stderr
    environment["RUSHLIGHT_LOGS"] = "guard"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], env=environment, capture_output=True, text=True)
    assert done.returncode and "unknown topic guard" in done.stderr


def test_importing_the_compiler_is_light():
    heavy = "print([m for m in ('numba', 'llvmlite', 'scipy') if m in sys.modules])"
    text = f"import sys, rushlight; rushlight.compile(lambda x: x); {heavy}"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_code_for_the_array_api_is_captured_whole():
    def standardize(x):
        xp = x.__array_namespace__()
        return xp.divide(x - xp.mean(x, axis=0), xp.std(x, axis=0, keepdims=True))

    x = torch.tensor([[1.0, 2.0], [3.0, 6.0], [8.0, 1.0]])
    result = torch.compile(standardize, fullgraph=True)(x)
    torch.testing.assert_close(result, (x - x.mean(0)) / x.std(0, correction=0))


def test_compiled_modules_are_known_by_their_class():
    nn = pytest.importorskip("rushlight.nn")
    from rushlight._dynamo import OptimizedModule, optimize

    model = nn.Linear(2, 2)
    for compiled in (torch.compile(model, backend="eager"), optimize("eager", nopython=True)(model)):
        assert isinstance(compiled, OptimizedModule) and isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    assert not isinstance(model, OptimizedModule)
