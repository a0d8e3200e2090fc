"""`Tensor`: memory, metadata, and the methods that need nothing but those.

The methods that compute are attached by the op declarations (`rushlight.core.front`), those of other packages by
`rushlight.core.siblings`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import dtypes, siblings
from rushlight.core.devices import cpu, device
from rushlight.core.dispatch import settle
from rushlight.core.errors import check_dim, shape_text
from rushlight.core.meta import Meta, Size, meta
from rushlight.core.storage import ADDRESSED, Storage, address

_new = object.__new__
_MEMORY = ("_array", "_storage", "_auto")  # what a tensor has not yet whose operation was put off
late_memory: Callable[[Any, str], Any] | None = None  # has that operation run: see `rushlight.core.dispatch.settle`
_Attached = Any if TYPE_CHECKING else object  # what a type checker does not find in the class is attached elsewhere


class Tensor(_Attached):
    """A multi-dimensional array of one dtype on one device.

    Make one with `rushlight.tensor`, `rushlight.zeros` and their like, or `rushlight.from_numpy`.

    Example:
        >>> import rushlight
        >>> rushlight.tensor([[1, 2], [3, 4]]) * 2
        tensor([[2, 4],
                [6, 8]])
    """

    __slots__ = ("_array", "_meta", "_storage", "_auto", "__dict__", "__weakref__")
    __array_priority__ = 1000  # numpy's operators leave arithmetic with a Tensor to it

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        from rushlight.ops.legacy import legacy_tensor  # creation is written in ops

        made = legacy_tensor(*args, **kwargs)
        return made if cls is Tensor else made.as_subclass(cls)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__torch_function__" in cls.__dict__:
            import_module("rushlight.overrides").activate()  # from now on functions ask for it

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What subclasses do in a call of a function, unless they define it: see `rushlight.overrides`."""
        return import_module("rushlight.overrides").default_torch_function(cls, func, types, args, kwargs)

    # Metadata

    @property
    def shape(self) -> Size:
        """The size of each dimension."""
        return self._meta.size

    @property
    def dtype(self) -> dtypes.dtype:
        """The element type."""
        return self._meta.dtype

    @property
    def device(self) -> device:
        """Where the memory is."""
        return self._meta.device

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._meta.ndim

    @property
    def requires_grad(self) -> bool:
        """Do operations on this tensor record for gradients?"""
        return self._meta.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward passes have added up for this leaf; None before the first."""
        siblings.load_owner_of_method(Tensor, "grad")  # autograd puts its own property in the place of this one
        return self.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        siblings.load_owner_of_method(Tensor, "grad")
        self.grad = value

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._meta.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._meta.numel * self._meta.dtype.itemsize

    @property
    def is_cuda(self) -> bool:
        """Is it on a CUDA device?"""
        return self._meta.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Is it in main memory?"""
        return self._meta.device.type == "cpu"

    @property
    def is_mps(self) -> bool:
        """False: there are no devices of these kinds."""
        return False

    is_xpu = is_xla = is_mtia = is_ipu = is_vulkan = is_mps

    @property
    def is_meta(self) -> bool:
        """Has it metadata only?"""
        return self._meta.device.type == "meta"

    @property
    def _version(self) -> int:
        return 0 if self._storage is None else self._storage.version

    def dim(self) -> int:
        """The number of dimensions."""
        return self._meta.ndim

    ndimension = dim

    def size(self, dim: int | None = None) -> Size | int:
        """The shape, or the size of one dimension; IndexError when `dim` is out of range."""
        if dim is None:
            return self._meta.size
        return (
            self._meta.shape[check_dim("size", dim, self._meta.ndim)] if self._meta.ndim else self._no_dims("size", dim)
        )

    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """Distance in elements between neighbours, of each dimension or of one; IndexError when out of range."""
        if dim is None:
            return self._meta.strides
        return (
            self._meta.strides[check_dim("stride", dim, self._meta.ndim)]
            if self._meta.ndim
            else self._no_dims("stride", dim)
        )

    def _no_dims(self, name: str, dim: int) -> int:
        raise IndexError(f"{name}: dimension specified as {dim} but tensor has no dimensions")

    def numel(self) -> int:
        """The number of elements."""
        return self._meta.numel

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return self._meta.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Is the dtype a floating-point type?"""
        return self._meta.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Is the dtype a complex type?"""
        return self._meta.dtype.is_complex

    def is_signed(self) -> bool:
        """Can the dtype hold negative numbers?"""
        return self._meta.dtype.is_signed

    def get_device(self) -> int:
        """The index of the CUDA device; -1 on the CPU."""
        return -1 if self._meta.device.index is None else self._meta.device.index

    def is_same_size(self, other: Tensor) -> bool:
        """Has `other` the same shape?"""
        return self._meta.shape == other._meta.shape

    # Memory

    def storage(self) -> Storage:
        """The memory shared with views of this tensor."""
        if self._storage is None:
            self._storage = Storage(self._array)
        return self._storage

    untyped_storage = storage

    def storage_offset(self) -> int:
        """Elements between the start of the memory and the first element of this tensor."""
        if self.is_meta or self._storage is None and self._array.base is None or not self._meta.numel:
            return 0  # without elements there is no first one; numpy gives such views any address
        if not isinstance(self._array, np.ndarray) and hasattr(self._array, "storage_offset"):
            return self._array.storage_offset()
        return (address(self._array) - self.storage().address) // self._meta.dtype.itemsize

    def data_ptr(self) -> int:
        """The address of the first element; 0 without elements."""
        settle()
        if not self._meta.numel or self._array is None:
            return 0
        if isinstance(self._array, np.ndarray):
            ADDRESSED.add(self.storage())
        return address(self._array)

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The numpy array over the same memory.

        Raises RuntimeError for a tensor that requires grad, TypeError off the CPU, unless `force`, which copies what it
        must.

        Example:
            >>> import rushlight
            >>> rushlight.ones(2).numpy()
            array([1., 1.], dtype=float32)
        """
        if self._meta.requires_grad and not force:
            raise RuntimeError("numpy: can't call numpy() on a tensor that requires grad; use tensor.detach().numpy()")
        if self._meta.device.type != "cpu":
            if not force:
                raise TypeError(f"numpy: can't convert a {self._meta.device} tensor to numpy; use tensor.cpu() first")
            return self.detach().cpu().numpy()
        if not isinstance(self._array, np.ndarray):
            raise RuntimeError("numpy: the tensor stands for many, inside of vmap, and has no array of its own")
        settle()  # from now on others may write the memory
        self.storage().exposed = True
        return self._array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"__array__: converting {array.dtype} to {dtype} needs a copy, but copy=False")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        """What numpy's functions make of a tensor is a tensor again."""
        from rushlight.ops.create import from_numpy  # creation is written in ops

        return from_numpy(np.asarray(array))

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; one number for a 0-dim tensor."""
        return self._host_array("tolist").tolist()

    def item(self) -> bool | int | float | complex:
        """The only element as a Python number; RuntimeError when there are more or none.

        Example:
            >>> import rushlight
            >>> rushlight.tensor([3]).item()
            3
        """
        m = self._meta
        if m.numel == 1 and m.device is cpu and m.dtype is not dtypes.bfloat16:
            return self._array.item()
        if m.numel != 1:
            raise RuntimeError(f"item: a Tensor with {self._meta.numel} elements cannot be converted to Scalar; "
                               f"its shape is {shape_text(self.shape)}: index one element first")
        return self._host_array("item").item()

    def _host_array(self, name: str) -> np.ndarray:
        if self._meta.device.type == "meta":
            raise RuntimeError(f"{name}: a meta tensor has no values")
        array = self._array if self._meta.device.type == "cpu" else self.cpu()._array
        return array.astype(np.float32) if self._meta.dtype is dtypes.bfloat16 else array

    # Python protocols

    def __bool__(self) -> bool:
        if self._meta.numel != 1:
            many = "more than one value" if self._meta.numel else "no values"
            raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous; use .any() or .all()")
        return bool(self.item())

    def _only(self) -> Any:
        if self._meta.numel != 1:
            raise ValueError("only one element tensors can be converted to Python scalars, got shape "
                             f"{shape_text(self.shape)}")
        return self.item()

    def __int__(self) -> int:
        return int(self._only())  # a complex number raises TypeError, as it should

    def __float__(self) -> float:
        return float(self._only())

    def __complex__(self) -> complex:
        return complex(self._only())

    def __index__(self) -> int:
        if self._meta.dtype.category > 1 or self._meta.numel != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())  # type: ignore[arg-type]

    def __len__(self) -> int:
        if not self._meta.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._meta.shape[0]

    def __iter__(self):
        if not self._meta.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __hash__(self) -> int:
        return id(self)

    def __contains__(self, element: Any) -> bool:
        if not isinstance(element, (Tensor, bool, int, float, complex)):
            raise RuntimeError(f"Tensor.__contains__ takes a tensor or number, got {type(element).__name__}")
        return bool((self == element).any())

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        from rushlight.core.printing import tensor_text  # printing needs ops, which need this class

        return tensor_text(self, tensor_contents)

    def __format__(self, spec: str) -> str:
        if self._meta.ndim == 0 and type(self) is Tensor and not self.is_meta:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __getattr__(self, name: str) -> Any:
        if name in _MEMORY and late_memory is not None:
            return late_memory(self, name)
        # Reached only for names that no declaration has attached: another package may own them.
        if siblings.load_owner_of_method(Tensor, name):
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def as_subclass(self, cls: type) -> Any:
        """The same tensor, sharing memory and gradient history, as an instance of a subclass of Tensor."""
        made = _new(cls)
        made._array, made._meta, made._storage, made._auto = self._array, self._meta, self.storage(), self._auto
        return made


def wrap(array: Any, meta: Meta, storage: Storage | None = None) -> Tensor:
    """A tensor over an array (a device's own, or None for meta tensors) whose metadata is known."""
    tensor = _new(Tensor)
    tensor._array = array
    tensor._meta = meta
    tensor._storage = storage
    tensor._auto = None
    return tensor


def set_memory(tensor: Tensor, array: Any, meta: Meta, storage: Storage | None) -> None:
    """Let a tensor stand over other memory. Nothing, no other thread and no interrupt, comes in between these
    assignments: nobody sees metadata beside an array that it does not describe.
    """
    settle()
    tensor._array, tensor._meta, tensor._storage = array, meta, storage


def meta_tensor(like: Meta) -> Tensor:
    """A tensor with metadata only, on the meta device."""
    return wrap(None, meta(like.dtype, like.shape, like.strides, device("meta"), like.requires_grad))
