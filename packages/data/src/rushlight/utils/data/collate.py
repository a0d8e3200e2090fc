"""Collation: many samples become one batch.

`default_collate_fn_map` says how each type is collated; a program may add its own types:

    default_collate_fn_map[Graph] = lambda batch, *, collate_fn_map=None: GraphBatch(batch)
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import rushlight
from rushlight import Tensor
from rushlight.utils.data import bridge

CollateMap = dict[type | tuple[type, ...], Callable]


def stack_arrays(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The arrays, all of one shape and dtype, along a new first dimension: written once, straight into batch memory."""
    first = arrays[0]
    out = bridge.empty((len(arrays), *first.shape), first.dtype)
    # In one thread: with two, copying was not faster (1.5 MB batches, bound by memory), and slower on a busy machine.
    for i, array in enumerate(arrays):
        out[i] = array
    return out


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Stack tensors."""
    arrays = bridge.plain_arrays(batch)
    if arrays is None:
        return rushlight.stack(list(batch), 0)
    return bridge.from_array(stack_arrays(arrays))


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Stack numpy arrays of numbers into a tensor."""
    first = batch[0]
    if first.dtype.kind in "SUOMm":
        raise TypeError(_unknown(first.dtype))
    if all(array.dtype == first.dtype and array.shape == first.shape for array in batch):
        return bridge.from_array(stack_arrays(batch))
    return collate_tensor_fn([bridge.from_array(np.ascontiguousarray(array)) for array in batch])


def collate_numpy_scalar_fn(batch: Sequence[np.generic], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Make a tensor of numpy scalars, of their dtype."""
    return bridge.from_array(np.array(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Make a float64 tensor of Python floats."""
    return rushlight.tensor(list(batch), dtype=rushlight.float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Make an int64 (or bool) tensor of Python ints (or bools)."""
    return rushlight.tensor(list(batch))


def collate_str_fn(batch: Any, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Leave text and bytes as they are."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def collate(batch: Sequence, *, collate_fn_map: CollateMap | None = None) -> Any:
    """Collate by a map from types to functions; mappings, sequences and named tuples are collated field by field.

    Args:
        batch: the samples, all of one structure.
        collate_fn_map: function for each type (or tuple of types), called as `fn(batch, collate_fn_map=...)`. The exact
            type is looked up first, then base classes in the map's order.

    Raises:
        TypeError: for a type that is not in the map.
        RuntimeError: when the samples' sequences differ in length, or their tensors in shape.
    """
    sample = batch[0]
    kind = type(sample)
    if collate_fn_map:
        fn = collate_fn_map.get(kind) or next((f for t, f in collate_fn_map.items() if isinstance(sample, t)), None)
        if fn is not None:
            return fn(batch, collate_fn_map=collate_fn_map)
    if isinstance(sample, Mapping):
        fields = {key: collate([d[key] for d in batch], collate_fn_map=collate_fn_map) for key in sample}
        return _same_mapping(sample, fields)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return kind(*[collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)])
    if isinstance(sample, Sequence):
        size = len(sample)
        if any(len(other) != size for other in batch):
            lengths = [len(other) for other in batch]
            raise RuntimeError(
                f"each element in list of batch should be of equal size, got sequences of lengths {lengths}"
            )
        columns = [collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch)]
        return columns if isinstance(sample, tuple) else _same_sequence(sample, columns)
    raise TypeError(_unknown(kind))


def default_collate(batch: Sequence) -> Any:
    """Make one batch of a list of samples: the loader's way unless it is given another `collate_fn`.

    Tensors (shape S) are stacked to shape (N, *S), N = len(batch); numbers and numpy arrays become tensors; dicts,
    lists, tuples and named tuples are collated field by field; text stays a list.

    Raises:
        TypeError: for samples of another type; see `default_collate_fn_map`.
        RuntimeError: when shapes or lengths differ.

    Example:
        >>> default_collate([(1, "a"), (2, "b")])
        [tensor([1, 2]), ('a', 'b')]
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """Turn numpy data into tensors, also inside dicts, lists and tuples, and leave all else as it is.

    Example:
        >>> import numpy as np
        >>> default_convert({"x": np.int64(3), "name": "a"})
        {'x': tensor(3), 'name': 'a'}
    """
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        return data if array.dtype.kind in "SUOMm" else bridge.from_array(array)
    if isinstance(data, Mapping):
        return _same_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, Sequence):
        return _same_sequence(data, [default_convert(value) for value in data])
    return data


def _same_mapping(like: Mapping, fields: dict) -> Any:
    """`fields` in a mapping of the type of `like`, or a dict where that type cannot be made from them."""
    kind = type(like)
    if kind is dict:
        return fields
    try:
        if isinstance(like, MutableMapping):
            # The copy keeps attributes such as the factory of a defaultdict.
            twin = copy.copy(like)
            twin.update(fields)
            return twin
        return kind(fields)  # type: ignore[call-arg]
    except TypeError:
        return fields


def _same_sequence(like: Sequence, values: list) -> Any:
    """`values` in a sequence of the type of `like`, or a list where that type cannot be made from them."""
    kind = type(like)
    if kind is list:
        return values
    try:
        if isinstance(like, MutableSequence):
            twin = copy.copy(like)
            for i, value in enumerate(values):
                twin[i] = value
            return twin
        return kind(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _unknown(kind: Any) -> str:
    return (
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}. "
        "Pass the loader a collate_fn of your own, or add the type to default_collate_fn_map"
    )
