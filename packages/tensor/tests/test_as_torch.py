"""Programs that import torch."""

from __future__ import annotations

import subprocess
import sys
import textwrap

PROGRAM = """
    import sys

    import torch
    import torch.linalg as la
    from torch import Tensor

    assert isinstance(torch.ones(2), Tensor) and torch.Tensor is Tensor
    assert la.norm(torch.tensor([3.0, 4.0])).item() == 5.0
    assert torch.__spec__.name == "rushlight" and sys.argv[1:] == ["--steps", "3"]
    import rushlight
    assert torch is rushlight and torch.__version__.startswith("2.") and "+rushlight." in torch.version.__version__
    import torch.backends.cudnn as cudnn
    assert cudnn is torch.backends.cudnn and not cudnn.enabled
    try:
        import torch.no_such_module
    except ModuleNotFoundError as error:
        assert "no_such_module" in str(error)
    else:
        raise AssertionError
"""

SPAWNING = """
    import torch
    import torch.multiprocessing as mp

    def work(x):
        assert torch.__name__ == "rushlight"
        x += 1

    if __name__ == "__main__":
        x = torch.zeros(2).share_memory_()
        process = mp.get_context("spawn").Process(target=work, args=(x,))
        process.start()
        process.join()
        assert x.tolist() == [1.0, 1.0]
"""


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "rushlight.as_torch", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


def test_a_program_runs_with_its_arguments(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    done = run(script, "--steps", 3)
    assert done.returncode == 0, done.stderr


def test_processes_that_a_program_spawns_import_the_same(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(SPAWNING))
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_a_missing_script_is_one_clear_line(tmp_path):
    done = run(tmp_path / "absent.py")
    assert done.returncode == 2 and "there is no file" in done.stderr


def test_install_and_uninstall():
    code = (
        "import rushlight.as_torch as a; a.install()\n"
        "import torch, rushlight; assert torch is rushlight; a.uninstall()\n"
        "assert rushlight.__version__.startswith('0.')\n"
        "import sys; assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
