"""The fuzzers on fixed seeds; `hatch run fuzz-compiler` runs them for longer."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import rushlight
from rushlight.compiler import _config


def load(name: str) -> Any:
    """A fuzzer beside this file."""
    spec = spec_from_file_location(f"rushlight_capture_{name}", Path(__file__).with_name(f"{name}.py"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


fuzz, fuzz_tensors, fuzz_graphs = load("fuzz"), load("fuzz_tensors"), load("fuzz_graphs")
fuzz_sizes = load("fuzz_sizes")


@pytest.mark.parametrize("fuzzer", [fuzz, fuzz_tensors], ids=["programs", "tensors"])
@pytest.mark.parametrize("block", range(8))
def test_random_programs(check, observe, fuzzer, block):
    for seed in range(25 * block, 25 * block + 25):
        body, steps = fuzzer.scenario(seed)
        assert not fuzzer.differs(body, steps, check.compile, observe), f"seed {seed}"


@pytest.mark.parametrize("fuzzer", [fuzz, fuzz_tensors], ids=["programs", "tensors"])
@pytest.mark.parametrize("before", [0, 1])
def test_random_programs_whose_operations_are_put_off(monkeypatch, observe, fuzzer, before):
    monkeypatch.setattr(_config, "LAZY_CALLS_BEFORE", before)
    programs = 0
    for seed in range(200, 230):
        body, steps = fuzzer.scenario(seed)
        states = []

        def compile(fn, states=states):
            made = rushlight.compile(fn, backend="lazy", options={"programs": "eager"})
            states.append(made._rushlight_state)
            return made

        assert not fuzzer.differs(body, steps, compile, observe), f"seed {seed}"
        programs += sum(state.tier.compiled for state in states)
    assert programs > 10


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("block", range(4))
def test_random_programs_on_sizes(check, observe, block):
    pytest.importorskip("rushlight.nn")
    for seed in range(10 * block, 10 * block + 10):
        body, calls = fuzz_sizes.scenario(seed)
        assert not fuzz_sizes.differs(body, calls, check.compile, observe), f"seed {seed}"


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_random_programs_on_sizes_share_kernels(observe):
    pytest.importorskip("rushlight.nn")
    for seed in range(40, 52):
        body, calls = fuzz_sizes.scenario(seed)
        assert not fuzz_sizes.differs(body, calls, rushlight.compile, observe, fuzz_sizes.near), f"seed {seed}"


@pytest.mark.parametrize("block", range(4))
def test_random_graphs(block):
    for seed in range(6 * block, 6 * block + 6):
        graph, inputs = fuzz_graphs.scenario(seed)
        assert fuzz_graphs.differs(graph, inputs) is None, f"seed {seed}"
