"""What the backends can do: `rushlight.backends`. The switches of PyTorch's that choose among vendor libraries exist
and have no effect, as rushlight's kernels are its own.
"""

from __future__ import annotations

from types import SimpleNamespace

from rushlight.cuda import is_available as _cuda_available

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]


def _no() -> bool:
    return False


cpu = SimpleNamespace(get_cpu_capability=lambda: "DEFAULT")
cuda = SimpleNamespace(
    is_built=_cuda_available, matmul=SimpleNamespace(allow_tf32=False, allow_fp16_reduced_precision_reduction=False)
)
cudnn = SimpleNamespace(
    is_available=_no, version=lambda: None, enabled=False, benchmark=False, deterministic=True, allow_tf32=False
)
mkl = SimpleNamespace(is_available=_no)
mkldnn = SimpleNamespace(is_available=_no, enabled=False)
mps = SimpleNamespace(is_available=_no, is_built=_no)
openmp = SimpleNamespace(is_available=_no)
