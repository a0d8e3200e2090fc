"""Memory that is shared with other libraries, and what cannot be a tensor."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle

import ml_dtypes
import numpy as np
import pytest

import rushlight
from rushlight.core.errors import OutOfMemoryError
from rushlight.ops import dlpack
from rushlight.utils.dlpack import from_dlpack, to_dlpack

DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


class Exporter:
    """Another library's tensor: exports the memory of ours, as the protocol was before its versions or is now."""

    def __init__(self, x, versioned):
        self.x, self.options = x, {"max_version": (1, 0)} if versioned else {}

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**self.options)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_dlpack_shares_memory_of_every_dtype(name, versioned):
    x = rushlight.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(rushlight, name)).t()
    for other in (Exporter(x, versioned), x.__dlpack__(), to_dlpack(x)):
        y = from_dlpack(other)
        assert (y.data_ptr(), y.shape, y.stride(), y.dtype) == (x.data_ptr(), x.shape, x.stride(), x.dtype)
        assert y.equal(x)
    for read in (rushlight.as_tensor, rushlight.asarray):
        assert read(Exporter(x, versioned)).data_ptr() == x.data_ptr()
    assert from_dlpack(x, copy=True).data_ptr() != x.data_ptr()


@pytest.mark.parametrize("x", [rushlight.zeros(0, 3), rushlight.tensor(2.5), rushlight.ones(1).expand(4),
                               rushlight.arange(10)[2::3], rushlight.zeros(2, 3, 0, dtype=rushlight.bfloat16)])
def test_dlpack_of_special_shapes(x):
    got = from_dlpack(Exporter(x, True))
    assert got.equal(x) and got.shape == x.shape


def test_numpy_reads_and_keeps_the_memory_alive():
    x = rushlight.arange(300_000.0)
    array = np.from_dlpack(x)
    assert array.ctypes.data == x.data_ptr() and array.flags.writeable
    del x
    gc.collect()
    others = [rushlight.zeros(300_000) for _ in range(3)]
    assert array[-1] == 299_999 and not others[0].any()


def test_a_capsule_is_read_once():
    capsule = rushlight.ones(2).__dlpack__()
    from_dlpack(capsule)
    with pytest.raises(TypeError, match="that nobody has read yet"):
        from_dlpack(capsule)


def test_dlpack_refuses():
    x = rushlight.ones(2)
    with pytest.raises(TypeError, match="expected an object with __dlpack__, got list"):
        from_dlpack([1.0])
    with pytest.raises(BufferError, match="meta"):
        rushlight.ones(2, device="meta").__dlpack__()
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    capsule = x.__dlpack__()
    described = dlpack._described(capsule)
    described.code, described.bits = 10, 8  # a float8
    with pytest.raises(TypeError, match="no dtype for elements of 8 bits of DLPack type 10"):
        from_dlpack(capsule)
    described.code, described.bits = 2, 32
    described.device_type = 2
    with pytest.raises(RuntimeError, match="memory of DLPack device type 2 cannot be read here"):
        from_dlpack(capsule)
    described.device_type = 1
    assert ctypes.sizeof(dlpack._Versioned) == 80


def test_negative_strides():
    array = np.arange(4.0)[::-1]
    with pytest.raises(ValueError, match="strides are negative"):
        rushlight.from_numpy(array)
    with pytest.raises(ValueError, match="strides are negative"):
        from_dlpack(array, copy=False)
    for read in (rushlight.tensor, rushlight.as_tensor, rushlight.asarray, from_dlpack):
        assert read(array).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("array", [
    np.zeros(2, ">f4"), np.array([1, None]), np.zeros(2, "S3"), np.zeros(2, "U3"), np.zeros(2, "M8[s]"),
    np.zeros(2, "V4"), np.zeros(2, [("a", "f4")]), np.zeros(2, ml_dtypes.float8_e4m3fn), np.zeros(2, ml_dtypes.int4),
], ids=lambda array: str(array.dtype))  # fmt: skip
def test_foreign_dtypes(array):
    for read in (rushlight.from_numpy, rushlight.tensor, rushlight.as_tensor, rushlight.asarray):
        with pytest.raises(TypeError, match="rushlight has no dtype for numpy's"):
            read(array)


def test_fields_of_records_are_no_tensors_where_strides_do_not_fit():
    with pytest.raises(ValueError, match="not multiples of the element size"):
        rushlight.from_numpy(np.zeros(3, [("a", "i1"), ("b", "f4")])["b"])


@pytest.mark.parametrize("n", [4, 100_000])
def test_memory_that_lies_askew(n):
    x = rushlight.from_numpy(np.frombuffer(bytearray(4 * n + 1), np.float32, offset=1))
    assert (x.add_(1).exp() - 1).log().sum().isclose(rushlight.tensor(n * np.log(np.e - 1), dtype=rushlight.float32))


def test_array_protocol():
    x = rushlight.arange(3.0)
    assert np.asarray(x).ctypes.data == x.data_ptr() == np.array(x, copy=False).ctypes.data
    assert np.array(x).ctypes.data != x.data_ptr() != np.asarray(x, dtype=np.float32, copy=True).ctypes.data
    assert np.asarray(x, dtype="i2").dtype == np.int16
    with pytest.raises(ValueError, match="needs a copy, but copy=False"):
        np.asarray(x, dtype="i2", copy=False)
    assert np.asarray(x.bfloat16()).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_what_shares_memory_still_does_in_a_copy(duplicate):
    x = rushlight.arange(6.0).reshape(2, 3)
    a, b, c = duplicate([x, x.t(), x[1]])
    a[1, 0] = 99
    assert b[0, 1] == 99 and c[0] == 99 and x[1, 0] == 3 and b.stride() == (1, 3)


TOO_LARGE = {
    "empty": lambda: rushlight.empty(2**50),
    "zeros": lambda: rushlight.zeros(2**50),
    "full": lambda: rushlight.full((2**50,), 2.0),
    "arange": lambda: rushlight.arange(2**50),
    "rand": lambda: rushlight.rand(2**50),
    "add": lambda: rushlight.ones(1).expand(2**50) + 1,
    "clone": lambda: rushlight.ones(1).expand(2**50).clone(),
    "cat": lambda: rushlight.cat([rushlight.ones(1).expand(2**48)] * 4),
    "bincount": lambda: rushlight.bincount(rushlight.tensor([2**50])),
    "resize_": lambda: rushlight.ones(2).resize_(2**50),
}


@pytest.mark.parametrize("call", TOO_LARGE.values(), ids=TOO_LARGE)
def test_more_memory_than_there_is(call):
    with pytest.raises(OutOfMemoryError, match="out of memory"):
        call()
    assert issubclass(OutOfMemoryError, RuntimeError) and issubclass(OutOfMemoryError, MemoryError)


@pytest.mark.parametrize("call", [
    lambda: rushlight.empty(2**40, 2**40), lambda: rushlight.empty(2**40, 2**40, 0), lambda: rushlight.zeros(2**63),
    lambda: rushlight.ones(1).expand(2**62, 2**62), lambda: rushlight.ones(4).repeat(2**62),
    lambda: rushlight.eye(2**40), lambda: rushlight.ones(10).as_strided((2**32 + 1,), (2**32,)),
])  # fmt: skip
def test_sizes_that_overflow(call):
    with pytest.raises(RuntimeError, match="overflow|out of bounds"):
        call()


WRITES = {
    "add_": lambda x: x.add_(1.0),
    "add_ of a view": lambda x: x.t()[3:].add_(1.0),
    "copy_": lambda x: x.copy_(rushlight.ones(x.shape)),
    "zero_": lambda x: x.zero_(),
    "masked_fill_": lambda x: x.masked_fill_(x == 0, 1.0),
    "by index": lambda x: x.__setitem__(rushlight.tensor([0, 1]), 1.0),
    "index_add_": lambda x: x.index_add_(0, rushlight.tensor([0]), x[:1] + 1),
    "scatter_": lambda x: x.scatter_(0, rushlight.zeros(x.shape, dtype=rushlight.int64), 1.0),
    "uniform_": lambda x: x.uniform_(),
    "out=": lambda x: rushlight.exp(x, out=x),
}


@pytest.mark.parametrize("shape", [(8, 5), (200, 300)])
@pytest.mark.parametrize("write", WRITES)
def test_read_only_memory_is_read_and_not_written(write, shape, tmp_path):
    np.save(tmp_path / "zeros.npy", np.zeros(shape, np.float32))
    x = rushlight.from_numpy(np.load(tmp_path / "zeros.npy", mmap_mode="r"))  # a write into it would end the process
    assert not (x + x.sum()).any()
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        WRITES[write](x)
    assert not x.any() and not np.load(tmp_path / "zeros.npy").any()
