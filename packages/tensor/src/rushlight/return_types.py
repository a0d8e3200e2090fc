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


def _text(self: Any) -> str:
    fields = ",\n".join([f"{field}={value!r}" for field, value in zip(self._fields, self)])
    return f"{__name__}.{type(self).__name__}(\n{fields})"


def publish(*types: type) -> None:
    """Let named tuples print as results do, and be found here (pickles name them so)."""
    for made in types:
        made.__module__, made.__repr__ = __name__, _text  # type: ignore[method-assign, assignment]
        globals()[made.__name__] = made


_TYPES = {name: namedtuple(name, fields) for name, fields in _FIELDS.items()}  # type: ignore[misc]
publish(*_TYPES.values())


def named(name: str, results: Any) -> Any:
    """The results as the named tuple of the function `name`."""
    return _TYPES[name](*results)
