"""`summary`: what a model is made of, and what one call of it costs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.core import dispatch
from rushlight.core.op import Op
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import is_lazy

# Multiply-adds of the operations that are made of products, from operands and (first) result.
_PRODUCTS: dict[str, Callable[[tuple, Tensor], int]] = {
    "linear": lambda x, y: y.numel() * x[1].shape[-1],
    "matmul": lambda x, y: y.numel() * x[0].shape[-1],
    "conv": lambda x, y: y.numel() * prod(x[1].shape[1:]),
    "conv_transpose": lambda x, y: x[0].numel() * prod(x[1].shape[1:]),
    # Scores and weighted sums: a product of length `e` and one of length `s` for every pair.
    "attention": lambda x, y: (x[0].numel() + y.numel()) * x[1].shape[-2],
    # The gates' share of the input is a `linear` before it; here every time step multiplies by the hidden weights.
    "recurrent": lambda x, y: prod(x[0].shape[:-1]) * (x[3].numel() + (0 if x[5] is None else x[5].numel())),
}
_PRODUCTS["recurrent_training"] = _PRODUCTS["recurrent"]


@dataclass
class Row:
    """One module of a summary, with all that lies inside it."""

    name: str
    kind: str
    depth: int
    leaf: bool
    parameters: int
    shared_with: str | None = None
    outputs: list[tuple[int, ...]] = field(default_factory=list)
    multiply_adds: int = 0
    output_bytes: int = 0
    calls: int = 0

    @property
    def parent(self) -> str | None:
        """The name of the module around this one; None for the model itself."""
        return self.name.rpartition(".")[0] if self.name else None


@dataclass
class Summary:
    """What `summary` found: a `Row` per module and the sums; prints as a table."""

    rows: list[Row]
    trainable_parameters: int
    state_bytes: int
    input_bytes: int

    @property
    def parameters(self) -> int:
        """How many parameters the model has, shared ones counted once."""
        return self.rows[0].parameters

    @property
    def multiply_adds(self) -> int:
        """Multiplications with an addition that a call takes in products, convolutions, attention and recurrence."""
        return self.rows[0].multiply_adds

    @property
    def output_bytes(self) -> int:
        """Bytes of the results of all layers that have no children: about what training keeps for the gradient."""
        return sum(row.output_bytes for row in self.rows if row.leaf and row.shared_with is None)

    def __str__(self) -> str:
        head = ("Layer", "Output shape", "Parameters", "Multiply-adds", "Output memory")
        table = [head, *map(_cells, self.rows)]
        widths = [max(len(cells[i]) for cells in table) for i in range(len(head))]
        lines = [
            "  ".join(c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))).rstrip()
            for cells in table
        ]
        rule = "-" * max(map(len, lines))
        sums = [
            f"parameters      {self.parameters:,} ({self.trainable_parameters:,} trainable)",
            f"multiply-adds   {self.multiply_adds:,}",
            f"memory          {_bytes(self.state_bytes)} parameters and buffers, {_bytes(self.input_bytes)} input, "
            f"{_bytes(self.output_bytes)} outputs of layers",
        ]
        return "\n".join([lines[0], rule, *lines[1:], rule, *sums])

    __repr__ = __str__


def _cells(row: Row) -> tuple[str, ...]:
    label = "  " * row.depth + (f"{row.name.rpartition('.')[2]}: " if row.name else "") + row.kind
    if row.shared_with is not None:
        return label, f"(is {row.shared_with})", "", "", ""
    shapes = ", ".join(str(list(shape)) for shape in dict.fromkeys(row.outputs)) or "-"
    if row.calls > 1:
        shapes += f", {row.calls} calls"
    return label, shapes, f"{row.parameters:,}", f"{row.multiply_adds:,}", _bytes(row.output_bytes)


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"


def summary(model: Module, input: Any) -> Summary:
    """The layers of a model with the shapes of their results, parameters, multiply-adds and memory, by one call of it.

    `input` is a tensor, a tuple or list of arguments, a dict of keyword arguments, or the sizes of a tensor. The call
    runs in evaluation mode without gradients, and leaves the model's state, mode and hooks and the random numbers as
    they were. A row counts all that lies inside its module; a module or parameter that is used twice counts once.

    Example:
        >>> from rushlight import nn
        >>> print(nn.utils.summary(nn.Sequential(nn.Linear(4, 8), nn.ReLU()), (2, 4)))
        Layer        Output shape  Parameters  Multiply-adds  Output memory
        -------------------------------------------------------------------
        Sequential   [2, 8]                40             64           64 B
          0: Linear  [2, 8]                40             64           64 B
          1: ReLU    [2, 8]                 0              0           64 B
        -------------------------------------------------------------------
        parameters      40 (40 trainable)
        multiply-adds   64
        memory          160 B parameters and buffers, 32 B input, 128 B outputs of layers
    """
    args, kwargs = _arguments(input)
    if any(map(is_lazy, (*model.parameters(), *model.buffers()))):
        model = copy.deepcopy(model)
    named = list(_rows(model))
    rows = {id(module): row for module, row in named if row.shared_with is None}
    with ExitStack() as stack:
        stack.enter_context(rushlight.no_grad())
        stack.enter_context(rushlight.random.fork_rng())
        stack.enter_context(unchanged(model))
        inside: list[Row] = []
        for module in model.modules():
            stack.enter_context(module.register_forward_pre_hook(_entering(rows[id(module)], inside)))
            stack.enter_context(module.register_forward_hook(_leaving(rows[id(module)], inside), always_call=True))
        stack.enter_context(dispatch.push(_Counter(inside)))
        model(*args, **kwargs)
    _complete(named)
    parameters = list(model.parameters())
    return Summary(
        [row for _, row in named],
        sum(p.numel() for p in parameters if p.requires_grad),
        _size((*parameters, *model.buffers())),
        _size(tensors_in((args, kwargs))),
    )


def _arguments(input: Any) -> tuple[tuple, dict]:
    """The arguments of the call."""
    if isinstance(input, (tuple, list)) and input and all(type(size) is int for size in input):
        return (rushlight.zeros(*input),), {}
    if isinstance(input, dict):
        return (), input
    return (tuple(input) if isinstance(input, (tuple, list)) else (input,)), {}


def _rows(model: Module) -> Iterator[tuple[Module, Row]]:
    """A row for every name of a module, in the order in which a model prints."""
    first: dict[int, str] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        depth = name.count(".") + 1 if name else 0
        before = first.setdefault(id(module), name)
        yield module, Row(name, module._get_name(), depth, not module._modules, 0, None if before == name else before)


def _complete(named: list[tuple[Module, Row]]) -> None:
    """What is known after the call only: it gives lazy layers their sizes and names."""
    for module, row in reversed(named):
        row.kind, row.parameters = module._get_name(), sum(p.numel() for p in module.parameters())
        if not (row.calls or row.leaf):  # a list of modules is not called itself
            row.multiply_adds = sum(inner.multiply_adds for _, inner in named if inner.parent == row.name)


def _entering(row: Row, inside: list[Row]) -> Callable:
    def enter(module: Module, args: tuple) -> None:
        row.calls += 1
        inside.append(row)

    return enter


def _leaving(row: Row, inside: list[Row]) -> Callable:
    def leave(module: Module, args: tuple, output: Any) -> None:
        inside.pop()
        found = list(tensors_in(output))
        row.outputs += [tuple(tensor.shape) for tensor in found]
        row.output_bytes += _size(found)

    return leave


class _Counter:
    """The handler that counts products for all modules whose calls are under way."""

    def __init__(self, inside: list[Row]) -> None:
        self.inside = inside

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        with dispatch.below():
            result = op.apply(operands, params)
        if op.name in _PRODUCTS:
            count = _PRODUCTS[op.name](operands, result[0] if isinstance(result, tuple) else result)
            for row in {id(row): row for row in self.inside}.values():
                row.multiply_adds += count
        return result


@contextmanager
def unchanged(model: Module) -> Iterator[None]:
    """In evaluation mode inside the block; afterwards modes and buffers are as before."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(m, name, b, b.clone()) for m in model.modules() for name, b in m._buffers.items() if b is not None]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for module, name, buffer, value in buffers:
            module._buffers[name] = buffer
            if not buffer.is_meta:
                buffer.copy_(value)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested tuples, lists, dicts and packed sequences."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)


def _size(tensors: Iterable[Tensor]) -> int:
    """Bytes of all tensors."""
    return sum(tensor.nbytes for tensor in tensors)
