"""Discrete Fourier transforms: rushlight.fft, stft and istft."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.devices import as_device
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import fourier
from rushlight.ops.create import as_dtype, from_numpy
from rushlight.ops.padding import pad_constant

Dims = int | Sequence[int] | None

_X = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4) ** 3
_Z = (_X + 1j * _X[::-1]).astype(np.complex64)

# The ops: c2c (complex to complex), r2c (real to half a spectrum), c2r (half a spectrum to real, its last size is a
# param). `dims` are transformed, the last one of them halved. `scaling` is the power of the number of elements by
# which results are divided: 0, 0.5 or 1.


def _check(name: str, input: Meta, dims: tuple[int, ...]) -> None:
    for d in dims:
        if input.shape[d] < 1:
            raise RuntimeError(f"{name}: invalid number of data points ({input.shape[d]}) specified in dimension {d}")


def _infer_c2c(input: Meta, *, dims: tuple[int, ...], scaling: float, forward: bool) -> Meta:
    _check("fft", input, dims)
    return meta(input.dtype.to_complex(), input.shape, None, input.device)


def _infer_r2c(input: Meta, *, dims: tuple[int, ...], scaling: float) -> Meta:
    _check("rfft", input, dims)
    if input.dtype.is_complex:
        raise RuntimeError(f"rfft: expected a real input tensor, got {input.dtype.name}; use fft")
    last = dims[-1]
    shape = input.shape[:last] + (input.shape[last] // 2 + 1,) + input.shape[last + 1 :]
    return meta(input.dtype.to_complex(), shape, None, input.device)


def _infer_c2r(input: Meta, *, dims: tuple[int, ...], scaling: float, size: int) -> Meta:
    _check("irfft", input, dims)
    if size < 1:
        raise RuntimeError(f"irfft: invalid number of data points ({size}) specified")
    last = dims[-1]
    return meta(input.dtype.to_real(), input.shape[:last] + (size,) + input.shape[last + 1 :], None, input.device)


c2c_op = structured(
    "fft_c2c",
    _infer_c2c,
    doc="Discrete Fourier transform over `dims`.",
    samples=lambda: [Sample((_Z,), ((2,), 0.0, True)), Sample((_Z,), ((0, 1), 0.5, False))],
    errors=lambda: [ErrorSample((_Z[:0],), ((0,), 0.0, True), RuntimeError, "data points")],
    reference=lambda z, dims, scaling, forward: (
        (np.fft.fftn(z, axes=dims) if forward else np.fft.ifftn(z, axes=dims, norm="forward"))
        / prod([z.shape[d] for d in dims]) ** scaling
    ),
)

r2c_op = structured(
    "fft_r2c",
    _infer_r2c,
    doc="Discrete Fourier transform of real numbers: the last of `dims` only up to the middle frequency.",
    samples=lambda: [Sample((_X,), ((2,), 0.0)), Sample((_X,), ((0, 1), 1.0))],
    errors=lambda: [ErrorSample((_Z,), ((2,), 0.0), RuntimeError, "real input")],
    reference=lambda x, dims, scaling: np.fft.rfftn(x, axes=dims) / prod([x.shape[d] for d in dims]) ** scaling,
)

c2r_op = structured(
    "fft_c2r",
    _infer_c2r,
    doc="Backward transform to real numbers of a spectrum of which half is given; `size` of the last of `dims`.",
    samples=lambda: [Sample((_Z,), ((2,), 1.0, 7)), Sample((_Z,), ((0, 1), 0.0, 4))],
    errors=lambda: [ErrorSample((_Z,), ((2,), 0.0, 0), RuntimeError, "data points")],
)


@kernel(c2c_op, "cpu")
def _c2c(z: np.ndarray, dims: tuple, scaling: float, forward: bool) -> np.ndarray:
    return fourier.c2c(z, dims, scaling, forward)


@kernel(r2c_op, "cpu")
def _r2c(x: np.ndarray, dims: tuple, scaling: float) -> np.ndarray:
    return fourier.r2c(x, dims, scaling)


@kernel(c2r_op, "cpu")
def _c2r(z: np.ndarray, dims: tuple, scaling: float, size: int) -> np.ndarray:
    return fourier.c2r(z, dims, scaling, size)


# Arguments


def _promoted(name: str, x: Tensor, want_complex: bool) -> Tensor:
    dtype = x.dtype
    if dtype in dtypes.HALF:
        raise RuntimeError(f"{name}: unsupported dtype {dtype.name}; convert the input with .to(rushlight.float32)")
    if not dtype.is_inexact:
        dtype = dtypes.get_default_dtype()
    if want_complex:
        dtype = dtype.to_complex()
    return x.to(dtype) if dtype is not x.dtype else x


_SCALING = {
    ("backward", True): 0.0,
    ("backward", False): 1.0,
    ("ortho", True): 0.5,
    ("ortho", False): 0.5,
    ("forward", True): 1.0,
    ("forward", False): 0.0,
}


def _scaling(name: str, norm: str | None, forward: bool) -> float:
    try:
        return _SCALING[norm or "backward", forward]
    except KeyError:
        raise RuntimeError(
            f"{name}: invalid normalization mode {norm!r}; it takes 'forward', 'backward' or 'ortho'"
        ) from None


def _resized(x: Tensor, d: int, size: int) -> Tensor:
    """One dimension cut, or filled up with zeros, to a size."""
    have = x.shape[d]
    if size == have:
        return x
    if size < have:
        return x.narrow(d, 0, size)
    return pad_constant(x, (0,) * (2 * (x.ndim - d - 1)) + (0, size - have))


def _one(name: str, x: Tensor, n: int | None, dim: int) -> tuple[int, int | None]:
    if not x.ndim:
        raise IndexError(f"{name}: Dimension specified as {dim} but tensor has no dimensions")
    if n is not None and n < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({n}) specified")
    return check_dim(name, dim, x.ndim), n


def _many(name: str, x: Tensor, s: Dims, dim: Dims) -> tuple[tuple[int, ...], list[int | None]]:
    """The dims to transform and the size of each (None: as it is)."""
    if isinstance(s, int):
        s = (s,)
    if isinstance(dim, int):
        dim = (dim,)
    if dim is None:
        if s is not None and len(s) > x.ndim:
            raise RuntimeError(f"{name}: got shape with {len(s)} values but input tensor only has {x.ndim} dimensions")
        dims = tuple(range(x.ndim if s is None else x.ndim)) if s is None else tuple(range(x.ndim - len(s), x.ndim))
    else:
        dims = tuple([_one(name, x, None, d)[0] for d in dim])
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}: FFT dims must be unique, got {list(dim)}")
        if s is not None and len(s) != len(dims):
            raise RuntimeError(
                f"{name}: when given, dim and shape arguments must have the same length, got {list(dim)} and {list(s)}"
            )
    sizes = [None if s is None or n == -1 else n for n in (s or [None] * len(dims))]
    for n in sizes:
        if n is not None and n < 1:
            raise RuntimeError(f"{name}: invalid number of data points ({n}) specified")
    return dims, sizes


def _to_complex(name: str, x: Tensor, dims: tuple, sizes: list, norm: str | None, forward: bool) -> Tensor:
    x = _promoted(name, x, True)
    for d, n in zip(dims, sizes):
        x = x if n is None else _resized(x, d, n)
    if not dims:
        return x.clone()
    return c2c_op.apply((x,), (dims, _scaling(name, norm, forward), forward))


def _from_real(name: str, x: Tensor, dims: tuple, sizes: list, norm: str | None, backward: bool = False) -> Tensor:
    """Half a spectrum; `backward` gives that of the inverse transform."""
    if x.dtype.is_complex:
        raise RuntimeError(f"{name}: expects a real input tensor, but got {x.dtype.name}")
    if not dims:
        raise RuntimeError(f"{name}: must transform at least one axis")
    x = _promoted(name, x, False)
    for d, n in zip(dims, sizes):
        x = x if n is None else _resized(x, d, n)
    half = r2c_op.apply((x,), (dims, _scaling(name, norm, not backward)))
    return half.conj().resolve_conj() if backward else half


def _to_real(name: str, x: Tensor, dims: tuple, sizes: list, norm: str | None, forward: bool = False) -> Tensor:
    """Real numbers from half a spectrum; `forward` transforms in the other direction."""
    if not dims:
        raise RuntimeError(f"{name}: must transform at least one axis")
    x = _promoted(name, x, True)
    last = dims[-1]
    size = 2 * (x.shape[last] - 1) if sizes[-1] is None else sizes[-1]
    if size < 1:
        raise RuntimeError(f"{name}: invalid number of data points ({size}) specified")
    for d, n in zip(dims[:-1], sizes[:-1]):
        x = x if n is None else _resized(x, d, n)
    x = _resized(x, last, size // 2 + 1)
    return c2r_op.apply((x.conj() if forward else x,), (dims, _scaling(name, norm, forward), size))


# Functions: one body serves the forms over one, two and all dimensions

_KINDS: dict[str, tuple[Callable, dict, str]] = {
    "fft": (_to_complex, {"forward": True}, "Discrete Fourier transform: `X[k] = sum of x[m] exp(-2 pi i k m / n)`."),
    "ifft": (_to_complex, {"forward": False}, "Inverse of `fft`."),
    "rfft": (_from_real, {}, "`fft` of real numbers, up to the middle frequency; the rest of the spectrum mirrors it."),
    "irfft": (
        _to_real,
        {},
        "Inverse of `rfft`; the size of the last dimension cannot be seen from the spectrum, it is even by default.",
    ),
    "hfft": (
        _to_real,
        {"forward": True},
        "`fft` of a signal that is Hermitian, of which half is given; the result is real.",
    ),
    "ihfft": (_from_real, {"backward": True}, "Inverse of `hfft`: half of a Hermitian signal."),
}
_RAISES = (
    "\n\n    Sizes cut the input or fill it up with zeros; norm is 'backward' (default), 'ortho' or 'forward'. "
    "Raises RuntimeError for sizes, "
    "dtypes or\n    a norm that do not fit, IndexError for a dimension out of range."
)


def _define(kind: str) -> None:
    body, options, text = _KINDS[kind]

    def over_one(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        d, n = _one(kind, input, n, dim)
        return body(f"fft.{kind}", input, (d,), [n], norm, **options)

    def over_two(input: Tensor, s: Dims = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
        return body(f"fft.{kind}2", input, *_many(f"fft.{kind}2", input, s, dim), norm, **options)

    def over_all(input: Tensor, s: Dims = None, dim: Dims = None, norm: str | None = None) -> Tensor:
        return body(f"fft.{kind}n", input, *_many(f"fft.{kind}n", input, s, dim), norm, **options)

    for suffix, made, where in (
        ("", over_one, " Over one dimension."),
        ("2", over_two, " Over two dimensions."),
        ("n", over_all, " Over several dimensions, all by default."),
    ):
        made.__doc__ = text + where + _RAISES
        function(name=kind + suffix, namespace="fft", method=False, autocast="wide")(made)


for _kind in _KINDS:
    _define(_kind)


@function(namespace="fft", method=False)
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `fft`'s results: `[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (n d)`."""
    return _frequencies("fft.fftfreq", n, n, d, dtype, device, requires_grad)


@function(namespace="fft", method=False)
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: Dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """The frequencies of `rfft`'s results: `[0, 1, ..., n // 2] / (n d)`."""
    return _frequencies("fft.rfftfreq", n // 2 + 1, n, d, dtype, device, requires_grad)


def _frequencies(
    name: str, count: int, n: int, d: float, dtype: Dtype | None, device: Any, requires_grad: bool
) -> Tensor:
    kind = as_dtype(name, dtype)
    if not kind.is_inexact:
        raise RuntimeError(f"{name}: requires a floating point or complex dtype, got {kind.name}")
    places = np.arange(count)
    values = np.where(places > (n - 1) // 2, places - n, places) if name == "fft.fftfreq" else places
    made = from_numpy(np.divide(values, n * d if n else np.nan).astype(kind.numpy)).to(as_device(device))
    return made.requires_grad_() if requires_grad else made


def _shift_dims(name: str, input: Tensor, dim: Dims) -> list[int]:
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return [check_dim(name, d, input.ndim) for d in dims]


@function(namespace="fft", method=False, out=False)
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Frequency 0 moved to the middle of each dimension. Raises IndexError for a dimension out of range."""
    dims = _shift_dims("fft.fftshift", input, dim)
    return input.roll([input.shape[d] // 2 for d in dims], dims) if dims else input.clone()


@function(namespace="fft", method=False, out=False)
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Inverse of `fftshift`. Raises IndexError for a dimension out of range."""
    dims = _shift_dims("fft.ifftshift", input, dim)
    return input.roll([(input.shape[d] + 1) // 2 for d in dims], dims) if dims else input.clone()
