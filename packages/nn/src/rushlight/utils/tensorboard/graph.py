"""The operations of a model's call as the graph that TensorBoard draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from tensorboardX.proto.attr_value_pb2 import AttrValue
from tensorboardX.proto.graph_pb2 import GraphDef
from tensorboardX.proto.node_def_pb2 import NodeDef
from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboardX.proto.versions_pb2 import VersionDef

import rushlight
from rushlight import Tensor
from rushlight.core import dispatch
from rushlight.core.op import Op
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.summarize import tensors_in, unchanged

_SAME = ("alias", "detach")  # these give their operand under another object


class _Recorder:
    """The handler that writes down every operation with where its operands come from."""

    def __init__(self) -> None:
        self.nodes: list[NodeDef] = []
        self.scopes: list[str] = []  # of the modules whose calls are under way
        self.origins: dict[int, str] = {}
        self.kept: list[Tensor] = []  # ids stay unique while their tensors live
        self.used: Counter[str] = Counter()

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        with dispatch.below():
            result = op.apply(operands, params)
        inputs = [self.origin(x) for x in operands if isinstance(x, Tensor)]
        results = list(tensors_in(result))
        if op.name in _SAME:
            self._come_from(inputs[0], results)
        elif results:
            self._come_from(self.add(self.inside(op.name), op.name, inputs, results), results)
        return result

    def inside(self, name: str) -> str:
        """A name in the scope of the innermost module."""
        return f"{self.scopes[-1]}/{name}" if self.scopes else name

    def origin(self, tensor: Tensor) -> str:
        """The node that a tensor comes from; a constant where none is known."""
        if id(tensor) not in self.origins:
            self._come_from(self.add(self.inside("constant"), "Const", [], [tensor]), [tensor])
        return self.origins[id(tensor)]

    def add(self, name: str, kind: str, inputs: list[str], results: list[Tensor]) -> str:
        """Enter a node under a name that nobody has."""
        count = self.used[name]
        self.used[name] += 1
        node = NodeDef(name=f"{name}_{count}" if count else name, op=kind, input=dict.fromkeys(inputs))
        shapes = [TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in x.shape]) for x in results]
        node.attr["_output_shapes"].CopyFrom(AttrValue(list=AttrValue.ListValue(shape=shapes)))
        self.nodes.append(node)
        return node.name

    def enter(self, name: str, kind: str, tensor: Tensor) -> None:
        """Enter a tensor that is there before the call."""
        self._come_from(self.add(name, kind, [], [tensor]), [tensor])

    def _come_from(self, name: str, tensors: list[Tensor]) -> None:
        self.kept += tensors
        self.origins.update((id(tensor), name) for tensor in tensors)


def model_graph(model: Module, inputs: Any) -> GraphDef:
    """The graph of `model(*inputs)`; the model is left as it was."""
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    recorder, root = _Recorder(), model._get_name()
    for i, tensor in enumerate(tensors_in(args)):
        recorder.enter(f"input/{i}", "Input", tensor)
    for kind, members in (("Parameter", model.named_parameters()), ("Buffer", model.named_buffers())):
        for name, tensor in members:
            recorder.enter(f"{root}/{name.replace('.', '/')}", kind, tensor)
    with ExitStack() as stack:
        stack.enter_context(rushlight.no_grad())
        stack.enter_context(rushlight.random.fork_rng())
        stack.enter_context(unchanged(model))
        for name, module in model.named_modules():
            scope = f"{root}/{name.replace('.', '/')}".rstrip("/")
            stack.enter_context(module.register_forward_pre_hook(_entering(recorder, scope)))
            stack.enter_context(module.register_forward_hook(_leaving(recorder), always_call=True))
        with dispatch.push(recorder):
            output = model(*args)
    for i, tensor in enumerate(tensors_in(output)):
        recorder.add(f"output/{i}", "Output", [recorder.origin(tensor)], [tensor])
    return GraphDef(node=recorder.nodes, versions=VersionDef(producer=22))


def _entering(recorder: _Recorder, scope: str) -> Callable:
    def enter(module: Module, args: tuple) -> None:
        recorder.scopes.append(scope)

    return enter


def _leaving(recorder: _Recorder) -> Callable:
    def leave(module: Module, args: tuple, output: Any) -> None:
        recorder.scopes.pop()

    return leave
