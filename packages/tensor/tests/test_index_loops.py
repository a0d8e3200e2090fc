"""The native loops behind index operations and copies, made to run on small arrays, with numpy as the judge."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.kernels.cpu import allocator, copy, gather, masked, native, scatter
from rushlight.kernels.cpu.indexed import inside
from rushlight.ops import copy as copy_ops
from rushlight.ops import index as index_ops
from rushlight.ops import put as put_ops
from rushlight.ops import search

# Loops move elements by their size, and each size, kind of index and way of writing is a kernel to compile (0.2 s), so
# what is drawn is kept to what makes a difference.
MOVED = ("bool", "float32")
UFUNCS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}
WAYS = [("set", False), ("set", True), ("add", True), ("multiply", False), ("maximum", False)]


@pytest.fixture(scope="module", autouse=True)
def loops_for_small_arrays():
    with pytest.MonkeyPatch.context() as patch:
        for module in (native, masked, put_ops, search):
            patch.setattr(module, "WORTH", 1)
        for module in (copy, copy_ops):
            patch.setattr(module, "LARGE", 1)
        patch.setattr(index_ops, "_FEW", 0)
        yield


@st.composite
def arrays(draw, least=1, most=3, dtypes=MOVED):
    """An array with strides of any kind."""
    ndim = draw(st.integers(least, most))
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=ndim, max_size=ndim)))
    steps = draw(st.lists(st.sampled_from([1, 1, 2, -1]), min_size=ndim, max_size=ndim))
    wide = [size * abs(step) for size, step in zip(shape, steps)]
    numbers = seeded(draw).integers(-9, 9, wide).astype(draw(st.sampled_from(dtypes)))
    return numbers[tuple([slice(None, None, step) for step in steps])].transpose(draw(st.permutations(range(ndim))))


def seeded(draw):
    return np.random.default_rng(draw(st.integers(0, 99)))


def tensor(array):
    """A tensor over a copy with the array's strides, as far as tensors have such."""
    return rushlight.from_numpy(array.copy("K"))


@given(st.data(), arrays())
def test_parts_along_a_dimension(data, x):
    dim = data.draw(st.integers(0, x.ndim - 1))
    shape, kind = data.draw(st.lists(st.integers(0, 4), max_size=2)), data.draw(st.sampled_from([np.int64, np.int32]))
    index = seeded(data.draw).integers(-x.shape[dim], x.shape[dim], shape).astype(kind)
    got = index_ops.taken("take", x, index, dim, True)
    assert np.array_equal(got, np.take(x, index, dim))


@st.composite
def lines(draw):
    """An array, a dimension, an index for gather and scatter, and values of its shape."""
    x = draw(arrays(dtypes=("float32",)))
    dim = draw(st.integers(0, x.ndim - 1))
    shape = [draw(st.integers(1, 20)) if d == dim else draw(st.integers(1, size)) for d, size in enumerate(x.shape)]
    index = seeded(draw).integers(0, x.shape[dim], shape)
    if draw(st.booleans()):
        index = np.broadcast_to(index[..., :1], shape) if dim < x.ndim - 1 else index
    values = seeded(draw).integers(-3, 4, shape).astype(x.dtype)
    return x, dim, index, values


@given(lines())
def test_gather(case):
    x, dim, index, _ = case
    expected = x[scatter.along(index, dim)]
    assert np.array_equal(gather.gather(x, index, dim), expected)
    assert np.array_equal(tensor(x).gather(dim, rushlight.tensor(index)).numpy(), expected)


@given(lines(), st.sampled_from(WAYS))
def test_scatter(case, way):
    x, dim, index, values = case
    combine, check = way
    expected, got = x.copy(), x.copy("K")
    if combine == "set":
        for place in np.ndindex(index.shape):  # the last of several wins
            expected[(*place[:dim], index[place], *place[dim + 1 :])] = values[place]
    else:
        UFUNCS[combine].at(expected, scatter.along(index, dim), values)
    assert scatter.scatter(got, index, values, dim, combine, check)
    assert np.array_equal(got, expected)


@st.composite
def advanced(draw):
    """An array and an index: integers, slices, `...`, None, index arrays that broadcast and masks, in any order."""
    x = draw(arrays(1, 3, ("float32",)))
    common = draw(st.sampled_from([(), (1,), (3,), (2, 1), (2, 3)]))
    items, d = [], 0
    while d < x.ndim:
        size = x.shape[d]
        kind = draw(st.sampled_from(["int", "slice", "index", "index", "mask", "none", "rest"]))
        if kind == "none":
            items.append(None)
            continue
        if sum(isinstance(i, np.ndarray) for i in items) == 2:  # each further one is a kernel more
            kind = "slice"
        if kind == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "slice":
            items.append(slice(draw(st.integers(-size, size)), draw(st.integers(-size, size)), draw(st.integers(1, 3))))
        elif kind == "index":
            shape = [draw(st.sampled_from([1, n])) for n in common[draw(st.integers(0, len(common))) :]]
            items.append(seeded(draw).integers(-size, size, shape or (1,)))
        elif kind == "mask":
            items.append(seeded(draw).random(size) < 0.5)
        else:
            break
        d += 1
    if draw(st.booleans()):
        items.append(Ellipsis)
    return x, tuple(items)


def ours(index):
    return tuple([rushlight.tensor(i) if isinstance(i, np.ndarray) else i for i in index])


def in_two_steps(x, index):
    """The view that the integers make, and the rest of the index: numpy counts integers as index arrays, PyTorch does
    not."""
    integers = [i if isinstance(i, int) else slice(None) for i in index if i is not None and i is not Ellipsis]
    return x[(*integers, ...)], tuple([i for i in index if not isinstance(i, int)])


@given(advanced())
def test_advanced_index_reads_like_numpy(case):
    x, index = case
    part, rest = in_two_steps(x, index)
    try:
        expected = part[rest]
    except IndexError:
        with pytest.raises(IndexError):
            tensor(x)[ours(index)]
        return
    got = tensor(x)[ours(index)]
    assert got.shape == expected.shape
    assert np.array_equal(got.numpy(), expected)


@given(advanced(), st.booleans())
def test_advanced_index_writes_like_numpy(case, number):
    x, index = case
    expected, got = x.copy(), tensor(x)
    part, rest = in_two_steps(expected, index)
    try:
        shape = part[rest].shape
    except IndexError:
        return
    values = np.float32(-20) if number else np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) + 50
    part[rest] = values
    got[ours(index)] = float(values) if number else rushlight.tensor(values)
    assert np.array_equal(got.numpy(), expected)


@given(advanced())
def test_adding_by_index_counts_each_place(case):
    x, index = case
    index = tuple([i for i in index if isinstance(i, np.ndarray)])
    try:
        shape = x[index].shape if index else None
    except IndexError:
        return
    if shape is None:
        return
    values = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    expected, got = x.copy(), tensor(x)
    np.add.at(expected, index, values)
    got.index_put_(ours(index), rushlight.tensor(values), accumulate=True)
    assert np.array_equal(got.numpy(), expected)


@given(st.data(), arrays())
def test_masks(data, x):
    mask = seeded(data.draw).random(x.shape) < data.draw(st.sampled_from([0, 0.5, 1]))
    t, m = tensor(x), rushlight.tensor(mask)
    assert np.array_equal(t[m].numpy(), x[mask])
    assert np.array_equal(t.nonzero().numpy(), np.argwhere(x))
    source = np.arange(x.size).astype(x.dtype)
    expected = x.copy()
    expected[mask] = source[: np.count_nonzero(mask)]
    assert np.array_equal(t.masked_scatter(m, rushlight.tensor(source)).numpy(), expected)
    rows = mask.reshape(len(mask), -1)[:, 0]
    assert np.array_equal(t[rushlight.tensor(rows)].numpy(), x[rows])


def test_a_mask_with_bytes_other_than_0_and_1():
    mask = rushlight.from_numpy(np.array([0, 2, 255, 0, 1], np.uint8).view(bool))
    assert rushlight.arange(5)[mask].tolist() == [1, 2, 4]
    assert mask.nonzero().reshape(-1).tolist() == [1, 2, 4]


@given(st.data(), arrays(1, 4))
def test_copies_of_any_layout(data, x):
    order = data.draw(st.permutations(range(x.ndim)))
    target = np.zeros([x.shape[d] for d in order], x.dtype).transpose(np.argsort(order))
    copy.assign(target, x)
    assert np.array_equal(target, x)
    dims = tuple(data.draw(st.sets(st.integers(0, x.ndim - 1))))
    assert np.array_equal(copy.duplicate(np.flip(x, dims)), np.flip(x, dims))


@pytest.mark.parametrize("shape", [(70, 90), (3, 33, 130), (2, 40, 40, 3), (5000, 2), (3, 1100, 3), (1, 64)])
def test_copies_across_tiles_and_blocks(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert np.array_equal(copy.duplicate(x.T), x.T)
    assert np.array_equal(copy.duplicate(x[..., ::-1]), x[..., ::-1])
    wide = np.broadcast_to(x[..., None], (*shape, 2))
    assert np.array_equal(copy.duplicate(wide), wide)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64", "complex128"])
def test_transposed_copies_keep_every_bit(dtype):
    width = np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, (3, 70, 300 * width), dtype=np.uint8)
    x = bits.view(dtype)
    for view in (x, x[:, 5:, 1:], x[..., ::-1], x[:, :, ::2], x.transpose(1, 0, 2)):
        turned = view.swapaxes(1, 2)
        assert copy.duplicate(turned).tobytes() == turned.tobytes()
        target = np.zeros(turned.shape, dtype).transpose(2, 1, 0)
        copy.assign(target, turned.transpose(2, 1, 0))
        assert target.tobytes() == turned.transpose(2, 1, 0).tobytes()


@pytest.mark.parametrize("source", ["float32", "int64", "float16", "complex64"])
def test_conversions_give_numpy_s_numbers(source):
    x = np.array([0, 1, -3, 100.5, -0.25, 65504, 1e-3, 255], np.float32).astype(source)
    for target in ("float64", "float16", "uint8", "bool"):
        if np.dtype(source).kind == "f" and target == "uint8":
            continue  # negative and large numbers have no image
        got = np.empty(x.shape, target)
        copy.assign(got, x)
        part = x.real if x.dtype.kind == "c" and target not in ("complex128", "bool") else x
        if x.dtype.kind == "c" and target in ("uint8", "int32"):
            part = np.clip(part, 0, 100)
            copy.assign(got, part)
        with np.errstate(over="ignore"):
            assert np.array_equal(got, part.astype(target)), target


WRITES = {
    "scatter": lambda x, i: x.scatter_(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add_(0, i, x.clone()[: len(i)]),
    "scatter_reduce": lambda x, i: x.scatter_reduce_(0, i, x.clone()[: len(i)], "prod"),
    "index_fill": lambda x, i: x.index_fill_(0, i, 1.0),
    "index_copy": lambda x, i: x.index_copy_(0, i, x.clone()[: len(i)]),
    "index_add": lambda x, i: x.index_add_(0, i, x.clone()[: len(i)]),
    "index_put": lambda x, i: x.index_put_((i,), rushlight.tensor(1.0)),
    "accumulate": lambda x, i: x.index_put_((i,), rushlight.tensor(1.0), accumulate=True),
    "put": lambda x, i: x.put_(i, x.clone()[: len(i)]),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("wrong", [8, -9, 2**62])
def test_nothing_is_written_when_an_index_is_outside(name, wrong):
    x = rushlight.arange(8.0) + 2
    with pytest.raises((IndexError, RuntimeError), match=rf"{wrong} .*size 8"):
        WRITES[name](x, rushlight.tensor([0, 3, wrong, 1]))
    assert x.tolist() == (rushlight.arange(8.0) + 2).tolist()
    version = x._version
    assert WRITES[name](x, rushlight.tensor([0, 3])) is x
    assert x._version > version


READS = {
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i),
    "take": lambda x, i: x.take(i),
    "index": lambda x, i: x[i],
    "pairs": lambda x, i: x.reshape(8, 1)[i, i * 0],
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, x),
    "embedding": lambda x, i: rushlight.embedding(x.reshape(8, 1), i),
}


@pytest.mark.parametrize("name", READS)
def test_an_index_outside_is_named(name):
    for wrong in (8, -9):
        with pytest.raises((IndexError, RuntimeError), match=rf"{wrong} .*size 8"):
            READS[name](rushlight.arange(8.0), rushlight.tensor([0, wrong, 1]))


def test_no_element_to_index():
    empty = rushlight.zeros(0, 4)
    assert empty[rushlight.zeros(0, dtype=rushlight.int64)].shape == (0, 4)
    for read in (lambda i: empty[i], lambda i: empty.index_select(0, i), lambda i: empty.scatter(0, i[:, None], 1.0)):
        with pytest.raises((IndexError, RuntimeError)):
            read(rushlight.tensor([0]))


def test_extremes_of_an_index():
    index = np.array([[0, 5], [3, 2]])
    assert inside(index, 0, 6) and not inside(index, 0, 5) and not inside(index, 1, 6)
    assert inside(np.broadcast_to(index[:, :1], (2, 9)).T, 0, 4) and inside(index[:0], 0, 0)
    assert not inside(np.array([-(2**63)]), 0, 6) and not inside(np.array([2**63 - 1]), -6, 6)


SHARED = {
    "shifted": lambda x: x[1:].copy_(x[:-1]),
    "assigned": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "transposed": lambda x: x[:9].view(3, 3).copy_(x[:9].view(3, 3).t()),
    "by index": lambda x: x.__setitem__(rushlight.tensor([0, 1]), x[2:4]),
    "scattered": lambda x: x.scatter_(0, rushlight.tensor([1, 2]), x),
    "added": lambda x: x.index_add_(0, rushlight.tensor([1, 2]), x[:2]),
}


@pytest.mark.parametrize("name", SHARED)
def test_operands_may_not_lie_in_what_is_written(name):
    with pytest.raises(RuntimeError, match="single memory location"):
        SHARED[name](rushlight.arange(12.0))


def test_operands_may_lie_beside_what_is_written():
    x = rushlight.arange(12.0)
    x[::2] = x[1::2]
    x.copy_(x)
    x[:4].scatter_(0, rushlight.tensor([0, 1]), x[8:])
    assert x.tolist() == [9, 9, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sums_by_index_do_not_depend_on_threads(dtype):
    rng = np.random.default_rng(0)
    index = rushlight.from_numpy(rng.integers(0, 40, 5000))
    values = rushlight.from_numpy(rng.standard_normal((5000, 30)).astype(np.float32)).to(getattr(rushlight, dtype))
    start, found = values[:40] * 0, []
    before = rushlight.get_num_threads()
    try:
        for threads in (1, 2, 3):
            rushlight.set_num_threads(threads)
            sums = start.index_add(0, index, values), start.scatter_add(0, index[:, None].expand(5000, 30), values)
            found.append([x.float().tolist() for x in sums])
    finally:
        rushlight.set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_half_types_are_summed_in_float32():
    ones = rushlight.ones(3000, 16, dtype=rushlight.bfloat16)
    places = rushlight.zeros(3000, dtype=rushlight.int64)
    sums = rushlight.zeros(2, 16, dtype=rushlight.bfloat16).index_add(0, places, ones)
    assert sums[0].tolist() == [3008.0] * 16 and sums[1].tolist() == [0.0] * 16  # 3000 to 8 bits


N = 512
LEAN = {
    "gather": lambda x, i: x.gather(1, i),
    "gather from a transposed tensor": lambda x, i: x.t().gather(1, i),
    "take": lambda x, i: x.take(i),
    "rows": lambda x, i: x[i[0]],
    "rows of a transposed tensor": lambda x, i: x.t()[i[0]],
    "pairs": lambda x, i: x[i, i],
    "scatter_add": lambda x, i: x.scatter_add(0, i, x),
    "scatter_add of rows": lambda x, i: x.scatter_add(0, i[:, :1].expand(N, N), x),
    "index_add": lambda x, i: x.index_add(1, i[0], x),
    "index_put": lambda x, i: x.index_put((i, i), x, accumulate=True),
    "masked_scatter": lambda x, i: x.masked_scatter(x > 0, x),
    "cat": lambda x, i: rushlight.cat([x, x], 1),
    "flip": lambda x, i: x.flip(1),
    "contiguous": lambda x, i: x.t().contiguous(),
    "double": lambda x, i: x.double(),
    "repeat_interleave": lambda x, i: x.repeat_interleave(2, 1),
    "take_along_dim": lambda x, i: rushlight.take_along_dim(x, i, 0),
}


@pytest.mark.parametrize("name", LEAN)
def test_peak_memory_is_the_result_s(name):
    rng = np.random.default_rng(0)
    x = rushlight.from_numpy(rng.standard_normal((N, N), np.float32))
    index = rushlight.from_numpy(rng.integers(0, N, (N, N)))
    LEAN[name](x, index)  # kernels are compiled
    allocator.empty_cache()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = LEAN[name](x, index)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    mask = N * N if name == "masked_scatter" else 0  # `x > 0` is the test's own
    assert peak - mask < 1.1 * result.nbytes + 20_000


@pytest.mark.parametrize("side", ["left", "right"])
def test_searching_sorted_rows(side):
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, 30, (5, 9)), 1).astype(np.float32)
    values = rng.integers(-1, 31, (5, 40)).astype(np.float32)
    rows[0, -2:] = values[0, :2] = np.nan
    got = rushlight.searchsorted(rushlight.tensor(rows), rushlight.tensor(values), side=side)
    assert np.array_equal(got.numpy(), [np.searchsorted(r, v, side) for r, v in zip(rows, values)])
