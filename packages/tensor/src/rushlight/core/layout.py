"""Memory formats and layouts: the names by which programs ask for an order of dimensions in memory."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.core.meta import Meta, contiguous_strides, dense_order, strides_in_order


class memory_format:
    """An order of dimensions in memory, such as `rushlight.channels_last`."""

    __slots__ = ("name",)
    _by_name: dict[str, memory_format] = {}

    def __init__(self, name: str) -> None:
        self.name = name
        self._by_name[name] = self

    def __repr__(self) -> str:
        return f"rushlight.{self.name}"

    def __reduce__(self) -> tuple:
        return (format_named, (self.name,))


class layout:
    """How a tensor stores its elements. rushlight has `strided` tensors only; asking for another layout is an error."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"rushlight.{self.name}"

    def __reduce__(self) -> tuple:
        return (_layout_named, (self.name,))


contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")
strided = layout("strided")
LAYOUTS = (strided, *map(layout, ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")))

CHANNELS_LAST = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def format_named(name: str) -> memory_format:
    """The memory format of a name."""
    return memory_format._by_name[name]


def _layout_named(name: str) -> layout:
    return next(found for found in LAYOUTS if found.name == name)


def check_layout(name: str, wanted: layout | None) -> None:
    """NotImplementedError for a layout that is not there, TypeError for what is no layout."""
    if wanted is None or wanted is strided:
        return
    if not isinstance(wanted, layout):
        raise TypeError(f"{name}: layout must be a rushlight.layout, got {type(wanted).__name__}")
    raise NotImplementedError(f"{name}: rushlight has no {wanted.name} tensors; leave layout= away")


def is_dense(m: Meta) -> bool:
    """Do the elements fill their memory without gaps or overlap, in whatever order of dimensions?"""
    step = 1
    for stride, size in sorted((stride, size) for stride, size in zip(m.strides, m.shape) if size != 1):
        if stride != step:
            return False
        step *= size
    return True


def may_overlap(m: Meta) -> bool:
    """May two elements share memory? No only where each dimension steps over all that smaller steps reach."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(m.strides, m.shape) if size != 1):
        if stride <= reach:
            return m.numel > 0
        reach += (size - 1) * stride
    return False


def strides_for(name: str, m: Meta, wanted: memory_format) -> tuple[int, ...]:
    """The strides of a new tensor like one with metadata `m` in a memory format.

    Raises RuntimeError when the format is for tensors with another number of dimensions.
    """
    if wanted is preserve_format:
        if m.contiguous or is_dense(m):
            return m.strides
        order = dense_order((m,), m.shape)
        return contiguous_strides(m.shape) if order is None else strides_in_order(m.shape, order)
    order = CHANNELS_LAST.get(wanted)
    if order is None:
        return contiguous_strides(m.shape)
    if m.ndim != len(order):
        raise RuntimeError(
            f"{name}: memory_format {wanted!r} is for tensors with {len(order)} dimensions, got {m.ndim}"
        )
    return strides_in_order(m.shape, order)


# The order in which PyTorch looks at strides: from the innermost dimension of the format outwards.
_INNER_FIRST = {4: (channels_last, (1, 3, 2, 0)), 5: (channels_last_3d, (1, 4, 3, 2, 0))}


def suggested_format(m: Meta) -> memory_format:
    """The memory format that convolutions, pooling and their like give results in for an operand: a channels-last one
    if its strides say so beyond doubt, else `contiguous_format`.

    Strides of size-1 dimensions count, too: they alone tell one format from the other for images of one channel.
    """
    wanted, dims = _INNER_FIRST.get(m.ndim, (contiguous_format, ()))
    least = 0
    for d in dims:
        size, stride = m.shape[d], m.strides[d]
        if size == 0 or stride == 0 and d == 1 or stride < least or d == 0 and least == m.strides[1]:
            return contiguous_format
        least = stride * size
    return wanted


def kept_strides(shape: tuple[int, ...], *operands: Meta) -> tuple[int, ...] | None:
    """The strides of a result that keeps the channels-last format of one of the operands; None for row-major ones."""
    for m in operands:
        order = CHANNELS_LAST.get(suggested_format(m))
        if order is not None:
            return strides_in_order(shape, order)
    return None


def common_format(metas: Iterable[Meta]) -> memory_format | None:
    """The channels-last format that all of these are in, if they are and not row-major besides."""
    metas = list(metas)
    for wanted, order in CHANNELS_LAST.items():
        if metas and all(m.ndim == len(order) and not m.contiguous and has_format(m, wanted) for m in metas):
            return wanted
    return None


def has_format(m: Meta, wanted: memory_format) -> bool:
    """Do the strides follow a memory format (strides of size-1 dimensions do not matter)?"""
    order = CHANNELS_LAST.get(wanted)
    if order is None:
        return m.contiguous
    if m.ndim != len(order):
        return False
    return all(
        have == want or size == 1 for have, want, size in zip(m.strides, strides_in_order(m.shape, order), m.shape)
    )
