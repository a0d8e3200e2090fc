"""Datasets over files."""

import gzip
import io
import json
import multiprocessing
import pickle
import struct
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.utils.data import (
    DataLoader,
    IDXDataset,
    ImageFolder,
    NumpyDataset,
    TableDataset,
    TableStream,
    TarDataset,
    TextDataset,
    TokenDataset,
    as_dataset,
    default_collate,
)
from rushlight.utils.data.files.shards import decoders, expand
from rushlight.utils.data.files.text import _line_starts


def same(left, right):
    """Whether two batches are equal: structure, dtypes and values."""
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left.dtype == right.dtype and left.tolist() == right.tolist()


def check_batches(dataset):
    """The quick way to a batch gives what collation of single samples gives; a copy for a worker is as good."""
    indices = [len(dataset) - 1, 0, -1]
    expected = default_collate([dataset[i] for i in indices])
    twin = pickle.loads(pickle.dumps(dataset))
    for each in (dataset, twin):
        assert same(next(iter(DataLoader(each, sampler=indices, batch_size=3))), expected)
    with pytest.raises(IndexError):
        dataset[len(dataset)]
    with pytest.raises(IndexError):
        list(DataLoader(dataset, sampler=[0, len(dataset)], batch_size=2))


def write_idx(path, array, code):
    head = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    with gzip.open(path, "wb") if path.suffix == ".gz" else open(path, "wb") as file:
        file.write(head + array.tobytes())


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize(("code", "dtype"), [(8, "u1"), (9, "i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")])
def test_idx(tmp_path, end, code, dtype):
    images, labels = tmp_path / f"images-idx{end}", tmp_path / f"labels-idx{end}"
    values = np.arange(5 * 2 * 3).reshape(5, 2, 3).astype(dtype)
    write_idx(images, values, code)
    write_idx(labels, np.arange(5, dtype="u1"), 8)
    dataset = IDXDataset(images, labels)
    image, label = dataset[3]
    assert image.tolist() == values[3].tolist()
    assert image.numpy().dtype == np.dtype(dtype).newbyteorder("=")
    assert label == 3
    check_batches(dataset)
    check_batches(IDXDataset(images))
    assert IDXDataset(images, labels, transform=lambda image: image.sum())[1][0].item() == values[1].sum()


def test_broken_idx(tmp_path):
    (tmp_path / "a").write_bytes(b"PNG?")
    with pytest.raises(ValueError, match="is not an IDX file"):
        IDXDataset(tmp_path / "a")
    with gzip.open(tmp_path / "b.gz", "wb") as file:
        file.write(b"\0\0\x08\x01\0\0\0\x07123")
    with pytest.raises(ValueError, match="cut off"):
        IDXDataset(tmp_path / "b.gz")
    write_idx(tmp_path / "c", np.zeros(3, "u1"), 8)
    write_idx(tmp_path / "d", np.zeros(4, "u1"), 8)
    with pytest.raises(ValueError, match="3 items, .* has 4"):
        IDXDataset(tmp_path / "c", tmp_path / "d")


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(4, 3),
        np.asfortranarray(np.arange(24, dtype=np.int16).reshape(4, 3, 2)),
        np.arange(4, dtype=">i4"),
        np.arange(4) > 2,
    ],
)
def test_npy(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    dataset = NumpyDataset(tmp_path / "a.npy")
    assert [row.tolist() for row in (dataset[i] for i in range(4))] == array.tolist()
    dataset[0].zero_()  # its own memory
    check_batches(dataset)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    arrays = {"x": np.arange(12.0).reshape(4, 3), "label": np.arange(4)}
    save(tmp_path / "a.npz", **arrays)
    dataset = NumpyDataset(tmp_path / "a.npz")
    assert {key: value.tolist() for key, value in dataset[2].items()} == {"x": [6, 7, 8], "label": 2}
    assert list(NumpyDataset(tmp_path / "a.npz", keys=["label"])[1]) == ["label"]
    assert (getattr(dataset.arrays["x"], "path", None) is None) == (save is np.savez_compressed)
    check_batches(dataset)
    with pytest.raises(KeyError):
        NumpyDataset(tmp_path / "a.npz", keys=["z"])


def test_numpy_files_that_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}, 1], dtype=object))
    with pytest.raises(ValueError, match="Python objects"):
        NumpyDataset(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", x=np.zeros(3), y=np.zeros(4))
    with pytest.raises(ValueError, match="one first size"):
        NumpyDataset(tmp_path / "b.npz")
    np.save(tmp_path / "c.npy", np.float64(3))
    with pytest.raises(ValueError, match="one first size"):
        NumpyDataset(tmp_path / "c.npy")


def test_a_mapped_file_is_sent_by_its_path(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((1000, 1000)))
    dataset = NumpyDataset(tmp_path / "a.npy")
    dataset[0]
    assert len(pickle.dumps(dataset)) < 1000


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))), st.booleans())
def test_lines(lines, ended):
    if not ended and lines and not lines[-1]:
        lines[-1] = "end"
    data = "\n".join(lines) + ("\n" if ended and lines else "")
    starts = _line_starts(np.frombuffer(data.encode(), np.uint8))
    raw = [data.encode()[a:b] for a, b in zip(starts[:-1], starts[1:])]
    assert [line.decode().removesuffix("\n") for line in raw] == lines


def test_text(tmp_path):
    (tmp_path / "a.txt").write_bytes("one\r\n\nd\u00e9j\u00e0\nlast".encode())
    dataset = TextDataset(tmp_path / "a.txt")
    assert [dataset[i] for i in range(4)] == ["one", "", "d\u00e9j\u00e0", "last"]
    assert dataset[-1] == "last"
    assert list(pickle.loads(pickle.dumps(TextDataset(tmp_path / "a.txt", transform=len)))) == [3, 0, 4, 4]
    (tmp_path / "b.txt").write_bytes(b"")
    assert len(TextDataset(tmp_path / "b.txt")) == 0
    (tmp_path / "c.txt").write_bytes(b"\xff\n")
    with pytest.raises(UnicodeDecodeError):
        TextDataset(tmp_path / "c.txt")[0]


@given(st.integers(2, 40), st.integers(1, 9), st.integers(1, 9))
def test_windows_of_tokens(tmp_path_factory, count, length, stride):
    path = tmp_path_factory.getbasetemp() / "tokens.bin"
    np.arange(count, dtype=np.uint16).tofile(path)
    if count <= length:
        with pytest.raises(ValueError, match=f"needs {length + 1}"):
            TokenDataset(path, length, stride=stride)
        return
    dataset = TokenDataset(path, length, stride=stride)
    for i in range(len(dataset)):
        inputs, targets = dataset[i]
        assert inputs.tolist() == list(range(i * stride, i * stride + length))
        assert targets.tolist() == list(range(i * stride + 1, i * stride + length + 1))
    assert (len(dataset) - 1) * stride + length < count <= len(dataset) * stride + length
    check_batches(dataset)


def test_tokens_of_another_kind(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.int32))
    assert TokenDataset(tmp_path / "a.npy", 2)[1][1].tolist() == [3, 4]
    np.save(tmp_path / "b.npy", np.arange(6.0))
    with pytest.raises(ValueError, match="whole numbers"):
        TokenDataset(tmp_path / "b.npy", 2)
    with pytest.raises(ValueError, match="positive"):
        TokenDataset(tmp_path / "a.npy", 0)


@pytest.fixture
def pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, count in (("cat", 2), ("dog", 1)):
        (tmp_path / name / "deep").mkdir(parents=True)
        for number in range(count):
            pixels = np.full((2, 3, 3), 10 * number + len(name), np.uint8)
            image.fromarray(pixels).save(tmp_path / name / "deep" / f"{number}.PNG")
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    return tmp_path


def test_image_folder(pictures):
    dataset = ImageFolder(pictures)
    assert dataset.classes == ["cat", "dog"]
    assert dataset.class_to_idx == {"cat": 0, "dog": 1}
    assert dataset.targets == [0, 0, 1]
    image, target = dataset[1]
    assert (image.shape, image.dtype, image.unique().tolist(), target) == ((3, 2, 3), rushlight.uint8, [13], 0)
    assert ImageFolder(pictures, mode="L")[0][0].shape == (1, 2, 3)
    assert ImageFolder(pictures, transform=lambda image: image.size)[2] == ((3, 2), 1)
    check_batches(dataset)


def test_image_folders_that_are_refused(pictures):
    (pictures / "cat" / "deep" / "0.PNG").write_bytes(b"no image")
    with pytest.raises(Exception, match="cannot identify") as caught:
        ImageFolder(pictures)[0]
    assert "0.PNG" in caught.value.__notes__[0]
    (pictures / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="class empty"):
        ImageFolder(pictures)
    with pytest.raises(FileNotFoundError, match="no folders"):
        ImageFolder(pictures / "empty")


def table():
    arrow = pytest.importorskip("pyarrow")
    return arrow.table(
        {
            "number": np.arange(5, dtype=np.int32),
            "share": np.arange(5, dtype=np.float32) / 4,
            "name": ["a", "b", "c", "d", "e"],
        }
    )


def write_table(path, table):
    arrow = pytest.importorskip("pyarrow")
    csv = pytest.importorskip("pyarrow.csv")
    if path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".tsv":
        csv.write_csv(table, path, csv.WriteOptions(delimiter="\t"))
    elif path.suffix == ".parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path, row_group_size=2)
    elif path.suffix == ".feather":
        pytest.importorskip("pyarrow.feather").write_feather(table, str(path))
    else:
        with arrow.ipc.new_stream(path, table.schema) as sink:
            sink.write_table(table)


@pytest.mark.parametrize("end", ["csv", "tsv", "parquet", "feather", "arrow"])
def test_tables(tmp_path, end):
    path = tmp_path / f"table.{end}"
    write_table(path, table())
    dataset = TableDataset(path)
    assert len(dataset) == 5
    assert dataset[-2] == {"number": 3, "share": 0.75, "name": "d"}
    numbers = TableDataset([path, path], columns=["number", "share"])
    assert [row["number"] for row in (numbers[i] for i in range(10))] == [*range(5), *range(5)]
    check_batches(numbers)
    named = next(iter(DataLoader(pickle.loads(pickle.dumps(dataset)), 2)))
    assert named["name"] == ["a", "b"]
    assert named["number"].dtype == (rushlight.int64 if end in ("csv", "tsv") else rushlight.int32)
    assert TableDataset(path, transform=lambda row: row["name"])[1] == "b"
    with pytest.raises(KeyError, match=r"\['nothing'\]"):
        TableDataset(path, columns=["nothing"])


def test_cells_of_other_kinds():
    arrow = pytest.importorskip("pyarrow")
    source = arrow.table({"gap": [1, None], "list": [[1.5, 2.5], [3.5]], "words": [["a"], []], "yes": [True, False]})
    row = TableDataset(source)[0]
    assert row["list"].tolist() == [1.5, 2.5]
    assert isinstance(row["list"], np.ndarray)
    assert (row["gap"], row["words"], row["yes"]) == (1, ["a"], True)
    assert TableDataset(source)[1]["gap"] is None
    with pytest.raises(ValueError, match="no paths"):
        TableDataset([])
    with pytest.raises(ValueError, match="ends in none of"):
        TableDataset("table.xlsx")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_table_stream(tmp_path, end, workers):
    for part in range(2):
        write_table(tmp_path / f"{part}.{end}", table())
    stream = TableStream(sorted(map(str, tmp_path.iterdir())), columns=["number", "name"])
    loader = DataLoader(stream, batch_size=None, num_workers=workers, worker_type="thread" if workers else "process")
    rows = list(loader)
    assert sorted((int(row["number"]), row["name"]) for row in rows) == sorted(
        (i, name) for i, name in enumerate("abcde") for _ in range(2)
    )


def write_tar(path, members):
    with tarfile.open(path, "w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture
def shards(tmp_path):
    for shard in range(3):
        members = {}
        for number in (0, 1):
            key = f"dir.x/{shard}{number}"
            members[f"{key}.cls"] = str(10 * shard + number).encode()
            members[f"{key}.left.npy"] = npy(np.full(2, number))
            members[f"{key}.json"] = json.dumps({"shard": shard}).encode()
            members[f"{key}.bin"] = b"raw"
        write_tar(tmp_path / f"data-{shard:03d}.tar", members)
    return tmp_path


def test_tar_shards(shards):
    samples = list(TarDataset(str(shards / "data-{000..002}.tar")))
    assert [sample["cls"] for sample in samples] == [0, 1, 10, 11, 20, 21]
    assert samples[3]["__key__"] == "dir.x/11"
    assert samples[3]["left.npy"].tolist() == [1, 1]
    assert samples[3]["json"] == {"shard": 1}
    assert samples[3]["bin"] == b"raw"
    assert next(iter(TarDataset(shards / "data-000.tar", decode=False)))["cls"] == b"0"


def test_tar_shards_are_shared_out_and_shuffled(shards):
    dataset = TarDataset(str(shards / "data-{000..002}.tar"), transform=lambda sample: sample["cls"], shuffle=True)

    def orders(worker_type, passes):
        generator = rushlight.Generator().manual_seed(3)
        loader = DataLoader(dataset, batch_size=None, num_workers=2, generator=generator, worker_type=worker_type)
        return [list(loader) for _ in range(passes)]

    several = orders("thread", 5)
    assert all(sorted(each) == [0, 1, 10, 11, 20, 21] for each in several)
    assert len(set(map(tuple, several))) > 1
    assert several[:2] == orders("process", 2)


def test_tar_over_fsspec(shards):
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe("/data-000.tar", (shards / "data-000.tar").read_bytes())
    assert [sample["cls"] for sample in TarDataset("memory://data-000.tar")] == [0, 1]


def test_tar_with_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    file = io.BytesIO()
    image.fromarray(np.full((2, 3, 3), 9, np.uint8)).save(file, "png")
    write_tar(tmp_path / "a.tar", {"0.png": file.getvalue()})
    (sample,) = TarDataset(tmp_path / "a.tar")
    assert sample["png"].shape == (3, 2, 3)


def test_tar_files_that_are_refused(shards):
    path = shards / "data-001.tar"
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(tarfile.ReadError) as caught:
        list(TarDataset(path))
    assert "data-001.tar" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="no shards"):
        TarDataset([])
    assert "pkl" not in decoders
    assert "pt" not in decoders


def test_names_with_braces():
    assert expand("a{0..2}") == ["a0", "a1", "a2"]
    assert expand("{x,y}-{9..10}") == ["x-9", "x-10", "y-9", "y-10"]
    assert expand("plain") == ["plain"]


def test_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"TableDataset needs pyarrow: pip install 'rushlight-data\[tables\]'"):
        TableDataset(tmp_path / "a.csv")


def test_as_dataset(tmp_path, shards):
    values = np.arange(6.0).reshape(3, 2)
    for source in (values, rushlight.from_numpy(values), values.tolist()):
        assert list(map(list, (as_dataset(source)[i] for i in range(3)))) == values.tolist()
    check_batches(as_dataset(values))
    check_batches(as_dataset((values, np.arange(3))))
    check_batches(as_dataset({"x": values, "y": rushlight.arange(3)}))
    dataset = as_dataset(values)
    assert as_dataset(dataset) is dataset
    np.save(tmp_path / "a.npy", values)
    assert isinstance(as_dataset(tmp_path / "a.npy"), NumpyDataset)
    assert isinstance(as_dataset(str(shards / "data-{0..2}.tar")), TarDataset)
    with pytest.raises(ValueError, match="ends in none of"):
        as_dataset("x.unknown")
    with pytest.raises(TypeError, match="int has no samples"):
        as_dataset(3)


class HubDataset:
    """What Hugging Face's datasets have: rows as dicts, also many at once."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"x": index}

    def __getitems__(self, indices):
        return [{"x": 10 * index} for index in indices]


def test_as_dataset_asks_for_many_where_it_can():
    assert [batch["x"].tolist() for batch in DataLoader(as_dataset(HubDataset()), 3)] == [[0, 10, 20], [30]]
    assert [batch["x"].tolist() for batch in DataLoader(as_dataset([{"x": 1}, {"x": 2}]), 3)] == [[1, 2]]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_stream_is_shared_out(method):
    loader = DataLoader(as_dataset({1, 2, 3, 4}.union([5])), num_workers=2, multiprocessing_context=method)
    assert sorted(batch.item() for batch in loader) == [1, 2, 3, 4, 5]
