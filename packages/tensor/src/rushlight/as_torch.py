"""Run PyTorch programs as they are: `python -m rushlight.as_torch script.py [arguments]`.

Inside, `import torch` (and `torch.nn`, `torch.utils.data`, ...) gives rushlight. `install()` does the same for the
process that calls it.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType


class _Finder(MetaPathFinder, Loader):
    """Answers imports of torch and its submodules with the rushlight module of the same place."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for names that rushlight has; None leaves the name to the other finders."""
        ours = _name(fullname)
        if ours is None or find_spec(ours) is None:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The rushlight module itself: what is one object there stays one object."""
        module = import_module(str(_name(spec.name)))
        self._own = (module.__spec__, module.__loader__)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to run; the import system's marks on the module are taken back."""
        module.__spec__, module.__loader__ = self._own


def _name(fullname: str) -> str | None:
    """The rushlight name of a torch module."""
    if fullname == "torch" or fullname.startswith("torch."):
        return "rushlight" + fullname.removeprefix("torch")
    return None


_finder = _Finder()


def install() -> None:
    """Make `import torch` give rushlight from now on.

    Raises RuntimeError when the real torch has been imported already: two meanings of one name would be mixed.
    """
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules["rushlight"]:
        raise RuntimeError("as_torch.install: torch was imported before; call install() first, in a fresh process")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    rushlight = import_module("rushlight")
    if not hasattr(rushlight, "_C"):
        # Libraries beside PyTorch count their uses through its binary module.
        rushlight._C = ModuleType("rushlight._C")
        rushlight._C._log_api_usage_once = lambda *args: None


def uninstall() -> None:
    """Make `import torch` mean what it meant before `install`."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        for name in [n for n, module in sys.modules.items() if _name(n) and module is sys.modules.get(str(_name(n)))]:
            del sys.modules[name]


def main(argv: Sequence[str] | None = None) -> None:
    """Run a script as `__main__` with its own arguments."""
    parser = argparse.ArgumentParser(prog="python -m rushlight.as_torch", description=__doc__.split("\n")[0])
    parser.add_argument("script", type=Path, help="the PyTorch program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    args = parser.parse_args(argv)
    if not args.script.is_file():
        parser.error(f"there is no file {args.script}")
    install()
    sys.argv = [str(args.script), *args.arguments]
    sys.path.insert(0, str(args.script.resolve().parent))
    runpy.run_path(str(args.script), run_name="__main__")


if __name__ == "__main__":
    main()
