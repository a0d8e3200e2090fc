"""TorchScript's names: scripts run, trace, freeze, and are stored and loaded without their source."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import pytest

import rushlight
from rushlight import jit


def stored(script):
    file = io.BytesIO()
    jit.save(script, file)
    file.seek(0)
    return file


def test_scripted_functions_compute_the_same():
    @jit.script
    def f(x, n: int = 2):
        if x.shape[0] > 2:
            return x * n
        return x + 1

    assert f(rushlight.ones(2)).tolist() == [2, 2] and f(rushlight.ones(3)).tolist() == [2, 2, 2]
    assert isinstance(f, jit.ScriptFunction) and f.name == "f" and jit.script(f) is f
    assert "add(x, 1)" in f.code and "add(v0, 1)" in str(f.graph) and f.schema.startswith("f(x, n")
    again = jit.load(stored(f))
    assert again(rushlight.zeros(2)).tolist() == [1, 1] and again(rushlight.ones(3)).tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="fit none of the 2"):
        again(rushlight.zeros(2), 3)
    assert jit.export_opnames(again) == ["add", "mul"] and again(rushlight.ones(7)).tolist() == [2] * 7


@jit.script
def importable(x):
    return x + 1


def test_scripts_are_copied_and_pickled(model):
    assert pickle.loads(pickle.dumps(importable)) is importable
    assert copy.deepcopy([importable])[0](rushlight.ones(1)).item() == 2
    model.eval()
    for script in (jit.script(model), jit.load(stored(jit.trace(model, rushlight.ones(1, 2))))):
        x = rushlight.ones(1, 2)
        expected, twin = script(x).tolist(), copy.deepcopy(script)
        with rushlight.no_grad():
            script.linear.weight.add_(1)
        assert twin(x).tolist() == expected != script(x).tolist()


def test_compiled_callers_follow_scripts():
    inner = jit.script(lambda x: x + 1)
    outer = rushlight.compile(lambda x: inner(x) * 2, fullgraph=True)
    assert outer(rushlight.ones(2)).tolist() == [4, 4]


def test_traces_follow_control_flow():
    def f(x):
        return x - 1 if x.shape[0] == 1 else x + 1

    traced = jit.trace(f, rushlight.ones(1))
    assert traced(rushlight.ones(1)).item() == 0 and traced(rushlight.ones(2)).tolist() == [2, 2]
    assert jit.load(stored(jit.trace(f, (rushlight.ones(1),))))(rushlight.ones(1)).item() == 0
    with pytest.raises(RuntimeError, match="Only tensors"):
        jit.trace(lambda x: "x", rushlight.ones(1))
    with pytest.raises(RuntimeError, match="strict=False"):
        jit.trace(lambda x: {"x": x}, rushlight.ones(1))
    assert jit.trace(lambda x: {"x": x}, rushlight.ones(1), strict=False)(rushlight.ones(2))["x"].tolist() == [1, 1]


def test_what_no_graph_holds_runs_and_is_not_stored():
    def f(x):
        return x * 2 if x.sum() > 0 else x

    scripted = jit.script(f)
    assert scripted(rushlight.ones(1)).item() == 2 and scripted(-rushlight.ones(1)).item() == -1
    with pytest.raises(RuntimeError, match=rf"test_jit.py.*line {f.__code__.co_firstlineno + 1}, in f.*cond"):
        scripted.save(io.BytesIO())
    with pytest.raises(RuntimeError, match="cannot be captured whole"):
        jit.script(f, example_inputs=[(rushlight.ones(1),)])
    with pytest.warns(jit.TracerWarning, match="line"):
        assert jit.trace(f, rushlight.ones(1))(-rushlight.ones(1)).item() == -1


def test_scripts_that_were_never_called_say_what_to_do():
    with pytest.raises(RuntimeError, match="example_inputs"):
        jit.save(jit.script(lambda x: x), io.BytesIO())
    assert jit.load(stored(jit.script(lambda x: x * 3, example_inputs=[(rushlight.ones(1),)])))(
        rushlight.ones(1)).item() == 3
    with pytest.raises(TypeError, match=r"jit\.script"):
        jit.save(lambda x: x, io.BytesIO())


@pytest.fixture
def model():
    nn = pytest.importorskip("rushlight.nn")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.dropout = nn.Dropout(0.5)
            self.factor = 3

        def forward(self, x):
            return self.dropout(self.linear(x)) * self.factor

        @jit.export
        def double(self, x):
            return x * 2

    return Model()


def test_scripted_modules_share_everything(model):
    script, x = jit.script(model), rushlight.ones(3, 2)
    assert isinstance(script, jit.ScriptModule) and script.linear is model.linear and script.factor == 3
    assert list(script.state_dict()) == list(model.state_dict()) and script.original_name == "Model"
    script.eval()
    assert not model.training and not script.training
    assert script(x).tolist() == model(x).tolist() and script.double(x).tolist() == (x * 2).tolist()
    script.factor = 4
    assert model.factor == 4 and script(x).tolist() == model(x).tolist()
    script(x).sum().backward()
    assert model.linear.weight.grad is not None
    assert jit.trace(model, x).linear is model.linear and jit.script(script) is script


READER = """
import sys, rushlight
script = rushlight.jit.load(sys.argv[1])
x = rushlight.ones(3, 2)
assert isinstance(script, rushlight.jit.ScriptModule) and not script.training
print(script(x).tolist(), script.double(x).tolist())
script.train()
rushlight.manual_seed(0)
out = script(x)
print(out.tolist())
out.sum().backward()
assert script.linear.weight.grad is not None
"""


def test_stored_modules_need_no_source(model, tmp_path):
    script, x = jit.script(model), rushlight.ones(3, 2)
    rushlight.manual_seed(0)
    training = script(x).tolist()
    evaluation = script.eval()(x).tolist()
    double = script.double(x).tolist()
    script.save(tmp_path / "script.pt")
    done = subprocess.run([sys.executable, "-c", READER, tmp_path / "script.pt"], capture_output=True, text=True,
                          cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == [f"{evaluation} {double}", f"{training}"]
    only = jit.load(stored(jit.trace(model, x)))
    with pytest.raises(RuntimeError, match="no call in training mode"):
        only.train()(x)


def test_stored_modules_have_all_names_of_a_tensor():
    nn = pytest.importorskip("rushlight.nn")
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    script, x = jit.script(model), rushlight.tensor([1, 2])
    expected = script(x)
    again = jit.load(stored(script))
    assert again(x).tolist() == expected.tolist() and list(again.state_dict()) == list(model.state_dict())
    assert again.get_submodule("0").weight is again.get_submodule("1").weight


def test_stored_programs_have_constants_of_their_own():
    nn = pytest.importorskip("rushlight.nn")

    class Model(nn.Module):
        def forward(self, x):
            return x * rushlight.tensor([2.0] * x.shape[0])

    script = jit.script(Model())
    results = [script(rushlight.ones(n)).tolist() for n in (2, 3)]
    again = jit.load(stored(script))
    assert [again(rushlight.ones(n)).tolist() for n in (2, 3)] == results == [[2.0] * 2, [2.0] * 3]


def test_frozen_modules_have_constants(model):
    x = rushlight.ones(3, 2)
    with pytest.raises(RuntimeError, match="eval"):
        jit.freeze(jit.script(model))
    with pytest.raises(RuntimeError, match="ScriptModule"):
        jit.freeze(model.eval())
    expected = model(x).tolist()
    for frozen in (jit.freeze(jit.script(model)), jit.optimize_for_inference(jit.trace(model, x))):
        with rushlight.no_grad():
            model.linear.weight.add_(1)
        assert frozen(x).tolist() == expected and not list(frozen.parameters()) and not frozen.state_dict()
        assert jit.load(stored(frozen))(x).tolist() == expected
        with rushlight.no_grad():
            model.linear.weight.sub_(1)


def test_frozen_modules_keep_what_they_write():
    nn = pytest.importorskip("rushlight.nn")

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", rushlight.zeros(1))
            self.weight = nn.Parameter(rushlight.ones(1))

        def forward(self, x):
            self.seen += 1
            return x * self.weight + self.seen

    x, script = rushlight.zeros(1), jit.script(Counter().eval())
    assert script(x).item() == 1
    frozen = jit.freeze(script)
    assert frozen(x).item() == 2 and list(frozen.state_dict()) == ["seen"] and not list(frozen.parameters())
    again = jit.load(stored(frozen))
    assert again(x).item() == 3 and again(x).item() == 4 and script(x).item() == 2
    with pytest.raises(RuntimeError, match="no attribute 'wieght'"):
        jit.freeze(script, ["wieght"])


def test_methods_are_traced_by_name(model):
    model.eval()
    traced = jit.trace_module(model, {"forward": rushlight.ones(1, 2), "double": rushlight.ones(1)})
    again = jit.load(stored(traced))
    assert again.double(rushlight.ones(1)).item() == 2
    assert again(rushlight.ones(1, 2)).tolist() == model(rushlight.ones(1, 2)).tolist()


def test_settings_of_the_fuser_change_nothing():
    assert jit.set_fusion_strategy([("STATIC", 2)]) == [("STATIC", 2)] and not jit.onednn_fusion_enabled()
    jit.enable_onednn_fusion(True)
    script = jit.script(lambda x: x * 2)
    with jit.fuser("fuser1"), jit.optimized_execution(False), jit.strict_fusion():
        assert script(rushlight.ones(1)).item() == 2


def test_subclasses_of_script_modules_run():
    nn = pytest.importorskip("rushlight.nn")

    class Scaled(jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(rushlight.ones(2) * 3)

        @jit.script_method
        def forward(self, x):
            return x * self.weight

    assert Scaled()(rushlight.ones(2)).tolist() == [3, 3]


def test_marks_change_nothing():
    @jit.ignore
    def f(x):
        return x + 1

    @jit.ignore(drop=True)
    def g(x):
        return x + 2

    assert f(1) == 2 and g(1) == 3 and jit.unused(len) is len and jit.annotate(int, 3) == 3 and not jit.is_scripting()
    future = jit.fork(lambda x: x + 1, 1).then(lambda done: done.wait() * 2)
    assert jit.wait(future) == 4
    with pytest.raises(ZeroDivisionError):
        jit.fork(lambda: 1 / 0)


@pytest.mark.parametrize("damage", [lambda b: b[:-10], lambda b: b"", lambda b: b.replace(b"add(", b"sys("),
                                    lambda b: b.replace(b'"format": 2', b'"format": 9')])
def test_damaged_files_are_refused(damage, tmp_path):
    file = stored(jit.script(lambda x: x + 1, example_inputs=[(rushlight.ones(1),)])).getvalue()
    with pytest.raises(RuntimeError, match="load: "):
        jit.load(io.BytesIO(damage(file)))
    with pytest.raises(ValueError, match="does not exist"):
        jit.load(tmp_path / "script.pt")


def test_files_hold_the_model_as_it_is_when_it_is_stored():
    nn = pytest.importorskip("rushlight.nn")

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.layer = 2, nn.Linear(2, 1)

        def forward(self, x):
            return self.layer(x) * self.scale

    x, script = rushlight.ones(1, 2), jit.script(Scaled())
    for name, value in (("scale", 2), ("scale", 3), ("layer", nn.Linear(2, 1))):
        setattr(script, name, value)
        assert script(x).tolist() == jit.load(stored(script))(x).tolist()


def test_arguments_are_given_by_position_or_by_name():
    @jit.script
    def f(x, n: int = 1, *, y=None):
        return x * n if y is None else x * n - y

    x, calls = rushlight.ones(2), [((), {"n": 2}), ((), {"n": 3, "y": rushlight.ones(2)})]
    for args, kwargs in calls:
        f(x, *args, **kwargs)
    again = jit.load(stored(f))
    twice = jit.load(stored(again))
    for g in (again, twice):
        assert g(x, 2).tolist() == g(x, n=2).tolist() == g(n=2, x=x).tolist() == [2, 2]
        assert g(x, 3, y=x).tolist() == g(y=x, n=3, x=x).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="fit none of the 2"):
            g(x, z=2)


def test_scripted_containers_are_containers():
    nn = pytest.importorskip("rushlight.nn")
    layers = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    script = jit.script(layers)
    assert len(script) == 2 and script[0] is layers[0] and list(script) == list(layers)
    assert bool(jit.script(nn.Linear(1, 1)))
    assert "a" in jit.script(nn.ModuleDict({"a": nn.ReLU()}))
    with pytest.raises(TypeError, match="Linear"):
        jit.script(nn.Linear(1, 1))[0]


def test_other_files_are_named():
    program = io.BytesIO()
    rushlight.export.save(rushlight.export.export(lambda x: x + 1, (rushlight.ones(1),)), program)
    with pytest.raises(RuntimeError, match=r"no script\.json, so it is no script"):
        jit.load(program)
    script = jit.script(lambda x: x + 1, example_inputs=[(rushlight.ones(1),)])
    with pytest.raises(RuntimeError, match=r"no signature\.json, so it is no exported program"):
        rushlight.export.load(stored(script))
    files = {"note": "", "other": "gone"}
    jit.load(io.BytesIO(script.save_to_buffer({"note": "hello"})), _extra_files=files)
    assert files == {"note": b"hello", "other": b""}
