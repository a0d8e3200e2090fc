"""`__torch_function__`: who is asked, with what, in which order; and that nobody is asked before there is anybody."""

import threading

import numpy as np
import pytest

import rushlight
from rushlight import overrides
from rushlight.core.front import EXPORTS
from rushlight.core.tensor import Tensor


@pytest.fixture(autouse=True)
def nobody_is_asked_afterwards():
    add, method = EXPORTS["add"], Tensor.add
    yield
    overrides._needed[0] = 0
    while overrides._undo:
        overrides._undo.pop()()
    assert EXPORTS["add"] is add and Tensor.add is method and rushlight.add is add


def noting():
    """A subclass of Tensor that notes the names of the functions it is asked for."""
    seen = []

    class Noting(Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    return Noting, seen


def test_without_a_class_functions_are_what_they_were():
    before = EXPORTS["sin"], Tensor.mul, Tensor.__add__

    class Plain(Tensor):
        pass

    assert type(rushlight.ones(2).as_subclass(Plain) + 1) is Tensor
    assert (EXPORTS["sin"], Tensor.mul, Tensor.__add__) == before


def test_a_subclass_sees_functions_methods_operators_and_properties():
    kind, seen = noting()
    x = rushlight.ones(2, 2).as_subclass(kind)
    results = [
        x + 1, 2 - x, rushlight.ones(2) * x, rushlight.sin(x), x.exp(), x[0], x.T, rushlight.stack([x, x]), x.mul_(2),
        rushlight.linalg.norm(x), x.sum(0, keepdim=True), rushlight.max(x, 0).values,
    ]  # fmt: skip
    assert all(type(result) is kind for result in results)
    operators = ["__add__", "__rsub__", "__mul__"]
    assert seen == [*operators, "sin", "exp", "__getitem__", "__get__", "stack", "mul_", "norm", "sum", "max"]
    assert np.array_equal(results[0], [[2, 2], [2, 2]]) and x.shape == (2, 2)


def test_gradients_pass_through_subclasses():
    pytest.importorskip("rushlight.autograd")
    kind, _ = noting()
    x = rushlight.ones(2, requires_grad=True)
    (x.as_subclass(kind) * 3).sum().backward()
    assert x.grad.tolist() == [3, 3]


class Duck:
    """No tensor, but it answers."""

    answer = "duck"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.answer, overrides.resolve_name(func), types


class Drake(Duck):
    answer = "drake"


class Shy:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


def test_other_classes_answer_after_activation():
    overrides.activate()
    assert rushlight.add(Duck(), 2) == ("duck", "rushlight.add", (Duck,))
    assert rushlight.ones(2).add(Duck()) == ("duck", "rushlight.Tensor.add", (Duck,))
    assert (rushlight.ones(2) + Duck())[0] == "duck"
    assert EXPORTS["nn.functional.linear"](rushlight.ones(1), weight=Duck())[1] == "rushlight.nn.functional.linear"
    assert rushlight.cat([rushlight.ones(1), Duck()])[0] == "duck"


def test_subclasses_come_first_and_the_shy_leave_it_to_others():
    overrides.activate()
    assert rushlight.add(Duck(), Drake()) == ("drake", "rushlight.add", (Drake, Duck))
    assert rushlight.add(Shy(), Duck())[0] == "duck"
    with pytest.raises(TypeError, match=r"rushlight\.add: no implementation found.*Shy"):
        rushlight.add(Shy(), 1)


def test_a_mode_sees_every_call_of_its_thread_while_it_lasts():
    seen = []

    class Names(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    plain = EXPORTS["sin"]
    with Names(), Names():
        rushlight.sin(rushlight.ones(2))
        other = threading.Thread(target=lambda: rushlight.cos(rushlight.ones(2)))
        other.start()
        other.join()
    assert seen == ["ones", "ones", "sin", "sin"] and EXPORTS["sin"] is plain
    with pytest.raises(NotImplementedError, match="must define"), overrides.TorchFunctionMode():
        rushlight.ones(1)


def test_functions_of_ones_own_can_ask():
    @overrides.wrap_torch_function(lambda a, b: (a, b))
    def both(a, b):
        return a + b

    assert both(1, 2) == 3 and both(1, Duck())[0] == "duck"
    with overrides.DisableTorchFunctionSubclass():
        assert not overrides.has_torch_function((Duck(),))
        with overrides.enable_reentrant_dispatch():
            assert overrides.has_torch_function_unary(Duck())
    assert overrides.has_torch_function_variadic(1, Duck()) and not overrides.has_torch_function([rushlight.ones(1)])


def test_what_can_be_overridden_is_listed():
    functions = overrides.get_overridable_functions()
    assert EXPORTS["add"] in functions[rushlight] and Tensor.add in functions[Tensor]
    stubs = overrides.get_testing_overrides()
    assert all(stub() == -1 for stub in stubs.values()) and set(stubs) == set().union(*functions.values())
    assert overrides.resolve_name(len) is None
    assert overrides.resolve_name(Tensor.add_) == "rushlight.Tensor.add_"
    assert overrides.is_tensor_method_or_property(Tensor.mul) and not overrides.is_tensor_method_or_property(len)
    assert Tensor.__repr__ in overrides.get_ignored_functions()
    assert overrides.is_tensor_like(Duck()) and not overrides.is_tensor_like(1.0)


def test_functions_that_are_first_read_in_a_mode_do_not_ask_after_it():
    vars(rushlight).pop("nanmedian", None)
    with overrides.BaseTorchFunctionMode():
        assert rushlight.nanmedian(rushlight.ones(1)).item() == 1.0
    assert rushlight.nanmedian is EXPORTS["nanmedian"]
