"""A small part of the fuzz in every run (at length: hatch run fuzz), and that it would see what is wrong."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.core.op import REGISTRY
from rushlight.core.samples import samples_of
from rushlight.testing import fuzz

NAMES = fuzz.operations()
# Native loops take a second each to compile, so large calls are left to the long run, but for operations like these.
COMPILED = ("exp", "gelu", "logaddexp", "sum", "softmax", "gather")


@st.composite
def cases(draw, names=NAMES, large=False):
    name = draw(st.sampled_from(names))
    return fuzz.Case(
        name,
        draw(st.integers(0, len(samples_of(REGISTRY[name])) - 1)),
        draw(st.sampled_from(fuzz.DTYPES if REGISTRY[name].kind == "elementwise" else fuzz.FLOATS)),
        draw(st.tuples(*[st.sampled_from(fuzz.LAYOUTS)] * 3)),
        draw(st.booleans()),
        large,
        draw(st.integers(0, 2**32 - 1)),
    )


@pytest.mark.filterwarnings("ignore:Casting complex values to real:numpy.exceptions.ComplexWarning")
@settings(max_examples=400)
@given(cases())
def test_small_calls(case):
    assume(fuzz.check(case))


@pytest.mark.parametrize("name", COMPILED)
def test_large_calls(name):
    for layout in ("contiguous", "transposed", "expanded"):
        case = fuzz.Case(name, layouts=(layout,), special=REGISTRY[name].kind == "elementwise", large=True, seed=3)
        assert fuzz.check(case)


@pytest.mark.parametrize("name", ["lcm", "zeta", "igamma", "igammac"])
@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "int8", "int64"])
def test_functions_with_narrow_domains(name, dtype):
    for seed in range(8):
        fuzz.check(fuzz.Case(name, dtype=dtype, special=seed > 2, seed=seed))


@pytest.mark.parametrize("exponent, place, wanted", [
    (np.inf, 1.0, 1.0), (np.inf, 2.0, 0.0), (np.inf, -2.5, np.inf), (2.0, np.inf, 0.0), (2.0, -np.inf, np.inf),
    (np.nan, 2.0, np.nan), (1.0, 3.0, np.inf),
])  # fmt: skip
def test_zeta_at_the_ends(exponent, place, wanted):
    for count in (4, fuzz.LARGE):
        got = rushlight.special.zeta(rushlight.full((count,), exponent), rushlight.full((count,), place))
        assert np.array_equal(got[0], wanted, equal_nan=True)


def test_the_fuzz_sees_a_wrong_value(monkeypatch):
    op = REGISTRY["exp"]
    wrong = dataclasses.replace(op, numpy=lambda x: np.exp(x) + 0.01 * (x > 2), plans={})
    monkeypatch.setitem(REGISTRY, "exp", wrong)
    with pytest.raises(AssertionError, match="expected"):
        for seed in range(10):
            fuzz.check(fuzz.Case("exp", special=True, seed=seed))


def test_cases_repeat():
    first = [case for case, _ in zip(fuzz.cases(5), range(20))]
    assert first == [case for case, _ in zip(fuzz.cases(5), range(20))]
    assert eval(repr(first[0]), {"Case": fuzz.Case}) == first[0]
