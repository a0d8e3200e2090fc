"""Creation: what data becomes which dtype, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight
from rushlight import tensor

DTYPES = [
    (1, "int64"),
    (1.0, "float32"),
    (True, "bool"),
    (1j, "complex64"),
    ([1, 2.5], "float32"),
    ([True, 2], "int64"),
    ([], "float32"),
    (np.float64(1), "float64"),
    (np.zeros(2, np.int16), "int16"),
    ([tensor(1), tensor(2.5)], "float32"),
    ([np.int32(1)], "int32"),
]


@pytest.mark.parametrize(("data", "name"), DTYPES, ids=str)
def test_dtype_of_data(data, name):
    assert tensor(data).dtype is getattr(rushlight, name)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ([[1], [1, 2]], ValueError),
        ("a", TypeError),
        (None, RuntimeError),
        ({"a": 1}, RuntimeError),
        (2**70, ValueError),
        (2**63, ValueError),
    ],
    ids=str,
)
def test_other_data_is_refused(data, error):
    with pytest.raises(error):
        tensor(data)


def test_tensor_copies_and_as_tensor_does_not():
    array = np.zeros(2)
    copied, shared = tensor(array), rushlight.as_tensor(array)
    array[0] = 1
    assert copied[0] == 0 and shared[0] == 1
    assert rushlight.as_tensor(shared) is shared


@pytest.mark.parametrize(
    ("arguments", "values"),
    [((3,), [0, 1, 2]), ((1, 2, 0.25), [1, 1.25, 1.5, 1.75]), ((5, 0, -2), [5, 3, 1]), ((2, 2), []), ((0.0, 1), [0])],
)
def test_arange(arguments, values):
    got = rushlight.arange(*arguments)
    assert got.tolist() == values
    assert got.dtype is (rushlight.int64 if all(isinstance(a, int) for a in arguments) else rushlight.float32)


def test_ranges_end_exactly_and_are_symmetric():
    for steps in (1, 2, 7, 100):
        line = rushlight.linspace(-0.3, 0.3, steps, dtype=rushlight.float64)
        assert line[0] == -0.3 and (steps == 1 or line[-1] == 0.3)
        assert steps == 1 or np.allclose(line.numpy(), -line.numpy()[::-1], atol=1e-17)
    assert rushlight.logspace(0, 3, 4, base=2).tolist() == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: rushlight.zeros(-1), RuntimeError),
        (lambda: rushlight.zeros(2, dtype="float32"), TypeError),
        (lambda: rushlight.full((2,), 300, dtype=rushlight.uint8), RuntimeError),
        (lambda: rushlight.zeros(2).fill_(1e300), RuntimeError),
        (lambda: rushlight.arange(0, 5, -1), RuntimeError),
        (lambda: rushlight.arange(0, 5, 0), RuntimeError),
        (lambda: rushlight.eye(-1), RuntimeError),
        (lambda: rushlight.linspace(0, 1, -1), RuntimeError),
    ],
)
def test_impossible_requests_are_refused(call, error):
    with pytest.raises(error):
        call()


def test_like_and_new_follow_their_model():
    x = rushlight.zeros(2, 3, dtype=rushlight.float64).T
    for made in (rushlight.ones_like(x), rushlight.full_like(x, 7), rushlight.empty_like(x)):
        assert (made.dtype, made.shape, made.stride()) == (x.dtype, x.shape, x.stride())
    assert rushlight.rand_like(x).shape == x.shape
    assert x.new_full((2,), 3).dtype is x.dtype and x.new_tensor([1, 2]).tolist() == [1, 2]
    assert x.new_zeros(2, 2).shape == (2, 2)


def test_conversions_return_the_tensor_itself_where_nothing_changes():
    x = rushlight.ones(2)
    assert x.float() is x and x.to(rushlight.float32) is x and x.to("cpu") is x and x.contiguous() is x
    assert x.to(rushlight.float32, copy=True) is not x
    assert (
        x.to(rushlight.ones(1).long()).dtype is rushlight.int64 and x.to("cpu", rushlight.int8).dtype is rushlight.int8
    )
    assert x.type() == "rushlight.FloatTensor" and x.type("torch.LongTensor").dtype is rushlight.int64
    with pytest.raises(TypeError, match="takes"):
        x.to(rushlight.float32, 3)


def test_numbers_must_fit_the_dtype():
    for data, kind in ((300, rushlight.uint8), ([1e10], rushlight.int32), (float("nan"), rushlight.int64)):
        with pytest.raises(RuntimeError, match="overflow"):
            rushlight.tensor(data, dtype=kind)
    with pytest.raises(TypeError, match="complex"):
        rushlight.tensor([1j], dtype=rushlight.float32)
    assert rushlight.tensor(-1, dtype=rushlight.uint8).item() == 255
    assert rushlight.tensor([True, False], dtype=rushlight.int8).tolist() == [1, 0]


def test_numpy_numbers_keep_their_dtype_and_python_types_name_one():
    assert rushlight.tensor([np.float64(1), np.float64(2)]).dtype is rushlight.float64
    assert rushlight.tensor([np.ones(2)]).dtype is rushlight.float64
    assert rushlight.ones(2).to(float).dtype is rushlight.float64 and rushlight.ones(2).to(bool).dtype is rushlight.bool


def test_constructors_of_old_programs():
    assert rushlight.LongTensor([1, 2]).dtype is rushlight.int64
    assert rushlight.FloatTensor(2, 3).shape == (2, 3) and rushlight.Tensor().shape == (0,)
    assert isinstance(rushlight.ones(1), rushlight.FloatTensor)
    assert not isinstance(rushlight.ones(1), rushlight.LongTensor)
    with pytest.raises(TypeError, match="expected a tensor of int64"):
        rushlight.LongTensor(rushlight.ones(1))


def test_sizes_hold_ints():
    assert rushlight.Size([rushlight.tensor(2), np.int64(3)]) == (2, 3)
    with pytest.raises(TypeError, match="iterable of int"):
        rushlight.Size([1.5])


def test_numpy_functions_give_tensors():
    x = rushlight.ones(2)
    assert isinstance(np.sin(x), rushlight.Tensor) and (x + np.ones(2)).tolist() == [2, 2]
    assert x.untyped_storage().nbytes() == 8
    with pytest.raises(ValueError, match="one element"):
        int(x)


def test_integers_beyond_int64():
    most = 2**64 - 1
    for data in ([most], [2**63 - 1, 2**63], [True, most], [[0], [most]]):
        made = tensor(data, dtype=rushlight.uint64)
        assert made.flatten().tolist() == list(np.ravel(np.array(data, object)))
    assert tensor([2**63 - 1, 2**63], dtype=rushlight.float64).tolist() == [2.0**63] * 2
    assert tensor([2**70, 1], dtype=rushlight.float32).tolist() == [2.0**70, 1.0]
    assert tensor([2**70, 0], dtype=rushlight.bool).tolist() == [True, False]
    assert tensor([2**63, 1.5]).tolist() == [2.0**63, 1.5]
    for data, dtype, error in [
        ([most], None, ValueError), ([2**63 - 1, 2**63], None, ValueError), ([1, 2**63], rushlight.int64, ValueError),
        ([2**64], rushlight.uint64, OverflowError), ([-1], rushlight.uint64, OverflowError),
        ([2**70], None, ValueError),
        ([-(2**63), 2**63], rushlight.int64, ValueError), ([-1, 2**63], rushlight.uint64, OverflowError),
        ([-0.5], rushlight.uint8, RuntimeError), ([float("nan")], rushlight.int32, RuntimeError),
    ]:  # fmt: skip
        with pytest.raises(error):
            tensor(data, dtype=dtype)
    assert tensor([-1], dtype=rushlight.uint8).tolist() == [255]  # as PyTorch does, for all unsigned ones but uint64


def test_tensors_of_one_element_are_numbers_in_lists():
    one = rushlight.tensor([1.5])
    assert rushlight.tensor([one, 2, one[None]]).tolist() == [1.5, 2, 1.5]
    assert rushlight.tensor([[one], [one[0]]]).tolist() == [[1.5], [1.5]]
    assert rushlight.tensor([rushlight.arange(2), rushlight.arange(2)]).tolist() == [[0, 1], [0, 1]]


@pytest.mark.filterwarnings("error")
def test_numbers_beyond_a_dtype_are_infinite():
    assert rushlight.tensor([1e39, -1e39, 1.0]).tolist() == [math.inf, -math.inf, 1]
    assert rushlight.tensor(np.float64(1e6), dtype=rushlight.float16).item() == math.inf
    assert rushlight.tensor([1 << 200], dtype=rushlight.float32).tolist() == [math.inf]


def test_large_integers_beside_floats_are_floats():
    assert rushlight.tensor([1 << 70, 0.5, True]).tolist() == [2.0**70, 0.5, 1]
    assert rushlight.tensor([[-1 << 70], [1j]]).tolist() == [[-(2.0**70)], [1j]]
    with pytest.raises(OverflowError, match="too large to convert"):
        rushlight.tensor([10**400, 0.5])


def test_searches_compare_dtypes_in_their_common_one():
    edges = rushlight.tensor([1, 2, 3])
    assert rushlight.searchsorted(edges, rushlight.tensor([1.5, 2.5, -1])).tolist() == [1, 2, 0]
    assert rushlight.bucketize(edges, rushlight.tensor([1.5, 2.5], dtype=rushlight.float64)).tolist() == [0, 1, 2]
