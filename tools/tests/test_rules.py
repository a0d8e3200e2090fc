"""The rules of the monorepo, and that their checks see what they are for."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent


def load(name):
    """A tool as a module; tools are scripts, not a package."""
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up by name.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
    return module


imports = load("check_imports")
lengths = load("check_lengths")


def test_import_table_holds():
    assert [str(violation) for violation in imports.check()] == []


def test_files_are_short():
    assert lengths.check() == []


def monorepo(root, **files):
    """A tiny monorepo: keyword package__module = source."""
    sources = {"tensor/rushlight/__init__": "", "autograd/rushlight/autograd/__init__": "",
               "nn/rushlight/nn/__init__": "", "data/rushlight/utils/data/__init__": ""}
    sources.update(files)
    for place, source in sources.items():
        package, _, module = place.partition("/")
        path = root / "packages" / package / "src" / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)


@pytest.mark.parametrize(
    ("place", "source", "word"),
    [
        ("tensor/rushlight/core", "import rushlight.autograd", "belongs to autograd"),
        ("tensor/rushlight/core", "from rushlight import nn", "belongs to nn"),
        ("tensor/rushlight/core", "from . import autograd", "belongs to autograd"),
        ("data/rushlight/utils/data/loader", "from rushlight.nn import Linear", "belongs to nn"),
        ("data/rushlight/utils/data/loader", "import rushlight\nrushlight.nn.Linear", "belongs to nn"),
        ("autograd/rushlight/autograd/tape", "from ..nn import Linear", "belongs to nn"),
        ("autograd/rushlight/autograd/__init__", "from ..nn import Linear", "belongs to nn"),
        ("nn/rushlight/nn/linear", "import scipy", "not among its declared needs"),
        ("nn/rushlight/nn/linear", "def f():\n    import rushlight.autograd", "belongs at the top"),
    ],
)
def test_import_check_sees(tmp_path, place, source, word):
    monorepo(tmp_path, **{place: source})
    (violation,) = imports.check(tmp_path)
    assert word in violation.message


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("nn/rushlight/nn/linear", "import math\nimport numpy\nfrom rushlight.autograd import grad"),
        ("nn/rushlight/nn/linear", "from . import functional"),
        ("tensor/rushlight/core", "def f():\n    import numba\n    from rushlight.kernels import cuda"),
        ("data/rushlight/utils/data/loader", "import rushlight\nrushlight.tensor(1)"),
    ],
)
def test_import_check_allows(tmp_path, place, source):
    monorepo(tmp_path, **{place: source})
    assert imports.check(tmp_path) == []


def test_length_check_sees(tmp_path):
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "long.py").write_text("x = 1\n" * 401)
    assert len(lengths.check(tmp_path)) == 1
