"""The processor that kernels are made for."""

from __future__ import annotations

import os
from functools import cache

from llvmlite import binding


@cache
def host() -> tuple[str, str]:
    """Its name and features, as LLVM has them. Variables of numba's may say another."""
    features = os.environ.get("NUMBA_CPU_FEATURES")
    return (
        os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten() if features is None else features,
    )
