"""`out=` and in-place calls: what is stored, and what is refused."""

import numpy as np
import pytest

import rushlight

X = rushlight.arange(6.0)


def test_out_is_filled_and_returned():
    out = rushlight.zeros(6, dtype=rushlight.float64)
    assert rushlight.sin(X, out=out) is out and out[1] == np.sin(np.float32(1))
    strided = rushlight.zeros(6, 2)[:, 0]
    assert rushlight.cumsum(X, 0, out=strided) is strided and strided.tolist() == [0, 1, 3, 6, 10, 15]
    assert strided.stride() == (2,)


def test_out_of_another_shape_is_resized_with_a_warning():
    with pytest.warns(UserWarning, match="was resized") as seen:
        assert rushlight.exp(X, out=rushlight.zeros(2)).shape == (6,)
        assert rushlight.sum(X, dim=0, out=rushlight.zeros(2)).shape == ()
    assert {warning.filename for warning in seen} == {__file__}
    assert rushlight.exp(X, out=rushlight.zeros(0)).shape == (6,)  # without elements, no warning


@pytest.mark.parametrize(
    "call",
    [
        lambda: rushlight.gather(X, 0, rushlight.tensor([1, 2]), out=rushlight.zeros(2, dtype=rushlight.float64)),
        lambda: rushlight.max(X, 0, out=(rushlight.zeros(()), rushlight.zeros(()))),
        lambda: rushlight.aminmax(X, out=(rushlight.zeros(()), rushlight.zeros((), dtype=rushlight.float64))),
        lambda: rushlight.exp(X, out=rushlight.zeros(6, dtype=rushlight.int64)),
    ],
)
def test_dtypes_that_out_cannot_have(call):
    with pytest.raises(RuntimeError, match="dtype|can't be cast"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: rushlight.sin(x[1:], out=x[:-1]),
        lambda x: rushlight.add(x[:3], x[1:4], out=x[2:5]),
        lambda x: x[1:].add_(x[:-1]),
        lambda x: rushlight.take(x, rushlight.tensor([1, 2]), out=x[:2]),
        lambda x: rushlight.index_select(x, 0, rushlight.arange(6), out=x),
        lambda x: rushlight.cat([x[:2], x[2:]], out=x),
        lambda x: x.expand(2, 6).add_(1),
        lambda x: rushlight.add(x, 1, out=rushlight.zeros(1).expand(6)),
    ],
)
def test_memory_that_cannot_be_written(call):
    x = rushlight.arange(6.0)
    with pytest.raises(RuntimeError, match="single memory location|share one memory location"):
        call(x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_memory_that_can():
    x = rushlight.arange(6.0)
    assert rushlight.mul(x, 2, out=x).tolist() == [0, 2, 4, 6, 8, 10]
    assert x.add_(x[:]).tolist() == [0, 4, 8, 12, 16, 20]
    assert x[:3].sub_(x[3:]).tolist() == [-12, -12, -12]
    assert rushlight.ones(1, 2).expand(2, 2)[:0].add_(1).shape == (0, 2)  # there is nothing to write
    assert rushlight.ones(1, 2).expand(2, 2)[None][1:].add_(1).shape == (0, 2, 2)
    evens, odds = x[::2], x[1::2]
    assert evens.add_(odds)[0] == -24  # they alternate, but share no element


def test_factories_follow_out():
    wide = rushlight.linspace(0, 1, 4, out=rushlight.empty(0, dtype=rushlight.float64))
    assert wide[1] == 1 / 3
    assert rushlight.zeros(2, out=rushlight.ones(2, dtype=rushlight.int8)).dtype is rushlight.int8
    assert rushlight.arange(0, 2.5, out=rushlight.empty(0, dtype=rushlight.int64)).tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        rushlight.zeros(2, dtype=rushlight.float32, out=rushlight.ones(2, dtype=rushlight.int8))


def test_expanded_memory_takes_no_moved_elements():
    with pytest.raises(RuntimeError, match="single memory location|share one memory location"):
        rushlight.index_select(X, 0, rushlight.tensor([1, 2]), out=rushlight.zeros(1).expand(3))


def test_out_without_elements_takes_the_layout_of_the_result():
    x = rushlight.arange(6.0).reshape(2, 3).t()
    assert rushlight.exp(x, out=rushlight.zeros(0)).stride() == (1, 3)


def test_modules_about_devices():
    assert rushlight.get_device_module() is rushlight.get_device_module("cpu") is rushlight.cpu
    with pytest.raises(RuntimeError, match="no module"):
        rushlight.get_device_module("meta")


def test_many_elements_are_stored_without_memory_in_between():
    n = 100_000
    a, b, out = rushlight.rand(n), rushlight.rand(n), rushlight.empty(n)
    for fn in (rushlight.add, rushlight.mul, rushlight.div):
        wanted = fn(a, b)
        before = out._version
        assert fn(a, b, out=out) is out and out.equal(wanted) and out._version > before
        assert fn(a, b, out=rushlight.empty(n, 2)[:, 0]).equal(wanted)
        copy = a.clone()
        assert fn(copy, b, out=copy).equal(wanted)
    rows = rushlight.rand(200, 501)
    wanted = rows[:, :-1].exp()
    for _ in range(2):  # the second call has a plan to follow
        shifted = rows.clone()
        assert rushlight.exp(shifted[:, :-1], out=shifted[:, 1:]).equal(wanted)
