"""Handlers of CPython's instructions: those that all versions share, then those of the running version."""

from __future__ import annotations

import sys
from importlib import import_module

from rushlight.compiler.capture.opcodes import data, flow, names  # noqa: F401  filling the table

SUPPORTED = {(3, 11): "py311", (3, 12): "py312", (3, 13): "py313"}
VERSION = sys.version_info[:2]

if VERSION in SUPPORTED:
    import_module(f"rushlight.compiler.capture.opcodes.{SUPPORTED[VERSION]}")
