"""`ONNXProgram`: an exported model, to be saved, run and looked at."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.export.trees import flatten_arguments
from rushlight.onnx import proto, runtime
from rushlight.ops.complex import view_as_complex, view_as_real
from rushlight.utils._pytree import tree_flatten

if TYPE_CHECKING:
    from rushlight.export import ExportedProgram


class ONNXProgram:
    """What `onnx.export` makes of a model: call it to run it in onnxruntime, `save` it to a file.

    `exported_program` is the captured program that it was made of. Weights are those of the model, shared with it
    until the program is saved or run. Results are a sequence of tensors.

    Example:
        >>> import rushlight
        >>> program = rushlight.onnx.export(lambda x: x.exp() + 1, (rushlight.zeros(2),))
        >>> print(program)
        ONNXProgram(opset 20)
            input: float32[2] x
            exp = Exp(x)
            add = Add(exp, 1.0)
            return add
    """

    def __init__(self, model: proto.Model, exported_program: ExportedProgram) -> None:
        self.model, self.exported_program = model, exported_program
        self._session: Any = None

    # as bytes

    @property
    def model_proto(self) -> Any:
        """The model as a message of the package `onnx`. ImportError when it is not installed."""
        return _onnx("ONNXProgram.model_proto").load_from_string(self.serialized())

    def serialized(self) -> bytes:
        """The content of a file with the model. ValueError when that would be 2 GB, more than protobuf can read."""
        chunks = self.model.chunks()
        if proto.size(chunks) > proto.LIMIT:
            raise ValueError("ONNXProgram: the model has more than 2 GB and fits no single file; save it with "
                             "external_data=True")
        return b"".join(map(bytes, chunks))

    def save(self, destination: str | os.PathLike, *, include_initializers: bool = True,
             keep_initializers_as_inputs: bool = False, external_data: bool | None = None) -> None:
        """Write the model to a file.

        Weights lie in it, or with `external_data`, or where the file would have more than 2 GB, in a file of the same
        name with `.data` added. Without `include_initializers` the weights are left out: attach them later, or pass
        them as inputs, if `keep_initializers_as_inputs`.

        Raises TypeError when the destination is not a path.
        """
        if not isinstance(destination, (str, os.PathLike)):
            raise TypeError(f"ONNXProgram.save: destination must be a path, got {type(destination).__name__}")
        path = Path(destination)
        graph = self.model.graph
        weights = [proto.Tensor(t.name, t.array, t.dtype) for t in graph.initializers]
        kept = proto.Graph(graph.name, graph.nodes, graph.inputs, graph.outputs, weights)
        own = self._weights()
        if keep_initializers_as_inputs:
            infos = [proto.ValueInfo(t.name, t.dtype, list(t.array.shape)) for t in weights if t.name in own]
            kept.inputs = [*graph.inputs, *infos]
        if not include_initializers:
            kept.initializers = weights = [t for t in weights if t.name not in own]
        total = sum(len(t.bytes) for t in weights)
        if external_data or total >= proto.LIMIT:
            side = proto.place_beside(weights, f"{path.name}.data")
            if side:
                with open(path.with_name(f"{path.name}.data"), "wb") as file:
                    file.writelines(side)
        model = proto.Model(kept, self.model.opset, self.model.producer, self.model.version, self.model.properties)
        with open(path, "wb") as file:
            file.writelines(model.chunks())

    def _weights(self) -> set[str]:
        """The names of the initializers that are tensors of the model, and no constants."""
        return {t.name for t in self.model.graph.initializers if t.given}

    def apply_weights(self, state_dict: Mapping[str, Tensor]) -> None:
        """Replace weights by those of the same names in a state dict; others stay.

        Raises ValueError for another shape or dtype.
        """
        for tensor in self.model.graph.initializers:
            found = state_dict.get(tensor.name) if tensor.given else None
            if found is None:
                continue
            if found.dtype.is_complex:
                found = view_as_real(found.detach())
            if tuple(found.shape) != tensor.array.shape or found.dtype is not tensor.dtype:
                raise ValueError(f"ONNXProgram.apply_weights: {tensor.name} has shape {tensor.array.shape} and dtype "
                                 f"{tensor.dtype.name}, got {tuple(found.shape)} and {found.dtype.name}")
            tensor.array = found.detach().contiguous().numpy()
        self.release()

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Give open sizes other names: `{"s0": "batch"}`."""
        names = {str(old): new for old, new in rename_mapping.items()}
        for info in (*self.model.graph.inputs, *self.model.graph.outputs):
            info.shape = [names.get(size, size) if isinstance(size, str) else size for size in info.shape]

    def optimize(self) -> None:
        """Does nothing: what nobody reads is left out, and constants are shared, when the model is made."""

    # running

    def initialize_inference_session(self, initializer: Callable[[Any], Any] | None = None) -> None:
        """Make the session of onnxruntime that calls use, by `initializer(model)` if given; `model` is its bytes, or
        the path of a file that is there for as long as it takes, where the model is too large for bytes.
        """
        make = initializer or (lambda model: runtime.session(model, "ONNXProgram"))
        if proto.size(self.model.chunks()) <= proto.LIMIT:
            self._session = make(self.serialized())
            return
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            self.save(path, external_data=True)
            self._session = make(path)

    def release(self) -> None:
        """Let go of the session of onnxruntime."""
        self._session = None

    def __call__(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        """Run the model in onnxruntime, given the arguments of the program; numbers among them are ignored.

        Raises ImportError when onnxruntime is not installed, ValueError for another number of tensors or other keyword
        arguments than in the export.
        """
        arrays = [runtime.array(x) for x in self._tensors(args, kwargs)]
        if self._session is None:
            self.initialize_inference_session()
        return self._results(runtime.run(self._session, [info.name for info in self.model.graph.inputs], arrays))

    def _results(self, found: Sequence[Tensor]) -> list[Tensor]:
        """Complex results, of which the model gives the parts, as such."""
        outputs = self.model.graph.outputs
        return [view_as_complex(x) if info.parts else x for info, x in zip(outputs, found, strict=True)]

    def call_reference(self, *args: Any, **kwargs: Any) -> Sequence[Tensor]:
        """The same in the reference implementation of the package `onnx`, which is slow and simple."""
        reference = import_module(".reference", _onnx("ONNXProgram.call_reference").__name__)
        feeds = {i.name: runtime.array(x) for i, x in zip(self.model.graph.inputs, self._tensors(args, kwargs))}
        found = reference.ReferenceEvaluator(self.model_proto).run(None, feeds)
        return self._results([runtime.tensor(x) for x in found])

    def compute_values(self, value_names: Sequence[str], args: tuple = (), kwargs: dict | None = None
                       ) -> dict[str, Tensor]:
        """The values of these names inside the model, for arguments of the program."""
        graph = self.model.graph
        names = list(value_names)
        known = {info.name for info in graph.outputs}
        extra = [proto.ValueInfo(name, None, None) for name in names if name not in known]
        whole = proto.Graph(graph.name, graph.nodes, graph.inputs, [*graph.outputs, *extra], graph.initializers)
        model = proto.Model(whole, self.model.opset)
        session = runtime.session(b"".join(map(bytes, model.chunks())), "ONNXProgram.compute_values")
        inputs = [info.name for info in graph.inputs]
        arrays = [runtime.array(x) for x in self._tensors(args, kwargs or {})]
        return dict(zip(names, runtime.run(session, inputs, arrays, names)))

    def _tensors(self, args: tuple, kwargs: dict) -> list[Tensor]:
        if kwargs:  # by name: they may come in any order
            leaves = flatten_arguments(args, kwargs, self.exported_program.call_spec.in_spec)
        else:
            leaves = tree_flatten(args)[0]
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        expected = len(self.model.graph.inputs)
        if len(tensors) != expected:
            raise ValueError(f"ONNXProgram: the model has {expected} inputs, got {len(tensors)} tensors")
        return tensors

    def __str__(self) -> str:
        graph = self.model.graph
        small = {t.name: repr(t.array.tolist()) for t in graph.initializers if not t.given and t.array.size <= 8}
        lines = [f"ONNXProgram(opset {self.model.opset})"]
        lines += [f"    input: {_typed(info)} {info.name}" for info in graph.inputs]
        for node in graph.nodes:
            attributes = [f"{key}={_shown(value)}" for key, value in node.attributes.items()]
            operands = [small.get(name, name or "None") for name in node.inputs]
            lines.append(f"    {', '.join(node.outputs)} = {node.kind}({', '.join([*operands, *attributes])})")
        return "\n".join([*lines, f"    return {', '.join(info.name for info in graph.outputs)}"])

    __repr__ = __str__


def _typed(info: proto.ValueInfo) -> str:
    return f"{info.dtype.name}[{', '.join(map(str, info.shape))}]"


def _shown(value: Any) -> str:
    return "graph" if isinstance(value, proto.Graph) else repr(value)


def _onnx(wanted_by: str) -> Any:
    try:
        import onnx
    except ImportError:
        raise ImportError(f"{wanted_by} needs the package onnx: pip install onnx") from None
    return onnx
