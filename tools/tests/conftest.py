"""Access to the tools, which are scripts and not a package."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parent.parent


@pytest.fixture
def tool(monkeypatch):
    """A function that loads a tool by its path below tools/ as a module."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name.replace("/", "_"), TOOLS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # where a dataclass looks itself up
        spec.loader.exec_module(module)
        return module

    return load
