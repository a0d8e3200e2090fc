"""Which sizes are open, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rushlight
from rushlight.core.meta import Symbolic
from rushlight.core.tensor import Tensor
from rushlight.export import ExportedProgram
from rushlight.export.build import argument_names
from rushlight.export.graph_signature import InputKind, OutputKind, TensorArgument
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

Axes = Mapping[str, Mapping[int, str] | Sequence[int]]


class OpenSizes:
    """What a caller says of sizes: `shapes` is the argument `dynamic_shapes` of `export.export`, `labels` has the names
    of sizes by tensor of the arguments and by dimension.
    """

    def __init__(self, model: Any, args: tuple, kwargs: dict, dynamic_shapes: Any, dynamic_axes: Axes | None,
                 input_names: Sequence[str] | None) -> None:
        leaves, spec = tree_flatten((args, kwargs))
        if dynamic_shapes is not None:
            self.shapes = tree_map(_opened, dynamic_shapes)
            given = _by_argument(model, args, kwargs, dynamic_shapes)
            values = [*args, *kwargs.values()]
            self.labels = [x for value, part in zip(values, given) for x in _labels(value, part)]
            return
        names = argument_names(model, spec)
        tensors = [name for name, leaf in zip(names, leaves) if isinstance(leaf, Tensor)]
        called = dict(zip(tensors, input_names or ()))
        axes = {name: axis_labels(called.get(name, name), dynamic_axes) for name in tensors}
        self.labels = list(axes.values())
        parts = [dict.fromkeys(axes[name], rushlight.export.Dim.DYNAMIC) if axes.get(name) else None for name in names]
        positional, keywords = tree_unflatten(parts, spec)
        self.shapes = (*positional, *keywords.values()) if any(parts) else None


def _opened(x: Any) -> Any:
    """A str is the name of an open size."""
    return rushlight.export.Dim.DYNAMIC if isinstance(x, str) else x


def _by_argument(model: Any, args: tuple, kwargs: dict, shapes: Any) -> list:
    """The part of each argument."""
    if not isinstance(shapes, Mapping):
        return list(shapes)
    flat = tree_flatten((tuple([0] * len(args)), dict.fromkeys(kwargs, 0)))[1]
    return [shapes.get(name) for name in argument_names(model, flat)]


def _labels(value: Any, part: Any) -> list[dict[int, str]]:
    """The names of the sizes of each tensor in an argument."""
    if isinstance(value, Tensor):
        pairs = part.items() if isinstance(part, Mapping) else enumerate(part or ())
        return [{d: label for d, label in pairs if isinstance(label, str)}]
    if isinstance(value, Mapping):
        return [x for key, item in value.items() for x in _labels(item, None if part is None else part[key])]
    if isinstance(value, (list, tuple)):
        return [x for i, item in enumerate(value) for x in _labels(item, None if part is None else part[i])]
    return []


def axis_labels(name: str, dynamic_axes: Axes | None) -> dict[int, str]:
    """The open axes of an input or output, with their names."""
    axes = (dynamic_axes or {}).get(name) or {}
    if isinstance(axes, Mapping):
        return dict(axes)
    return {axis: f"{name}_dynamic_axes_{i}" for i, axis in enumerate(axes, 1)}


def axis_names(program: ExportedProgram, labels: list[dict[int, str]], outputs: list[dict[int, str]]
               ) -> dict[Symbolic, str]:
    """The names of open sizes: those that the caller gave to sizes of inputs and outputs, the first one where several
    sizes are equal, and what follows for sums and products of them.
    """
    signature = program.graph_signature
    specs = [s for s in signature.input_specs if isinstance(s.arg, TensorArgument)]
    users = [v for s, v in zip(specs, program.graph.inputs) if s.kind is InputKind.USER_INPUT]
    results = [s for s in signature.output_specs if isinstance(s.arg, TensorArgument)]
    returned = [v for s, v in zip(results, program.graph.outputs) if s.kind is OutputKind.USER_OUTPUT]
    found: dict[Symbolic, str] = {}
    for value, label in [*zip(users, labels), *zip(returned, outputs)]:
        for d, size in enumerate(value.meta.shape):
            if isinstance(size, Symbolic) and d in label:
                found.setdefault(size, label[d])
    atoms = {next(iter(size.terms))[0]: name for size, name in found.items() if _is_atom(size)}
    values = [*program.graph.inputs, *program.graph.outputs]
    for size in [size for v in values for size in v.meta.shape if isinstance(size, Symbolic)]:
        found.setdefault(size, size.facts.text(size.terms, lambda atom: atoms.get(atom.number, atom.name)))
    return found


def _is_atom(size: Any) -> bool:
    """Is it one number of its own?"""
    return len(size.terms) == 1 and all(len(m) == 1 and c == 1 for m, c in size.terms.items())
