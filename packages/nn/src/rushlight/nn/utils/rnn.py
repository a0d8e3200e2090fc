"""Sequences of different lengths in one batch: packed and padded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import rushlight
from rushlight import Tensor


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences, longest first, joined time by time: at time t the first `batch_sizes[t]` of them have an element.

    Made by `pack_padded_sequence` and `pack_sequence`.
    """

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with the data moved or converted; see `Tensor.to`."""
        return type(self)(self.data.to(*args, **kwargs), *self[1:])

    def cpu(self) -> PackedSequence:
        """The same sequences in main memory."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> PackedSequence:
        """The same sequences on a CUDA device."""
        return self.to("cuda" if device is None else device)

    def pin_memory(self) -> PackedSequence:
        """The same sequences in memory that CUDA devices read by themselves."""
        return type(self)(self.data.pin_memory(), *self[1:])

    def is_pinned(self) -> bool:
        """Is the data in memory that CUDA devices read by themselves?"""
        return self.data.is_pinned()

    def double(self) -> PackedSequence:
        """The same sequences as float64."""
        return self.to(rushlight.float64)

    def float(self) -> PackedSequence:
        """The same sequences as float32."""
        return self.to(rushlight.float32)

    def half(self) -> PackedSequence:
        """The same sequences as float16."""
        return self.to(rushlight.float16)

    def long(self) -> PackedSequence:
        """The same sequences as int64."""
        return self.to(rushlight.int64)

    def int(self) -> PackedSequence:
        """The same sequences as int32."""
        return self.to(rushlight.int32)

    def short(self) -> PackedSequence:
        """The same sequences as int16."""
        return self.to(rushlight.int16)

    def char(self) -> PackedSequence:
        """The same sequences as int8."""
        return self.to(rushlight.int8)

    def byte(self) -> PackedSequence:
        """The same sequences as uint8."""
        return self.to(rushlight.uint8)

    @property
    def is_cuda(self) -> bool:
        """Is the data on a CUDA device?"""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another one."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch `(l, n, *)` (`(n, l, *)` for `batch_first`) whose sequences have the given lengths.

    Raises RuntimeError for lengths that are not positive, or not in falling order when `enforce_sorted`.
    """
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    x = input.transpose(0, 1) if batch_first else input
    if len(sizes) != x.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} (batch_size={x.shape[1]})"
        )
    if any(n <= 0 for n in sizes):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    order = None
    if enforce_sorted:
        if any(a < b for a, b in zip(sizes, sizes[1:])):
            raise RuntimeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
                "You can pass `enforce_sorted=False` to pack the sequences in another order"
            )
    else:
        ranks = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        order, sizes = rushlight.tensor(ranks), [sizes[i] for i in ranks]
        x = x.index_select(1, order)
    batch_sizes = [sum(n > t for n in sizes) for t in range(sizes[0])]
    return PackedSequence(
        rushlight.cat([x[t, :b] for t, b in enumerate(batch_sizes)]), rushlight.tensor(batch_sizes), order, None
    )


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded batch `(l, n, *)` of a packed one, and the lengths. ValueError when `total_length` is less than the
    longest."""
    sizes = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    steps = []
    for x in sequence.data.split(sizes):
        missing = sizes[0] - x.shape[0]
        steps.append(rushlight.cat((x, x.new_full((missing, *x.shape[1:]), padding_value))) if missing else x)
    for _ in range((total_length or 0) - len(sizes)):
        steps.append(sequence.data.new_full((sizes[0], *sequence.data.shape[1:]), padding_value))
    padded = rushlight.stack(steps)
    lengths = rushlight.tensor([sum(b > i for b in sizes) for i in range(sizes[0])])
    if sequence.unsorted_indices is not None:
        padded, lengths = padded.index_select(1, sequence.unsorted_indices), lengths[sequence.unsorted_indices]
    return (padded.transpose(0, 1) if batch_first else padded), lengths


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences `(l_i, *)` into `(l, n, *)` (`(n, l, *)` for `batch_first`), padded to the longest.

    Example:
        >>> import rushlight
        >>> rushlight.nn.utils.rnn.pad_sequence([rushlight.ones(2), rushlight.ones(1)], batch_first=True).tolist()
        [[1.0, 1.0], [1.0, 0.0]]
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(x.shape[0] for x in sequences)
    rows = []
    for x in sequences:
        fill = x.new_full((longest - x.shape[0], *x.shape[1:]), padding_value)
        rows.append(rushlight.cat((x, fill) if padding_side == "right" else (fill, x)))
    return rushlight.stack(rows, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows, lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences `(l_i, *)`."""
    return pack_padded_sequence(pad_sequence(sequences), [x.shape[0] for x in sequences], enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
