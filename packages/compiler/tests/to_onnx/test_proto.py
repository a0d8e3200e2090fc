"""The protobuf writer: what it writes, a reader of the wire format and the package `onnx` read back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rushlight.core import dtypes
from rushlight.onnx import proto

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
SIZES = st.integers(0, (1 << 63) - 1) | NAMES | st.none()


def read_varint(data: bytes) -> tuple[int, int]:
    """The number at the start, and how many bytes it takes."""
    total = 0
    for i, byte in enumerate(data):
        total |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return total, i + 1
    raise AssertionError("no end")


def data_of(chunks: list) -> bytes:
    return b"".join(map(bytes, chunks))


@given(st.integers(-(1 << 63), (1 << 64) - 1))
def test_varint_reads_back(number):
    written = proto.varint(number)
    assert read_varint(written + b"\xff") == (number % (1 << 64), len(written))
    assert len(written) == max(1, -(-(number % (1 << 64)).bit_length() // 7))


def test_varint_refuses_more_than_64_bits():
    for number in (1 << 64, -(1 << 63) - 1):
        with pytest.raises(OverflowError, match="64 bits"):
            proto.varint(number)


@given(NAMES, st.sampled_from(list(proto.DATA_TYPE)), st.lists(SIZES, max_size=4))
def test_shapes_read_back(name, kind, sizes):
    onnx = pytest.importorskip("onnx")
    info = onnx.ValueInfoProto.FromString(data_of(proto.ValueInfo(name, kind, sizes).chunks()))
    tensor = info.type.tensor_type
    assert info.name == name and tensor.elem_type == proto.DATA_TYPE[kind] and tensor.HasField("shape")
    found = [getattr(d, d.WhichOneof("value")) if d.WhichOneof("value") else None for d in tensor.shape.dim]
    assert found == sizes


@given(st.lists(st.integers(0, 3), max_size=3), st.sampled_from(list(proto.DATA_TYPE)))
def test_tensors_read_back(shape, kind):
    helper = pytest.importorskip("onnx.numpy_helper")
    onnx = pytest.importorskip("onnx")
    array = np.arange(int(np.prod(shape)) * 2, dtype=np.int32).astype(kind.numpy)[::2].reshape(shape).T
    message = onnx.TensorProto.FromString(data_of(proto.Tensor("w", array, kind).chunks()))
    found = helper.to_array(message)
    assert found.shape == array.shape and found.dtype == kind.numpy
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(array).tobytes()


ATTRIBUTES = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.floats(width=32, allow_nan=False),
    NAMES,
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1),
    st.lists(NAMES, min_size=1),
)


@given(st.dictionaries(NAMES, ATTRIBUTES, max_size=3), st.lists(NAMES | st.just("")), st.lists(NAMES))
def test_nodes_read_back(attributes, inputs, outputs):
    onnx = pytest.importorskip("onnx")
    node = onnx.NodeProto.FromString(data_of(proto.Node("Kind", inputs, outputs, attributes, "n", "d").chunks()))
    assert (node.op_type, node.name, node.domain) == ("Kind", "n", "d")
    assert list(node.input) == inputs and list(node.output) == outputs
    for attribute in node.attribute:
        found, wanted = onnx.helper.get_attribute_value(attribute), attributes.pop(attribute.name)
        found = found.decode() if isinstance(found, bytes) else found
        assert ([x.decode() if isinstance(x, bytes) else x for x in found] if isinstance(wanted, list) else found
                ) == wanted
    assert not attributes


def test_large_tensors_lie_in_a_file_of_their_own():
    small, large = np.zeros(3, np.float32), np.ones(1024, np.float32)
    given_ = [proto.Tensor(str(i), x, dtypes.float32) for i, x in enumerate((small, large, large))]
    side = data_of(proto.place_beside(given_, "m.data"))
    assert given_[0].place is None and [t.place for t in given_[1:]] == [("m.data", 0, 4096), ("m.data", 4096, 4096)]
    assert side == large.tobytes() * 2
