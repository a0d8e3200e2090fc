"""Functions that remember their calls: a second call is the first one, and only an equal call is."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.core import dispatch, memo
from rushlight.core.front import EXPORTS

SIZES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(SIZES, st.sampled_from([None, rushlight.int8, rushlight.float64]))
def test_creation_is_the_same_the_second_time(size, dtype):
    for make in (rushlight.zeros, rushlight.ones, rushlight.empty):
        for form in ((size,), size, (list(size),)):
            first, second = make(*form, dtype=dtype), make(*form, dtype=dtype)
            assert first._meta is second._meta and first.shape == size and first is not second
            assert first.data_ptr() != second.data_ptr() or not first.numel()


@given(st.permutations(range(3)), st.integers(-3, 2), st.integers(-3, 2))
def test_views_are_the_same_the_second_time(order, first, second):
    x = rushlight.arange(24).reshape(2, 3, 4)
    for call in (
        lambda x: x.permute(*order),
        lambda x: x.transpose(first, dim1=second),
        lambda x: x.select(first, 1),
        lambda x: x.flatten(min(first, second)),
        lambda x: x.unsqueeze(first).squeeze(first),
    ):
        for _ in range(2):
            view, expected = call(x), rushlight.tensor(call(x + 0).tolist())
            assert rushlight.equal(view, expected)
            assert view.storage() is x.storage() or view.numel() == 0


BOUNDS = st.none() | st.integers(-5, 5)
ITEMS = st.integers(-3, 2) | st.builds(slice, BOUNDS, BOUNDS, st.none() | st.integers(1, 3)) | st.none()


@given(st.lists(ITEMS, min_size=1, max_size=4).map(tuple), st.integers(-3, 2))
def test_indices_are_the_same_the_second_time(index, other):
    array = np.arange(27).reshape(3, 3, 3)
    x = rushlight.tensor(array)
    if sum(item is not None for item in index) > 3:
        return
    for again in (index, index, tuple([other if isinstance(item, int) else item for item in index])):
        assert x[again].tolist() == array[again].tolist()
        assert x[(..., *again)].tolist() == array[(..., *again)].tolist()


def test_bools_are_no_integers_the_second_time():
    x = rushlight.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
    for correction, dim in ((True, 1), (False, 0)):
        expected = x.std(correction)
        for _ in range(3):
            assert x.std(dim).ndim == 1
        assert x.std(correction).tolist() == expected.tolist()


def test_integers_out_of_range_are_refused_every_time():
    x = rushlight.zeros(2, 3)
    x[1, 2], x[1, 2]
    for index in ((1, 3), (2, 0), (-3, 0)):
        with pytest.raises(IndexError, match="out of bounds"):
            x[index]
    with pytest.raises(TypeError):
        x[0.0:1.0, 0]


@pytest.mark.parametrize("size", [2, (2,), (2, 3)])
def test_equal_numbers_of_another_type_are_no_sizes(size):
    wrong = float(size) if isinstance(size, int) else tuple(map(float, size))
    rushlight.zeros(size)
    rushlight.zeros(size)
    with pytest.raises(TypeError, match="size must be ints"):
        rushlight.zeros(wrong)


def test_defaults_are_asked_each_time():
    assert rushlight.ones(3).dtype is rushlight.ones(3).dtype is rushlight.float32
    rushlight.set_default_dtype(rushlight.float64)
    try:
        assert rushlight.ones(3).dtype is rushlight.float64
    finally:
        rushlight.set_default_dtype(rushlight.float32)
    with rushlight.device("meta"):
        assert rushlight.ones(3).is_meta
    assert rushlight.ones(3).is_cpu


def test_draws_go_on():
    def draw():
        return [x.tolist() for x in (rushlight.rand(3), rushlight.randint(0, 9, (2,)), rushlight.randn(2, 2))]

    with rushlight.random.fork_rng():
        rushlight.manual_seed(4)
        first = [draw(), draw(), draw()]
        rushlight.manual_seed(4)
        assert [draw(), draw(), draw()] == first and first[0] != first[1] != first[2]


def test_errors_come_every_time():
    for _ in range(3):
        with pytest.raises(IndexError):
            rushlight.zeros(2, 3).transpose(0, 2)


def test_a_handler_sees_every_call():
    class Names:
        def __init__(self):
            self.seen = []

        def handle(self, op, operands, params):
            self.seen.append(op.name)
            with dispatch.below():
                return op.execute(operands, params)

    x = rushlight.zeros(2, 3)
    x.t(), x.t()
    names = Names()
    with dispatch.push(names):
        x.t()
        rushlight.zeros(2, 3)
    assert names.seen == ["permute", "full"]


def test_floats_and_sizes_among_other_arguments_are_told_apart():
    for _ in range(3):
        assert rushlight.arange(0, 3, 1.0).dtype is rushlight.float32
        assert rushlight.arange(0, 3, 1).dtype is rushlight.int64
        assert rushlight.randint(0, 3, (2, 2)).shape == (2, 2)
        with pytest.raises(TypeError, match="size must be ints"):
            rushlight.randint(0, 3, (2.0, 2))
    assert memo._check((0.0, (1,)))((0.0, (1,))) and not memo._check((0.0, (1,)))((-0.0, (1,)))
    assert memo._check((float("nan"),)) is None


@pytest.mark.parametrize("dtype", [rushlight.bool, rushlight.uint8, rushlight.bfloat16, rushlight.complex64])
@pytest.mark.parametrize("value", [0, 3, 2.5, True, -1.5])
def test_filling_few_elements_converts_as_numpy_does(dtype, value):
    if dtype is rushlight.uint8 and value == -1.5:
        return
    x = rushlight.ones(4, 6, dtype=dtype)
    part = x[1:, ::2]
    version = x._version
    assert part.fill_(value) is part and x._version == version + 1
    assert part.tolist() == rushlight.full((3, 3), value).to(dtype).tolist()
    assert x[0].tolist() == [1] * 6 and x[1:, 1].tolist() == [1] * 3


def test_writing_into_memory_that_is_read_only_is_refused():
    array = np.zeros(3)
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        rushlight.from_numpy(array).fill_(1)
    with pytest.raises(RuntimeError, match="read-only"):
        rushlight.from_numpy(array).copy_(rushlight.ones(3))


def test_copying_few_elements_broadcasts_and_refuses_overlap():
    x = rushlight.zeros(3, 4)
    version = x._version
    assert x.T.copy_(rushlight.arange(3.0)).tolist() == [[0, 1, 2]] * 4 and x._version == version + 1
    assert x.copy_(x).tolist() == [[i] * 4 for i in range(3)]
    row = rushlight.arange(4.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        row[1:].copy_(row[:-1])


def test_a_device_block_holds_for_its_thread_alone():
    inside, seen = [], []

    def look():
        seen.append((rushlight.ones(3).is_cpu, rushlight.get_default_device().type))

    with rushlight.device("meta"):
        with rushlight.device("cpu"):
            inside.append(rushlight.ones(3).is_cpu)
        inside.append(rushlight.ones(3).is_meta)
        other = threading.Thread(target=look)
        other.start()
        other.join()
    assert inside == [True, True] and seen == [(True, "cpu")]
    assert rushlight.ones(3).is_cpu


def test_functions_of_several_tensors_are_the_same_the_second_time():
    x, y, weight = rushlight.rand(3, 4), rushlight.rand(3, 4), rushlight.rand(4)
    layer_norm = EXPORTS["nn.functional.layer_norm"]
    calls = {
        "chain": lambda a, b: rushlight.cosine_similarity(a, b, dim=1, eps=1e-6),
        "keywords": lambda a, b: layer_norm(a, normalized_shape=(4,), weight=weight, bias=b[0], eps=0.1),
        "text": lambda a, b: rushlight.einsum("ij,kj->ik", a, b),
        "several results": lambda a, b: rushlight.topk(a * b, 2).indices,
        "in place": lambda a, b: a.clone().scatter_(1, (b * 2).long(), b),
    }
    for call in calls.values():
        expected = [call(x, y), call(y, x), call(x, x)]
        for _ in range(4):
            for found, wanted in zip([call(x, y), call(y, x), call(x, x)], expected, strict=True):
                assert found._meta is wanted._meta and rushlight.equal(found, wanted)


def test_numbers_and_metadata_of_several_tensors_are_told_apart():
    x, places = rushlight.zeros(4), rushlight.tensor([1, 2])
    for _ in range(3):
        for number in (1, 1.5, -0.0, 0.0):
            assert str(x.scatter(0, places, number)[1].item()) == str(float(number))
        with pytest.raises(RuntimeError, match="dtype"):
            x.scatter_add(0, places, rushlight.ones(2, dtype=rushlight.float64))
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.scatter(0, places + 2, 1)
        assert x.scatter_add(0, places, rushlight.ones(2), out=rushlight.empty(4)).tolist() == [0, 1, 1, 0]


def test_indices_without_dimensions_are_read_each_time():
    x = rushlight.arange(12).reshape(3, 4)
    for at in (1, 2, 0, -1, 1, 2):
        for i in (rushlight.tensor(at), rushlight.tensor(at, dtype=rushlight.int32)):
            assert x[i].tolist() == x[(i,)].tolist() == x.numpy()[at].tolist()
            assert x[i, i] == x[i, at] == x[i, [at]] == x[i, rushlight.tensor([at])] == x.numpy()[at, at]


def test_tensors_that_stand_for_numbers_are_read_each_time():
    for n in (1, 2, 3, 1, 2):
        assert len(rushlight.arange(6).tensor_split(rushlight.tensor(n))) == n
        assert rushlight.arange(6).tensor_split(rushlight.tensor([n]))[0].shape == (n,)
        norm = rushlight.linalg.vector_norm(rushlight.ones(8), rushlight.tensor(float(n)))
        assert abs(float(norm) - 8 ** (1 / n)) < 1e-5


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.scatter_(0, i, x),
        lambda x, i: x.scatter_add_(0, i, x),
        lambda x, i: x.scatter_reduce_(0, i, x, "sum"),
        lambda x, i: x.index_reduce_(0, i, x, "prod"),
        lambda x, i: x.index_add_(0, i, x),
        lambda x, i: x.index_copy_(0, i, source=x),
    ],
    ids=["scatter_", "scatter_add_", "scatter_reduce_", "index_reduce_", "index_add_", "index_copy_"],
)
def test_a_tensor_that_is_its_own_source_is_returned_each_time(call):
    place = rushlight.tensor(0)
    for _ in range(5):
        x = rushlight.ones(())
        assert call(x, place) is x
