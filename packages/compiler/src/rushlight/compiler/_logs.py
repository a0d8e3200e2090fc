"""Readable logs: `RUSHLIGHT_LOGS=graph,guards,recompiles,breaks` prints what the compiler does to stderr."""

from __future__ import annotations

import os
import sys

TOPICS = ("graph", "guards", "recompiles", "kernels", "aborts", "breaks")
_wanted: frozenset[str] | None = None


def topics() -> frozenset[str]:
    """The topics asked for; ValueError for an unknown one."""
    global _wanted
    if _wanted is None:
        names = frozenset(filter(None, os.environ.get("RUSHLIGHT_LOGS", "").replace(" ", "").split(",")))
        unknown = names - set(TOPICS)
        if unknown:
            raise ValueError(f"RUSHLIGHT_LOGS: unknown topic {', '.join(sorted(unknown))}; "
                             f"there are {', '.join(TOPICS)}")
        _wanted = names
    return _wanted


def wants(topic: str) -> bool:
    """Is a topic printed?"""
    return topic in topics()


def log(topic: str, text: str) -> None:
    """Print a message if its topic is wanted."""
    if topic in topics():
        print(f"rushlight [{topic}] {text}", file=sys.stderr)
