"""The names that PyTorch writes into its files, and what they mean here."""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from typing import Any, NamedTuple

from rushlight.core import dtypes, siblings
from rushlight.core.devices import device
from rushlight.core.layout import layout, strided
from rushlight.core.meta import Size, meta
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, meta_tensor
from rushlight.ops.duplicate import check_geometry, over_storage
from rushlight.serialization.allowed import STORAGES
from rushlight.serialization.unpickler import (
    Constructor,
    NumpyType,
    checked_key,
    numpy_array,
    numpy_scalar,
    ordered_dict,
)


class Stored(NamedTuple):
    """A storage of the file, the dtype of its elements (None: the tensors over it say it) and where it belongs."""

    memory: Storage
    kind: dtypes.dtype | None
    place: device


class StorageType:
    """The name of a storage class: says the dtype of a storage; None when it is untyped."""

    def __init__(self, kind: dtypes.dtype | None) -> None:
        self.kind = kind


def _tensor(
    storage: Stored,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    if type(storage) is not Stored or not isinstance(storage.kind, dtypes.dtype):
        raise pickle.UnpicklingError("load: a tensor in the file has no storage of a known dtype")
    made = over_storage(storage.memory, offset, tuple(size), tuple(stride), storage.kind)
    if storage.place.type != "cpu":
        made = made.to(storage.place)
    for bit, function in (("conj", Tensor.conj), ("neg", Tensor.neg)):  # PyTorch stores these views as the memory is
        if metadata and metadata.get(bit):
            made = function(made)
    return _leaf(made, requires_grad)


def _typed_tensor(
    storage: Stored,
    offset: int,
    size: tuple,
    stride: tuple,
    requires_grad: bool,
    hooks: Any,
    kind: dtypes.dtype,
    metadata: Any = None,
) -> Tensor:
    return _tensor(storage._replace(kind=kind), offset, size, stride, requires_grad, hooks, metadata)


def _meta_tensor(kind: dtypes.dtype, size: tuple, stride: tuple, requires_grad: bool) -> Tensor:
    check_geometry(0, tuple(size), tuple(stride))
    made = meta_tensor(meta(kind, tuple(size), tuple(stride)))
    return _leaf(made, requires_grad)


def _parameter(data: Tensor, requires_grad: bool, hooks: Any = None, state: Any = None) -> Tensor:
    if not isinstance(data, Tensor):
        raise pickle.UnpicklingError(f"load: a parameter in the file is made of a {type(data).__name__}")
    try:
        made = siblings.root_name("nn").Parameter(data, requires_grad)
    except AttributeError:  # the package nn is not installed: a leaf tensor serves
        made = _leaf(data.detach(), requires_grad)
    return _with_attributes(made, state)


def _of_type(rebuild: Constructor, kind: Any, arguments: tuple, state: Any) -> Tensor:
    made = rebuild.function(*arguments)
    return _with_attributes(_parameter(made, made.requires_grad) if kind == "Parameter" else made, state)


def _leaf(made: Tensor, requires_grad: bool) -> Tensor:
    """The tensor, requiring grad if it did; where no package can take gradients, its values are what counts."""
    with contextlib.suppress(AttributeError):
        return made.requires_grad_() if requires_grad else made
    return made


def _with_attributes(made: Tensor, state: Any) -> Tensor:
    """The tensor with the attributes that a program had set on it."""
    if isinstance(state, dict):
        made.__dict__.update(state)
    return made


def _bytearray(*arguments: Any) -> bytearray:
    if arguments and isinstance(arguments[0], int):
        raise pickle.UnpicklingError("load: the file asks for bytes that it does not hold")
    return bytearray(*arguments)


def _encode(text: str, encoding: str) -> bytes:
    """How protocol 2 writes bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"load: the file holds bytes in the encoding {encoding!r}, expected 'latin1'")
    return text.encode(encoding)


def _layout(name: str) -> layout:
    if name != "torch.strided":
        raise pickle.UnpicklingError(f"load: the file holds tensors of layout {name!r}, rushlight has only dense ones")
    return strided


def _builtin(name: str, function: Any) -> dict[tuple[str, str], Constructor]:
    return {(module, name): Constructor(function) for module in ("builtins", "__builtin__")}


def _numpy(name: str, value: Any) -> dict[tuple[str, str], Any]:
    return {(module, name): value for module in ("numpy._core.multiarray", "numpy.core.multiarray")}


NAMES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): Constructor(ordered_dict),
    ("collections", "Counter"): Constructor(lambda counts=(): Counter(dict(counts))),
    ("_codecs", "encode"): Constructor(_encode),
    ("torch", "Size"): Constructor(Size),
    ("torch", "device"): Constructor(device),
    ("torch", "Tensor"): "Tensor",
    ("torch.nn.parameter", "Parameter"): "Parameter",
    ("torch._utils", "_rebuild_tensor"): Constructor(_tensor),
    ("torch._utils", "_rebuild_tensor_v2"): Constructor(_tensor),
    ("torch._utils", "_rebuild_tensor_v3"): Constructor(_typed_tensor),
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): Constructor(_meta_tensor),
    ("torch._utils", "_rebuild_parameter"): Constructor(_parameter),
    ("torch._utils", "_rebuild_parameter_with_state"): Constructor(_parameter),
    ("torch._tensor", "_rebuild_from_type_v2"): Constructor(_of_type),
    ("torch.serialization", "_get_layout"): Constructor(_layout),
    ("torch.storage", "UntypedStorage"): StorageType(None),
    **{("torch", storage): StorageType(dtypes.named(name)) for name, storage in STORAGES.items()},
    **{("torch", d.name): d for d in dtypes.ALL},
    **_builtin("complex", complex),
    **_builtin("bytearray", _bytearray),
    **_builtin("set", lambda members=(): set(map(checked_key, members))),
    **_builtin("frozenset", lambda members=(): frozenset(map(checked_key, members))),
    ("numpy", "dtype"): Constructor(NumpyType),
    ("numpy", "ndarray"): "ndarray",
    **_numpy("_reconstruct", Constructor(numpy_array)),
    **_numpy("scalar", Constructor(numpy_scalar)),
}
