"""DLPack: tensors over the memory of other libraries, and theirs over ours.

numpy speaks the protocol for us, except for bfloat16, which it has not. Such a capsule passes through numpy as one of
16-bit integers: the element type that it states is changed on its way.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.devices import as_device, cpu
from rushlight.core.front import extend_tensor, function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy

_CPU, _CUDA = 1, 2
_UNSIGNED, _BFLOAT = 1, 4
_KINDS = {0: "signed integer", 1: "unsigned integer", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_WIDTHS = {0: (8, 16, 32, 64), 1: (8, 16, 32, 64), 2: (16, 32, 64), 4: (16,), 5: (64, 128), 6: (8,)}


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _described(capsule: Any) -> _DLTensor:
    """What a capsule says about its memory. Raises TypeError for what is no fresh DLPack capsule."""
    if _is_valid(capsule, b"dltensor"):
        return _DLTensor.from_address(_pointer_of(capsule, b"dltensor"))
    if _is_valid(capsule, b"dltensor_versioned"):
        return _Versioned.from_address(_pointer_of(capsule, b"dltensor_versioned")).tensor
    raise TypeError("from_dlpack: expected a DLPack capsule that nobody has read yet")


class _Reader:
    """An exporter as numpy may see it: elements of a type that numpy has not look like one that it has."""

    def __init__(self, exporter: Any) -> None:
        self._exporter, self.is_bfloat16 = exporter, False
        self._is_capsule = not hasattr(exporter, "__dlpack__")

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._exporter if self._is_capsule else self._exporter.__dlpack__(**options)
        described = _described(capsule)
        code, bits = described.code, described.bits
        if bits not in _WIDTHS.get(code, ()) or described.lanes != 1:
            raise TypeError(
                f"from_dlpack: rushlight has no dtype for elements of {bits} bits of DLPack type "
                f"{_KINDS.get(code, code)}, {described.lanes} at a time"
            )
        self.is_bfloat16 = code == _BFLOAT
        if self.is_bfloat16:
            described.code = _UNSIGNED
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        if self._is_capsule:
            described = _described(self._exporter)
            return (described.device_type, described.device_id)
        ask = getattr(self._exporter, "__dlpack_device__", None)
        return ask() if ask else (_CPU, 0)


@function(method=False, out=False)
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library's tensor, through the DLPack protocol: an object with `__dlpack__`,
    or the capsule that such a method returns.

    Memory is shared unless `copy` is True (or None, and the strides are negative, which tensors cannot have). Memory
    that is read-only there cannot be written here. Raises TypeError for other objects and for elements of a type that
    rushlight has not, RuntimeError for memory on a device that cannot be read here, ValueError when `copy=False` and a
    copy is needed.

    Example:
        >>> import numpy, rushlight
        >>> a = numpy.zeros(2)
        >>> rushlight.from_dlpack(a)[0] = 5
        >>> a
        array([5., 0.])
    """
    if not hasattr(ext_tensor, "__dlpack__") and type(ext_tensor).__name__ != "PyCapsule":
        raise TypeError(f"from_dlpack: expected an object with __dlpack__, got {type(ext_tensor).__name__}")
    reader = _Reader(ext_tensor)
    kind, _ = reader.__dlpack_device__()
    if int(kind) != _CPU:
        raise RuntimeError(
            f"from_dlpack: memory of DLPack device type {int(kind)} cannot be read here; move it to the CPU first"
        )
    array = np.from_dlpack(reader)  # type: ignore[arg-type]
    if reader.is_bfloat16:
        array = array.view(dtypes.bfloat16.numpy)
    if copy or (copy is None and min(array.strides, default=0) < 0):
        array = np.array(array)
    made = from_numpy(array)
    return made if device is None else made.to(as_device(device))


def _dlpack(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule over this tensor's memory, or over a copy of it.

    `stream` has no meaning on the CPU. Raises BufferError for tensors that require grad, and for other devices.
    """
    if self.requires_grad:
        raise BufferError("__dlpack__: can't export tensors that require gradient, use tensor.detach()")
    if self.device is not cpu:
        raise BufferError(f"__dlpack__: tensors on {self.device} cannot be exported; use tensor.cpu()")
    is_bfloat16 = self.dtype is dtypes.bfloat16
    array = self.numpy().view(np.uint16) if is_bfloat16 else self.numpy()
    options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    capsule = array.__dlpack__(**{name: value for name, value in options.items() if value is not None})
    if is_bfloat16:
        _described(capsule).code = _BFLOAT
    return capsule


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """The DLPack device (type, index) that the memory is on."""
    return (_CPU, 0) if self.device.type == "cpu" else (_CUDA, self.device.index or 0)


@function(method=False, out=False)
def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule over the memory of a tensor. Raises BufferError for tensors that require grad."""
    return tensor.__dlpack__()


extend_tensor("__dlpack__", _dlpack)
extend_tensor("__dlpack_device__", _dlpack_device)
