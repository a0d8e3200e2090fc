"""Every operation of the registry on its first sample: a small call, as its declaration describes it.

The names stand in `ops.txt` and not in the installed rushlight, so that two commits are measured on the same list;
a test says when it has to be written anew (`hatch run bench-ops`).
"""

from pathlib import Path

import numpy as np

from .common import library

NAMES = (Path(__file__).parent / "ops.txt").read_text(encoding="utf-8").split()


def default_operands(op):
    """Operands of an elementwise operation inside its domain; such operations need not state samples."""
    low, high = op.domain or (-2.0, 2.0)
    random = np.random.default_rng(0)
    dtype = np.int64 if op.supports in ("integer", "integral") else np.float32
    operands = [random.uniform(max(low, -8.0), min(high, 8.0), 256).astype(dtype) for _ in op.operands]
    if op.promote == "where":
        operands[0] = operands[0] > 0
    return operands


class Op:
    params = NAMES
    param_names = ("op",)

    def setup(self, name):
        torch = library("add")
        from rushlight.core.op import REGISTRY

        if name not in REGISTRY:
            raise NotImplementedError(f"not in this commit: {name}")
        self.op = REGISTRY[name]
        operands, self.arguments = default_operands(self.op), ()
        if samples := self.op.samples():
            operands, self.arguments = samples[0].operands, samples[0].params
        self.operands = tuple(torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands)
        self.time_call(name)

    def time_call(self, name):
        self.op.apply(self.operands, self.arguments)
