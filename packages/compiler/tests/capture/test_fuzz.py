"""The fuzzers on fixed seeds; `python fuzz.py` and `python fuzz_tensors.py` run for longer."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest


def load(name: str) -> Any:
    """A fuzzer beside this file."""
    spec = spec_from_file_location(f"rushlight_capture_{name}", Path(__file__).with_name(f"{name}.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fuzz, fuzz_tensors = load("fuzz"), load("fuzz_tensors")


@pytest.mark.parametrize("fuzzer", [fuzz, fuzz_tensors], ids=["programs", "tensors"])
@pytest.mark.parametrize("block", range(8))
def test_random_programs(check, observe, fuzzer, block):
    for seed in range(25 * block, 25 * block + 25):
        body, steps = fuzzer.scenario(seed)
        assert not fuzzer.differs(body, steps, check.compile, observe), f"seed {seed}"
