"""`import rushlight` is light, and so is the first use of each package: nothing heavy loads, nothing compiles."""

import subprocess
import sys

import pytest

HEAVY = ("numba", "llvmlite", "scipy", "matplotlib")


def python(code):
    """What a new interpreter prints for the code."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


@pytest.mark.parametrize("use", ["", "rushlight.ones(2) + 1", "rushlight.nn.Linear(2, 2)", "rushlight.optim.AdamW",
                                 "rushlight.utils.data.DataLoader", "rushlight.compile"])
def test_loads_nothing_heavy(use):
    loaded = python(f"import sys, rushlight\n{use}\nprint(*[name for name in {HEAVY} if name in sys.modules])")
    assert loaded == "", f"{use or 'import rushlight'} loads {loaded}"


def test_the_first_tensor_loads_nothing_that_only_compiling_needs():
    late = {"pathlib", "tempfile", "hashlib", "importlib.metadata"}
    code = f"""import sys, numpy, dataclasses, importlib.util
before = set(sys.modules)
import rushlight
rushlight.ones(2) + 1
print(*sorted({late} & (set(sys.modules) - before)))"""
    assert python(code) == ""


def test_costs_at_most_a_third_more_than_numpy():
    def seconds(module):
        code = f"import time; start = time.perf_counter(); import {module}; print(time.perf_counter() - start)"
        # The least of several is what the import itself needs; the rest is other programs.
        return min(float(python(code)) for _ in range(5))

    assert seconds("rushlight") <= 1.3 * seconds("numpy")
