"""Running models in onnxruntime. Arrays go in as they lie in memory and come back without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy


def onnxruntime(wanted_by: str) -> Any:
    """The package; ImportError that says what to install."""
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            f"{wanted_by} needs the package onnxruntime: pip install rushlight-compiler[onnxruntime]"
        ) from None
    return onnxruntime


def session(model: bytes | str, wanted_by: str, threads: int | None = None) -> Any:
    """A session for a model, its bytes or its file, on the CPU."""
    runtime = onnxruntime(wanted_by)
    options = runtime.SessionOptions()
    options.log_severity_level = 3  # errors
    if threads is not None:
        options.intra_op_num_threads = threads
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(session: Any, names: Sequence[str], tensors: Sequence[Tensor], wanted: Sequence[str] | None = None
        ) -> list[Tensor]:
    """The results of a session for tensors as its inputs of these names."""
    feeds = {name: _array(x) for name, x in zip(names, tensors)}
    return [_tensor(x) for x in session.run(wanted, feeds)]


def _array(x: Tensor) -> np.ndarray:
    """The tensor's elements, row-major."""
    if x.dtype is dtypes.bfloat16:
        raise TypeError("onnxruntime takes no bfloat16 from Python; convert the tensor with .to(rushlight.float32)")
    array = x.detach().numpy()
    return array if array.flags.c_contiguous else array.copy()  # ascontiguousarray gives 0-dim ones a dimension


def _tensor(x: Any) -> Tensor:
    return from_numpy(x if isinstance(x, np.ndarray) else np.asarray(x))
