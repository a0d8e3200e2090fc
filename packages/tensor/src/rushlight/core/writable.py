"""Memory that may not be written: numpy's read-only arrays, files mapped for reading, arrays of JAX.

Native loops take addresses and do not ask whether they may write; to write into such memory would end the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.op import Op

# Calls on fewer elements are computed by numpy, which asks by itself; the question would cost them 100 ns.
_ASK_FROM = 512


def asking(op: Op, numel: int, run: Callable) -> Callable:
    """The plan of a call that writes into operand 0, which has `numel` elements, behind the question whether it may."""
    if numel < _ASK_FROM:
        return run

    def asked(target: Any, *operands: Any) -> Any:
        if not target._array.flags.writeable:
            refuse(op)
        return run(target, *operands)

    return asked


def refuse(op: Op, place: int = 0) -> None:
    """Raise the error of writing into read-only memory."""
    raise RuntimeError(
        f"{op.name}: {op.operand_name(place)} lies in memory that is read-only, such as a numpy array that is not "
        "writeable; write into a copy: tensor.clone()"
    )
