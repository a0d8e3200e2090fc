"""The rules of the monorepo hold, and their checks see what they are for."""

import pytest


@pytest.fixture
def imports(tool):
    return tool("check_imports")


@pytest.fixture
def lengths(tool):
    return tool("check_lengths")


def test_import_table_holds(imports):
    assert [str(violation) for violation in imports.check()] == []


def test_files_are_short(lengths):
    assert lengths.check() == []


def monorepo(root, place, source):
    """A tiny monorepo of four packages, and one module with the source in question."""
    modules = ["tensor/rushlight/__init__", "autograd/rushlight/autograd/__init__", "nn/rushlight/nn/__init__",
               "data/rushlight/utils/data/__init__"]
    for name, text in {**dict.fromkeys(modules, ""), place: source}.items():
        package, _, module = name.partition("/")
        path = root / "packages" / package / "src" / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


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
def test_import_check_sees(imports, tmp_path, place, source, word):
    (violation,) = imports.check(monorepo(tmp_path, place, source))
    assert word in violation.message


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("nn/rushlight/nn/linear", "import math\nimport numpy\nfrom rushlight.autograd import grad"),
        ("nn/rushlight/nn/linear", "from . import functional"),
        ("nn/rushlight/nn/linear", "def f():\n    import rushlight.autograd  # it needs layers while it loads"),
        ("tensor/rushlight/core", "def f():\n    import numba\n    from rushlight.kernels import cuda"),
        ("data/rushlight/utils/data/loader", "import rushlight\nrushlight.tensor(1)"),
    ],
)
def test_import_check_allows(imports, tmp_path, place, source):
    assert imports.check(monorepo(tmp_path, place, source)) == []


@pytest.mark.parametrize(("name", "limit"), [("code.py", 400), ("tests/test_code.py", 600)])
def test_length_check_sees(lengths, tmp_path, name, limit):
    path = tmp_path / "packages" / name
    path.parent.mkdir(parents=True)
    path.write_text("x = 1\n" * limit)
    assert lengths.check(tmp_path) == []
    path.write_text("x = 1\n" * (limit + 1))
    (message,) = lengths.check(tmp_path)
    assert f"{name}: {limit + 1} lines" in message
