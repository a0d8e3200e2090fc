"""Futures: completed once, seen by all who wait, and what is made of them."""

import threading

import pytest

import rushlight
from rushlight.futures import Future, collect_all, wait_all


def test_a_value_reaches_those_who_wait_and_what_follows():
    future = Future()
    later = future.then(lambda done: done.value() + 1)
    assert not future.done() and not later.done()
    with pytest.raises(RuntimeError, match="not completed"):
        future.value()
    threading.Timer(0.01, future.set_result, (3,)).start()
    assert later.wait() == 4 and future.wait() == future.value() == 3
    assert future.then(lambda done: "at once").wait() == "at once"
    with pytest.raises(RuntimeError, match="completed"):
        future.set_result(4)


def test_an_exception_is_passed_on():
    future = Future()
    later = future.then(lambda done: done.wait())
    with pytest.raises(AssertionError, match="not an Exception"):
        future.set_exception("no exception")
    future.set_exception(KeyError("k"))
    for waiting in (future, later):
        with pytest.raises(KeyError):
            waiting.wait()


def test_a_callback_that_raises_spoils_nothing(capsys):
    future, seen = Future(), []
    future.add_done_callback(lambda done: 1 / 0)
    future.add_done_callback(lambda done: seen.append(done.value()))
    future.set_result(5)
    assert seen == [5] and "ZeroDivisionError" in capsys.readouterr().err


def test_many_futures_are_waited_for_together():
    several = [Future() for _ in range(3)]
    together = collect_all(several)
    for i, future in enumerate(several):
        assert not together.done()
        future.set_result(i)
    assert together.wait() == several and wait_all(several) == [0, 1, 2]
    assert collect_all([]).wait() == []


def test_fork_is_a_call():
    assert rushlight.wait(rushlight.fork(rushlight.add, rushlight.ones(2), 1)).tolist() == [2, 2]
    with pytest.raises(ZeroDivisionError):
        rushlight.fork(lambda: 1 / 0)
    with pytest.raises(TypeError, match="expected a Future"):
        rushlight.wait(3)
