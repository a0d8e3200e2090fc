"""The part of a dataset that one of several training processes sees."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from rushlight.utils.data import bridge
from rushlight.utils.data.sampler import Sampler


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index, from `rank` on, of an order that all processes share.

    So that every process takes equally many steps, the order is padded by repeating its first indices, or with
    `drop_last` cut. For evaluation that would make results wrong: with `exact` every index comes once, in one process,
    and processes may differ by one sample.

    Args:
        num_replicas: number of processes.
        rank: which of them this is, from 0.
        shuffle: use a random order, which depends on `seed` and the epoch given to `set_epoch`.
        exact: neither pad nor cut.

    Raises:
        ValueError: when `num_replicas` or `rank` is missing, `rank` is out of range, or both `exact` and `drop_last`
            are given.

    Example:
        >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3, 0]]
        >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False, exact=True)) for rank in (0, 1)]
        [[0, 2, 4], [1, 3]]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        exact: bool = False,
    ) -> None:
        if exact and drop_last:
            raise ValueError("DistributedSampler: exact leaves nothing out, so it excludes drop_last")
        if num_replicas is None or rank is None:
            raise ValueError("DistributedSampler: there is no process group to ask, so pass num_replicas and rank")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        self.shuffle = shuffle
        self.seed = seed
        total = len(dataset)
        self.exact = exact
        if exact:
            self.num_samples, self.total_size = len(range(rank, total, num_replicas)), total
        else:
            self.num_samples = total // num_replicas if drop_last else math.ceil(total / num_replicas)
            self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        total = len(self.dataset)
        if self.shuffle:
            order = bridge.permutation(total, bridge.generator_from(self.seed + self.epoch)).tolist()
        else:
            order = list(range(total))
        if order and len(order) < self.total_size:
            order = (order * math.ceil(self.total_size / len(order)))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the random order; call it before every epoch, with the same number in all processes."""
        self.epoch = epoch
