"""`rushlight.ao.quantization`: absent. Files with quantized models beside others can be imported."""

from __future__ import annotations

from rushlight.core.absent import absent

_ABSENT = frozenset(
    "DeQuantStub FakeQuantize QConfig QuantStub QuantWrapper convert default_observer default_weight_observer "
    "default_per_channel_weight_observer fuse_modules fuse_modules_qat get_default_qat_qconfig get_default_qconfig "
    "prepare prepare_qat quantize_dynamic".split()
)


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        return absent(f"ao.quantization.{name}", "models run in floating point")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
