"""Errors carry the name of the function that was called, and handlers leave in any order."""

import contextlib
import operator

import pytest

import rushlight
from rushlight.core import dispatch
from rushlight.core.errors import OutOfMemoryError
from rushlight.core.front import EXPORTS

X = rushlight.ones(3)


@pytest.mark.parametrize(
    "name, call",
    [
        ("add", lambda: rushlight.add(X, rushlight.ones(4), alpha=2)),
        ("sub", lambda: rushlight.sub(X, rushlight.ones(4), alpha=2)),
        ("add", lambda: X.add_(rushlight.ones(4), alpha=2)),
        ("sub", lambda: X.sub_(rushlight.ones(4), alpha=2)),
        ("sub_", lambda: rushlight.ones(3, dtype=rushlight.int64).sub_(X, alpha=2)),
        ("sub_", lambda: rushlight.ones(1).expand(3).sub_(X, alpha=2)),
    ],
)
def test_scaled_sums_raise_under_the_name_that_was_called(name, call):
    with pytest.raises(RuntimeError, match=f"^{name}: "):
        call()


def test_out_of_memory_is_said_once():
    for call in (rushlight.ones, rushlight.zeros, rushlight.empty, rushlight.rand):
        with pytest.raises(OutOfMemoryError) as caught:
            call(10**15)
        assert str(caught.value).count("out of memory") == 1


def test_a_step_that_an_integer_dtype_makes_zero():
    with pytest.raises(ValueError, match="step must be nonzero"):
        rushlight.arange(0, 4, 0.5, dtype=rushlight.int64)
    with pytest.raises(RuntimeError, match="no dimension 3"):
        rushlight.narrow_copy(rushlight.ones(2, 3), 3, 0, 1)


class _Names:
    """A handler that notes the operations of a block."""

    def __init__(self):
        self.seen = []

    def handle(self, op, operands, params):
        self.seen.append(op.name)
        with dispatch.below():
            return op.apply(operands, params)


def test_a_handler_leaves_by_itself_whatever_was_pushed_after_it():
    outer, inner = _Names(), _Names()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(dispatch.push(outer))
    second.enter_context(dispatch.push(inner))
    X.exp()
    first.close()
    X.sin()
    second.close()
    X.cos()
    assert outer.seen == ["exp"] and inner.seen == ["exp", "sin"]
    assert dispatch.current() is None


def test_memory_is_read_as_wider_elements_only_from_a_multiple_of_them():
    x = rushlight.arange(9, dtype=rushlight.int16)
    for offset in (0, 1, 2, 3):  # the second round finds the plan of the first
        part = x[offset : offset + 4]
        if offset % 2:
            with pytest.raises(RuntimeError, match=r"storage_offset\(\) must be divisible by 2"):
                part.view(rushlight.int32)
        else:
            assert part.view(rushlight.int32).view(rushlight.int16).tolist() == part.tolist()
        assert part.view(rushlight.uint16).tolist() == part.tolist()
    with pytest.raises(RuntimeError, match="storage_offset"):
        rushlight.view_as_complex(rushlight.zeros(5)[1:].view(2, 2))


def test_operators_refuse_what_they_are_not_defined_for():
    for kind in (TypeError, RuntimeError):  # PyTorch: the operator raises the one, the function the other
        with pytest.raises(kind, match="bitwise_not: not defined for float32"):
            operator.invert(X)
    for call in (lambda: 2 @ X, lambda: X @ 2, lambda: [1.0, 2.0, 3.0] @ X):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError, match="out of bounds"):
        X.__getitem__(2**63)


def test_output_sizes_beyond_memory():
    pool = EXPORTS["nn.functional.adaptive_max_pool1d"]
    with pytest.raises(RuntimeError, match="output_size 9132760301568586890 is too large"):
        pool(rushlight.ones(2, 2, 2), 9132760301568586890)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rushlight.mm(X, 2), "mm: mat2 must be a Tensor, got int; use rushlight.tensor"),
        (lambda: rushlight.argmax("x"), "argmax: input must be a Tensor, got str"),
        (lambda: rushlight.bilinear(X, "x", X, X), "bilinear: input2 must be a Tensor, got str"),
        (lambda: rushlight.pdist(None), "pdist: input must be a Tensor, got NoneType$"),
        (lambda: rushlight.float_power(X, None), "float_power: expected tensors or numbers, got NoneType"),
        (lambda: rushlight.threshold(X, 1, None), "threshold: value must be a Tensor, got NoneType"),
        (lambda: rushlight.Tensor.__rsub__(1, X), "__rsub__: expected a Tensor on the right, got int"),
        (lambda: rushlight.transpose(None, 0, 1), "transpose: input must be a Tensor, got NoneType$"),
        (lambda: rushlight.transpose(2, 0, 1), "transpose: input must be a Tensor, got int"),
        (lambda: rushlight.logsumexp([1.0], 0), "logsumexp: input must be a Tensor, got list"),
        (lambda: rushlight.ge(X, None), "ge: other must be a Tensor, got NoneType"),
        (lambda: X.add_(None), "add_: other must be a Tensor, got NoneType"),
        (lambda: rushlight.linalg.inv(X.numpy()), "inv: input must be a Tensor or a number, got ndarray"),
    ],
)
def test_arguments_of_a_wrong_type_are_named(call, message):
    with pytest.raises(TypeError, match=message):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: EXPORTS["nn.functional.mse_loss"](rushlight.ones(3, 1), X),
        lambda: EXPORTS["nn.functional.softmax"](X),
        lambda: rushlight.add(X, 1, out=rushlight.ones(2)),
    ],
)
def test_warnings_name_the_line_outside_the_library(call):
    with pytest.warns(UserWarning) as caught:
        call()
    assert [one.filename for one in caught] == [__file__]
