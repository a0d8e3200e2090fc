"""Named tuples that functions with several results return, such as `rushlight.return_types.max`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_FIELDS = {
    "frexp": "mantissa exponent",
    "aminmax": "min max",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    **dict.fromkeys(
        ("max", "min", "median", "nanmedian", "mode", "kthvalue", "sort", "topk", "cummax", "cummin"), "values indices"
    ),
}


def _make(name: str) -> type:
    made = namedtuple(name, _FIELDS[name], module=__name__)
    made.__qualname__ = name
    return made


_TYPES = {name: _make(name) for name in _FIELDS}
globals().update(_TYPES)


def named(name: str, results: Any) -> Any:
    """The results as the named tuple of the function `name`."""
    return _TYPES[name](*results)
