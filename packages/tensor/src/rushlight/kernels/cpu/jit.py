"""Compiles kernel source with numba, and keeps the machine code on disk.

`compile_source(source, signature, opaques)` returns a native callable that releases the GIL. Order of search: this
process, `cache_dir()`, numba. A cached kernel loads in about 2 ms (numba's own import, 0.2 s, comes once), compiling
takes 70 ms and more.

The file name is a digest of everything that decides the machine code: source, signature, opaque functions, numba,
llvmlite and Python versions, CPU name and features, our code generator. So a stale file cannot be found, and two
processes that write the same file write the same code; writing is a rename. A cache directory that cannot be used is
not an error: kernels then live in memory.

A cached kernel is machine code inside a pickle, so whoever can write one can run code here. Only files and a directory
that belong to this user (or to root) and that not everybody may write to are used.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import pickle
import platform
import stat
import tempfile
import threading
import types as python_types
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy

from rushlight.core.scalar import Opaque

# What the same source compiles to depends on these, so their text is part of every key.
_OUR_FILES = (
    "intrinsics.py", "atomics.py", "jit.py", "team_native.py", "team_words.py", "vectors.py", "tiles.py",
    "winograd_tiles.py", "gemm_tile.py",
)  # fmt: skip

_kernels: dict[tuple[Any, ...], Callable[..., Any]] = {}
_addresses: dict[Callable[..., Any], int] = {}
# Re-entrant, because a finalizer or signal handler that runs while this thread compiles may need a kernel, too.
_lock = threading.RLock()
_statistics = {"memory": 0, "disk": 0, "compiled": 0}

if hasattr(os, "register_at_fork"):
    # A fork waits for the kernel in the making: numba's own lock would stay locked in the child for ever.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def cache_dir() -> Path | None:
    """The directory for compiled kernels, from `RUSHLIGHT_CACHE_DIR` (default `~/.cache/rushlight`; empty: no cache
    on disk)."""
    setting = os.environ.get("RUSHLIGHT_CACHE_DIR")
    if setting == "":
        return None
    try:
        return (
            Path(setting).expanduser()
            if setting
            else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rushlight"
        )
    except RuntimeError:  # no home directory
        return None


@cache
def _usable(directory: Path) -> bool:
    """Make a cache directory; may kernels be kept in it?"""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = _is_private(directory.stat())
    except OSError:
        return False
    if not private:
        warnings.warn(
            f"compiled kernels are not kept in {directory}: it belongs to another user or everybody may write to it, "
            "and who writes there could run code in this process. "
            f"Run chmod o-w {directory}, or set RUSHLIGHT_CACHE_DIR to a directory of your own",
            RuntimeWarning,
            stacklevel=2,
        )
    return private


def _is_private(status: os.stat_result) -> bool:
    """Can nobody but this user (or one of its groups, or root) have written this file or directory?"""
    if not hasattr(os, "geteuid"):
        return True  # Windows keeps users apart by the permissions of their home directories
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & stat.S_IWOTH


def compile_statistics() -> dict[str, int]:
    """How many kernels this process found in memory, loaded from disk and compiled."""
    return dict(_statistics)


def address_of(kernel: Callable[..., Any]) -> int:
    """The address of a compiled kernel's native function, for `call_kernel`."""
    return _addresses[kernel]


def compile_source(
    source: str, signature: Sequence[str], opaques: Sequence[Opaque] = (), returns: str = ""
) -> Callable[..., Any]:
    """Native code of the function `kernel` in `source`.

    `signature` has "u64" for a number, "*f32" for an array passed by address and "arrays" for a tuple of arrays;
    `returns` is the result's type if it has one. The callable checks nothing: passing anything but arrays that the
    kernel's index range fits is a crash.
    """
    key = (source, tuple(signature), returns, *(fingerprint(opaque.function) for opaque in opaques))
    kernel = _kernels.get(key)
    if kernel is not None:
        _statistics["memory"] += 1
        return kernel
    with _lock:
        if key not in _kernels:
            _kernels[key] = _load_or_compile(key, source, signature, opaques, returns)
        return _kernels[key]


def _load_or_compile(
    key: tuple[Any, ...], source: str, signature: Sequence[str], opaques: Sequence[Opaque], returns: str
) -> Callable[..., Any]:
    digest = hashlib.sha256(repr((key, _environment())).encode()).hexdigest()
    directory = cache_dir()
    path = directory / "kernels" / digest[:2] / f"{digest}.bin" if directory and _usable(directory) else None
    result = _read(path)
    if result is None:
        result = _compile(source, signature, opaques, returns, digest)
        _write(path, result)
        _statistics["compiled"] += 1
    else:
        _statistics["disk"] += 1
    kernel = result.entry_point
    _addresses[kernel] = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return kernel


@cache
def _environment() -> tuple[str, ...]:
    import llvmlite
    import numba
    from llvmlite import binding

    config = numba.config
    features = config.CPU_FEATURES if config.CPU_FEATURES is not None else binding.get_host_cpu_features().flatten()
    cpu = config.CPU_NAME or binding.get_host_cpu_name()
    versions = (platform.python_version(), numba.__version__, llvmlite.__version__, numpy.__version__)
    ours = [hashlib.sha256(Path(__file__).with_name(name).read_bytes()).hexdigest() for name in _OUR_FILES]
    return (*versions, *ours, platform.machine(), platform.system(), cpu, features)


@cache
def _numba_context() -> Any:
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    from rushlight.kernels.cpu import intrinsics  # noqa: F401 - defines the types that cached kernels name

    context = cpu_target.target_context
    rtsys.initialize(context)
    return context


def _read(path: Path | None) -> Any:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            blob = file.read() if _is_private(os.fstat(file.fileno())) else b""
    except OSError:
        return None
    digest, payload = blob[:32], blob[32:]
    if hashlib.sha256(payload).digest() != digest:
        return None  # another's, or cut short by a full disk or a crash: compile again and overwrite
    from numba.core.compiler import CompileResult

    return CompileResult._rebuild(_numba_context(), *pickle.loads(payload))


def _write(path: Path | None, result: Any) -> None:
    if path is None:
        return
    from numba.core import serialize

    payload = serialize.dumps(result._reduce())
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            temporary = file.name
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def _numba_types(signature: Sequence[str]) -> list[Any]:
    from rushlight.kernels.cpu.intrinsics import SCALARS, ArrayTuple, DataPointer

    known = {**SCALARS, "arrays": ArrayTuple()}
    return [DataPointer(known[text[1:]]) if text.startswith("*") else known[text] for text in signature]


def _compile(source: str, signature: Sequence[str], opaques: Sequence[Opaque], returns: str, digest: str) -> Any:
    from numba import njit, types

    from rushlight.kernels.cpu.gemm_tile import NAMESPACE as GEMM
    from rushlight.kernels.cpu.intrinsics import NAMESPACE, SCALARS
    from rushlight.kernels.cpu.team_native import launch, work
    from rushlight.kernels.cpu.tiles import NAMESPACE as TILES
    from rushlight.kernels.cpu.vectors import NAMESPACE as VECTORS
    from rushlight.kernels.cpu.winograd_tiles import NAMESPACE as WINOGRAD

    _numba_context()
    file = f"<rushlight kernel {digest[:12]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = {
        **NAMESPACE,
        **VECTORS,
        **GEMM,
        **TILES,
        **WINOGRAD,
        "team_work": work,
        "team_launch": launch,
        "__name__": "rushlight.kernels.cpu.intrinsics",
    }  # the module numba names when the code is loaded again
    jitted: dict[Any, Any] = {}
    for opaque in opaques:
        namespace[opaque.name] = _jit_opaque(opaque.function, jitted)
    exec(compile(source, file, "exec"), namespace)
    # contract only: one rounding for a*b+c where the CPU has it. Nothing that changes NaN, infinities, signed zero or
    # the order of sums.
    result_type = SCALARS[returns] if returns else types.void
    options = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "no_cfunc_wrapper": True}
    dispatcher = njit(result_type(*_numba_types(signature)), **options)(namespace["kernel"])
    (result,) = dispatcher.overloads.values()
    return result


def _named_values(function: Callable[..., Any]) -> dict[str, Any]:
    """What a function's code names as globals or closure cells; opaque functions as the plain ones they are made of."""
    names: Mapping[str, Any] = function.__globals__
    found = {name: names[name] for name in function.__code__.co_names if name in names}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    found |= {name: cell.cell_contents for name, cell in cells}
    return {name: value.function if isinstance(value, Opaque) else value for name, value in found.items()}


def _jit_opaque(function: Callable[..., Any], jitted: dict[Any, Any]) -> Any:
    """njit a plain function together with the plain functions it calls."""
    from numba import njit

    from rushlight.kernels.cpu.intrinsics import INNER

    if function in jitted:
        return jitted[function]
    called = {
        name: _jit_opaque(value, jitted)
        for name, value in _named_values(function).items()
        if isinstance(value, python_types.FunctionType) and value is not function
    }
    copy = python_types.FunctionType(
        function.__code__,
        {**function.__globals__, **called},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    jitted[function] = njit(error_model="numpy", fastmath={"contract"}, **INNER)(copy)
    return jitted[function]


def fingerprint(function: Callable[..., Any], seen: frozenset[Any] = frozenset()) -> str:
    """A digest of a function's code, its constants and the plain functions and numbers it refers to."""
    if function in seen:
        return function.__name__
    parts: list[Any] = [_code_parts(function.__code__), function.__defaults__]
    for name, value in sorted(_named_values(function).items()):
        if isinstance(value, python_types.FunctionType):
            parts.append((name, fingerprint(value, seen | {function})))
        elif isinstance(value, int | float | tuple):
            parts.append((name, repr(value)))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _code_parts(code: python_types.CodeType) -> list[Any]:
    constants = [_code_parts(c) if isinstance(c, python_types.CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code.hex(), code.co_varnames, code.co_names, constants]
