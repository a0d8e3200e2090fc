"""ONNX files: the few messages of a model, and how protobuf writes them.

A message is a list of chunks of bytes, so that weights go from their arrays to a file without being copied. Field
numbers and enums are those of `onnx.proto`; see https://protobuf.dev/programming-guides/encoding for the wire format.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.dtypes import dtype

Chunks = list[Any]  # bytes and memoryviews, one after the other

_VARINT, _BYTES, _FIXED32 = 0, 2, 5  # wire types

# TensorProto.DataType
DATA_TYPE = {
    dtypes.float32: 1, dtypes.uint8: 2, dtypes.int8: 3, dtypes.uint16: 4, dtypes.int16: 5, dtypes.int32: 6,
    dtypes.int64: 7, dtypes.bool: 9, dtypes.float16: 10, dtypes.float64: 11, dtypes.uint32: 12, dtypes.uint64: 13,
    dtypes.complex64: 14, dtypes.complex128: 15, dtypes.bfloat16: 16,
}  # fmt: skip

LIMIT = (1 << 31) - 1  # protobuf reads no larger message
_EXTERNAL = 1  # TensorProto.DataLocation
_ALIGNMENT = 4096  # of weights in a file beside the model, so that a runtime can map them


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first; negative ones as their 64-bit two's complement.

    Raises OverflowError for a number of more than 64 bits.

    Example:
        >>> varint(300)
        b'\\xac\\x02'
    """
    if not -(1 << 63) <= number < 1 << 64:
        raise OverflowError(f"varint: {number} does not fit 64 bits")
    number &= (1 << 64) - 1
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def size(chunks: Chunks) -> int:
    """The number of bytes."""
    return sum(map(len, chunks))


def integer(number: int, value: int) -> Chunks:
    """A field that holds an integer or an enum."""
    return [varint(number << 3 | _VARINT), varint(value)]


def real(number: int, value: float) -> Chunks:
    """A field that holds a float32."""
    return [varint(number << 3 | _FIXED32), np.float32(value).tobytes()]


def block(number: int, chunks: Chunks) -> Chunks:
    """A field that holds a message, or plain bytes."""
    return [varint(number << 3 | _BYTES), varint(size(chunks)), *chunks]


def text(number: int, value: str) -> Chunks:
    """A field that holds a string; an empty one is left out."""
    return block(number, [value.encode()]) if value else []


def _each(number: int, values: Iterable[Chunks]) -> Chunks:
    return [chunk for value in values for chunk in block(number, value)]


@dataclass
class Tensor:
    """A TensorProto; `given` says that it is a tensor of the model, and no constant of a formula. `place` is (file,
    offset, length) of one whose elements lie in a file of their own.
    """

    name: str
    array: np.ndarray
    dtype: dtype
    given: bool = False
    place: tuple[str, int, int] | None = None

    @property
    def bytes(self) -> memoryview:
        """The elements in row-major order, little endian, without a copy where they lie so."""
        flat = np.ascontiguousarray(self.array).reshape(-1)
        if flat.dtype.byteorder == ">":
            flat = flat.astype(flat.dtype.newbyteorder("<"))
        return memoryview(flat.view(np.uint8))

    def chunks(self) -> Chunks:
        """The message."""
        head = [chunk for extent in self.array.shape for chunk in integer(1, extent)]
        head += integer(2, DATA_TYPE[self.dtype]) + text(8, self.name)
        if self.place is None:
            return head + block(9, [self.bytes])
        entries = zip(("location", "offset", "length"), map(str, self.place))
        return head + _each(13, [text(1, key) + text(2, value) for key, value in entries]) + integer(14, _EXTERNAL)


@dataclass
class ValueInfo:
    """A ValueInfoProto: name, element type and shape; a str is a size that is open, None one that is unknown. Of an
    output inside of a model, type and shape may be unknown. `parts`: the last dimension holds those of complex numbers.
    """

    name: str
    dtype: dtype | None
    shape: Sequence[int | str | None] | None
    parts: bool = False

    def chunks(self) -> Chunks:
        """The message."""
        if self.dtype is None:
            return text(1, self.name)
        sizes = _each(1, map(_dimension, self.shape))
        return text(1, self.name) + block(2, block(1, integer(1, DATA_TYPE[self.dtype]) + block(2, sizes)))


def _dimension(extent: int | str | None) -> Chunks:
    if extent is None:
        return []
    return text(2, extent) if isinstance(extent, str) else integer(1, extent)


@dataclass
class Node:
    """A NodeProto; attributes are numbers, strings, `Tensor`s, `Graph`s, or sequences of numbers or strings."""

    kind: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    domain: str = ""

    def chunks(self) -> Chunks:
        """The message."""
        made = [chunk for name in self.inputs for chunk in block(1, [name.encode()])]  # empty: an input left out
        made += [chunk for name in self.outputs for chunk in block(2, [name.encode()])]
        made += text(3, self.name) + text(4, self.kind) + text(7, self.domain)
        return made + _each(5, [_attribute(name, value) for name, value in self.attributes.items()])


def _attribute(name: str, value: Any) -> Chunks:
    """An AttributeProto: the field of the value's kind, and the number of that kind."""
    head = text(1, name)
    if isinstance(value, (bool, int)):
        return head + integer(3, int(value)) + integer(20, 2)
    if isinstance(value, float):
        return head + real(2, value) + integer(20, 1)
    if isinstance(value, str):
        return head + block(4, [value.encode()]) + integer(20, 3)
    if isinstance(value, Tensor):
        return head + block(5, value.chunks()) + integer(20, 4)
    if isinstance(value, Graph):
        return head + block(6, value.chunks()) + integer(20, 5)
    items = list(value)
    if all(isinstance(item, int) for item in items):
        return head + [chunk for item in items for chunk in integer(8, item)] + integer(20, 7)
    if all(isinstance(item, str) for item in items):
        return head + [chunk for item in items for chunk in block(9, [item.encode()])] + integer(20, 8)
    return head + [chunk for item in items for chunk in real(7, item)] + integer(20, 6)


@dataclass
class Graph:
    """A GraphProto."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: list[ValueInfo] = field(default_factory=list)
    outputs: list[ValueInfo] = field(default_factory=list)
    initializers: list[Tensor] = field(default_factory=list)

    def chunks(self) -> Chunks:
        """The message."""
        made = _each(1, [node.chunks() for node in self.nodes]) + text(2, self.name)
        made += _each(5, [tensor.chunks() for tensor in self.initializers])
        made += _each(11, [info.chunks() for info in self.inputs])
        return made + _each(12, [info.chunks() for info in self.outputs])


# The version of the file format that came with a version of the operators.
_FORMAT = {18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13, 28: 14}


@dataclass
class Model:
    """A ModelProto."""

    graph: Graph
    opset: int
    producer: str = "rushlight"
    version: str = ""
    properties: dict[str, str] = field(default_factory=dict)

    def chunks(self) -> Chunks:
        """The message."""
        made = integer(1, _FORMAT[self.opset]) + text(2, self.producer) + text(3, self.version)
        made += block(7, self.graph.chunks()) + block(8, integer(2, self.opset))
        return made + _each(14, [text(1, key) + text(2, value) for key, value in self.properties.items()])


def place_beside(tensors: list[Tensor], file: str, smallest: int = 1024) -> Chunks:
    """Give tensors of at least `smallest` bytes places in `file`; the chunks of that file."""
    chunks: Chunks = []
    offset = 0
    for tensor in tensors:
        content = tensor.bytes
        if len(content) < smallest:
            continue
        gap = -offset % _ALIGNMENT
        chunks += [bytes(gap), content]
        tensor.place = (file, offset + gap, len(content))
        offset += gap + len(content)
    return chunks
