"""`save` and `load`: an exported program as one file.

The file is a zip archive of a signature in JSON, the canonical text of the graph, and the bytes of the tensors. Nothing
in it is code, and nothing in it is believed: a graph is only taken if it prints as it was read and every operation
infers from its operands what the file says of its results.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.text import meta_text, parse, parse_meta, text
from rushlight.compiler.graph.verify import verify
from rushlight.core.meta import Meta
from rushlight.core.op import meta_of
from rushlight.core.tensor import Tensor, wrap
from rushlight.export.exported_program import CallSpec, ExportedProgram, RandomDraw
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from rushlight.export.module import as_parameter
from rushlight.export.readable import tensor_inputs
from rushlight.export.trees import (
    Unregistered,
    is_constant,
    spec_from_json,
    spec_to_json,
    value_from_json,
    value_to_json,
)
from rushlight.serialization.archive import Archive
from rushlight.serialization.atomic import replacing
from rushlight.serialization.writer import add
from rushlight.utils._pytree import TreeSpec, tree_leaves, tree_unflatten

__all__ = ["load", "save"]

FORMAT = 1
SIGNATURE, _GRAPH = "signature.json", "graph.txt"
File = str | os.PathLike | IO[bytes]


def save(ep: ExportedProgram, f: File, *, extra_files: dict[str, str | bytes] | None = None, **options: Any) -> None:
    """Store a program, with its weights, in a file; a path is written in one step at the end.

    `extra_files` are stored beside it, by name. Raises TypeError for what is no program, and for programs that take or
    return classes that nobody registered. PyTorch does not read the file.

    Example:
        >>> import io, rushlight
        >>> file = io.BytesIO()
        >>> rushlight.export.save(rushlight.export.export(lambda x: x + 1, (rushlight.zeros(2),)), file)
        >>> _ = file.seek(0)
        >>> rushlight.export.load(file).module()(rushlight.ones(2))
        tensor([2., 2.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"save: expected an ExportedProgram, got {type(ep).__name__}; export the model first")
    files = program_files(ep)
    for name, data in (extra_files or {}).items():
        files[f"extra/{name}"] = data.encode() if isinstance(data, str) else data
    write(f, files)


def write(f: File, files: dict[str, Any]) -> None:
    """Write a zip archive of these files."""
    opened: Any = replacing(f) if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f)
    with opened as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        start = archive.fp.tell()  # type: ignore[union-attr]
        for name, data in files.items():
            add(archive, start, f"archive/{name}", data)


def load(f: File, *, extra_files: dict[str, Any] | None = None, **options: Any) -> ExportedProgram:
    """The program that `save` has stored. It takes no source of the model, and no code of the file runs.

    `f` is a path or a file that can seek. The values of `extra_files` are replaced by the bytes stored under their
    names. Raises FileNotFoundError when there is no file, RuntimeError when it is damaged or no program, ValueError
    when it names a dataclass that is not registered.
    """
    with opened(f) as archive:
        program = read_program(archive.read)
        for name in extra_files or {}:
            extra_files[name] = archive.read(f"extra/{name}")  # type: ignore[index]
        return program


@contextlib.contextmanager
def opened(f: File, marker: str = SIGNATURE) -> Any:
    """The archive in a file; whatever fails in the block is a RuntimeError that says that the file is damaged."""
    file: Any = open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f)
    with file as stream:
        try:
            yield Archive(stream, None, marker, "exported program")
        except (MemoryError, Unregistered):
            raise
        except Exception as error:  # a damaged file can fail anywhere
            if str(error).startswith("load: "):
                raise
            raise RuntimeError(f"load: the file is damaged, or no exported program: {error}") from error


# writing


def program_files(ep: ExportedProgram) -> dict[str, Any]:
    """The files that a program consists of, by name."""
    tensors = Tensors()
    description, graph = described(ep, tensors)
    return {SIGNATURE: to_json({"format": FORMAT, **description, "tensors": tensors.metas}),
            _GRAPH: graph.encode(), **tensors.files}


def to_json(data: Any) -> bytes:
    """The bytes of a JSON file."""
    return json.dumps(data, indent=1).encode()


def described(ep: ExportedProgram, tensors: Tensors) -> tuple[dict[str, Any], str]:
    """A program as JSON can hold it, and the text of its graph; its tensors are added to others."""
    signature = ep.graph_signature
    examples = None
    if ep.example_inputs is not None:
        examples = [{"tensor": tensors.number(x)} if isinstance(x, Tensor) else {"value": value_to_json(x)}
                    for x in tree_leaves(ep.example_inputs)]
    description = {
        "name": ep.name,
        "inputs": [_spec(s) for s in signature.input_specs],
        "outputs": [_spec(s) for s in signature.output_specs],
        "in_spec": spec_to_json(ep.call_spec.in_spec),
        "out_spec": spec_to_json(ep.call_spec.out_spec),
        "draws": [{"offset": d.offset, "call": text(_draw_graph(d))} for d in ep.draws],
        "counters": ep.counters,
        "state_dict": {name: tensors.number(x) for name, x in ep.state_dict.items()},
        "constants": {name: tensors.number(x) for name, x in ep.constants.items()},
        "examples": examples,
    }
    written = text(ep.graph)
    if text(parse(written)) != written:
        raise TypeError("save: the graph holds a parameter that text cannot say")
    return description, written


class Tensors:
    """The tensors of one or several programs, each once."""

    def __init__(self) -> None:
        self.metas: list[str] = []
        self.files: dict[str, Any] = {}
        self._numbers: dict[int, int] = {}

    def number(self, x: Tensor) -> int:
        """The number of a tensor in the file."""
        if id(x) not in self._numbers:
            self._numbers[id(x)] = len(self.metas)
            self.files[f"data/{len(self.metas)}"] = _bytes(x)
            self.metas.append(meta_text(x._meta))
        return self._numbers[id(x)]


def _extent(m: Meta) -> int:
    """How many elements lie between the first and the last one of a tensor, with them."""
    return 1 + sum((size - 1) * stride for size, stride in zip(m.shape, m.strides)) if m.numel else 0


def _bytes(x: Tensor) -> memoryview:
    """The memory from the first to the last element."""
    array = x.detach()._array
    m = x._meta
    if not m.contiguous:
        span = np.zeros(_extent(m), m.numpy)
        _strided(span, m)[...] = array
        array = span
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _strided(flat: np.ndarray, m: Meta) -> np.ndarray:
    return np.lib.stride_tricks.as_strided(flat, m.shape, [step * flat.itemsize for step in m.strides])


def _spec(spec: InputSpec | OutputSpec) -> dict[str, Any]:
    made: dict[str, Any] = {"kind": spec.kind.name, "name": spec.arg.name}
    if isinstance(spec.arg, ConstantArgument):
        made["value"] = value_to_json(spec.arg.value)
    for key in ("target", "persistent", "alias", "views"):
        if getattr(spec, key, None) is not None:
            made[key] = getattr(spec, key)
    return made


def _draw_graph(draw: RandomDraw) -> Graph:
    graph = Graph()
    graph.output([graph.call(draw.op, (0, draw.offset, *draw.numbers), draw.params)])
    return graph


# reading


def read_program(read: Callable[[str], bytes]) -> ExportedProgram:
    """A program from its files. Raises anything when they are damaged."""
    data = json.loads(read(SIGNATURE))
    check_format(data)
    return program_of(data, read(_GRAPH).decode(), read_tensors(read, data["tensors"], [data]))


def check_format(data: Any) -> None:
    """Raise RuntimeError for a file of a later version."""
    if data["format"] != FORMAT:
        raise RuntimeError(f"load: the file has format {data['format']!r}, this version of rushlight reads {FORMAT}")


def read_tensors(read: Callable[[str], bytes], metas: list, descriptions: list) -> list[Tensor]:
    """The tensors of programs; those that one of these has as a parameter are parameters."""
    plain = [_tensor(read(f"data/{i}"), parse_meta(_string(m))) for i, m in enumerate(metas)]
    parameters = {data["state_dict"][s["target"]] for data in descriptions for s in data["inputs"]
                  if s["kind"] == InputKind.PARAMETER.name}
    return [as_parameter(x) if i in parameters else x for i, x in enumerate(plain)]


def program_of(data: dict, graph_text: str, tensors: list[Tensor]) -> ExportedProgram:
    """A program from its description, its graph and the tensors of the file."""
    graph = read_graph(graph_text)
    inputs = [InputSpec(InputKind[s["kind"]], _argument(s), _text(s, "target"), s.get("persistent"))
              for s in data["inputs"]]
    outputs = [OutputSpec(OutputKind[s["kind"]], _argument(s), _text(s, "target"), _text(s, "alias"), _text(s, "views"))
               for s in data["outputs"]]
    call_spec = CallSpec(spec_from_json(data["in_spec"]), spec_from_json(data["out_spec"]))
    draws = tuple([_draw(d) for d in data["draws"]])
    state = {_string(name): _at(tensors, i) for name, i in data["state_dict"].items()}
    constants = {_string(name): _at(tensors, i) for name, i in data["constants"].items()}
    signature = ExportGraphSignature(inputs, outputs)
    _check_inputs(graph, inputs, state, constants, draws)
    _check_outputs(graph, outputs, inputs)
    _check_trees(call_spec, inputs, outputs)
    examples = data["examples"]
    if examples is not None:
        leaves = [_at(tensors, x["tensor"]) if "tensor" in x else value_from_json(x["value"]) for x in examples]
        examples = tree_unflatten(leaves, call_spec.in_spec)
    counters = _whole(data["counters"])
    _require(all(d.offset <= counters for d in draws), "a draw beyond its counters")
    return ExportedProgram(graph, signature, state, constants, call_spec, draws=draws, counters=counters,
                           example_inputs=examples, name=_string(data["name"]))


def read_graph(source: str) -> Graph:
    """The graph of a text, which has to be exactly the text of this graph, and consistent."""
    graph = parse(source)
    _require(text(graph) == source, "the text of the graph is not in its canonical form")
    for value in [*graph.inputs, *[v for node in graph.nodes for v in node.outputs]]:
        _require(min([*value.meta.shape, *value.meta.strides], default=0) >= 0, f"no tensor is {value.meta}")
    return verify(graph)


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _string(x: Any) -> str:
    _require(type(x) is str, f"expected a text, got {x!r}")
    return x


def _text(spec: dict, key: str) -> str | None:
    return None if spec.get(key) is None else _string(spec[key])


def _whole(x: Any) -> int:
    _require(type(x) is int and x >= 0, f"expected a count, got {x!r}")
    return x


def _at(items: list, index: Any) -> Any:
    return items[_whole(index)]


def _argument(spec: dict) -> TensorArgument | ConstantArgument:
    name = _string(spec["name"])
    if "value" not in spec:
        return TensorArgument(name)
    value = value_from_json(spec["value"])
    _require(is_constant(value), f"no constant: {value!r}")
    return ConstantArgument(name, value)


def _draw(data: dict) -> RandomDraw:
    node, = read_graph(_string(data["call"])).nodes
    offset = _whole(data["offset"])
    _require(node.op.random and node.inputs[:2] == (0, offset), "a draw that is none")
    return RandomDraw(node.op, offset, node.inputs[2:], node.params)


def _tensor(data: bytes, m: Meta) -> Tensor:
    _require(m.device.type == "cpu" and min([*m.shape, *m.strides], default=0) >= 0, f"no tensor is {m}")
    _require(len(data) == _extent(m) * m.dtype.itemsize, f"{len(data)} bytes for a tensor that is {m}")
    flat = np.frombuffer(bytearray(data), np.uint8)
    # any byte but 0 would be a true that is not equal to others
    flat = flat != 0 if m.numpy == np.bool_ else flat.view(m.numpy)
    return wrap(_strided(flat, m) if m.numel else np.empty(m.shape, m.numpy), m)


_NAME = re.compile(r"\w+(\.\w+)*\Z")


def _check_inputs(graph: Graph, specs: list[InputSpec], state: dict, constants: dict,
                  draws: tuple[RandomDraw, ...]) -> None:
    """Do the inputs come in order, and are those that the file has tensors for such tensors?"""
    values = iter(graph.inputs)
    random = iter(draws)
    order = [0 if s.target is not None else 2 if s.kind is InputKind.RANDOM else 1 for s in specs]
    _require(order == sorted(order), "the inputs are in disorder")
    names = [s.arg.name for s in specs]
    _require(len(set(names)) == len(names), "two inputs have one name")
    targets = [s.target for s in specs if s.target is not None]
    _require(len(set(targets)) == len(targets), "two inputs are one tensor")
    for spec in specs:
        if isinstance(spec.arg, ConstantArgument):
            _require(spec.kind is InputKind.USER_INPUT, f"{spec.arg.name} has to be a tensor")
            continue
        meta = next(values).meta
        if spec.kind in (InputKind.USER_INPUT, InputKind.RANDOM):
            _require(spec.target is None, f"{spec.arg.name} is no tensor of the model")
            if spec.kind is InputKind.RANDOM:
                draw = next(random)
                made: Any = draw.op.infer(*_numbers(draw), *draw.params)
                _require(made is meta, f"{spec.arg.name} is {meta}, drawn is {made}")
            continue
        target = str(spec.target)
        _require(_NAME.match(target) is not None, f"no name of a tensor: {spec.target!r}")
        hidden = spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False
        found = (constants if hidden else state)[target]._meta
        _require((found.dtype, found.shape, found.device) == (meta.dtype, meta.shape, meta.device),
                 f"{target} is {found}, the graph has {meta}")
    _require(next(values, None) is None and next(random, None) is None, "an input that nothing is said of")


def _numbers(draw: RandomDraw) -> list:
    return [meta_of(x) for x in (0, draw.offset, *draw.numbers)]


def _check_outputs(graph: Graph, specs: list[OutputSpec], inputs: list[InputSpec]) -> None:
    """Are outputs written to what they fit, and are views of inputs views?"""
    metas = dict(zip(tensor_inputs(ExportGraphSignature(inputs, [])), [v.meta for v in graph.inputs]))
    by_target = {s.target: metas[s.arg.name] for s in inputs if s.target is not None}
    users = {s.arg.name for s in inputs if s.kind is InputKind.USER_INPUT}
    values = iter(graph.outputs)
    for spec in specs:
        if isinstance(spec.arg, ConstantArgument):
            _require(spec.kind is OutputKind.USER_OUTPUT, f"{spec.arg.name} has to be a tensor")
            continue
        meta = next(values).meta
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            _require(spec.target in users, f"{spec.target} is no argument")
        if spec.kind.name.endswith("MUTATION"):
            target = metas[str(spec.target)] if spec.target in users and spec.kind is OutputKind.USER_INPUT_MUTATION \
                else by_target[spec.target]
            _require((target.dtype, target.shape) == (meta.dtype, meta.shape), f"{spec.target} cannot become {meta}")
        if spec.alias is not None:
            _require(spec.alias in metas, f"{spec.alias} is no input")
        if spec.views is not None:
            views = read_graph(spec.views)
            fits = spec.alias is not None and len(views.inputs) == len(views.outputs) == 1
            _require(fits and all(node.op.kind == "view" for node in views.nodes), "a view that is none")
            _require(views.inputs[0].meta.with_grad(False) is metas[str(spec.alias)].with_grad(False),
                     "a view of something else")
    _require(next(values, None) is None, "an output that nothing is said of")


def _check_trees(call_spec: CallSpec, inputs: list[InputSpec], outputs: list[OutputSpec]) -> None:
    """Have the trees places for the arguments and results?"""
    taken: TreeSpec = call_spec.in_spec
    args = taken.children_specs
    _require(taken.type is tuple and len(args) == 2 and args[0].type is tuple and args[1].type is dict,
             "the arguments are no (args, kwargs)")
    count = sum(s.kind is InputKind.USER_INPUT for s in inputs)
    _require(taken.num_leaves == count, f"{count} arguments for {taken.num_leaves} places")
    count = sum(s.kind is OutputKind.USER_OUTPUT for s in outputs)
    _require(call_spec.out_spec.num_leaves == count, f"{count} results for {call_spec.out_spec.num_leaves} places")
