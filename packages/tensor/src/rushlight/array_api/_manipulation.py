"""Shapes: broadcasting, joining, moving and repeating dimensions."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight.array_api._promotion import cast
from rushlight.core.errors import check_dim
from rushlight.core.tensor import Tensor

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The arrays, as views that all have the shape to which they broadcast."""
    return tuple(rl.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which shapes broadcast. Raises ValueError when they do not.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    try:
        return tuple(rl.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(str(error)) from None


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """A view of the array in a shape to which it broadcasts."""
    return rl.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays joined along an axis, or all of their elements in one row for `axis=None`."""
    parts = cast(*arrays)
    if axis is None:
        return rl.cat([x.reshape(-1) for x in parts])
    return rl.cat(parts, axis)


def expand_dims(x: Tensor, /, axis: Axes) -> Tensor:
    """A view with axes of size one where `axis` says, counted in the result.

    Raises IndexError for axes out of range, ValueError for one that is named twice.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.expand_dims(xp.zeros(3), (0, -1)).shape
        rushlight.Size([1, 3, 1])
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    ndim = x.ndim + len(axes)
    places = sorted(check_dim("expand_dims", a, ndim, "axis") for a in axes)
    if len(set(places)) != len(places):
        raise ValueError(f"expand_dims: axis {axes} names a place twice")
    for place in places:
        x = x.unsqueeze(place)
    return x


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """The elements in reverse order along the axes, all of them for None."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return rl.flip(x, axes)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """A view with axes moved to other places; the others keep their order."""
    return rl.movedim(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the axes in another order."""
    return rl.permute(x, tuple(axes))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element `repeats` times in a row, along an axis or in the flat order of all.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.repeat(xp.asarray([1, 2]), xp.asarray([2, 1]))
        tensor([1, 1, 2])
    """
    if not isinstance(repeats, int):
        repeats = repeats.to(rl.int64)
    return rl.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; one size may be -1.

    `copy` says whether memory is new: always, never (ValueError where it must be), or where it must be (None).
    """
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: a copy is needed, but copy=False ({error})") from None
    return x.clone().reshape(shape) if copy else rl.reshape(x, shape)


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """The elements moved along axes, those that leave at one end coming in at the other."""
    if axis is None:
        return rl.roll(x, shift)
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return rl.roll(x, shift, axis)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """A view without the axes named, which must have size one.

    Raises ValueError when one has another size, IndexError when out of range.
    """
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        if x.ndim == 0 or x.shape[check_dim("squeeze", a, x.ndim, "axis")] != 1:
            raise ValueError(f"squeeze: axis {a} does not have size 1 in shape {tuple(x.shape)}")
    return rl.squeeze(x, axes)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    return rl.stack(cast(*arrays), axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole array, repeated along each axis."""
    return rl.tile(x, tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Views of the slices along an axis."""
    return tuple(rl.unbind(x, axis))
