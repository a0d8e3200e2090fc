"""Grad modes: as context managers and decorators, for functions, generators and coroutines, per thread."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rushlight
from rushlight import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled


def test_modes_nest_and_are_restored():
    assert is_grad_enabled()
    with no_grad():
        assert not is_grad_enabled()
        with enable_grad():
            assert is_grad_enabled()
        with set_grad_enabled(True):
            assert is_grad_enabled()
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert is_grad_enabled()


def test_set_grad_enabled_acts_at_once():
    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)
    assert is_grad_enabled()


@pytest.mark.parametrize("decorator", [
    no_grad, inference_mode, lambda f: no_grad()(f), lambda f: inference_mode()(f),
    lambda f: set_grad_enabled(False)(f)])
def test_decorated_function(decorator):
    @decorator
    def inside(a, *, b):
        return is_grad_enabled(), a, b

    assert inside(1, b=2) == (False, 1, 2)
    assert inside.__name__ == "inside"
    assert is_grad_enabled()


def test_decorated_generator_switches_at_each_step():
    @no_grad()
    def steps():
        try:
            got = yield is_grad_enabled()
            yield got, is_grad_enabled()
        except ValueError:
            yield "caught", is_grad_enabled()
        return "done"

    generator = steps()
    assert next(generator) is False
    assert is_grad_enabled()
    assert generator.send("sent") == ("sent", False)
    assert generator.throw(ValueError) == ("caught", False)
    with pytest.raises(StopIteration, match="done"):
        next(generator)
    assert is_grad_enabled()


def test_decorated_coroutine_and_asynchronous_generator():
    @no_grad()
    async def value():
        await asyncio.sleep(0)
        return is_grad_enabled()

    @no_grad()
    async def values():
        for _ in range(2):
            yield is_grad_enabled()

    async def main():
        return await value(), [v async for v in values()], is_grad_enabled()

    assert asyncio.run(main()) == (False, [False, False], True)


def test_classes_cannot_be_decorated():
    with pytest.raises(TypeError, match="expected a function to decorate"):
        no_grad()(type("Some", (), {}))


def test_each_thread_has_its_own_mode():
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_nothing_is_recorded_without_grad():
    x = rushlight.ones(2, requires_grad=True)
    with no_grad():
        assert not (x * 2).requires_grad
        assert rushlight.ones(1, requires_grad=True).requires_grad
    with inference_mode():
        assert rushlight.is_inference_mode_enabled()
        y = x * 2
        with inference_mode(False):
            assert is_grad_enabled()
    assert not y.requires_grad


def test_leaf_rules():
    x = rushlight.ones(2)
    assert x.is_leaf and x.grad_fn is None
    y = x.requires_grad_() * 2
    assert x.is_leaf and not y.is_leaf and y.detach().is_leaf
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = False
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"):
        rushlight.ones(2, dtype=rushlight.int64).requires_grad_()


def test_results_that_are_not_floating_point_are_not_recorded():
    x = rushlight.ones(2, requires_grad=True)
    assert not (x > 0).requires_grad and not x.argmax().requires_grad


@pytest.mark.parametrize("value, error, message", [
    (rushlight.ones(3), RuntimeError, "are the same size"),
    (rushlight.ones(2, dtype=rushlight.float64), RuntimeError, "same dtype"),
    (1.0, TypeError, "expected to be a Tensor or None"),
])
def test_assigned_gradients_are_checked(value, error, message):
    x = rushlight.ones(2, requires_grad=True)
    with pytest.raises(error, match=message):
        x.grad = value


def test_gradient_of_a_non_leaf_warns():
    y = rushlight.ones(2, requires_grad=True) * 2
    with pytest.warns(UserWarning, match=r"\.grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [1, 1] and y.retains_grad
