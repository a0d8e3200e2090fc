"""Handlers of CPython's instructions: those that all versions share, then those of the running version."""

from __future__ import annotations

import sys
from importlib import import_module

import rushlight.compiler.capture.opcodes.common  # noqa: F401  fills the table

SUPPORTED = {(3, 11): "py311", (3, 12): "py312", (3, 13): "py313"}
VERSION = sys.version_info[:2]

if VERSION in SUPPORTED:
    import_module(f"rushlight.compiler.capture.opcodes.{SUPPORTED[VERSION]}")
