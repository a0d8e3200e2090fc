"""Every operation of the registry on its first sample: a small call, as its declaration describes it.

The names stand in `ops.txt` and not in the installed rushlight, so that two commits are measured on the same list;
a test says when it has to be written anew (`hatch run bench-ops`).
"""

from pathlib import Path

import numpy as np

from .common import library

NAMES = (Path(__file__).parent / "ops.txt").read_text(encoding="utf-8").split()


class Op:
    params = NAMES
    param_names = ("op",)

    def setup(self, name):
        torch = library("add")
        from rushlight.core.op import REGISTRY
        from rushlight.core.samples import samples_of

        if name not in REGISTRY:
            raise NotImplementedError(f"not in this commit: {name}")
        self.op = REGISTRY[name]
        sample = samples_of(self.op)[0]
        self.operands = tuple(torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in sample.operands)
        self.static = sample.params
        self.time_call(name)

    def time_call(self, name):
        self.op.apply(self.operands, self.static)
