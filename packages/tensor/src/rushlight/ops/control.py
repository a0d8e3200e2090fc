"""Control flow as functions: cond, while_loop. Eagerly they are `if` and `while`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.front import function
from rushlight.core.tensor import Tensor


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise RuntimeError(f"{name}: expected a bool or a tensor with one element, got shape {tuple(value.shape)}")
    return bool(value)


@function(method=False, out=False)
def cond(
    pred: bool | Tensor, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    Raises RuntimeError when `pred` is a tensor with several elements.

    Example:
        >>> import rushlight
        >>> rushlight.cond(rushlight.tensor(True), lambda x: x + 1, lambda x: x - 1, (rushlight.zeros(1),))
        tensor([1.])
    """
    return (true_fn if _truth("cond", pred) else false_fn)(*operands)


@function(method=False, out=False)
def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> tuple:
    """Replace the carried values by `body_fn(*values)` as long as `cond_fn(*values)` holds; returns the last ones.

    Raises RuntimeError when the body returns another number of values.

    Example:
        >>> import rushlight
        >>> rushlight.while_loop(lambda i: i < 3, lambda i: (i + 1,), (rushlight.tensor(0),))
        (tensor(3),)
    """
    values = tuple(carried_inputs)
    while _truth("while_loop", cond_fn(*values)):
        found = body_fn(*values)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(values):
            raise RuntimeError(f"while_loop: body_fn must return {len(values)} values as it takes, got {len(found)}")
        values = found
    return values
