"""`onnx.export` and `ONNXProgram`: arguments, files, modes, errors."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.onnx import errors, proto

nn = pytest.importorskip("rushlight.nn")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

X = rushlight.arange(6.0).reshape(2, 3)


def small():
    """A model of two layers."""
    rushlight.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


def run(file, *tensors):
    """What a file gives, by position."""
    session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: x.numpy() for i, x in zip(session.get_inputs(), tensors)})


def test_writes_a_file_with_the_names_of_the_caller_and_of_the_weights(tmp_path):
    model, file = small(), tmp_path / "model.onnx"
    program = rushlight.onnx.export(model, (X,), file, input_names=["x"], output_names=["y"], opset_version=18)
    found = onnx.load(file)
    onnx.checker.check_model(found, full_check=True)
    assert found == program.model_proto and found.opset_import[0].version == 18
    assert (found.graph.input[0].name, found.graph.output[0].name) == ("x", "y")
    assert {t.name for t in found.graph.initializer} == set(model.state_dict())
    with rushlight.no_grad():
        np.testing.assert_allclose(run(file, X)[0], model(X).numpy(), rtol=1e-6)


def test_large_weights_lie_in_a_second_file(tmp_path, monkeypatch):
    layer, x = nn.Linear(3, 400), X
    layer.requires_grad_(False)
    program = rushlight.onnx.export(layer, (x,), tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx.data").stat().st_size >= 1600 * 3
    np.testing.assert_allclose(run(tmp_path / "a.onnx", x)[0], layer(x).numpy(), rtol=1e-5)
    program.save(tmp_path / "b.onnx")
    assert not (tmp_path / "b.onnx.data").exists()
    monkeypatch.setattr(proto, "LIMIT", 4000)  # instead of 2 GB
    with pytest.raises(ValueError, match="external_data"):
        program.serialized()
    np.testing.assert_allclose(program(x)[0].numpy(), layer(x).numpy(), rtol=1e-5)
    program.save(tmp_path / "b.onnx")
    assert (tmp_path / "b.onnx.data").exists()


def test_weights_can_be_left_out_or_passed_in(tmp_path):
    layer = nn.Linear(3, 2)
    program = rushlight.onnx.export(layer, (X,))
    program.save(tmp_path / "open.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    session = runtime.InferenceSession(str(tmp_path / "open.onnx"), providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["input", "weight", "bias"]
    weights = {"weight": np.ones((2, 3), np.float32), "bias": np.zeros(2, np.float32)}
    assert session.run(None, {"input": X.numpy(), **weights})[0].tolist() == [[3, 3], [12, 12]]
    program.apply_weights({k: rushlight.from_numpy(v) for k, v in weights.items()})
    assert program(X)[0].tolist() == [[3, 3], [12, 12]]
    with pytest.raises(ValueError, match="weight has shape"):
        program.apply_weights({"weight": rushlight.zeros(2)})


def test_arguments_of_any_structure(equal_in_onnxruntime):
    def program(pair, *, scale, extra=None):
        return {"sum": pair[0] + pair[1]["b"] * scale, "none": None, "extra": extra}

    arguments = (X, {"b": X * 2})
    equal_in_onnxruntime(program, arguments, kwargs={"scale": 3})
    equal_in_onnxruntime(program, arguments, kwargs={"scale": 3, "extra": X})


def test_results_that_are_inputs_constants_or_the_same_twice(equal_in_onnxruntime):
    def program(x):
        y = x + 1
        return x, y, y, rushlight.ones(2), y.view(-1)

    model = equal_in_onnxruntime(program, X)
    assert len(model.model.graph.outputs) == 5


def test_an_exported_program_is_exported(equal_in_onnxruntime):
    program = rushlight.export.export(small(), (X,))
    made = rushlight.onnx.export(program, verify=True)
    assert made.exported_program is program
    assert rushlight.equal(made(X)[0], rushlight.onnx.export(program, X)(X)[0])


def test_numbers_as_results_are_refused():
    with pytest.raises(errors.OnnxExporterError, match="returns 3"):
        rushlight.onnx.export(lambda x: (x, 3), (X,))


def test_a_module_that_knows_how_it_is_exported():
    class Twice(rushlight.onnx.ExportableModule):
        def forward(self, x, scale):
            return x * scale

        def example_arguments(self):
            return (X,), {"scale": 2}

        def input_names(self):
            return ["numbers"]

        def dynamic_shapes(self):
            return {"x": {0: "rows"}, "scale": None}

    for program in (Twice().to_onnx(opset_version=18), rushlight.onnx.export(Twice())):
        assert program.model.graph.inputs[0].name == "numbers" and program.model.graph.inputs[0].shape == ["rows", 3]
        assert program(rushlight.ones(1, 3))[0].tolist() == [[2, 2, 2]]
    with pytest.raises(TypeError, match="abstract"):
        type("Nothing", (rushlight.onnx.ExportableModule,), {})()


# Modes and state


def test_the_older_way_exports_in_eval_mode_and_returns_nothing(tmp_path):
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    assert rushlight.onnx.export(model, (X,), tmp_path / "m.onnx", dynamo=False) is None
    assert model.training and model[1].training
    with rushlight.no_grad():
        np.testing.assert_allclose(run(tmp_path / "m.onnx", X)[0], model[0](X).numpy(), rtol=1e-6)


def test_dropout_in_training_drops():
    program = rushlight.onnx.export(nn.Dropout(0.25), (rushlight.ones(1000),))
    with pytest.raises(ValueError, match="draws random numbers"):
        rushlight.onnx.export(nn.Dropout(0.25), (X,), verify=True)
    first, second = program(rushlight.ones(1000))[0], program(rushlight.ones(1000))[0]
    assert 150 < int((first == 0).sum()) < 350 and not rushlight.equal(first, second)
    np.testing.assert_allclose(first.amax().item(), 4 / 3, rtol=1e-6)


def test_what_is_written_to_buffers_is_left_out_with_a_warning():
    norm = nn.BatchNorm1d(3)
    with pytest.warns(errors.OnnxExporterWarning, match="running_mean"):
        program = rushlight.onnx.export(norm, (X,), verify=True)
    assert rushlight.equal(norm.running_mean, rushlight.zeros(3))
    np.testing.assert_allclose(program(X)[0].numpy(), norm(X).detach().numpy(), rtol=1e-5)


def test_writes_inside_are_values(equal_in_onnxruntime):
    def program(x):
        y = x.clone()
        y[0] += 1
        y.mul_(2)
        y[:, 1] = 0
        return y

    equal_in_onnxruntime(program, X)


# Checks and errors


def test_verify_and_rows_of_the_caller():
    table = {"digamma": lambda o, x: o.Mul(x, 2.0), rushlight.core.op.prims.exp: lambda o, x: o.Exp(x)}
    program = rushlight.onnx.export(lambda x: rushlight.digamma(x) + x.exp(), (X,), custom_translation_table=table)
    np.testing.assert_allclose(program(X)[0].numpy(), (X * 2 + X.exp()).numpy(), rtol=1e-6)
    rushlight.onnx.export(small(), (X,), verify=True)
    with pytest.raises(errors.VerificationError, match="digamma differs"):
        rushlight.onnx.export(rushlight.digamma, (X,), custom_translation_table=table, verify=True)
    with pytest.raises(ValueError, match="'nothing', which is no operation"):
        rushlight.onnx.export(rushlight.exp, (X,), custom_translation_table={"nothing": None})


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="18 to 28, got 17"):
        rushlight.onnx.export(small(), (X,), opset_version=17)
    with pytest.raises(NotImplementedError, match="report=True"):
        rushlight.onnx.export(small(), (X,), report=True)
    with pytest.raises(TypeError, match="must be a path"):
        rushlight.onnx.export(small(), (X,)).save(3)
    with pytest.raises(ValueError, match="1 inputs, got 2 tensors"):
        rushlight.onnx.export(small(), (X,))(X, X)


def test_what_onnx_lacks_is_an_error():
    def program(x):
        y = rushlight.digamma(x) + 1
        return y @ nn.Identity()(rushlight.linalg.pinv(x[:, :2]))

    first = program.__code__.co_firstlineno
    with pytest.raises(errors.UnsupportedOperatorError) as error:
        rushlight.onnx.export(program, (rushlight.ones(2, 2),))
    for call in (f"pinv in File \"{__file__}\", line {first + 2}, in program: ", f"line {first + 1}, in program: its"):
        assert call in str(error.value)
    with pytest.raises(RuntimeError, match=r"cannot be captured whole: .*line \d+"):
        rushlight.onnx.export(lambda x: x if x.sum() > 0 else -x, (X,))


def test_equations_and_factors_of_small_matrices(equal_in_onnxruntime):
    linalg = rushlight.linalg

    def program(a, b):
        positive = a @ a.mT + rushlight.eye(4)
        factor = linalg.cholesky(positive)
        return (linalg.inv(a), linalg.solve(a, b), linalg.solve(a[0], b), *linalg.slogdet(a), factor,
                linalg.solve_triangular(factor, b, upper=False), rushlight.cholesky_inverse(factor), linalg.det(a))

    rows = rushlight.randn(3, 4, 4, generator=rushlight.Generator().manual_seed(3))
    rows[1] = rushlight.eye(4)[[2, 0, 3, 1]] * 2  # a pivot has to be found in other rows each time
    batch = rushlight.export.Dim("batch")
    equal_in_onnxruntime(program, rows, rows[..., :2] + 1, others=[(rows[:2], rows[1:, :, :2])], close=1e-3,
                         dynamic_shapes=({0: batch}, {0: batch}))
    equal_in_onnxruntime(lambda x: (*linalg.slogdet(x), *linalg.slogdet(x[:1, :1])), rushlight.ones(3, 3))
    equal_in_onnxruntime(lambda x: (linalg.cholesky(x), linalg.inv(x), linalg.solve_triangular(x, x, upper=True)),
                         rushlight.ones(2, 0, 0))
    with pytest.raises(errors.UnsupportedOperatorError, match="up to 64 rows"):
        rushlight.onnx.export(linalg.inv, (rushlight.eye(65),))


def test_half_types_are_written_as_they_are():
    for kind in (rushlight.float16, rushlight.bfloat16):
        program = rushlight.onnx.export(nn.Linear(3, 2).to(kind), (X.to(kind),))
        onnx.checker.check_model(program.model_proto, full_check=True)
        assert program.model.graph.outputs[0].dtype is kind
    with pytest.raises(TypeError, match="no bfloat16"):
        program(X.to(rushlight.bfloat16))


# Looking inside


def test_values_inside_and_the_reference():
    model = small()
    program = rushlight.onnx.export(model, (X,))
    relu = next(node.outputs[0] for node in program.model.graph.nodes if node.kind == "Relu")
    with rushlight.no_grad():
        np.testing.assert_allclose(program.compute_values([relu], (X,))[relu].numpy(), model[:2](X).numpy(), rtol=1e-5)
        np.testing.assert_allclose(program.call_reference(X)[0].numpy(), model(X).numpy(), rtol=1e-5)
    made = []
    program.initialize_inference_session(lambda data: made.append(runtime.InferenceSession(data)) or made[0])
    assert program._session is made[0]
    program.release()
    assert program._session is None


def test_keyword_arguments_come_in_any_order():
    def f(a, *, b, c):
        return a - b["low"] * c

    def arguments(one, two):
        return {"b": {"low": one}, "c": two}

    program = rushlight.onnx.export(f, (X,), kwargs=arguments(X, X + 2))
    for kwargs in (arguments(X, X + 2), dict(reversed(arguments(X, X + 2).items()))):
        assert program(X, **kwargs)[0].tolist() == f(X, **kwargs).tolist()
    with pytest.raises(ValueError, match=r"expected \['b', 'c'\]"):
        program(X, **arguments(X, X), a=X)


@pytest.mark.parametrize("option", ["input_names", "output_names"])
@pytest.mark.parametrize("names", ["x", [""], [3]])
def test_names_are_names(option, names):
    with pytest.raises(TypeError, match=f"{option} must be a list of names"):
        rushlight.onnx.export(lambda x: x, (X,), **{option: names})
