"""Libraries that only some datasets need."""

from __future__ import annotations

import importlib
from typing import Any


def need(module: str, user: str, extra: str) -> Any:
    """The module, or an error that says how to get it.

    Raises:
        ImportError: when it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{user} needs {module.partition('.')[0]}: pip install 'rushlight-data[{extra}]' ({error})"
        ) from error
