"""A file that is damaged or made to do harm gives one clear error: nothing runs, nothing outside the file is read."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.core.meta import Size, of_array
from rushlight.serialization.unpickler import Unpickler

REFUSED = (RuntimeError, pickle.UnpicklingError)
FILES = Path(__file__).parent / "data"


def checkpoint(structure: bytes, compression: int = zipfile.ZIP_STORED, **storages: bytes) -> io.BytesIO:
    """An archive with this pickle; `s0=b"..."` is the storage of key 0."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr("x/data.pkl", structure)
        for key, data in storages.items():
            archive.writestr(f"x/data/{key[1:]}", data)
    buffer.seek(0)
    return buffer


class Writes:
    """Values as a pickle may hold them: `Writes(name, arguments)` is a call, with `state` changed afterwards."""

    def __init__(self, name, *arguments, state=None):
        self.name, self.arguments, self.state = name, arguments, state


class Storage:
    """A reference to a storage."""

    def __init__(self, numel, kind="FloatStorage", key="0"):
        self.pid = ("storage", Writes(f"torch {kind}"), key, "cpu", numel)


class Forger(pickle._Pickler):
    """Writes pickles that Python would not."""

    def persistent_id(self, x):
        return x.pid if isinstance(x, Storage) else None

    def save(self, x, save_persistent_id=True):
        if not isinstance(x, Writes):
            super().save(x, save_persistent_id)
            return
        module, name = x.name.split()
        self.write(f"c{module}\n{name}\n".encode())
        if x.arguments or x.state:
            if x.arguments:
                self.save(x.arguments)
                self.write(b"R")
            if x.state:
                self.save(x.state)
                self.write(b"b")


def forged(x) -> bytes:
    file = io.BytesIO()
    Forger(file, 2).dump(x)
    return file.getvalue()


def tensor_of(size, stride, offset=0, numel=4):
    return Writes("torch._utils _rebuild_tensor_v2", Storage(numel), offset, size, stride, False, OrderedDict())


def nested(depth):
    """A tuple that takes 2**depth steps to hash."""
    x = ()
    for _ in range(depth):
        x = (x, x)
    return x


OUTSIDE = {
    "too many": tensor_of((5,), (1,)),
    "offset": tensor_of((1,), (1,), 4),
    "before the start": tensor_of((1,), (1,), -1),
    "negative stride": tensor_of((2,), (-1,), 1),
    "negative size": tensor_of((-1,), (1,)),
    "strides that overflow": tensor_of((2**32 + 1,), (2**32,)),
    "strides that overflow in bytes": tensor_of((2**30 + 1,), (2**32,)),
    "elements that overflow": tensor_of((2**32, 2**32), (0, 0)),
    "huge": tensor_of((2**70,), (0,)),
    "sizes that are no ints": tensor_of((1.0,), (1,)),
    "sizes that are bools": tensor_of((True,), (1,)),
    "too few strides": tensor_of((2, 2), (1,)),
    "a size that is no sequence": tensor_of(4, 1),
    "larger storage than there is": tensor_of((8,), (1,), numel=8),
    "storage without end": tensor_of((8,), (1,), numel=2**62),
    "negative storage": tensor_of((), (), numel=-1),
    "meta tensor": Writes("torch._utils _rebuild_meta_tensor_no_storage", Writes("torch float32"), (1.0,), (1,), False),
    "tensor of a tensor": Writes("torch._utils _rebuild_tensor_v2", tensor_of((1,), (1,)), 0, (1,), (1,)),
}
HARM = {
    "system": Writes("os system", "exit 1"),
    "builtins": Writes("builtins eval", "1"),
    "attributes": Writes("builtins getattr", 1, "real"),
    "a dtype is changed": Writes("torch float32", state=(None, {"itemsize": 1})),
    "a class is changed": Writes("torch Size", state=(None, {"numel": 1})),
    "a function is changed": Writes("torch._utils _rebuild_tensor_v2", state={"function": 1}),
    "a tensor is changed":
        Writes("torch._utils _rebuild_tensor_v2", Storage(4), 0, (1,), (1,), state=(None, {"_meta": 1})),
    "a storage is changed": Writes("torch FloatStorage", state={"kind": None}),
    "a dtype is called": Writes("torch float32", 3),
    "bytes without end": Writes("builtins bytearray", 2**45),
    "member without end": Writes("builtins set", [nested(60)]),
    "pair without end": Writes("collections OrderedDict", [[nested(60), 1]]),
    "device": Writes("torch device", "nowhere:1"),
    "numpy objects": Writes("numpy dtype", "O8"),
    "numpy fields": Writes("numpy dtype", [("a", "f4")]),
    "numpy bytes": Writes("numpy._core.multiarray scalar", Writes("numpy dtype", "f8"), b"123"),
    "numpy shape": Writes("numpy._core.multiarray _reconstruct", Writes("numpy ndarray"), (0,), b"b",
                          state=(1, (2**40,), Writes("numpy dtype", "f8"), False, b"12345678")),
}  # fmt: skip


@pytest.mark.parametrize("case", [pytest.param(x, id=name) for name, x in (OUTSIDE | HARM).items()])
def test_forged_pickles_are_refused(case):
    with pytest.raises(REFUSED, match="load: "):
        rushlight.load(checkpoint(forged([case]), s0=bytes(16)), weights_only=False)
    assert rushlight.float32.itemsize == 4 and Size((2,)).numel() == 2
    assert of_array(np.ones(1)).shape[0].__class__ is int, "a size that is no int has come into the table of metadata"


def test_what_is_right_is_read():
    got = rushlight.load(checkpoint(forged([tensor_of((2, 3), (0, 1), 1)]), s0=np.arange(4.0, dtype="f4").tobytes()))
    assert got[0].tolist() == [[1, 2, 3]] * 2


BAD_INSTRUCTIONS = [
    b"\x82\x01.",
    b"(ios\nsystem\n.", b"(cos\nsystem\nS'x'\no.", b"\x95" + b"\xff" * 7 + b"\x7f.", b"\x96" + b"\xff" * 8,
    b"]h\x05.", b"(((((.", b"0.", b"N", b"", b"\x80\x09.", b"]K\x01u.", b"}(K\x01u.", b"K\x01K\x02b.", b"K\x01]a.",
    b"L1" * 9, b"\x8b\xff\xff\xff\x7f", b"X\xff\xff\xff\x7f", b"Vx", b"\x85R.", b"))\x81.", b"Pname\n.", b"K\x01Q.",
    b"((K\x01tQ.",
    # Keys that are tuples of tuples of ..., which take 2**60 steps to hash
    b"})" + b"2\x86" * 60 + b"K\x01s.", b"}()" + b"2\x86" * 60 + b"K\x01u.", b"()" + b"2\x86" * 60 + b"\x91.",
]  # fmt: skip


@pytest.mark.parametrize("code", BAD_INSTRUCTIONS, ids=repr)
def test_bad_instructions_are_refused(code):
    with pytest.raises(REFUSED, match="load: "):
        rushlight.load(checkpoint(code))


def test_instructions_that_could_do_more_are_absent():
    for name in "EXT1 EXT2 EXT4 INST OBJ NEWOBJ_EX PERSID NEXT_BUFFER READONLY_BUFFER BYTEARRAY8".split():
        assert getattr(pickle, name)[0] not in Unpickler.dispatch


def test_archives_that_claim_more_than_they_hold():
    structure = forged([tensor_of((4,), (1,))])
    with pytest.raises(RuntimeError, match="compressed"):
        rushlight.load(checkpoint(structure, zipfile.ZIP_DEFLATED, s0=bytes(16)))
    data = bytearray(checkpoint(structure, s0=bytes(16)).getvalue())
    for offset in (20, 24):  # the sizes of the last entry of the central directory
        begin = data.rindex(b"PK\1\2") + offset
        data[begin : begin + 4] = (2**31).to_bytes(4, "little")
    with pytest.raises(RuntimeError, match="larger than it is"):
        rushlight.load(io.BytesIO(data))


def use(x):
    """Read all values of what was loaded."""
    if isinstance(x, rushlight.Tensor):
        if not x.is_meta and x.numel() < 1 << 20:
            x.clone()
    elif isinstance(x, dict):
        for value in x.values():
            use(value)
    elif isinstance(x, (list, tuple)):
        for value in x:
            use(value)


@pytest.mark.parametrize("name", ["torch.pt", "torch_before_1.6.pt"])
@settings(max_examples=60)
@given(data=st.data())
def test_damage_is_an_error_or_harmless(name, data, tmp_path_factory):
    content = bytearray((FILES / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))]
    path = tmp_path_factory.getbasetemp() / "damaged.pt"
    path.write_bytes(content)
    for mmap in (False, True):
        try:
            use(rushlight.load(path, mmap=mmap))
        except REFUSED as error:
            assert str(error)


PIECES = [
    b"]", b"}", b")", b"(", b"N", b"K\x01", b"K\x00", b"X\x01\x00\x00\x00a", b"\x85", b"\x86", b"t", b"R", b"b", b"Q",
    b"2", b"0", b"q\x00", b"h\x00", b"a", b"e", b"s", b"u", b"l", b"d", b"\x8f", b"\x90", b"\x91", b"\x93", b"\x81",
    b"M\x10\x27",
    b"ctorch\nFloatStorage\n", b"ctorch\nSize\n", b"ctorch\nfloat32\n", b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ccollections\nOrderedDict\n", b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n",
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ",
    b"c__builtin__\nbytearray\n", b"\x8a\x08" + b"\x7f" * 8,
]  # fmt: skip


@settings(max_examples=60)
@given(code=st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=25).map(b"".join))
def test_random_programs_build_data_or_fail(code):
    try:
        use(rushlight.load(checkpoint(code + b".", s0=bytes(16))))
    except REFUSED as error:
        assert str(error)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    rushlight.save({"x": rushlight.arange(100)}, path)
    before = path.read_bytes()

    def fails(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="disk full"):
            rushlight.save({"x": rushlight.arange(5)}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["model.pt"]


def test_a_link_stays_and_so_do_permissions(tmp_path):
    path, link = tmp_path / "model.pt", tmp_path / "link.pt"
    rushlight.save(rushlight.zeros(2), path)
    path.chmod(0o640)
    link.symlink_to(path)
    rushlight.save(rushlight.ones(2), link)
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert rushlight.load(path).tolist() == [1, 1]
