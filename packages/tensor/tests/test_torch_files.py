"""Files that PyTorch has written are read as what they were.

`python tests/test_torch_files.py` writes them anew, and then reads with PyTorch what rushlight writes; it needs both.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import rushlight

DATA = Path(__file__).parent / "data"
DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


def objects(torch):
    """What the files hold, made with PyTorch or with rushlight."""
    x = torch.arange(6.0).reshape(2, 3)
    state = OrderedDict(weight=x, bias=torch.ones(3, dtype=torch.float64))
    state._metadata = OrderedDict({"": {"version": 2}})
    marked = torch.ones(2)
    marked.note = "kept"
    return {
        "state": state,
        "views": [x, x.t(), x[1], x[:, ::2], torch.ones(1).expand(4)],
        "images": torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
        "dtypes": {name: torch.tensor([0, 1, 3]).to(getattr(torch, name)) for name in DTYPES},
        "lazy": [torch.tensor([1 + 2j]).conj(), torch.tensor([1 + 2j]).conj().imag],
        "sizes": [torch.zeros(0, 3), torch.tensor(3.5), torch.Size([2, 3])],
        "names": [torch.bfloat16, torch.device("cpu"), torch.strided],
        "plain": [1, 2.5, True, None, "a", b"b", bytearray(b"c"), 3 + 4j, {1, 2}, (2**70, -1)],
        "marked": marked,
        "meta": torch.empty(2, 3, device="meta"),
    }


def compare(got, want):
    assert type(got).__name__ == type(want).__name__
    if hasattr(want, "stride"):
        assert str(got.dtype).split(".")[1] == str(want.dtype).split(".")[1] and tuple(got.shape) == tuple(want.shape)
        assert got.stride() == want.stride() or got.numel() < 2
        assert got.is_meta or got.tolist() == want.tolist()
        assert {**got.__dict__} == {**want.__dict__}
    elif isinstance(want, dict):
        assert list(got) == list(want)
        for key in want:
            compare(got[key], want[key])
        if isinstance(want, OrderedDict):
            assert got._metadata == want._metadata
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for a, b in zip(got, want):
            compare(a, b)
    else:
        assert str(got).replace("torch", "rushlight") == str(want).replace("torch", "rushlight")


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("file", ["torch.pt", "torch_protocol4.pt", "torch_before_1.6.pt"])
def test_what_pytorch_wrote(file, mmap):
    if "before" in file and mmap:
        with pytest.raises(RuntimeError, match="mmap=True needs a zip archive"):
            rushlight.load(DATA / file, mmap=True)
        return
    got = rushlight.load(DATA / file, mmap=mmap)
    expected = objects(rushlight)
    if "before" in file:
        del expected["meta"]  # which that format has not
    compare(got, expected)
    x, turned, row, *_ = got["views"]
    assert got["state"]["weight"] is x
    x[1, 0] = 99
    assert row[0] == 99 and turned[0, 1] == 99


def test_parameters_and_numpy_data():
    got = rushlight.load(DATA / "torch_parameter.pt")
    assert got["weight"].tolist() == [1, 1]
    assert type(got["number"]) is np.float64 and got["number"] == 2.5
    np.testing.assert_array_equal(got["array"], np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("file, error", [
    ("torch_module.pt", "refers to torch.nn.modules.linear.Linear, which rushlight does not have"),
    ("torch_sparse.pt", "refers to torch._utils._rebuild_sparse_tensor, which rushlight does not have"),
])  # fmt: skip
def test_what_cannot_be_read_is_named(file, error):
    with pytest.raises(Exception, match=error):
        rushlight.load(DATA / file, weights_only=False)


def write():
    """Write the files with PyTorch."""
    import torch

    DATA.mkdir(exist_ok=True)
    found = objects(torch)
    torch.save(found, DATA / "torch.pt")
    torch.save(found, DATA / "torch_protocol4.pt", pickle_protocol=4)
    del found["meta"]
    torch.save(found, DATA / "torch_before_1.6.pt", _use_new_zipfile_serialization=False)
    numbers = {"number": np.float64(2.5), "array": np.arange(6, dtype=">i4").reshape(2, 3)}
    torch.save({"weight": torch.nn.Parameter(torch.ones(2)), **numbers}, DATA / "torch_parameter.pt")
    torch.save(torch.nn.Linear(1, 1), DATA / "torch_module.pt")
    torch.save(torch.eye(2).to_sparse(), DATA / "torch_sparse.pt")

    buffer = io.BytesIO()
    ours = objects(rushlight)
    ours["lazy"] = []
    rushlight.save(ours, buffer)
    buffer.seek(0)
    theirs = {**objects(torch), "lazy": []}
    compare(torch.load(buffer), theirs)


if __name__ == "__main__":
    write()
