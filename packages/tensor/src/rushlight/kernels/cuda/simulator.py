"""What generated CUDA source sees under numba's simulator, where kernels run as plain Python on numpy scalars.

The scalar functions are those of `rushlight.core.scalar`: the simulator checks the loop, the layout and the graph,
and plain execution is what the CPU kernels are tested against.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.source import SHORT


def _converter(name: str) -> Any:
    dtype = np.dtype(name)
    return lambda value: np.asarray(value).astype(dtype)[()]


def _bitcast(value: Any, convert: Any) -> Any:
    return s.bitcast(value, convert(0).dtype)


def _integer_pow(base: Any, exponent: Any, negative: Any) -> Any:
    if negative:
        return {1: 1, -1: -1 if exponent & np.uint64(1) else 1}.get(int(base), 0)
    return pow(int(base), int(exponent), 1 << 64)


def _complex(re: Any, im: Any) -> Any:
    return complex(re, im) if isinstance(re, float) and not isinstance(re, np.generic) else s.complex(re, im)


# Hardware does not warn about inf and nan; numpy's settings belong to a thread, and each simulated thread is one.
_QUIET = """
def quiet(*args):
    with errstate(all="ignore"):
        kernel(*args)
"""


def compile_source(source: str) -> Any:
    """The kernel that `source` defines, to be launched as `kernel[blocks, threads](...)`."""
    from numba import cuda

    names = _namespace()
    exec(compile(source + _QUIET, "<rushlight CUDA kernel>", "exec"), names)
    return cuda.jit(names["quiet"])


def _namespace() -> dict[str, Any]:
    from numba import cuda

    names: dict[str, Any] = {short: _converter(dtype) for dtype, short in SHORT.items()}
    names |= {name: getattr(s, name) for name in s.__all__ if isinstance(getattr(s, name), s.Function)}
    names |= {
        f"c_{name}": names[name]
        for name in ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan")
    }
    names |= {f"c_{name}": names[name] for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")}
    names |= {
        "cuda": cuda,
        "errstate": np.errstate,
        "bitcast": _bitcast,
        "fabs": s.abs,
        "truncate_remainder": s.fmod,
        "integer_pow": _integer_pow,
        "complex": _complex,
        "inf": math.inf,
        "nan": math.nan,
    }
    return names
