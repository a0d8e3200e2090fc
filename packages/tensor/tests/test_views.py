"""Views: which memory they share, which strides they get, and what asks for a copy."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.ops.view import view_strides

SIZES = st.lists(st.integers(1, 4), min_size=0, max_size=4)


def shares(a, b) -> bool:
    return np.shares_memory(a.numpy(), b.numpy())


@given(SIZES, st.data())
def test_reshape_copies_only_where_no_strides_would_do(sizes, data):
    x = rushlight.arange(int(np.prod(sizes))).reshape(sizes)
    order = data.draw(st.permutations(range(len(sizes))))
    x = x.permute(order)
    if sizes and data.draw(st.booleans()):
        x = x[..., : data.draw(st.integers(1, x.shape[-1]))]
    wanted = data.draw(st.permutations(x.shape))
    if len(wanted) > 1 and data.draw(st.booleans()):
        wanted = [wanted[0] * wanted[1], *wanted[2:]]
    y = x.reshape(wanted)
    assert np.array_equal(y.numpy(), x.numpy().reshape(wanted))
    strides = view_strides(tuple(x.shape), x.stride(), tuple(wanted))
    assert shares(x, y) == (strides is not None)
    if strides is None:
        with pytest.raises(RuntimeError, match=r"use \.reshape"):
            x.view(wanted)
    else:
        assert x.view(wanted).data_ptr() == x.data_ptr()


def test_views_report_offset_and_strides():
    x = rushlight.zeros(4, 6)
    part = x[1:, ::2]
    assert (part.stride(), part.storage_offset()) == ((6, 2), 6)
    assert x.unfold(1, 4, 2).stride() == (6, 2, 1)
    assert x.diagonal(1).stride() == (7,) and x.diagonal(1).storage_offset() == 1
    assert x.expand(2, 4, 6).stride() == (0, 6, 1)


def test_as_strided_stays_inside_the_memory():
    x = rushlight.arange(12.0)
    inner = x[2:8]
    assert inner.as_strided((2, 2), (4, 1)).tolist() == [[2, 3], [6, 7]]
    assert inner.as_strided((2,), (1,), 10).tolist() == [10, 11]  # the offset counts from the memory's beginning
    for size, stride, offset in (((13,), (1,), 0), ((2, 2), (11, 1), 0), ((1,), (1,), 12), ((2,), (-1,), 3)):
        with pytest.raises(RuntimeError):
            x.as_strided(size, stride, offset)
    array = np.arange(20.0)[5:10]
    with pytest.raises(RuntimeError, match="out of bounds"):
        rushlight.from_numpy(array).as_strided((6,), (1,))


@pytest.mark.parametrize("name", ["split", "unbind", "chunk"])
def test_parts_write_through(name):
    x = rushlight.zeros(4, 3)
    parts = getattr(x, name)(*{"split": (2, 1), "unbind": (1,), "chunk": (2, 1)}[name])
    for i, part in enumerate(parts):
        part.fill_(i)
    assert x[0].tolist() == ([0, 0, 1] if name != "unbind" else [0, 1, 2])


def test_memory_formats():
    x = rushlight.rand(2, 3, 4, 5).to(memory_format=rushlight.channels_last)
    assert x.stride() == (60, 1, 15, 3)
    assert x.is_contiguous(memory_format=rushlight.channels_last) and not x.is_contiguous()
    assert (x * 2).stride() == x.clone().stride() == rushlight.empty_like(x).stride() == x.stride()
    assert x.contiguous().stride() == (60, 20, 5, 1)
    with pytest.raises(RuntimeError, match="4 dimensions"):
        rushlight.rand(2, 3).to(memory_format=rushlight.channels_last)


def test_copies_and_pickles_share_what_was_shared():
    x = rushlight.arange(6.0).reshape(2, 3)
    for a, row in (copy.deepcopy((x, x[1])), pickle.loads(pickle.dumps((x, x[1])))):
        a[1, 0] = 99
        assert row.tolist() == [99, 4, 5]
    assert x[1, 0] == 3
    turned = pickle.loads(pickle.dumps(x.T))
    assert turned.stride() == (1, 3) and turned.equal(x.T)
    assert pickle.loads(pickle.dumps(rushlight.zeros(0, 3, dtype=rushlight.bfloat16))).shape == (0, 3)
    assert copy.copy(x).data_ptr() == x.data_ptr()


def test_resize_keeps_what_fits():
    x = rushlight.arange(6.0).reshape(2, 3)
    row = x[1]
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]] and shares(x, row.as_strided((6,), (1,), 0))
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(3, 3)  # numpy shares its memory since the line above
    grown = rushlight.arange(6.0)
    assert grown.resize_(3, 3)[:2].tolist() == [[0, 1, 2], [3, 4, 5]]
    empty = rushlight.zeros(0).set_(row)
    assert empty.tolist() == [3, 4, 5] and shares(empty, row)


def test_memory_is_exchanged_without_copies():
    array = np.arange(3)
    x = rushlight.from_numpy(array)
    array[0] = 7
    assert x[0] == 7 and np.shares_memory(np.from_dlpack(x), array)
    assert rushlight.from_dlpack(array)[0] == 7 and np.shares_memory(rushlight.asarray(array).numpy(), array)
    with pytest.raises(ValueError, match="negative"):
        rushlight.from_numpy(array[::-1])
    with pytest.raises(ValueError, match="copy=False"):
        rushlight.asarray([1, 2], copy=False)
    with pytest.raises(ValueError, match="multiple of element size"):
        rushlight.frombuffer(b"12345", dtype=rushlight.float32)


def test_view_takes_python_s_number_types_and_numpy_s_integers():
    x = rushlight.ones(4, dtype=rushlight.float64)
    assert x.view(float).dtype is rushlight.float64 and x.view(int).dtype is rushlight.int64
    assert x.view(np.int64(2), np.int64(2)).shape == (2, 2) and x.view(np.int64(4)).shape == (4,)
    with pytest.raises(TypeError, match="view: dtype must be"):
        x.view(str)


def test_conjugates_have_their_values_and_parts_are_views():
    x = rushlight.tensor([1 + 2j, 3 - 1j])
    y = x.conj()
    assert y.tolist() == [1 - 2j, 3 + 1j] and y.imag.tolist() == [-2, 1]
    assert not y.is_conj() and y.resolve_conj() is y and not y.imag.is_neg() and y.resolve_neg() is y
    x.imag.mul_(2)
    rushlight.view_as_real(x)[0, 0] = 7
    assert x.tolist() == [7 + 4j, 3 - 2j] and y.tolist() == [1 - 2j, 3 + 1j]
    real = rushlight.ones(2)
    assert real.conj() is real and real.resolve_conj() is real
