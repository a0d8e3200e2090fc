"""`rushlight._check` and its like."""

from __future__ import annotations

import pytest

import rushlight


@pytest.mark.parametrize(("name", "error"), [
    ("_check", RuntimeError), ("_check_index", IndexError), ("_check_value", ValueError), ("_check_type", TypeError),
    ("_check_not_implemented", NotImplementedError)])
def test_conditions_raise_what_they_say(name, error):
    check = getattr(rushlight, name)
    assert check(True, lambda: pytest.fail("the message is not needed")) is None
    with pytest.raises(error, match="why not 3"):
        check(False, lambda: f"why not {3}")
    with pytest.raises(error, match="Expected cond to be True"):
        check(False)
    with pytest.raises(TypeError, match="message must be a callable"):
        check(False, "text")
    with pytest.raises(TypeError, match="cond must be a bool"):
        check(rushlight.tensor(True))
    with pytest.raises(TypeError, match="cond must be a bool"):
        check(1)


def test_sizes_and_elements():
    rushlight._check_is_size(0)
    with pytest.raises(RuntimeError, match="cond"):
        rushlight._check_is_size(-1)
    with pytest.raises(RuntimeError, match="cond"):
        rushlight._check_is_size(5, max=4)
    rushlight._check_tensor_all(rushlight.ones(2) > 0)
    with pytest.raises(RuntimeError, match="small"):
        rushlight._check_tensor_all(rushlight.ones(2) > 1, lambda: "small")
    with pytest.raises(TypeError, match="a tensor"):
        rushlight._check_tensor_all(True)
