"""Faults of the compiler: the call is answered by its operations one by one, which is right, but nobody would look for
the fault if nobody heard of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

from rushlight.compiler import _config, _logs, _verify
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph

_told: set[tuple[str, type]] = set()


def report(what: str, error: Exception) -> None:
    """Warn of a fault, once; raise it where faults are looked for: in the tests, under `RUSHLIGHT_COMPILE_VERIFY=1`."""
    text = f"{what}: {type(error).__name__}: {error}"
    if _config.raise_internal_errors or _verify.wanted():
        raise AssertionError(text) from error
    _logs.log("aborts", text)
    if (what, type(error)) not in _told:
        _told.add((what, type(error)))
        warnings.warn(f"{text}. This is a fault of the compiler or its backend: calls give the right results, but run "
                      "operation by operation. RUSHLIGHT_COMPILE_VERIFY=1 raises it; please report what that says",
                      RuntimeWarning, stacklevel=2)


def report_unless_raised(what: str, error: Exception, again: Callable[[], tuple[Graph | None, list]]) -> None:
    """`report` the error of a program, unless its graph on its inputs, which `again` gives, raises as well: then it is
    an error of the user's program. That there is no memory left is no fault, either.
    """
    if isinstance(error, MemoryError):
        return
    try:
        graph, inputs = again()
        if graph is None:
            return
        interpret(graph, inputs)
    except Exception:
        return
    report(what, error)
