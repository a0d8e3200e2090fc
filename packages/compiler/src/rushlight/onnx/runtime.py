"""Running models in onnxruntime. Arrays go in as they lie in memory and come back without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.ops.complex import view_as_real
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
    options.log_severity_level = 4  # errors are raised, they need not be printed as well
    if threads is not None:
        options.intra_op_num_threads = threads
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(session: Any, names: Sequence[str], arrays: Sequence[np.ndarray], wanted: Sequence[str] | None = None
        ) -> list[Tensor]:
    """The results of a session for arrays as its inputs of these names."""
    return [tensor(x) for x in session.run(wanted, dict(zip(names, arrays)))]


def array(x: Tensor) -> np.ndarray:
    """The tensor's elements, row-major; without a copy where they lie so. TypeError for bfloat16."""
    if x.dtype is dtypes.bfloat16:
        raise TypeError("onnxruntime takes no bfloat16 from Python; convert the tensor with .to(rushlight.float32)")
    found = view_as_real(x.detach()).numpy() if x.dtype.is_complex else x.detach().numpy()
    return found if found.flags.c_contiguous else found.copy()  # ascontiguousarray gives 0-dim ones a dimension


def tensor(x: Any) -> Tensor:
    """A result, in the same memory."""
    return from_numpy(x if isinstance(x, np.ndarray) else np.asarray(x))
