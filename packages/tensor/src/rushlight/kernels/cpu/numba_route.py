"""numba's route from the source of a kernel to native code: for what `translate` does not know, and to compare with.

Its kernels are called like the others, by Python and by each other. numba is imported when a kernel is compiled or
loaded here.
"""

from __future__ import annotations

import linecache
import pickle
import types as python_types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from rushlight.core.scalar import Opaque
from rushlight.kernels.cpu import language
from rushlight.kernels.cpu.fingerprint import named_values

# For functions that only kernels call: numba's entries for Python and C would take half of their time to compile.
_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# contract only: one rounding for a*b+c where the CPU has it. Nothing that changes NaN, infinities, signed zero or the
# order of sums.
_OPTIONS = {"error_model": "numpy", "fastmath": {"contract"}}


def load(payload: bytes) -> tuple[Callable[..., Any], int]:
    """A kernel that `compile_kernel` made, and its address."""
    from numba.core.compiler import CompileResult

    return _ready(CompileResult._rebuild(_context(), *pickle.loads(payload)))


def compile_kernel(
    source: str,
    signature: Sequence[str],
    returns: str,
    names: Mapping[str, Any],
    opaques: Sequence[Opaque],
    digest: str,
) -> tuple[bytes, Callable[..., Any], int]:
    """A kernel as bytes, as Python calls it, and its address."""
    from numba import njit, types
    from numba.core import serialize

    from rushlight.kernels.cpu.numba_types import to_numba

    _context()
    file = f"<rushlight kernel {digest[:12]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    # The module is the one that numba names when the code is loaded again.
    namespace: dict[str, Any] = {"__name__": "rushlight.kernels.cpu.numba_types"}
    jitted: dict[Any, Any] = {}
    namespace |= {name: _for_numba(value, jitted) for name, value in names.items()}
    namespace |= {opaque.name: _jit(opaque.function, jitted) for opaque in opaques}
    exec(compile(source, file, "exec"), namespace)
    result_type = to_numba(language.SCALARS[returns]) if returns else types.void
    arguments = [to_numba(language.parse_type(text)) for text in signature]
    dispatcher = njit(result_type(*arguments), nogil=True, no_cfunc_wrapper=True, **_OPTIONS)(namespace["kernel"])
    (result,) = dispatcher.overloads.values()
    return serialize.dumps(result._reduce()), *_ready(result)


def _ready(result: Any) -> tuple[Callable[..., Any], int]:
    return result.entry_point, result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


@cache
def _context() -> Any:
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    from rushlight.kernels.cpu import numba_types  # noqa: F401 - defines the types that cached kernels name

    context = cpu_target.target_context
    rtsys.initialize(context)
    return context


def _for_numba(value: Any, jitted: dict[Any, Any]) -> Any:
    """What a name in a kernel is to numba."""
    from rushlight.kernels.cpu.numba_types import as_intrinsic, to_numba

    if isinstance(value, language.Type):
        return to_numba(value)
    if isinstance(value, language.Intrinsic):
        return as_intrinsic(value)
    if isinstance(value, language.LibraryFunction):
        return value.function
    return _jit(value, jitted) if isinstance(value, python_types.FunctionType) else value


def _jit(function: Callable[..., Any], jitted: dict[Any, Any]) -> Any:
    """njit a plain function together with the plain functions it calls."""
    from numba import njit

    if function in jitted:
        return jitted[function]
    kernel_kinds = language.Type | language.Intrinsic | language.LibraryFunction | python_types.FunctionType
    called = {
        name: _for_numba(value, jitted)
        for name, value in named_values(function).items()
        if isinstance(value, kernel_kinds) and value is not function
    }
    copy = python_types.FunctionType(
        function.__code__,
        {**function.__globals__, **called},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    jitted[function] = njit(**_OPTIONS, **_INNER)(copy)
    return jitted[function]
