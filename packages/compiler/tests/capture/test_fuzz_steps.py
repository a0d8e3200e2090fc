"""Random training steps give the same compiled. They need rushlight-nn, which the compiler itself does not."""

from __future__ import annotations

import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import rushlight as torch

pytest.importorskip("rushlight.nn")
_spec = spec_from_file_location("rushlight_capture_fuzz_steps", Path(__file__).parent / "fuzz_steps.py")
fuzz = module_from_spec(_spec)
_spec.loader.exec_module(fuzz)


@pytest.mark.parametrize("block", range(4))
def test_random_steps(block):
    captures = 0
    for seed in range(20 * block, 20 * block + 20):
        source, states = fuzz.program(seed), []

        def compile(f, states=states):
            made = torch.compile(f, backend="eager")
            states.append(made._rushlight_state)
            return made

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # some diverge
            expected, found = fuzz.run(source, lambda f: f, seed), fuzz.run(source, compile, seed)
        assert fuzz.near(expected, found), f"seed {seed}\n{source}"
        captures += states[0].captures > 0
    assert captures > 5


@pytest.mark.parametrize("programs", ["eager", "aot_eager"])
def test_random_steps_whose_operations_are_put_off(programs):
    pieces = 0
    for seed in range(100, 140):
        source, states = fuzz.program(seed), []

        def compile(f, states=states):
            made = torch.compile(f, backend="lazy", options={"programs": programs})
            states.append(made._rushlight_state)
            return made

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # some diverge
            expected, found = fuzz.run(source, lambda f: f, seed), fuzz.run(source, compile, seed)
        assert fuzz.near(expected, found), f"seed {seed}\n{source}"
        pieces += states[0].tier.compiled
    assert pieces > 40
