"""Compiles kernel source, and keeps the machine code on disk.

`compile_source(source, signature, opaques)` returns a native callable that releases the GIL. Order of search: this
process, the directory of `store`, our own translation (`translate`, `objects`: 10 to 300 ms), numba for what that does
not know (0.1 to 4 s, and a second for the first). A kernel on disk loads in a millisecond.

The name in the directory is a digest of everything that decides the machine code: source, signature, opaque functions,
versions of llvmlite and Python, CPU name and features, our code generator.

`RUSHLIGHT_KERNELS=numba` has numba compile all kernels; `made_by(kernel)` says who did.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from rushlight.core.scalar import Opaque

_kernels: dict[tuple[Any, ...], Callable[..., Any]] = {}
_addresses: dict[Callable[..., Any], int] = {}
_makers: dict[Callable[..., Any], str] = {}
# Re-entrant, because a finalizer or signal handler that runs while this thread compiles may need a kernel, too.
lock = threading.RLock()
_statistics = {"memory": 0, "disk": 0, "compiled": 0}
# Called with the source of each kernel that is compiled or loaded, and with what `made_by` says of it.
listeners: list[Callable[[str, str], None]] = []

if hasattr(os, "register_at_fork"):
    # A fork waits for the kernel in the making: LLVM's own lock would stay locked in the child for ever.
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def compile_statistics() -> dict[str, int]:
    """How many kernels this process found in memory, loaded from disk and compiled."""
    return dict(_statistics)


def address_of(kernel: Callable[..., Any]) -> int:
    """The address of a compiled kernel's native function, for `call_kernel`."""
    return _addresses[kernel]


def made_by(kernel: Callable[..., Any]) -> str:
    """Who translated a kernel: "llvm" (we did) or "numba"."""
    return _makers[kernel]


def compile_source(
    source: str, signature: Sequence[str], opaques: Sequence[Opaque] = (), returns: str = "", simple: bool = False
) -> Callable[..., Any]:
    """Native code of the function `kernel` in `source`.

    `signature` has "u64" for a number, "*f32" for an array passed by address and "arrays" for a tuple of arrays;
    `returns` is the result's type if it has one. The callable checks nothing: passing anything but arrays that the
    kernel's index range fits is a crash. A `simple` kernel is ready sooner: it has no loop over many
    elements, or says itself what is done with vectors.
    """
    key: tuple[Any, ...] = (source, tuple(signature), returns, simple)
    if opaques:
        from rushlight.kernels.cpu.fingerprint import fingerprint

        key = (*key, *[fingerprint(opaque.function) for opaque in opaques])
    kernel = _kernels.get(key)
    if kernel is not None:
        _statistics["memory"] += 1
        return kernel
    with lock:
        if key not in _kernels:
            kernel, address, maker = _load_or_compile(key, source, signature, opaques, returns, simple)
            _addresses[kernel], _makers[kernel], _kernels[key] = address, maker, kernel
            for listener in listeners:
                listener(source, maker)
        return _kernels[key]


def _load_or_compile(
    key: tuple[Any, ...],
    source: str,
    signature: Sequence[str],
    opaques: Sequence[Opaque],
    returns: str,
    simple: bool,
) -> tuple[Callable[..., Any], int, str]:
    if os.environ.get("RUSHLIGHT_KERNELS") != "numba":
        from rushlight.kernels.cpu import objects, store
        from rushlight.kernels.cpu.fingerprint import digest_of

        digest = digest_of(key)
        code = store.read(digest)
        _statistics["disk"] += bool(code)
        if code is None:
            code = _translated(source, signature, opaques, returns, simple, digest)
            _statistics["compiled"] += bool(code)
            store.write(digest, code)  # an empty file says that numba has to do it
        if code:
            return *objects.load_object(code, digest), "llvm"
    return *_by_numba(key, source, signature, opaques, returns), "numba"


def _translated(
    source: str, signature: Sequence[str], opaques: Sequence[Opaque], returns: str, simple: bool, digest: str
) -> bytes:
    """The object code of a kernel; nothing where our translation does not know what its source says."""
    from rushlight.kernels.cpu import language, objects, translate
    from rushlight.kernels.cpu.answer import add_answer

    args = [language.parse_type(text) for text in signature]
    result = language.SCALARS[returns] if returns else language.types.void
    try:
        module = translate.translate(source, f"kernel_{digest}", args, result, _names(), opaques)
    except translate.Untranslatable:
        return b""
    add_answer(module, digest, args, result)
    return objects.make_simple_object(str(module)) if simple else objects.make_object(str(module))


def _by_numba(
    key: tuple[Any, ...], source: str, signature: Sequence[str], opaques: Sequence[Opaque], returns: str
) -> tuple[Callable[..., Any], int]:
    from rushlight.kernels.cpu import numba_route, store
    from rushlight.kernels.cpu.fingerprint import digest_of, numba_environment

    digest = digest_of(key, *numba_environment())
    code = store.read(digest)
    if code is not None:
        _statistics["disk"] += 1
        return numba_route.load(code)
    code, kernel, address = numba_route.compile_kernel(source, signature, returns, _names(), opaques, digest)
    _statistics["compiled"] += 1
    store.write(digest, code)
    return kernel, address


@cache
def _names() -> dict[str, Any]:
    """What sources of kernels can name."""
    from rushlight.kernels.cpu import gemm_tile, intrinsics, team_native, tiles, vectors, winograd_tiles
    from rushlight.kernels.cpu.language import few

    modules = (intrinsics, vectors, gemm_tile, tiles, winograd_tiles)
    found = {name: value for module in modules for name, value in module.NAMESPACE.items()}
    found |= {"team_work": team_native.work, "team_launch": team_native.launch}
    return found | {"min": min, "max": max, "abs": abs, "complex": complex, "few": few}
