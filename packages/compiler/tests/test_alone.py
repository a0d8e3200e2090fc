"""What the package can do without rushlight-autograd, which it uses when it is installed."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "rushlight.autograd" or name.startswith("rushlight.autograd."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import rushlight.compiler
for module in pkgutil.walk_packages(rushlight.compiler.__path__, "rushlight.compiler."):
    if not module.name.startswith("rushlight.compiler.aot."):
        importlib.import_module(module.name)

import rushlight
double = rushlight.compile(lambda x: (x + 1) * 2, fullgraph=True)
assert double(rushlight.ones(3)).tolist() == [4, 4, 4]
"""


def test_modules_import_and_functions_compile_without_autograd():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
