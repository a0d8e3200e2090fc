"""What the tests of `rushlight.onnx` share: running an exported program and comparing it with eager execution."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.utils._pytree import tree_flatten


@pytest.fixture
def equal_in_onnxruntime():
    """`check(model, *args, **options)`: export, `onnx.checker`, onnxruntime, compare; returns the ONNXProgram."""
    checker = pytest.importorskip("onnx.checker")
    pytest.importorskip("onnxruntime")

    def check(model, *args, close=1e-5, kwargs=None, others=(), **options):
        program = rushlight.onnx.export(model, args, kwargs=kwargs, **options)
        checker.check_model(program.model_proto, full_check=True)
        for given in (args, *others):
            with rushlight.no_grad():
                expected = tree_flatten(model(*given, **(kwargs or {})))[0]
            results = program(*given, **(kwargs or {}))
            for a, b in zip(results, [rushlight.as_tensor(x) for x in expected if x is not None], strict=True):
                assert (a.dtype, a.shape) == (b.dtype, b.shape)
                a, b = (rushlight.view_as_real(x) if x.dtype.is_complex else x for x in (a, b))
                np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=close, atol=close)
        return program

    return check
