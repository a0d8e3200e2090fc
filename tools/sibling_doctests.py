"""A pytest plugin for isolated runs: leaves out examples that use a rushlight package that is not installed."""

import re
from importlib.util import find_spec

import pytest
from _pytest.doctest import DoctestItem

from rushlight.core.siblings import _OWNERS


def pytest_collection_modifyitems(items):
    """Skip such examples."""
    absent = [owner for owner in _OWNERS if find_spec(owner.module) is None]
    names = [rf"rushlight(\.| import ){name}\b" for owner in absent for name in owner.names]
    words = re.compile("|".join(names + [rf"\.{method}\b" for owner in absent for method in owner.methods]) or "(?!)")
    for item in items:
        if isinstance(item, DoctestItem) and words.search("".join(example.source for example in item.dtest.examples)):
            item.add_marker(pytest.mark.skip(reason="uses a package that is not installed"))
