"""`onnx.export`: from a model and example arguments to an ONNX model."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import rushlight
from rushlight.compiler.capture import allow
from rushlight.compiler.graph.custom import custom_op, is_operator
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.passes import eliminate_dead
from rushlight.compiler.graph.symbolic import Sym
from rushlight.core import dtypes
from rushlight.core.meta import Symbolic, meta
from rushlight.core.op import REGISTRY, Op
from rushlight.core.tensor import Tensor
from rushlight.export import ExportedProgram
from rushlight.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from rushlight.onnx import exporting, proto
from rushlight.onnx.convert import Drawn, Source, Weight, convert
from rushlight.onnx.dynamic import OpenSizes, axis_labels, axis_names
from rushlight.onnx.errors import OnnxExporterError, OnnxExporterWarning, VerificationError
from rushlight.onnx.program import ONNXProgram
from rushlight.utils._pytree import tree_flatten, tree_map

OPSETS = range(18, 29)
DEFAULT_OPSET = 20


class TrainingMode(IntEnum):
    """The mode in which a model is exported with `dynamo=False`."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(IntEnum):
    """Which operators an exported model may have: only those of ONNX."""

    ONNX = 0


def export(
    model: Any,
    args: tuple[Any, ...] = (),
    f: str | os.PathLike | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Mapping[Any, Callable] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike = ".",
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    training: Any = TrainingMode.EVAL,
    operator_export_type: Any = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type] = False,
    autograd_inlining: bool = True,
) -> ONNXProgram | None:
    """`model(*args, **kwargs)` as an ONNX model, which is also written to the file `f` if given.

    `model` is a module, a function or an `ExportedProgram`. Tensors among the arguments become inputs, all else counts
    as it is now. Operators are those of opset 18 to 28, by default 20. Sizes are those of the arguments, but for those
    that `dynamic_shapes` (see `export.export`; a str is the name of an open size) or `dynamic_axes` (by input name)
    leave open. Weights are in the file; large ones in a second file beside it unless `external_data` is False.

    A model is exported in the mode that it is in, and an ONNX model has no state: call `model.eval()` before, else
    dropout drops and statistics are those of each batch. With `dynamo=False`, PyTorch's older way, it is put into the
    mode `training` for the export, and nothing is returned. `verify` runs the result in onnxruntime and compares it.
    `custom_translation_table` has rows for ops by name, functions `(o, *operands, **params)` as in `rushlight.onnx`.
    `optimize`, `do_constant_folding`, `autograd_inlining` and `verbose` change nothing.

    Raises OnnxExporterError that names all operations which ONNX cannot express; what `export.export` raises;
    ValueError for another opset; VerificationError where `verify` finds other results.

    Example:
        >>> import rushlight
        >>> from rushlight import nn
        >>> program = rushlight.onnx.export(nn.Linear(2, 1), (rushlight.ones(3, 2),), input_names=["x"])
        >>> print(program)
        ONNXProgram(opset 20)
            input: float32[3, 2] x
            linear = Gemm(x, weight, bias, transB=1)
            return linear
    """
    opset = DEFAULT_OPSET if opset_version is None else opset_version
    if opset not in OPSETS:
        raise ValueError(f"onnx.export: opset_version must be {OPSETS[0]} to {OPSETS[-1]}, got {opset}")
    for option, names in (("input_names", input_names), ("output_names", output_names)):
        if isinstance(names, str) or not all(isinstance(name, str) and name for name in names or ()):
            raise TypeError(f"onnx.export: {option} must be a list of names, got {names!r}")
    _refuse(report=report, profile=profile, custom_opsets=custom_opsets,
            export_modules_as_functions=export_modules_as_functions, operator_export_type=operator_export_type)
    model, args, kwargs, input_names, output_names, dynamic_shapes = _filled(
        model, args, kwargs, input_names, output_names, dynamic_shapes)
    with _mode(model, TrainingMode.PRESERVE if dynamo else TrainingMode(int(training))):
        program, labels = _captured(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names)
    if dump_exported_program:
        rushlight.export.save(program, Path(artifacts_dir) / "exported_program.pt2")
    named = [axis_labels(name, dynamic_axes) for name in output_names or ()]
    axes = axis_names(program, labels, named)
    made = _model(program, opset, input_names, output_names, custom_translation_table, axes)
    if verify:
        _verify(made, program, args, kwargs)
    if f is not None:
        made.save(f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs,
                  external_data=external_data)
    return made if dynamo else None


def _refuse(**options: Any) -> None:
    for name, value in options.items():
        if value:
            raise NotImplementedError(f"onnx.export: {name}={value!r} is not supported; leave it away")


def _filled(model: Any, args: Any, kwargs: dict | None, input_names: Any, output_names: Any, dynamic_shapes: Any
            ) -> tuple:
    """What was not given, as an `ExportableModule` or an `ExportedProgram` says it."""
    args = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
    if hasattr(model, "example_arguments") and not args and not kwargs:
        args, kwargs = model.example_arguments()
        input_names = input_names or model.input_names()
        output_names = output_names or model.output_names()
        dynamic_shapes = dynamic_shapes or model.dynamic_shapes()
    if isinstance(model, ExportedProgram) and not args and not kwargs and model.example_inputs is not None:
        args, kwargs = model.example_inputs
    if kwargs is None and args and type(args[-1]) is dict and _are_keywords(model, args):
        args, kwargs = args[:-1], args[-1]
    return model, args, dict(kwargs or {}), input_names, output_names, dynamic_shapes


def _are_keywords(model: Any, args: tuple) -> bool:
    """Is the last argument, a dict, PyTorch's older way to give keyword arguments, and no argument itself?"""
    try:
        inspect.signature(getattr(model, "forward", model)).bind(*args[:-1], **args[-1])
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def _mode(model: Any, mode: TrainingMode) -> Iterator[None]:
    """Put a module into a mode for a block."""
    if mode is TrainingMode.PRESERVE or allow.module_type(model) is None:
        yield
        return
    before = [(module, module.training) for module in model.modules()]
    model.train(mode is TrainingMode.TRAINING)
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


def _captured(model: Any, args: tuple, kwargs: dict, dynamic_shapes: Any, dynamic_axes: Any, input_names: Any
              ) -> tuple[ExportedProgram, list[dict[int, str]]]:
    """The captured program, and the names that the caller gave to sizes of its arguments."""
    if isinstance(model, ExportedProgram):
        return model, []
    sizes = OpenSizes(model, args, kwargs, dynamic_shapes, dynamic_axes, input_names)
    before, exporting.now = exporting.now, True
    try:
        return rushlight.export.export(model, args, kwargs, dynamic_shapes=sizes.shapes), sizes.labels
    finally:
        exporting.now = before


class _Named(NamedTuple):
    """Names that the caller wants, in order; the rest keep their own."""

    given: Sequence[str]

    def of(self, place: int, own: str) -> str:
        return self.given[place] if place < len(self.given) else own


def _model(program: ExportedProgram, opset: int, input_names: Sequence[str] | None,
           output_names: Sequence[str] | None, table: Mapping[Any, Callable] | None, axes: Mapping[Symbolic, str]
           ) -> ONNXProgram:
    """The ONNX model of a captured program."""
    specs = program.graph_signature.output_specs
    lost = sorted({str(s.target) for s in specs if s.kind.writes})
    if lost:
        warnings.warn(
            f"onnx.export: the program writes to {', '.join(lost)}; an ONNX model has no state, so this is left out. "
            "Export the model in eval mode", OnnxExporterWarning, stacklevel=3)
    _refuse_constants([s for s in specs if s.kind is OutputKind.USER_OUTPUT])
    inputs = _inputs(program, _Named(input_names or ()))
    values = iter(program.graph.outputs)
    returned: list[tuple[str, Value]] = []
    for spec in specs:
        if isinstance(spec.arg, TensorArgument):
            value = next(values)
        elif isinstance(spec.arg, SymIntArgument):  # a size, as a 0-dim tensor
            value = Value(meta(dtypes.int64 if type(spec.arg.value) is Sym else dtypes.float64, ()))
            inputs[value] = spec.arg.value
        else:
            continue
        if spec.kind is OutputKind.USER_OUTPUT:
            returned.append((spec.arg.name if isinstance(spec.arg, TensorArgument) else "size", value))
    names = _Named(output_names or ())
    made = convert(_results(program, [value for _, value in returned]), inputs,
                   [names.of(i, own) for i, (own, _) in enumerate(returned)], opset, axes, _rows(table))
    guards = program.facts.guard_texts() if program.facts is not None else []
    properties = {"rushlight.sizes": "; ".join(guards)} if guards else {}  # what sizes must satisfy: nothing checks it
    return ONNXProgram(proto.Model(made, opset, version=rushlight.__version__, properties=properties), program)


def _inputs(program: ExportedProgram, names: _Named) -> dict[Value, Source]:
    """What each input of the graph is. Names are for the arguments, and then for weights."""
    specs = [s for s in program.graph_signature.input_specs if isinstance(s.arg, TensorArgument)]
    users = [s for s in specs if s.kind is InputKind.USER_INPUT]
    draws, numbers, weights = iter(program.draws), iter(program.numbers), len(users)
    found: dict[Value, Source] = {}
    for spec, value in zip(specs, program.graph.inputs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            found[value] = names.of(users.index(spec), spec.arg.name)
        elif spec.kind is InputKind.SIZE:
            found[value] = next(numbers)
        elif spec.kind is InputKind.RANDOM:
            draw = next(draws)
            found[value] = Drawn(draw.op, draw.numbers, draw.params)
        else:
            found[value] = Weight(names.of(weights, str(spec.target)), _array(program, str(spec.target)))
            weights += 1
    return found


def _refuse_constants(specs: list) -> None:
    """A model returns tensors; None is left out."""
    for spec in specs:
        if isinstance(spec.arg, ConstantArgument) and spec.arg.value is not None:
            raise OnnxExporterError(
                f"onnx.export: the program returns {spec.arg.value!r}, an ONNX model returns tensors: return "
                f"rushlight.tensor({spec.arg.value!r})"
            )


def _results(program: ExportedProgram, values: list[Value]) -> Graph:
    """The graph that returns these values alone."""
    graph = Graph()
    graph.inputs, graph.nodes = program.graph.inputs, list(program.graph.nodes)
    graph.output(values)
    return eliminate_dead(graph)


def _array(program: ExportedProgram, target: str) -> np.ndarray:
    found = program.state_dict[target] if target in program.state_dict else program.constants[target]
    return found.detach().contiguous().numpy()


def _rows(table: Mapping[Any, Callable] | None) -> dict[Op, Callable]:
    """The caller's own rows, by op."""
    found = {}
    for key, function in (table or {}).items():
        op = custom_op(key) if is_operator(key) else key if isinstance(key, Op) else REGISTRY.get(key)
        if op is None:
            raise ValueError(f"onnx.export: custom_translation_table names {key!r}, which is no operation")
        found[op] = function
    return found


def _verify(made: ONNXProgram, program: ExportedProgram, args: tuple, kwargs: dict) -> None:
    """Compare results in onnxruntime with those of the program. VerificationError where they differ."""
    if program.draws:
        raise ValueError("onnx.export: verify=True: the program draws random numbers, and onnxruntime draws others; "
                         "export it in eval mode")
    args, kwargs = tree_map(lambda x: x.clone() if isinstance(x, Tensor) else x, (args, kwargs))
    results = made(*args, **kwargs)
    state = {**program.state_dict, **program.constants}
    written = [state[s.target] for s in program.graph_signature.output_specs if s.target in state]
    before = [x.clone() for x in written]
    with rushlight.no_grad():
        expected = [x for x in tree_flatten(program.module()(*args, **kwargs))[0] if isinstance(x, Tensor)]
        for x, old in zip(written, before):
            x.copy_(old)
    for info, a, b in zip(made.model.graph.outputs, results, expected, strict=True):
        close = 1e-2 if b.dtype.itemsize == 2 else 1e-4
        if a.dtype is not b.dtype or a.shape != b.shape or not np.allclose(
            a.numpy().astype(np.float64), b.detach().double().numpy(), close, close, equal_nan=True
        ):
            raise VerificationError(f"onnx.export: {info.name} differs in onnxruntime from what the program gives")
