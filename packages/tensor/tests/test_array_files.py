"""Files of tensors alone: safetensors and numpy's formats, both ways, whole or not at all."""

from __future__ import annotations

import io
import os
import sys
import zipfile

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

import rushlight

DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


def tensors() -> dict:
    found = {name: rushlight.tensor([[0, 1, 3], [5, 2, 1]]).to(getattr(rushlight, name)).t() for name in DTYPES}
    return found | {"empty": rushlight.zeros(0, 3), "number": rushlight.tensor(2.5), "": rushlight.ones(1)}


def same(got: dict, want: dict) -> None:
    assert sorted(got) == sorted(want)
    for name, x in want.items():
        assert got[name].dtype is x.dtype and got[name].equal(x), name


@pytest.mark.parametrize("ending", [".safetensors", ".npz"])
@pytest.mark.parametrize("source", [str, lambda path: io.BytesIO(path.read_bytes()), lambda path: path.read_bytes()])
def test_what_goes_in_comes_out(tmp_path, ending, source):
    path, want = tmp_path / f"a{ending}", tensors()
    if ending == ".safetensors":
        with pytest.raises(TypeError, match="'complex128' is complex128, which safetensors has not"):
            rushlight.save_file(want, path)
        del want["complex128"]
    rushlight.save_file(want, path)
    assert os.listdir(tmp_path) == [path.name]
    got = rushlight.load_file(source(path))
    same(got, want)
    for x in got.values():
        x.zero_()  # memory of their own


@pytest.mark.parametrize("name", DTYPES)
def test_one_array(tmp_path, name):
    x = tensors()[name]
    rushlight.save_file(x, tmp_path / "a.npy")
    for mmap in (False, True):
        got = rushlight.load_file(tmp_path / "a.npy", mmap=mmap)
        assert got.equal(x) and got.stride() == x.stride()
        got.zero_()
    assert rushlight.load_file(tmp_path / "a.npy").equal(x), "a write went to the file"
    if name != "bfloat16":
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), x.numpy())


def test_numpy_and_safetensors_read_and_write_the_same(tmp_path):
    want = {"a": rushlight.arange(6.0).reshape(2, 3).t(), "b": rushlight.ones(3, dtype=rushlight.bfloat16)}
    rushlight.save_file(want, tmp_path / "x.safetensors", metadata={"format": "pt"})
    with safetensors.safe_open(tmp_path / "x.safetensors", "numpy") as file:
        assert file.metadata() == {"format": "pt"}
        same({name: rushlight.from_numpy(file.get_tensor(name)) for name in file.keys()}, want)
    np.savez_compressed(tmp_path / "y.npz", a=np.arange(3, dtype=">i4"), b=np.asfortranarray(np.ones((2, 3))))
    same(rushlight.load_file(tmp_path / "y.npz"),
         {"a": rushlight.arange(3, dtype=rushlight.int32), "b": rushlight.ones(2, 3, dtype=rushlight.float64)})
    rushlight.save_file(want, buffer := io.BytesIO())
    same(rushlight.load_file(buffer.getvalue()), want)


def test_shared_memory_is_refused_where_it_would_be_lost(tmp_path):
    x = rushlight.arange(10.0)
    with pytest.raises(RuntimeError, match="'a' and 'b' share memory"):
        rushlight.save_file({"a": x, "b": x[9:]}, tmp_path / "x.safetensors")
    assert os.listdir(tmp_path) == []
    apart = {"even": x[::2], "odd": x[1::2]}
    rushlight.save_file(apart, tmp_path / "x.safetensors")
    same(rushlight.load_file(tmp_path / "x.safetensors"), apart)


@pytest.mark.parametrize("tensors, file, error, match", [
    ([rushlight.ones(1)], "x.safetensors", TypeError, "expected a dict of tensors by name, got list"),
    ({1: rushlight.ones(1)}, "x.npz", TypeError, "names must be strings, got 1"),
    ({"a": [1.0]}, "x.npz", TypeError, "'a' must be a tensor, got list"),
    ({"a": rushlight.ones(1)}, "x.npy", TypeError, "a .npy file holds one tensor, got dict"),
    ({"a": rushlight.ones(1, device="meta")}, "x.npz", TypeError, "is on the meta device"),
])  # fmt: skip
def test_what_cannot_be_stored(tmp_path, tensors, file, error, match):
    with pytest.raises(error, match=match):
        rushlight.save_file(tensors, tmp_path / file)
    assert os.listdir(tmp_path) == []


def objects() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([os.system, 1], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def in_checkpoint() -> bytes:
    buffer = io.BytesIO()
    rushlight.save(rushlight.ones(2), buffer)
    return buffer.getvalue()


def float8() -> bytes:
    content = safetensors.numpy.save({"a": np.zeros(2, np.uint8)})
    return bytes([content[0] + 5]) + content[1:].replace(b'"U8"', b'"F8_E4M3"')  # the header is 5 bytes longer


@pytest.mark.parametrize("content, error, match", [
    (b"", RuntimeError, "damaged"),
    (b"something else", RuntimeError, "damaged"),
    (objects(), RuntimeError, "Object arrays cannot be loaded"),
    (in_checkpoint(), RuntimeError, "read it with rushlight.load"),
    (float8(), TypeError, "F8_E4M3, which rushlight does"),
])  # fmt: skip
def test_what_cannot_be_read(content, error, match):
    with pytest.raises(error, match=match):
        rushlight.load_file(content)


@given(data=st.data(), ending=st.sampled_from([".npy", ".npz", ".safetensors"]))
def test_damage_is_an_error_or_harmless(data, ending, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"damaged{ending}"
    x = rushlight.arange(6.0)
    rushlight.save_file(x if ending == ".npy" else {"a": x, "b": x + 1}, path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    path.write_bytes(content)
    for source in (path, bytes(content)):
        try:
            got = rushlight.load_file(source)
        except (RuntimeError, TypeError) as error:
            assert str(error).startswith("load_file: ")
        else:
            for y in got.values() if isinstance(got, dict) else [got]:
                y.clone()


def test_without_safetensors(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rushlight-tensor\[safetensors\]'"):
        rushlight.save_file({"a": rushlight.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ModuleNotFoundError, match="load_file: safetensors files need"):
        rushlight.load_file(b"\x02\0\0\0\0\0\0\0{}")
    rushlight.save_file({"a": rushlight.ones(1)}, tmp_path / "x.npz")
    assert zipfile.is_zipfile(tmp_path / "x.npz")
