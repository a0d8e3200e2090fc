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
from types import ModuleType, SimpleNamespace
from typing import Any

from rushlight.core.__about__ import __version__


class _Finder(MetaPathFinder, Loader):
    """Answers imports of torch and its submodules with the rushlight module of the same place."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A spec for names that rushlight has; None leaves the name to the other finders."""
        ours = _name(fullname)
        if ours is None or (find_spec(ours) is None and _namespace(ours) is None):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> Any:
        """The rushlight module itself: what is one object there stays one object."""
        ours = str(_name(spec.name))
        module = import_module(ours) if find_spec(ours) is not None else _namespace(ours)
        self._own = {name: getattr(module, name, None) for name in ("__spec__", "__loader__")}
        return module

    def exec_module(self, module: Any) -> None:
        """Nothing is left to run; the import system's marks on the module are taken back."""
        vars(module).update(self._own)


# Modules of PyTorch's that hold one family each, where rushlight's package holds them all.
_FAMILIES = {
    "optim": "adadelta adagrad adamax adamw asgd nadam radam rmsprop rprop",
    "distributions": "bernoulli beta binomial cauchy chi2 continuous_bernoulli dirichlet exp_family exponential "
    "fishersnedecor generalized_pareto geometric gumbel half_cauchy half_normal independent inverse_gamma kumaraswamy "
    "laplace lkj_cholesky log_normal logistic_normal lowrank_multivariate_normal mixture_same_family multinomial "
    "multivariate_normal negative_binomial one_hot_categorical pareto poisson studentT transformed_distribution "
    "uniform von_mises weibull wishart",
}
_ELSEWHERE = {
    "torch.cuda.amp": "rushlight.amp.cuda",
    "torch.autograd.variable": "rushlight.autograd",
    "torch.distributions.relaxed_bernoulli": "rushlight.distributions.relaxed",
    "torch.distributions.relaxed_categorical": "rushlight.distributions.relaxed",
    **{f"torch.{package}.{x}": f"rushlight.{package}" for package, names in _FAMILIES.items() for x in names.split()},
}


def _name(fullname: str) -> str | None:
    """The rushlight name of a torch module."""
    if fullname == "torch" or fullname.startswith("torch."):
        return _ELSEWHERE.get(fullname, "rushlight" + fullname.removeprefix("torch"))
    return None


def _namespace(name: str) -> Any:
    """What a module holds under a name that PyTorch has a module of, such as `backends.cudnn`; None if nothing."""
    parent, _, last = name.rpartition(".")
    found = getattr(sys.modules.get(parent), last, None)
    return found if isinstance(found, (ModuleType, SimpleNamespace)) else None


_finder = _Finder()
# The version of PyTorch whose names and behaviour are rushlight's. Programs choose their way by it.
VERSION = "2.13.0"


def install() -> None:
    """Make `import torch` give rushlight from now on; `torch.__version__` is PyTorch's, and rushlight's after the plus.

    Raises RuntimeError when the real torch has been imported already: two meanings of one name would be mixed.
    """
    loaded = sys.modules.get("torch")
    if loaded is not None and loaded is not sys.modules["rushlight"]:
        raise RuntimeError("as_torch.install: torch was imported before; call install() first, in a fresh process")
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
        _set_version(f"{VERSION}+rushlight.{__version__}")


def uninstall() -> None:
    """Make `import torch` mean what it meant before `install`."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
        _set_version(__version__)
        for name in [n for n, module in sys.modules.items() if _name(n) and not _is_foreign(n, module)]:
            del sys.modules[name]


def _set_version(version: str) -> None:
    for name in ("rushlight", "rushlight.version"):
        vars(import_module(name))["__version__"] = version


def _is_foreign(name: str, module: Any) -> bool:
    """Is this the real torch's module?"""
    ours = str(_name(name))
    return module is not sys.modules.get(ours) and module is not _namespace(ours)


class _Arguments(list):
    """The program's arguments. A process that it spawns gets a copy before it imports anything of the program: that is
    the time for `install()` there."""

    def __reduce__(self) -> tuple:
        return _received, (list(self),)


def _received(arguments: list[str]) -> _Arguments:
    install()
    return _Arguments(arguments)


def main(argv: Sequence[str] | None = None) -> None:
    """Run a script as `__main__` with its own arguments."""
    parser = argparse.ArgumentParser(prog="python -m rushlight.as_torch", description=__doc__.split("\n")[0])
    parser.add_argument("script", type=Path, help="the PyTorch program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    args = parser.parse_args(argv)
    if not args.script.is_file():
        parser.error(f"there is no file {args.script}")
    install()
    sys.argv = _Arguments([str(args.script), *args.arguments])
    sys.path.insert(0, str(args.script.resolve().parent))
    runpy.run_path(str(args.script), run_name="__main__")


if __name__ == "__main__":
    # By its own name, under which processes find what they get from it.
    import_module("rushlight.as_torch").main()
