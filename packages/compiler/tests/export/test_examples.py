"""The models of the examples, exported, stored and run: equal to the model, on every backend and for other sizes."""

from __future__ import annotations

import importlib
import importlib.util
import io
from pathlib import Path

import pytest

import rushlight
from rushlight.export import Dim, export, load, save

nn = pytest.importorskip("rushlight.nn")
EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


def gpt(module):
    tokens = rushlight.randint(0, 20, (4, 8))
    return module.GPT(20, 8, layers=1, heads=2, width=16), [(tokens,), (tokens[:1],), (tokens[:3, :5],)], 2


def digits(module):
    images = rushlight.randn(4, 1, 8, 8)
    return module.Net(), [(images,), (images[:1],), (images[:3],)], 1


def forecast(module):
    seen = rushlight.randn(4, 12)
    return module.Forecaster(4), [(seen,), (seen[:1],), (seen[:3, :7],)], 2


def vae(module):
    codes = rushlight.randn(4, 2)
    return module.VAE(16, 2).decoder, [(codes,), (codes[:1],)], 1


@pytest.mark.parametrize("example", [gpt, digits, forecast, vae])
def test_models_of_the_examples(example, monkeypatch):
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not here")
    for needed in ("matplotlib", "sklearn", "statsmodels", "tqdm"):
        pytest.importorskip(needed)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    rushlight.manual_seed(0)
    model, calls, count = example(importlib.import_module(example.__name__))
    model.eval()
    shapes = tuple({d: Dim(f"size{d}") for d in range(count)} for _ in calls[0])
    file = io.BytesIO()
    save(export(model, calls[0], dynamic_shapes=shapes), file)
    file.seek(0)
    run = load(file).module()
    for args in calls:
        expected = model(*args)
        rushlight.testing.assert_close(run(*args), expected)
    for backend in rushlight.compiler.list_backends():
        if backend in ("onnxruntime", "openvino") and importlib.util.find_spec(backend) is None:
            continue
        compiled = rushlight.compile(run, backend=backend, fullgraph=backend != "lazy")
        with rushlight.no_grad():  # some compute no gradients
            rushlight.testing.assert_close(compiled(*calls[0]), model(*calls[0]), rtol=1e-4, atol=1e-5)


def test_a_training_step_of_an_exported_model_is_one_of_the_model():
    def steps(run, parameters):
        optimizer = rushlight.optim.SGD(parameters, lr=0.1, momentum=0.9)
        rushlight.manual_seed(1)
        for _ in range(3):
            x = rushlight.randn(8, 4)
            optimizer.zero_grad()
            loss = (run(x) - x.sum(1, keepdim=True)).pow(2).mean()
            loss.backward()
            optimizer.step()
        return loss

    made = []
    for exported in (False, True):
        rushlight.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1))
        run = export(model, (rushlight.randn(8, 4),)).module() if exported else model
        made.append((steps(run, run.parameters()), dict(model.state_dict())))
    rushlight.testing.assert_close(made[0], made[1])
