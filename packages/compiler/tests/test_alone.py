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
    if not module.name.startswith(("rushlight.compiler.aot.", "rushlight.compiler.native.node_code")):
        importlib.import_module(module.name)
import rushlight.export, rushlight.jit

import rushlight
double = rushlight.compile(lambda x: (x + 1) * 2, fullgraph=True)
assert double(rushlight.ones(3)).tolist() == [4, 4, 4]
shapes = ({0: rushlight.export.Dim("n")},)
program = rushlight.export.export(lambda x: (x + 1) * 2, (rushlight.ones(3),), dynamic_shapes=shapes)
assert program.module()(rushlight.ones(4)).tolist() == [4, 4, 4, 4]
script = rushlight.jit.script(lambda x: x + 1)
assert script(rushlight.ones(1)).item() == 2 and "add" in script.code
"""


def test_modules_import_and_functions_compile_without_autograd():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
