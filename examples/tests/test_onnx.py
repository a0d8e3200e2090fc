"""The example models give in onnxruntime what they give eagerly, for other sizes than those they were exported with."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import rushlight
from rushlight import nn

pytest.importorskip("matplotlib")
pytest.importorskip("onnxruntime")

NEEDS = {"digits": "sklearn", "vae": "sklearn", "forecast": "statsmodels", "gpt": "tqdm"}


class Encoder(nn.Module):
    """What the VAE knows of images: means and standard deviations."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        code = self.model.encode(x)
        return code.mean, code.stddev


def models(name, module):
    """The models of an example, each with a function that makes inputs of a batch size, and the name of each size."""
    if name == "digits":
        return [(module.Net(), lambda n: rushlight.randn(n, 1, 8, 8), {0: "batch"})]
    if name == "vae":
        vae = module.VAE(16, 2)
        return [(Encoder(vae), lambda n: rushlight.rand(n, 64), {0: "batch"}),
                (vae.decoder, lambda n: rushlight.randn(n, 2), {0: "batch"})]
    if name == "forecast":
        return [(module.Forecaster(6), lambda n: rushlight.randn(n, module.SEEN), {0: "batch"})]
    gpt = module.GPT(20, 16, layers=2, heads=2, width=16)
    return [(gpt, lambda n: rushlight.randint(20, (n, 3 * n)), {0: "batch", 1: "time"})]


@pytest.mark.parametrize("name", NEEDS)
def test_model_runs_in_onnxruntime(name, monkeypatch):
    pytest.importorskip(NEEDS[name])
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent))
    rushlight.manual_seed(0)
    for model, make, sizes in models(name, importlib.import_module(name)):
        model.eval()
        program = rushlight.onnx.export(model, (make(3),), dynamic_shapes=(sizes,), verify=True)
        for n in (2, 5):
            x = make(n)
            with rushlight.no_grad():
                expected = model(x)
            results = [y for y in (expected if isinstance(expected, tuple) else (expected,)) if y is not None]
            for a, b in zip(program(x), results, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
