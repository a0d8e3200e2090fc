"""The program fuzzer on fixed seeds; `python fuzz.py` runs it for longer."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

spec = spec_from_file_location("rushlight_capture_fuzz", Path(__file__).with_name("fuzz.py"))
fuzz = module_from_spec(spec)
spec.loader.exec_module(fuzz)


@pytest.mark.parametrize("block", range(8))
def test_random_programs(check, observe, block):
    for seed in range(25 * block, 25 * block + 25):
        body, steps = fuzz.scenario(seed)
        expected = fuzz.run(body, steps, lambda fn: fn, observe)
        assert fuzz.run(body, steps, check.compile, observe) == expected, f"seed {seed}"
