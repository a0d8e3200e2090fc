"""Checkpoints: what goes in comes out, nothing runs, and damage is an error."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import Counter, OrderedDict

import numpy as np
import pytest

import rushlight
from rushlight.serialization import add_safe_globals, clear_safe_globals


def saved(obj) -> io.BytesIO:
    buffer = io.BytesIO()
    rushlight.save(obj, buffer)
    buffer.seek(0)
    return buffer


def test_structures_come_back():
    x = rushlight.arange(6.0).reshape(2, 3)
    state = OrderedDict(weight=x, row=x[1], turned=x.T)
    state._metadata = {"version": 1}
    obj = {
        "state": state,
        "plain": [1, 2.5, True, None, "a", b"b", 3 + 4j, {1, 2}, (2**70, -1), np.float32(0.5), Counter("aab")],
        "types": (rushlight.float32, rushlight.Size([2, 3]), rushlight.device("cpu")),
        "same": x,
        "empty": rushlight.zeros(0, 3, dtype=rushlight.bool),
    }
    got = rushlight.load(saved(obj))
    assert type(got["plain"][-1]) is Counter
    assert got["plain"] == obj["plain"] and got["types"] == obj["types"]
    assert got["state"]._metadata == {"version": 1} and list(got["state"]) == ["weight", "row", "turned"]
    assert got["same"] is got["state"]["weight"]
    assert got["empty"].shape == (0, 3) and got["empty"].dtype is rushlight.bool
    got["same"][1, 0] = 99
    assert got["state"]["row"].tolist() == [99, 4, 5] and got["state"]["turned"].stride() == (1, 3)


@pytest.mark.parametrize("name", "bool uint8 uint16 int8 int32 int64 float16 bfloat16 float64 complex64".split())
def test_every_dtype(name):
    x = rushlight.tensor([0, 1, 3]).to(getattr(rushlight, name))
    got = rushlight.load(saved(x))
    assert got.dtype is x.dtype and got.equal(x)


class Runs:
    """Pickles to a call of a function."""

    def __reduce__(self):
        return (os.system, ("exit 1",))


def test_nothing_in_a_file_runs():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps({"weight": Runs()}))
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="is no plain data and is not run"):
        rushlight.load(buffer, weights_only=False)
    with pytest.raises(TypeError, match="cannot store"):
        saved({"weight": Runs()})


class Settings:
    """A class that a user allows."""

    def __init__(self, rate):
        self.rate = rate


def test_allowed_classes():
    with pytest.raises(TypeError, match="add_safe_globals"):
        saved(Settings(3))
    add_safe_globals([Settings])
    try:
        assert rushlight.load(saved([Settings(3)]))[0].rate == 3
    finally:
        clear_safe_globals()


def test_paths_are_replaced_in_one_step(tmp_path):
    path = tmp_path / "model.pt"
    rushlight.save({"x": rushlight.arange(100)}, path)
    assert rushlight.load(path, mmap=True)["x"].equal(rushlight.arange(100))
    before = path.read_bytes()
    with pytest.raises(TypeError):
        rushlight.save({"x": rushlight.arange(5), "y": object()}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.pt"]


def rebuilt(buffer: io.BytesIO, change) -> io.BytesIO:
    """The archive with its files passed through `change(name, data)`."""
    result = io.BytesIO()
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(result, "w") as new:
        for name in old.namelist():
            data = change(name, old.read(name))
            if data is not None:
                new.writestr(name, data)
    result.seek(0)
    return result


def test_damaged_files_are_refused():
    good = saved(rushlight.arange(100))
    with pytest.raises(RuntimeError, match="missing"):
        rushlight.load(rebuilt(good, lambda name, data: None if "/data/" in name else data))
    with pytest.raises(RuntimeError, match="has 8 bytes, expected 800"):
        rushlight.load(rebuilt(good, lambda name, data: data[:8] if "/data/" in name else data))
    larger = rebuilt(good, lambda name, data: data.replace(b"Kd\x85", b"K\xff\x85") if name.endswith("pkl") else data)
    with pytest.raises(RuntimeError, match="exceed a storage of 800 bytes"):
        rushlight.load(larger)
    with pytest.raises(RuntimeError, match="not a checkpoint"):
        rushlight.load(io.BytesIO(b"something else"))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", ">i4", "bool", "complex64", "uint16"])
def test_numpy_arrays_of_numbers(dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    found = rushlight.load(saved({"a": array, "again": array, "view": array.T, "none": array[:0], "one": array[0, 0]}))
    assert found["a"] is found["again"] and found["a"].dtype == array.dtype.newbyteorder("=")
    assert np.array_equal(found["a"], array) and np.array_equal(found["view"], array.T)
    assert found["none"].shape == (0, 3) and found["one"] == array[0, 0]
    with pytest.raises(TypeError, match="cannot store"):
        saved(array.astype(object))


def test_bytes_of_any_length():
    for data in (b"", b"a\xff\x00", [b"", b""]):
        assert rushlight.load(saved({"x": data}))["x"] == data


def test_torch_reads_numpy_arrays():
    torch = pytest.importorskip("torch")
    assert torch.load(saved([np.arange(3.0)]), weights_only=False)[0].tolist() == [0, 1, 2]
