"""Kernels as bytes: another process with an empty cache compiles nothing, and damaged bytes are refused."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight as torch
from rushlight.compiler import load_cache_artifacts, save_cache_artifacts

PROGRAM = """
import sys
from pathlib import Path
import rushlight as torch
from rushlight.kernels.cpu import jit
file = Path(sys.argv[1])
if file.exists():
    torch.compiler.load_cache_artifacts(file.read_bytes())
f = torch.compile(lambda x, w: ((x @ w).tanh() * 0.37 + 1.9).sum(0))
f(torch.ones(4, 3), torch.ones(3, 5))
print(jit.compile_statistics()["compiled"])
if not file.exists():
    file.write_bytes(torch.compiler.save_cache_artifacts()[0])
"""


@pytest.mark.parametrize("disk", [True, False])
def test_another_process_compiles_nothing(tmp_path, disk):
    compiled = []
    for number in range(2):
        cache = str(tmp_path / f"cache{number}") if disk or number == 0 else ""
        done = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path / "artifacts")], capture_output=True,
                              text=True, env={**os.environ, "RUSHLIGHT_CACHE_DIR": cache}, timeout=120)
        assert done.returncode == 0, done.stderr
        compiled.append(int(done.stdout))
    assert compiled[0] > 0 and compiled[1] == 0


@given(st.data())
def test_damaged_bytes_keep_nothing(data):
    torch.compile(lambda x: x.exp() * 3)(torch.ones(3))
    artifacts, info = save_cache_artifacts()
    assert load_cache_artifacts(artifacts) == info
    cut = data.draw(st.integers(0, len(artifacts) - 1))
    with pytest.raises(ValueError, match="no artifacts of save_cache_artifacts"):
        load_cache_artifacts(artifacts[:cut])


def test_foreign_archives_are_refused():
    with pytest.raises(TypeError, match="expected bytes, got str"):
        load_cache_artifacts("artifacts")
    with pytest.raises(ValueError, match="no artifacts"):
        load_cache_artifacts(b"")
