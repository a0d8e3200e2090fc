"""The programs in the README files run, without a warning."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
READMES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("packages/*/README.md"))]


@pytest.mark.parametrize("name", READMES)
def test_programs_run(name, tmp_path):
    programs = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    assert programs
    for number, program in enumerate(programs):
        path = tmp_path / f"program{number}.py"
        path.write_text(program, encoding="utf-8")
        run = subprocess.run([sys.executable, "-W", "error", path.name], capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
