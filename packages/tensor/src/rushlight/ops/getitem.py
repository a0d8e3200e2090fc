"""`x[...]` and `x[...] = value`: what an index means, taken apart into views and index ops.

Integers, slices, `...` and None give views, one dimension after the other. Tensors, lists and arrays of integers, and
masks, are collected on the way and applied to the view at the end by one `index` or `index_put_`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dispatch, dtypes, native
from rushlight.core.declare import view
from rushlight.core.front import extend_tensor
from rushlight.core.memo import remembering
from rushlight.core.op import HANDLERS, INPLACE, Sample
from rushlight.core.tensor import Tensor
from rushlight.ops import basic_index
from rushlight.ops.copy import copy_op, fill_op
from rushlight.ops.create import filled, tensor
from rushlight.ops.index import index_op, masked_select_op
from rushlight.ops.put import as_indices, index_put_op, masked_fill_op
from rushlight.ops.rearrange import flip_op
from rushlight.ops.shape import unsqueeze
from rushlight.ops.slicing import bounds, select_op, slice_op
from rushlight.ops.view import reshaped, view_op

alias_op = view(
    "alias",
    lambda input: input.with_grad(False),
    lambda array: array,
    doc="The same memory once more.",
    samples=lambda: [Sample((np.arange(3, dtype=np.float32),))],
    reference=lambda x: x,
)

_fill, _masked_fill, _put = INPLACE[fill_op], INPLACE[masked_fill_op], INPLACE[index_put_op]
_EXPECTED = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices"


def _indexing() -> Callable:
    def enter(self: Tensor, index: Any) -> Any:
        kind = index.__class__
        if kind is int:
            return _select(self, index, 0)
        if kind is tuple and not HANDLERS and (key := basic_index.key(self, index)) is not None:
            return basic_index.part(self, index, key, _getitem)
        if hasattr(index, "_meta"):
            return by_tensors(self, index) if index._meta.ndim else _getitem(self, index)
        items = _plain_items(index) if kind is tuple else None
        return _getitem(self, index) if items is None else by_tensors(self, *items)

    def getitem(self: Tensor, index: Any) -> Any:
        """A part of the tensor: a view for integers, slices, `...` and None; a copy for tensors, lists and masks.

        A slice that runs backwards, which PyTorch refuses, gives a copy, too.

        Raises IndexError for indices out of range, too many indices, masks that do not fit and other types.

        Example:
            >>> import rushlight
            >>> x = rushlight.tensor([[1, 2, 3], [4, 5, 6]])
            >>> x[1], x[:, ::2], x[x > 4]
            (tensor([4, 5, 6]), tensor([[1, 3],
                    [4, 6]]), tensor([5, 6]))
        """
        return enter(self, index)

    getitem.__qualname__ = "getitem"
    return native.front(getitem, basic_index.known, "pick", entry=basic_index.entry)


getitem = _indexing()


def _by_tensors(input: Tensor, *items: Tensor | tuple | int | str | None) -> Tensor:
    """`input[items]`, one of them a tensor; slices and `...` come as `_plain_items` gives them."""
    index = tuple([slice(*x) if x.__class__ is tuple else ... if x.__class__ is str else x for x in items])
    return _getitem(input, index if len(index) > 1 else index[0])


by_tensors = remembering(_by_tensors, _by_tensors)


def _plain_items(index: tuple) -> list | None:
    """The items of an index such that they can be keys; None where there is no tensor among them, or something else.

    A tensor without dimensions is something else: its element is read, to be the number of a view.
    """
    items: list[Any] = []
    tensors = False
    for item in index:
        kind = item.__class__
        if kind is slice:
            item = (item.start, item.stop, item.step)
        elif item is Ellipsis:
            item = "..."
        elif hasattr(item, "_meta") and item._meta.ndim:
            tensors = True
        elif kind is not int and item is not None:
            return None
        items.append(item)
    return items if tensors else None


def _getitem(self: Tensor, index: Any) -> Any:
    part, indices, backward = _views(self, index)
    if backward:
        part = flip_op.apply((part,), (backward,))
    if indices is None:
        return alias_op.apply((self,)) if part is self else part
    mask = _only_mask(part, indices)
    if mask is not None:
        return masked_select_op.apply((part, mask))
    return index_op.apply((part, *as_indices(_as_masks(part, indices))))


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Overwrite a part of the tensor with a number or with a tensor that broadcasts to it; errors as for reading.

    Raises TypeError for other values, RuntimeError for a value that does not fit.
    """
    part, indices, backward = _views(self, index)
    if backward:
        turned = flip_op.apply((part,), (backward,))
        _store(turned, indices, value)
        copy_op.apply((part, flip_op.apply((turned,), (backward,))), (False,))
    else:
        _store(part, indices, value)


def _store(part: Tensor, indices: list[Any] | None, value: Any) -> None:
    if not hasattr(value, "_meta"):
        value = _number(part, value)
        if indices is None:
            _fill.apply((part, value))
            return
        mask = _only_mask(part, indices)
        if mask is not None:
            _check_mask_shape(part, mask)
            _masked_fill.apply((part, mask if mask.ndim == part.ndim else _trailing(mask, part), value))
            return
    elif indices is None:
        copy_op.apply((part, _drop_leading_ones(value, part.ndim)), (False,))
        return
    indices = as_indices(_as_masks(part, indices))
    if hasattr(value, "_meta"):
        kind = part.dtype
        if value.dtype is not kind and (value.ndim == 0 or dtypes.promote_types(value.dtype, kind) is kind):
            value = value.to(kind)
        given = [i.ndim for i in indices if i is not None]
        value = _drop_leading_ones(value, part.ndim - len(given) + max(given))
    _put.apply((part, value, *indices), (False,))


def _views(self: Tensor, index: Any) -> tuple[Tensor, list[Any] | None, tuple[int, ...] | None]:
    """The view that the basic part of an index makes, the index tensors left to apply to it (None: none), and the
    dimensions of the view that the index reads backwards (None: none).
    """
    kind = index.__class__
    if kind is int:
        return _select(self, index, 0), None, None
    if kind is slice and self._meta.ndim and (index.step is None or index.step > 0):
        return _slice(self, index, 0), None, None
    if kind is not tuple:
        if kind is list and _is_tuple_of_indices(index):
            index = tuple(index)
        else:
            index = (index,)
    part, dim, indices, backward = self, 0, [], None
    last = self._meta.ndim - _dims_taken(index)
    if last < 0:
        raise IndexError(f"too many indices for tensor of dimension {self._meta.ndim}")
    for item in index:
        kind = item.__class__
        if kind is int:
            part = _select(part, item, dim)
        elif kind is slice:
            if item.step is not None and item.step.__index__() < 0:
                backward = (*(backward or ()), dim)
                item = _forwards(item, part._meta.shape[dim])
            part = _slice(part, item, dim)
            dim += 1
        elif item is None:
            part = unsqueeze(part, dim)
            dim += 1
        elif item is Ellipsis:
            dim += last
            last = 0  # a second ellipsis stands for nothing
        elif kind is bool:
            part = unsqueeze(part, dim)
            _place(indices, dim, tensor([0] if item else [], dtype=dtypes.int64, device=self.device))
            dim += 1
        else:
            item = _index_tensor(item, self)
            m = item._meta
            if m.ndim == 0 and m.dtype.category <= 1:
                if m.dtype is dtypes.bool or m.dtype is dtypes.uint8:
                    part = unsqueeze(part, dim)
                    _place(indices, dim, reshaped(item, (1,)).to(dtypes.bool))
                    dim += 1
                elif dispatch.visible(item):
                    part = _select(part, int(item), dim)
                else:
                    _place(indices, dim, item)
                    dim += 1
            else:
                _place(indices, dim, item)
                dim += max(m.ndim, 1) if m.dtype is dtypes.bool or m.dtype is dtypes.uint8 else 1
    return part, indices or None, backward


def _select(x: Tensor, index: int, dim: int) -> Tensor:
    if not HANDLERS:  # the commonest calls of all go straight to their plan
        plan = select_op.plans.get((x._meta, int, dim))
        if plan is not None:
            return plan(x, index)
    if not x._meta.ndim:
        raise IndexError("invalid index of a 0-dim tensor. Use `tensor.item()` to convert a 0-dim tensor to a number")
    return select_op.apply((x, index), (dim,))


def _slice(x: Tensor, item: slice, dim: int) -> Tensor:
    size = x._meta.shape[dim]
    if item.step is not None and item.step.__index__() <= 0:
        raise ValueError("step must not be zero")
    start, stop, step = bounds(item, size) if HANDLERS else item.indices(size)
    if start == 0 and step == 1 and (stop is size or type(stop) is type(size) is int and stop == size):
        return x
    length = max(0, -((start - stop) // step))
    if not HANDLERS:
        plan = slice_op.plans.get((x._meta, int, dim, length, step))
        if plan is not None:
            return plan(x, start)
    return slice_op.apply((x, start), (dim, length, step))


def _forwards(item: slice, size: int) -> slice:
    """The slice with the same places as one with a negative step, in ascending order."""
    places = range(*item.indices(size))[::-1]
    return slice(places.start, places.stop, places.step) if places else slice(0, 0)


def _is_tuple_of_indices(items: list) -> bool:
    """Does a list stand for a tuple of indices? It does when it holds anything but numbers, as PyTorch reads it."""
    return any(
        item is None or item is Ellipsis or isinstance(item, (slice, list, tuple, Tensor, np.ndarray)) for item in items
    )


def _dims_taken(index: tuple) -> int:
    """How many dimensions the items of an index use up."""
    taken = 0
    for item in index:
        kind = item.__class__
        if kind is int or kind is slice:
            taken += 1
        elif item is None or item is Ellipsis or kind is bool:
            continue
        elif hasattr(item, "_meta"):
            m = item._meta
            taken += m.ndim if m.dtype is dtypes.bool or m.dtype is dtypes.uint8 else 1
        elif isinstance(item, np.ndarray) and item.dtype == bool:
            taken += item.ndim
        elif isinstance(item, (list, tuple)) and (array := np.asarray(item)).dtype == bool:
            taken += array.ndim
        else:
            taken += 1
    return taken


def _place(indices: list, dim: int, item: Tensor) -> None:
    """Note an index tensor for a dimension; a mask stands for as many entries as it has dimensions."""
    taken = sum([i.ndim if i is not None and i.dtype.name in ("bool", "uint8") else 1 for i in indices])
    indices.extend([None] * (dim - taken))
    indices.append(item)


def _index_tensor(item: Any, like: Tensor) -> Tensor:
    """An item of an index as a tensor of integers or a mask; IndexError for items that are no index."""
    if hasattr(item, "_meta"):
        if item.dtype.category > 1 or item.dtype.name not in ("int64", "int32", "bool", "uint8") and item.ndim:
            raise IndexError(f"tensors used as indices must be long, int, byte or bool tensors, got {item.dtype.name}")
        return item
    if isinstance(item, np.ndarray):
        return _index_tensor(tensor(item, device=like.device), like)
    if isinstance(item, (list, tuple, range)):
        if len(item) == 0:
            return tensor([], dtype=dtypes.int64, device=like.device)
        return _index_tensor(tensor(list(item), device=like.device), like)
    if hasattr(item, "__index__") and not isinstance(item, np.bool_):
        return tensor(item.__index__())
    raise IndexError(f"{_EXPECTED} (got {type(item).__name__})")


def _only_mask(part: Tensor, indices: list) -> Tensor | None:
    """The mask, when the index tensors are one mask over the leading dimensions and nothing else.

    A mask that lacks elements only because sizes are 0 is false everywhere, says the array API standard.
    """
    if len(indices) != 1 or indices[0].dtype is not dtypes.bool:
        return None
    mask = indices[0]
    if not mask._meta.numel:
        shape, leading = mask._meta.shape, part._meta.shape[: mask._meta.ndim]
        if len(shape) == len(leading) and all(size in (0, whole) for size, whole in zip(shape, leading)):
            return filled(leading, False, dtypes.bool, part.device)
    return mask


def _check_mask_shape(part: Tensor, mask: Tensor) -> None:
    for d, size in enumerate(mask.shape):
        if d >= part.ndim or part.shape[d] != size:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {d} does not match the shape of the indexed tensor "
                f"{list(part.shape)} at index {d}"
            )


def _as_masks(part: Tensor, indices: list) -> list:
    """The index tensors, with the shapes of masks among them checked."""
    dim = 0
    for item in indices:
        if item is not None and item.dtype.name in ("bool", "uint8"):
            for d, size in enumerate(item.shape):
                if dim + d >= part.ndim or part.shape[dim + d] != size:
                    raise IndexError(
                        f"The shape of the mask {list(item.shape)} at index {d} does not match the shape of the "
                        f"indexed tensor {list(part.shape)} at index {dim + d}"
                    )
            dim += item.ndim
        else:
            dim += 1
    return indices


def _trailing(mask: Tensor, part: Tensor) -> Tensor:
    """A mask over the leading dimensions with size-1 dimensions for the others."""
    return reshaped(mask, (*mask.shape, *(1,) * (part.ndim - mask.ndim)))


def _number(target: Tensor, value: Any) -> Any:
    """The number that is to be stored; TypeError for what is neither number nor tensor."""
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"can't assign a {type(value).__name__} to a {target.type()}; make it a tensor: rushlight.tensor(...)"
    )


def _drop_leading_ones(value: Tensor, ndim: int) -> Tensor:
    """The value without size-1 dimensions in front that the part it is stored in has not."""
    shape = value._meta.shape
    extra = len(shape) - ndim
    if extra > 0 and shape[:extra] == (1,) * extra:
        return view_op.apply((value,), (shape[extra:],))
    return value


extend_tensor("__getitem__", getitem)
extend_tensor("__setitem__", setitem)
