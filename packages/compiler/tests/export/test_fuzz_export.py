"""Random tensor programs (see `../capture/fuzz_tensors.py`), exported, stored, loaded and called: the same values,
memory and gradients as in eager execution.
"""

from __future__ import annotations

import io
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import rushlight
from rushlight.export import export, load, save

path = Path(__file__).resolve().parent.parent / "capture" / "fuzz_tensors.py"
spec = spec_from_file_location("rushlight_fuzz_tensors", path)
fuzz: Any = module_from_spec(spec)
spec.loader.exec_module(fuzz)


def observed(value: Any, seen: dict | None = None) -> Any:
    """Values, gradients, and which tensors and memories are the same."""
    seen = {} if seen is None else seen
    if isinstance(value, rushlight.Tensor):
        memory = seen.setdefault(("memory", value.untyped_storage().data_ptr()), len(seen)) if value.numel() else None
        grad = repr(value.grad.tolist()) if value.is_leaf and value.grad is not None else None
        return (value.dtype.name, tuple(value.shape), value.requires_grad, repr(value.detach().tolist()), memory,
                value.storage_offset(), grad, seen.setdefault(id(value), len(seen)))
    return [observed(x, seen) for x in value] if isinstance(value, (list, tuple)) else repr(value)


class Exported:
    """A function that is exported at its first call; calls of another kind run as Python."""

    def __init__(self, fn: Any) -> None:
        self.fn, self.run, self.strides = fn, None, None
        self.tried = False

    def __call__(self, *args: Any) -> Any:
        if not self.tried:
            self.tried = True
            try:
                program = export(self.fn, args)
            except Exception:  # the program fails, or no graph can say it
                return self.fn(*args)
            file = io.BytesIO()
            save(program, file)
            file.seek(0)
            self.run, self.strides = load(file).module(), [x.stride() for x in args]
        if self.run is None or [x.stride() for x in args] != self.strides:
            return self.fn(*args)
        try:
            return self.run(*args)
        except Exception:  # nothing was written yet
            return self.fn(*args)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", range(4))
def test_random_programs(block):
    for seed in range(40 * block, 40 * block + 40):
        body, calls = fuzz.scenario(seed)
        assert not fuzz.differs(body, calls, Exported, observed), f"seed {seed}"
