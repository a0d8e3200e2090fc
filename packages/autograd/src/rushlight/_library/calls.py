"""Calls of operators that are recorded, or made inside of a transform."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import rushlight
from rushlight.autograd import Function
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.library import CustomOpDef


class Call(NamedTuple):
    """What is called with the arguments before it: the last ones are given by name, and some were `sequences`."""

    op: CustomOpDef
    names: tuple[str, ...]
    sequences: tuple[tuple[type, int] | None, ...]

    def arguments(self, flat: Sequence[Any]) -> tuple[tuple, dict]:
        """The arguments by position and by name."""
        values = self.nested(flat)
        count = len(values) - len(self.names)
        return tuple(values[:count]), dict(zip(self.names, values[count:]))

    def nested(self, flat: Sequence[Any]) -> list:
        """Something for each tensor or other argument, in lists where the arguments are."""
        rest = iter(flat)
        return [next(rest) if one is None else one[0]([next(rest) for _ in range(one[1])]) for one in self.sequences]


def flattened(values: Sequence[Any]) -> tuple[list, tuple[tuple[type, int] | None, ...]]:
    """Arguments with those in lists of tensors one by one, and which lists there were."""
    flat: list[Any] = []
    sequences: list[tuple[type, int] | None] = []
    for x in values:
        several = type(x) in (list, tuple) and any(isinstance(item, Tensor) for item in x)
        sequences.append((type(x), len(x)) if several else None)
        flat += x if several else [x]
    return flat, tuple(sequences)


class Differentiable(Function):
    """The call of an operator that is recorded, or made inside of a transform: `*arguments, call`, with the call last,
    so that the places of `needs_input_grad` are those of the arguments.
    """

    @staticmethod
    def forward(*values: Any) -> Any:
        *flat, call = values
        return call.op._run(*call.arguments(flat))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        *flat, ctx._call = inputs
        if ctx._call.op._setup_context is not None:
            args, kwargs = ctx._call.arguments(flat)
            named = {"keyword_only_inputs": kwargs} if kwargs else {}
            with _needs_of_arguments(ctx):
                ctx._call.op._setup_context(ctx=ctx, inputs=args, output=output, **named)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        op, names, sequences = ctx._call
        if op._backward is None:
            raise RuntimeError(f"Trying to backward through {op} but no autograd formula was registered. Please "
                               "use register_autograd to add one.")
        with _needs_of_arguments(ctx):
            found = op._backward(ctx, *grads)
        found = (*(found if isinstance(found, tuple) else (found,)), *[None] * len(names))
        if len(found) != len(sequences):
            raise RuntimeError(f"{op}: the gradient returned an incorrect number of gradients (expected "
                               f"{len(sequences) - len(names)}, got {len(found) - len(names)})")
        flat: list[Any] = []
        for x, one in zip(found, sequences):
            several = x if x is not None and one is not None else [x] * (1 if one is None else one[1])
            if one is not None and len(several) != one[1]:
                raise RuntimeError(f"{op}: {len(several)} gradients for a list of {one[1]} tensors")
            flat += several
        return (*flat, None)

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *given: Any) -> Any:
        *flat, call = given
        args, kwargs = call.arguments(flat)
        if call.op._vmap is not None:
            return call.op._vmap(info, tuple(call.nested(in_dims[:-1])), *args, **kwargs)
        made = []
        for k in range(info.batch_size):
            sample = [x if dim is None else x.select(dim, k) for x, dim in zip(flat, in_dims[:-1])]
            args, kwargs = call.arguments(sample)
            made.append(call.op(*args, **kwargs))
        if isinstance(made[0], (tuple, list)):
            return tuple([rushlight.stack(column) for column in zip(*made)]), (0,) * len(made[0])
        return rushlight.stack(made), 0


@contextlib.contextmanager
def _needs_of_arguments(ctx: Any) -> Iterator[None]:
    """While functions of the operator look at `needs_input_grad`: it has a place for each argument, and no others."""
    needs = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(ctx._call.nested(needs[:-1]))
    try:
        yield
    finally:
        ctx.needs_input_grad = needs
