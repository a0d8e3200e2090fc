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


def states_of(seeds, **options):
    """Compare the steps of these seeds with eager ones; what is known of each compiled step afterwards."""
    states = []

    def compile(f):
        made = torch.compile(f, **options)
        states.append(made._rushlight_state)
        return made

    for seed in seeds:
        source = fuzz.program(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # some diverge
            expected, found = fuzz.run(source, lambda f: f, seed), fuzz.run(source, compile, seed)
        assert fuzz.near(expected, found), f"seed {seed}\n{source}"
    return states


@pytest.mark.parametrize("block", range(4))
def test_random_steps(block):
    states = states_of(range(20 * block, 20 * block + 20), backend="eager")
    assert sum(state.captures > 0 for state in states) > 5


@pytest.mark.parametrize("programs", ["eager", "aot_eager"])
def test_random_steps_whose_operations_are_put_off(programs):
    states = states_of(range(100, 140), backend="lazy", options={"programs": programs})
    assert sum(state.tier.compiled for state in states) > 40
