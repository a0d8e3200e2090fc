"""The kernel cache: reuse across processes, damaged files, directories that cannot be written, keys."""

import os
import subprocess
import sys

import numpy as np
import pytest

from rushlight.core.scalar import opaque
from rushlight.kernels.cpu import jit

PROGRAM = """
import numpy as np
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.cpu.jit import compile_statistics
x = np.arange(5, dtype=np.float32)
out = np.empty_like(x)
elementwise_kernel(lambda x: x * 3 + 1, [np.float32], np.float32)(out, x)
assert (out == x * 3 + 1).all()
print(compile_statistics()["compiled"], compile_statistics()["disk"])
"""


def run(directory):
    environment = os.environ | {"RUSHLIGHT_CACHE_DIR": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=subprocess.PIPE, text=True)
    return process


def finish(process):
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return output.split()


def test_two_processes_write_one_file_and_a_third_reads_it(tmp_path):
    first, second = run(tmp_path), run(tmp_path)
    for process in (first, second):
        compiled, loaded = map(int, finish(process))
        assert compiled + loaded == 1
    (file,) = tmp_path.rglob("*.bin")
    assert finish(run(tmp_path)) == ["0", "1"]
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert finish(run(tmp_path)) == ["1", "0"]
    assert len(file.read_bytes()) == len(whole)
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".bin"}


def test_unusable_directory_means_memory_only(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    assert finish(run(tmp_path / "file" / "cache")) == ["1", "0"]
    assert finish(run("")) == ["1", "0"]


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    assert jit.cache_dir() == tmp_path
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")
    assert jit.cache_dir() is None
    monkeypatch.delenv("RUSHLIGHT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert jit.cache_dir() == tmp_path / "rushlight"


SCALE = 2.0


def helper(x):
    return x * SCALE


def caller(x):
    return helper(x) + 1.0


def test_fingerprint_sees_code_constants_and_callees(monkeypatch):
    def other(x):
        return helper(x) + 2.0

    before = jit.fingerprint(caller)
    assert before == jit.fingerprint(caller) != jit.fingerprint(other)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert jit.fingerprint(caller) != before


def test_opaque_functions_call_each_other():
    from rushlight.kernels.cpu.elementwise import elementwise_kernel

    outer = opaque(caller)
    x = np.arange(4, dtype=np.float32)
    out = np.empty_like(x)
    elementwise_kernel(outer, [np.float32], np.float32)(out, x)
    np.testing.assert_array_equal(out, x * SCALE + 1)


def test_importing_the_engine_does_not_import_numba():
    code = "import sys, rushlight.kernels.cpu.elementwise, rushlight.kernels.cpu.reduce\n"
    code += "assert not {'numba', 'scipy'} & set(sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("walks", ["ccc", "c0c", "csc"])
def test_source_is_readable_python(walks):
    from rushlight.kernels.cpu.elementwise import elementwise_kernel

    source = elementwise_kernel(lambda x, y: x + y, [np.float32] * 2, np.float32).source(
        walks, 1 if "s" not in walks else 2
    )
    compile(source, "kernel", "exec")
    assert "t0 = x0 + x1" in source
