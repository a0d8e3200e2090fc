"""Which sizes are open, and what they are called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import rushlight
from rushlight.core.meta import Symbolic
from rushlight.core.tensor import Tensor
from rushlight.export import ExportedProgram
from rushlight.export.build import argument_names
from rushlight.export.graph_signature import InputKind, TensorArgument
from rushlight.utils._pytree import tree_flatten


def named_shapes(
    model: Any, args: tuple, kwargs: dict, dynamic_shapes: Any, dynamic_axes: Any, input_names: Any
) -> Any:
    """The `dynamic_shapes` that `export.export` takes, with names of sizes replaced by what leaves them open."""
    if dynamic_shapes is not None:
        return _opened(dynamic_shapes)
    if not dynamic_axes:
        return None
    leaves, spec = tree_flatten((args, kwargs))
    names = argument_names(model, spec)
    tensors = [name for name, leaf in zip(names, leaves) if isinstance(leaf, Tensor)]
    called = dict(zip(input_names or (), tensors))
    if len(leaves) != len(args) + len(kwargs):
        raise ValueError("onnx.export: dynamic_axes with arguments inside containers; use dynamic_shapes")
    found: dict[str, Any] = dict.fromkeys(names)
    for name, axes in dynamic_axes.items():
        own = called.get(name, name)
        if own in found:
            found[own] = dict.fromkeys(axes, rushlight.export.Dim.DYNAMIC)
    return found


def _opened(shapes: Any) -> Any:
    """A str is the name of an open size."""
    if isinstance(shapes, str):
        return rushlight.export.Dim.DYNAMIC
    if isinstance(shapes, Mapping):
        return {key: _opened(value) for key, value in shapes.items()}
    return type(shapes)([_opened(x) for x in shapes]) if type(shapes) in (list, tuple) else shapes


def axis_names(program: ExportedProgram, dynamic_shapes: Any, dynamic_axes: Any, input_names: Any
               ) -> dict[Symbolic, str]:
    """The names of open sizes: those that the caller gave."""
    specs = [s for s in program.graph_signature.input_specs if isinstance(s.arg, TensorArgument)]
    inputs = [(s.arg.name, v) for s, v in zip(specs, program.graph.inputs) if s.kind is InputKind.USER_INPUT]
    found: dict[Symbolic, str] = {}
    for i, (name, value) in enumerate(inputs):
        own = (input_names or ())[i] if i < len(input_names or ()) else name
        axes = dict((dynamic_axes or {}).get(own) or {}) if isinstance((dynamic_axes or {}).get(own), Mapping) else {}
        for d, size in enumerate(value.meta.shape):
            if isinstance(size, Symbolic) and d in axes:
                found.setdefault(size, axes[d])
    return found
