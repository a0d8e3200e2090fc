"""The types that model files write for TorchScript, as Python's own."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  these names are what programs import

__all__ = ["Any", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Optional", "Tuple",
           "Union"]


class _Broadcasting:
    """`BroadcastingList2[int]`: a list of 2 that one number may stand for."""

    def __getitem__(self, item: Any) -> Any:
        return List[item]  # noqa: UP006


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _Broadcasting()
