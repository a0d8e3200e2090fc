"""`save` and `load`: an exported program as one file.

The file is a zip archive of a signature in JSON, the canonical text of the graph, and the bytes of the tensors. Nothing
in it is code, and nothing in it is believed: a graph is only taken if it prints as it was read and every operation
infers from its operands what the file says of its results.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from rushlight.compiler.capture import memory
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym
from rushlight.compiler.graph.text import literal, meta_text, parse, parse_meta, parse_number, text
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor, wrap
from rushlight.export.checked import (
    check_inputs,
    check_outputs,
    check_sizes,
    check_trees,
    metas_of,
    read_graph,
    require,
)
from rushlight.export.exported_program import CallSpec, ExportedProgram, RandomDraw
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputArgument,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from rushlight.export.module import as_parameter
from rushlight.export.readable import is_name
from rushlight.export.symbols import facts_from_json, facts_to_json, reader, reading, symbol_text
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
from rushlight.utils._pytree import tree_leaves, tree_unflatten

__all__ = ["load", "save"]

FORMAT = 2
_READ = (1, FORMAT)  # format 1 knows no open sizes of 0, and has other keys for those of 1
SIGNATURE, _GRAPH = "signature.json", "graph.txt"
File = str | os.PathLike | IO[bytes]


def save(ep: ExportedProgram, f: File, *, extra_files: dict[str, str | bytes] | None = None, opset_version: Any = None,
         pickle_protocol: Any = None) -> None:
    """Store a program, with its weights, in a file; a path is written in one step at the end.

    `extra_files` are stored beside it, by name; the last two arguments change nothing. Raises TypeError for what is no
    program, and for programs that take or return classes that nobody registered. PyTorch does not read the file.

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


def load(f: File, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None) -> ExportedProgram:
    """The program that `save` has stored. It takes no source of the model, and no code of the file runs.

    `f` is a path or a file that can seek. The values of `extra_files` are replaced by what is stored under their names:
    text, or bytes where it is none; those of names that are not there stay. Raises FileNotFoundError when there is no
    file, RuntimeError when it is damaged or no program, ValueError when it names a dataclass that is not registered.
    """
    with opened(f) as archive:
        program = read_program(archive.read)
        for name in list(extra_files or {}):
            if f"extra/{name}" not in archive:
                continue
            content: Any = archive.read(f"extra/{name}")
            with contextlib.suppress(UnicodeDecodeError):
                content = content.decode()
            extra_files[name] = content  # type: ignore[index]
        return program


@contextlib.contextmanager
def opened(f: File, marker: str = SIGNATURE, what: str = "exported program") -> Any:
    """The archive in a file, which is to hold `what`; whatever fails in the block is a RuntimeError that says that the
    file is damaged.
    """
    file: Any = open(f, "rb") if isinstance(f, (str, os.PathLike)) else contextlib.nullcontext(f)
    with file as stream:
        try:
            yield Archive(stream, None, marker, what)
        except (MemoryError, Unregistered):
            raise
        except Exception as error:  # a damaged file can fail anywhere
            if str(error).startswith("load: "):
                raise
            raise RuntimeError(f"load: the file is damaged, or no {what}: {error}") from error


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
    _check_apart(ep)
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
        "draws": [{"offset": size(d.offset), "call": text(_draw_graph(d), symbol_text)} for d in ep.draws],
        "counters": size(ep.counters),
        "numbers": [literal(x, symbol_text) for x in ep.numbers],
        "sizes": None if ep.facts is None else facts_to_json(ep.facts),
        "small": [dict(sorted(values)) for values in sorted(map(sorted, ep.small))],
        "state_dict": {name: tensors.number(x) for name, x in ep.state_dict.items()},
        "constants": {name: tensors.number(x) for name, x in ep.constants.items()},
        "examples": examples,
    }
    with reading(ep.facts) as read:
        written = text(ep.graph, symbol_text)
        if text(parse(written, read), symbol_text) != written:
            raise TypeError("save: the graph holds a parameter that text cannot say")
    return description, written


def _check_apart(ep: ExportedProgram) -> None:
    """A file holds each tensor in memory of its own, so a write to one would no longer reach those that share it."""
    state = {**ep.state_dict, **ep.constants}
    targets = {s.target for s in ep.graph_signature.output_specs
               if s.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)}
    written = {id(state[name]): state[name] for name in state if name in targets}
    others = tuple([x for x in state.values() if id(x) not in written])
    if memory.meet(tuple(written.values()), others):
        raise RuntimeError(f"save: {', '.join(sorted(map(str, targets)))}: a tensor that the program writes to shares "
                           "memory with another one, which a file cannot say; clone one of them in the model")


def size(x: Any) -> Any:
    """A number, or the text of a symbol."""
    return symbol_text(x) if type(x) is Sym else x


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
    if isinstance(spec.arg, SymIntArgument):
        made["number"] = literal(spec.arg.value, symbol_text)
    for key in ("target", "persistent", "alias", "views"):
        if getattr(spec, key, None) is not None:
            made[key] = getattr(spec, key)
    return made


def _draw_graph(draw: RandomDraw) -> Graph:
    graph = Graph()
    meta: Any = draw.op.infer(*metas_of((0, 0, *draw.numbers)), *draw.params)
    graph.output([graph.call(draw.op, (0, 0, *draw.numbers), draw.params, meta)])
    return graph


# reading


def read_program(read: Callable[[str], bytes]) -> ExportedProgram:
    """A program from its files. Raises anything when they are damaged."""
    data = json.loads(read(SIGNATURE))
    check_format(data)
    return program_of(data, read(_GRAPH).decode(), read_tensors(read, data["tensors"], [data]))


def check_format(data: Any) -> None:
    """Raise RuntimeError for a file of a later version."""
    if data["format"] not in _READ:
        raise RuntimeError(f"load: the file has format {data['format']!r}, this version of rushlight reads up to "
                           f"{FORMAT}")


def read_tensors(read: Callable[[str], bytes], metas: list, descriptions: list) -> list[Tensor]:
    """The tensors of programs; those that one of these has as a parameter are parameters."""
    plain = [_tensor(read(f"data/{i}"), parse_meta(_string(m))) for i, m in enumerate(metas)]
    parameters = {data["state_dict"][s["target"]] for data in descriptions for s in data["inputs"]
                  if s["kind"] == InputKind.PARAMETER.name}
    return [as_parameter(x) if i in parameters else x for i, x in enumerate(plain)]


def program_of(data: dict, graph_text: str, tensors: list[Tensor]) -> ExportedProgram:
    """A program from its description, its graph and the tensors of the file."""
    facts = None if data["sizes"] is None else facts_from_json(data["sizes"])
    read: Callable[[str], Any] = int if facts is None else reader(facts)
    graph = read_graph(graph_text, facts)
    inputs = [InputSpec(InputKind[s["kind"]], _argument(s), _text(s, "target"), s.get("persistent"))
              for s in data["inputs"]]
    outputs = [OutputSpec(OutputKind[s["kind"]], _result(s, read), _text(s, "target"), _text(s, "alias"),
                          _text(s, "views")) for s in data["outputs"]]
    call_spec = CallSpec(spec_from_json(data["in_spec"]), spec_from_json(data["out_spec"]))
    draws = tuple([_draw(d, facts, read) for d in data["draws"]])
    state = {_string(name): _at(tensors, i) for name, i in data["state_dict"].items()}
    constants = {_string(name): _at(tensors, i) for name, i in data["constants"].items()}
    signature = ExportGraphSignature(inputs, outputs)
    check_inputs(graph, inputs, state, constants, draws)
    check_outputs(graph, outputs, inputs, facts)
    check_trees(call_spec, inputs, outputs)
    examples = data["examples"]
    if examples is not None:
        leaves = [_at(tensors, x["tensor"]) if "tensor" in x else value_from_json(x["value"]) for x in examples]
        examples = tree_unflatten(leaves, call_spec.in_spec)
    counters = _count(data["counters"], read)
    numbers = tuple([_number(x, read) for x in data["numbers"]])
    require(len(numbers) == sum(s.kind is InputKind.SIZE for s in inputs) and (facts is not None or not numbers),
            "a number that no size gives")
    require(all(_example(d.offset) <= _example(counters) for d in draws), "a draw beyond its counters")
    given = data["small"] if "small" in data else [dict.fromkeys(names, 1) for names in data["ones"]]
    small = frozenset([frozenset([(_string(name), _whole(value)) for name, value in values.items()])
                       for values in given])
    program = ExportedProgram(graph, signature, state, constants, call_spec, draws=draws, counters=counters,
                              numbers=numbers, facts=facts, small=small, example_inputs=examples,
                              name=_string(data["name"]))
    if facts is not None:
        check_sizes(program, facts)
    return program


def _count(x: Any, read: Callable[[str], Any]) -> Any:
    return read(x) if type(x) is str and read is not int else _whole(x)


def _number(x: Any, read: Callable[[str], Any]) -> Any:
    """A number that is computed from sizes."""
    found = parse_number(_string(x), read) if read is not int else None
    require(type(found) in SYMBOLS, f"no number that sizes give: {x!r}")
    return found


def _result(spec: dict, read: Callable[[str], Any]) -> OutputArgument:
    if "number" not in spec:
        return _argument(spec)
    number = _number(spec["number"], read)
    return (SymIntArgument if type(number) is Sym else SymFloatArgument)(literal(number), number)


def _example(x: Any) -> int:
    return x.hint if type(x) is Sym else x


def _string(x: Any) -> str:
    require(type(x) is str, f"expected a text, got {x!r}")
    return x


def _text(spec: dict, key: str) -> str | None:
    return None if spec.get(key) is None else _string(spec[key])


def _whole(x: Any) -> int:
    require(type(x) is int and x >= 0, f"expected a count, got {x!r}")
    return x


def _at(items: list, index: Any) -> Any:
    return items[_whole(index)]


def _argument(spec: dict) -> TensorArgument | ConstantArgument:
    name = _string(spec["name"])
    known = "value" in spec  # such results have no name
    require(is_name(name) or known and not name, f"no name of a value: {name!r}")  # it stands in code of the program
    if not known:
        return TensorArgument(name)
    value = value_from_json(spec["value"])
    require(is_constant(value), f"no constant: {value!r}")
    return ConstantArgument(name, value)


def _draw(data: dict, facts: Facts | None, read: Callable[[str], Any]) -> RandomDraw:
    node, = read_graph(_string(data["call"]), facts).nodes
    offset = _count(data["offset"], read)
    require(node.op.random and node.inputs[:2] == (0, 0), "a draw that is none")
    return RandomDraw(node.op, offset, node.inputs[2:], node.params)


def _tensor(data: bytes, m: Meta) -> Tensor:
    require(m.device.type == "cpu" and min([*m.shape, *m.strides], default=0) >= 0, f"no tensor is {m}")
    require(len(data) == _extent(m) * m.dtype.itemsize, f"{len(data)} bytes for a tensor that is {m}")
    flat = np.frombuffer(bytearray(data), np.uint8)
    # any byte but 0 would be a true that is not equal to others
    flat = flat != 0 if m.numpy == np.bool_ else flat.view(m.numpy)
    return wrap(_strided(flat, m) if m.numel else np.empty(m.shape, m.numpy), m)
