"""Reference counts: does anybody else hold this object?"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any


def references(x: Any) -> int:
    """How many references to an object there are, besides those of this call. Pass it as an item or attribute."""
    return sys.getrefcount(x) - _OVERHEAD


_OVERHEAD = 0
_OVERHEAD = references([object()][0])


def _count_of_attribute_in_a_local() -> int:
    owner = SimpleNamespace(attribute=object())
    value = owner.attribute
    return sys.getrefcount(value)


# What `sys.getrefcount` says of an object that only an attribute and one local variable hold; Python versions differ in
# it.
ATTRIBUTE_AND_LOCAL = _count_of_attribute_in_a_local()
