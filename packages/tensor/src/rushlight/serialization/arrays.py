"""`save_file` and `load_file`: tensors and nothing else, as safetensors or in numpy's formats."""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.devices import as_device, cpu
from rushlight.core.errors import shape_text
from rushlight.core.meta import of_array
from rushlight.core.tensor import Tensor, wrap
from rushlight.serialization.atomic import replacing

# The names of dtypes in safetensors files, which have no complex128.
_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "I8": "int8", "I16": "int16",
    "I32": "int32", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64",
}  # fmt: skip


def save_file(
    tensors: Mapping[str, Tensor] | Tensor, filename: str | os.PathLike | IO[bytes], metadata: dict | None = None
) -> None:
    """Store tensors by name in a safetensors file; as numpy does where the file name ends in `.npz`, or, one tensor
    without a name, in `.npy`.

    `filename` is a path, which is replaced in one step, or a file open for writing in binary (then it is safetensors).
    `metadata` holds strings by name, for safetensors. Values are stored in row-major order. numpy's formats have no
    bfloat16; it is stored there as numpy stores ml_dtypes' bfloat16, as bytes. Raises TypeError for what is no tensor
    and for complex128 in safetensors, RuntimeError for tensors that share memory in safetensors, which would be
    torn apart, and ModuleNotFoundError when the package safetensors is not installed.

    Example:
        >>> import rushlight, tempfile
        >>> path = tempfile.mkdtemp() + "/weights.npz"
        >>> rushlight.save_file({"weight": rushlight.ones(2)}, path)
        >>> rushlight.load_file(path)
        {'weight': tensor([1., 1.])}
    """
    path: Any = filename
    ending = os.path.splitext(path)[1] if isinstance(path, (str, os.PathLike)) else ""
    if ending == ".npy":
        if not isinstance(tensors, Tensor):
            raise TypeError(f"save_file: a .npy file holds one tensor, got {type(tensors).__name__}; use .npz for more")
        with replacing(path) as file:
            np.lib.format.write_array(file, _array("the tensor", tensors), allow_pickle=False)
        return
    if not isinstance(tensors, Mapping):
        raise TypeError(f"save_file: expected a dict of tensors by name, got {type(tensors).__name__}")
    arrays = {_name(key): _array(f"{key!r}", x) for key, x in tensors.items()}
    if ending == ".npz":
        with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
        return
    _save_safetensors(arrays, filename, metadata)


def load_file(
    filename: str | os.PathLike | IO[bytes] | bytes, device: Any = "cpu", *, mmap: bool = False
) -> dict[str, Tensor] | Tensor:
    """The tensors of a safetensors, `.npz` or `.npy` file, by name; one tensor for `.npy`. The content of the file says
    which it is.

    `filename` is a path, an open file, or the bytes of a file. `mmap` maps a `.npy` path into memory, so that bytes are
    read when they are used. Raises RuntimeError when the file is damaged, or holds Python objects, which are
    not read; TypeError for a dtype that rushlight has not.

    Example:
        >>> import io, numpy, rushlight
        >>> buffer = io.BytesIO()
        >>> numpy.save(buffer, numpy.arange(3))
        >>> rushlight.load_file(buffer.getvalue())
        tensor([0, 1, 2])
    """
    if isinstance(filename, (bytes, bytearray, memoryview)):
        filename = io.BytesIO(filename)
    is_path = isinstance(filename, (str, os.PathLike))
    opened: Any = open(filename, "rb") if is_path else contextlib.nullcontext(filename)  # type: ignore[arg-type]
    with opened as file:
        begin = file.tell()
        magic = file.read(6)
        file.seek(begin)
        is_array = magic == b"\x93NUMPY"
        if mmap and not (is_path and is_array):
            raise ValueError("load_file: mmap=True needs the path of a .npy file")
        read = _numpy_arrays if is_array or magic.startswith(b"PK") else _safetensors
        found = {}
        with _clear_errors():
            for name, array in read(filename if is_path and (mmap or read is _safetensors) else file, mmap):
                made = _tensor(name, array)
                found[name] = made if as_device(device) is cpu else made.to(device)
    return found[""] if is_array else found


@contextlib.contextmanager
def _clear_errors() -> Iterator[None]:
    """Make all that a damaged file can cause one kind of error."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        if str(error).startswith("load_file: "):
            raise
        raise RuntimeError(f"load_file: the file is damaged, or none of safetensors, npz and npy: {error}") from error


def _numpy_arrays(file: Any, mmap: bool) -> Iterator[tuple[str, np.ndarray]]:
    content = np.load(file, mmap_mode="c" if mmap else None, allow_pickle=False)
    if isinstance(content, np.ndarray):
        yield "", content
        return
    with content:
        if any(f"/{name}".endswith("/data.pkl") for name in content.files):
            raise RuntimeError("load_file: the file is a checkpoint; read it with rushlight.load")
        for name in content.files:
            yield name, content[name]


def _safetensors(file: Any, mmap: bool) -> Iterator[tuple[str, np.ndarray]]:
    library = _library("load_file")
    if isinstance(file, (str, os.PathLike)):
        with library.safe_open(file, framework="numpy") as opened:
            for name in opened.keys():
                _known(name, opened.get_slice(name).get_dtype())
                yield name, opened.get_tensor(name)
        return
    for name, entry in library.deserialize(file.read()):
        kind = _known(name, entry["dtype"])
        yield name, np.frombuffer(entry["data"], kind.numpy).reshape(entry["shape"])


def _known(name: str, kind: str) -> dtypes.dtype:
    if kind not in _DTYPES:
        raise TypeError(f"load_file: {name!r} has the dtype {kind}, which rushlight does not have")
    return dtypes.named(_DTYPES[kind])


def _tensor(name: str, array: Any) -> Tensor:
    """The tensor over an array of a file."""
    if type(array) is not np.ndarray and not isinstance(array, np.memmap):
        raise RuntimeError(f"load_file: {name!r} is no array")
    if array.dtype == "V2":
        array = array.view(dtypes.bfloat16.numpy)  # what numpy makes of bfloat16 when it stores it
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    try:
        return wrap(array, of_array(array))
    except TypeError as error:
        raise TypeError(f"load_file: {name!r} cannot be a tensor: {error}") from None


def _save_safetensors(arrays: dict[str, np.ndarray], filename: Any, metadata: dict | None) -> None:
    library = _library("save_file")
    _check_apart(arrays)
    if any(type(word) is not str for item in (metadata or {}).items() for word in item):
        raise TypeError(f"save_file: metadata must hold strings by name, got {metadata!r}")
    specs, kept = {}, []
    for name, array in arrays.items():
        if array.dtype == np.complex128:
            raise TypeError(f"save_file: {name!r} is complex128, which safetensors has not; convert it or use .npz")
        laid_out = np.ascontiguousarray(array)
        kept.append(laid_out)  # the specification knows only the address
        specs[name] = library.TensorSpec(
            dtype=array.dtype.name, shape=array.shape, data_ptr=laid_out.ctypes.data, data_len=laid_out.nbytes
        )
    if not isinstance(filename, (str, os.PathLike)):
        filename.write(library.serialize(specs, metadata))
        return
    with replacing(filename) as file:
        library.serialize_file(specs, file.name, metadata)


def _check_apart(arrays: dict[str, np.ndarray]) -> None:
    """Refuse arrays that share memory: the file would hold each of them alone."""
    spans = sorted([(*np.lib.array_utils.byte_bounds(a), name) for name, a in arrays.items() if a.size])
    open_spans: list[tuple[int, int, str]] = []
    for span in spans:
        open_spans = [other for other in open_spans if other[1] > span[0]]
        for other in open_spans:
            if _share(arrays[other[2]], arrays[span[2]]):
                raise RuntimeError(
                    f"save_file: {other[2]!r} and {span[2]!r} share memory, and would come back as two tensors; store "
                    "one of them, or clone() one, or use rushlight.save, which keeps what is shared"
                )
        open_spans.append(span)


def _share(a: np.ndarray, b: np.ndarray) -> bool:
    share: Any = np.shares_memory
    try:
        return share(a, b, max_work=10_000)
    except np.exceptions.TooHardError:
        return True


def _name(key: Any) -> str:
    if not isinstance(key, str):
        raise TypeError(f"save_file: names must be strings, got {key!r}")
    return key


def _array(name: str, x: Any) -> np.ndarray:
    if not isinstance(x, Tensor):
        raise TypeError(f"save_file: {name} must be a tensor, got {type(x).__name__}")
    if x.is_meta:
        raise TypeError(f"save_file: {name} of shape {shape_text(x.shape)} is on the meta device and has no values")
    return x.detach().cpu()._array


def _library(caller: str) -> Any:
    try:
        import safetensors  # an optional need: only for its own files

        safetensors.TensorSpec  # noqa: B018 - since 0.8
    except (ImportError, AttributeError):
        raise ModuleNotFoundError(
            f"{caller}: safetensors files need the package safetensors, version 0.8 or newer: "
            "pip install 'rushlight-tensor[safetensors]'"
        ) from None
    return safetensors
