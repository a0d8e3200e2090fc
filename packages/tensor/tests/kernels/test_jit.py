"""The kernel cache: reuse across processes, damaged files, directories that cannot be used, keys, fork."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from rushlight.core.scalar import opaque
from rushlight.kernels.cpu import jit, store
from rushlight.kernels.cpu.fingerprint import fingerprint

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
    assert finish(run(tmp_path)) == ["0", "1"]
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert file.suffix == ".bin"


@pytest.fixture
def source_of_kernel(monkeypatch, tmp_path):
    """Where a process that holds no kernels gets one from, "disk" or "compiled", with an own cache directory."""
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path / "cache"))

    def source_of_kernel():
        monkeypatch.setattr(jit, "_kernels", {})
        store._usable.cache_clear()
        before = jit.compile_statistics()
        kernel = jit.compile_source("def kernel(lo, hi, x):\n    store(x, lo, f32(1.5))\n", ("u64", "u64", "*f32"))
        x = np.zeros(3, np.float32)
        kernel(1, 2, x)
        assert x.tolist() == [0, 1.5, 0]
        (origin,) = [name for name, count in jit.compile_statistics().items() if count > before[name]]
        return origin

    return source_of_kernel


def test_damaged_file_is_written_again(source_of_kernel, tmp_path):
    assert [source_of_kernel(), source_of_kernel()] == ["compiled", "disk"]
    (file,) = tmp_path.rglob("*.bin")
    file.write_bytes(file.read_bytes()[:-100])
    assert [source_of_kernel(), source_of_kernel()] == ["compiled", "disk"]


def test_another_kernels_code_is_not_taken(source_of_kernel, tmp_path):
    assert source_of_kernel() == "compiled"
    (file,) = tmp_path.rglob("*.bin")
    other = file.with_name("00.bin")
    file.rename(other)
    store.write(file.stem, b"code")
    blob = file.read_bytes()
    other.replace(file)
    assert source_of_kernel() == "disk"
    (tmp_path / "cache" / "kernels" / "ab").mkdir()
    (tmp_path / "cache" / "kernels" / "ab" / "ab12.bin").write_bytes(blob)
    assert store.read("ab12") is None


def test_unusable_directory_means_memory_only(source_of_kernel, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a directory")
    for setting in (str(tmp_path / "file" / "cache"), ""):
        monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", setting)
        assert [source_of_kernel(), source_of_kernel()] == ["compiled", "compiled"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs the owners and modes of Unix")
def test_kernels_that_others_can_write_are_not_run(source_of_kernel, tmp_path, monkeypatch):
    assert source_of_kernel() == "compiled"
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    (file,) = tmp_path.rglob("*.bin")
    file.chmod(0o666)
    assert source_of_kernel() == "compiled"  # and written again, with the mode of a new file
    assert source_of_kernel() == "disk"
    (tmp_path / "cache").chmod(0o777)
    with pytest.warns(RuntimeWarning, match="set RUSHLIGHT_CACHE_DIR to a directory of your own"):
        assert source_of_kernel() == "compiled"
    (tmp_path / "cache").chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    if tmp_path.stat().st_uid != 0:  # root's files are as good as one's own
        with pytest.warns(RuntimeWarning, match="belongs to another user"):
            assert source_of_kernel() == "compiled"
    else:
        assert source_of_kernel() == "disk"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_waits_for_a_kernel_in_the_making(source_of_kernel, monkeypatch):
    from llvmlite.binding import ffi

    compiling, original = threading.Event(), jit._translated

    def slow(*arguments):
        with ffi.lib._lock:
            compiling.set()
            time.sleep(0.05)
            return original(*arguments)

    source_of_kernel()
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")
    monkeypatch.setattr(jit, "_translated", slow)
    other = threading.Thread(target=source_of_kernel)
    other.start()
    compiling.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # to fail, not to hang
        os._exit(0 if source_of_kernel() == "compiled" else 1)
    other.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_old_files_that_can_only_be_read_are_used(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    store.write("ab12", b"code")
    (path,) = tmp_path.glob("kernels/*/*.bin")
    os.utime(path, (0, 0))

    def refuse(*args):
        raise PermissionError(1, "not the owner")

    monkeypatch.setattr(os, "utime", refuse)
    assert store.read("ab12") == b"code"


def test_what_was_not_used_for_longest_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    for age, digest in enumerate(["aa1", "ab2", "ac3"]):
        store.write(digest, bytes(1000))
        (path,) = tmp_path.rglob(f"{digest}.bin")
        os.utime(path, (time.time() - 3600 * age,) * 2)
    store.trim(tmp_path / "kernels", 2100)
    assert [store.read(digest) is None for digest in ["aa1", "ab2", "ac3"]] == [False, False, True]


def test_what_our_translation_does_not_know_goes_to_numba(source_of_kernel):
    def kernel(loop):
        source = f"def kernel(n, a):\n    for x in {loop}:\n        store(a, 0, load(a, 0) + x)\n"
        return jit.compile_source(source, ("i64", "*f64"))

    plain, unusual = kernel("range(n)"), kernel("(1.0, 2.0)")
    assert (jit.made_by(plain), jit.made_by(unusual)) == ("llvm", "numba")
    total = np.zeros(1)
    plain(3, total)
    unusual(3, total)
    assert total == 6.0


def test_cache_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    assert store.cache_dir() == tmp_path
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")
    assert store.cache_dir() is None
    monkeypatch.delenv("RUSHLIGHT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_dir() == tmp_path / "rushlight"


SCALE = 2.0


def helper(x):
    return x * SCALE


def caller(x):
    return helper(x) + 1.0


def test_fingerprint_sees_code_constants_closures_and_callees(monkeypatch):
    def other(x):
        return helper(x) + 2.0

    def made_with(factor):
        return lambda x: x * factor

    before = fingerprint(caller)
    assert before == fingerprint(caller) != fingerprint(other)
    assert fingerprint(made_with(2.0)) == fingerprint(made_with(2.0)) != fingerprint(made_with(3.0))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint(caller) != before


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
