"""What the language of scalar definitions is made of: functions, symbols, and functions compiled as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Function:
    """A named operation on scalars.

    `evaluate` computes it with numpy. `result` is the typing rule the tracer applies: "same" (operands share a dtype,
    so does the result), "float" (the same, floating or complex only), "real" (the same, real floating only),
    "integer" (integers and bool only), "bool" (a comparison), "part" (complex to its real counterpart), "special"
    (has its own rule in the tracer).
    """

    def __init__(self, name: str, evaluate: Callable[..., Any], result: str = "float", doc: str = ""):
        self.name = name
        self.evaluate = evaluate
        self.result = result
        self.__doc__ = doc

    def __call__(self, *args: Any) -> Any:
        for arg in args:
            if isinstance(arg, Symbol):
                return arg.apply(self, args)
        return self.evaluate(*args)

    def __repr__(self) -> str:
        return f"<scalar function {self.name}>"


class Symbol:
    """A scalar that is not known yet. Operators build the expression; branching on one is an error.

    The operators are attached in `rushlight.core.scalar`, where the functions are.
    """

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars hand the operation over to our reflected operators
    dtype: np.dtype

    def apply(self, function: Function, args: tuple[Any, ...]) -> Symbol:
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError(
            "a scalar definition branched on a value it computes; use select(condition, a, b) instead of if/and/or/not"
        )

    __hash__ = object.__hash__


class Opaque(Function):
    """A scalar function with loops and branches, compiled as it is; in the expression graph it is one call.

    `function` may use `math`, Python arithmetic and other opaque functions. Its float literals are float64, so by
    default it computes in float64 whatever comes in (`compute="float64"`) and the result is rounded to the operand's
    dtype once. With `compute="same"` the operands come as they are (integer algorithms).
    """

    def __init__(self, function: Callable[..., Any], compute: str = "float64", result: str = "same"):
        self.function = function
        self.compute = compute
        super().__init__(function.__name__, self._evaluate, result, function.__doc__ or "")

    def __call__(self, *args: Any) -> Any:
        if len(args) and all(type(arg) is float for arg in args):
            return self.function(*args)  # one opaque function calling another while it runs as plain Python
        return super().__call__(*args)

    def _evaluate(self, *args: Any) -> Any:
        dtype = np.result_type(*args)
        out = np.dtype(bool) if self.result == "bool" else dtype
        inner = np.dtype(np.float64) if self.compute == "float64" else dtype
        arrays = np.broadcast_arrays(*(np.asarray(arg).astype(inner) for arg in args))
        values = [self.function(*(x.item() for x in row)) for row in zip(*(a.flat for a in arrays), strict=True)]
        return np.array(values, dtype=inner if out.kind != "b" else out).reshape(arrays[0].shape).astype(out)[()]


def opaque(function: Callable[..., Any] | None = None, *, compute: str = "float64", result: str = "same") -> Any:
    """Decorator that makes an `Opaque` function.

    Example:
        >>> from rushlight.core.scalar import opaque
        >>> @opaque
        ... def collatz(n):
        ...     steps = 0.0
        ...     while n > 1:
        ...         n = n / 2 if n % 2 == 0 else 3 * n + 1
        ...         steps += 1
        ...     return steps
        >>> collatz(27.0)
        111.0
    """
    if function is None:
        return lambda f: Opaque(f, compute, result)
    return Opaque(function, compute, result)
