"""What a forked child has to do before it uses state that other threads of its parent were at work on."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_child(renew: Callable[[], None]) -> Callable[[], None]:
    """Call the decorated function in every forked child: it gives the module new locks, as a thread that the child does
    not have may hold the old ones."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)
    return renew
