"""Stand-ins for parts of PyTorch that rushlight lacks and that programs import on their way to other things."""

from __future__ import annotations

from typing import Any


def absent(name: str, instead: str = "") -> Any:
    """A class in place of `name`: programs import it, annotate with it or derive from it, and using it raises
    NotImplementedError.

    Example:
        >>> absent("onnx.export", "save the state_dict")()
        Traceback (most recent call last):
        ...
        NotImplementedError: onnx.export is not part of rushlight; save the state_dict
    """

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{name} is not part of rushlight" + (f"; {instead}" if instead else ""))

    about = {"__init__": refuse, "__doc__": f"{name}: absent from rushlight.", "__module__": __name__}
    return type(name.rpartition(".")[2], (), about)
