"""Indexing, masks, joining and random numbers."""

from __future__ import annotations

from .common import library, numbers

ROWS, WIDTH, TABLE = 20_000, 64, 1000


class Views:
    """What `x[...]` and its like cost in calls: a microsecond or two each."""

    def setup(self) -> None:
        self.rl = library("Tensor.unfold")
        self.x = self.rl.from_numpy(numbers(100, 8))

    def time_integer(self) -> None:
        self.x[3]

    def time_slice(self) -> None:
        self.x[2:50]

    def time_two_slices(self) -> None:
        self.x[2:50, ::2]

    def time_view(self) -> None:
        self.x.view(8, 100)

    def time_transpose(self) -> None:
        self.x.transpose(0, 1)

    def time_store_number(self) -> None:
        self.x[3] = 1.0


class Rows:
    """Reading and writing by index: compiled loops, where numpy adds at 30 to 60 ns an element."""

    def setup(self) -> None:
        self.rl = rl = library("Tensor.index_add")
        self.table, self.values = rl.from_numpy(numbers(TABLE, WIDTH)), rl.from_numpy(numbers(ROWS, WIDTH, seed=1))
        self.index = (self.values[:, 0].abs() * 1000).long() % TABLE
        self.places = self.index[:, None].expand(ROWS, WIDTH)
        self.columns = (self.places % WIDTH).contiguous()

    def time_read(self) -> None:
        self.table[self.index]

    def time_index_add(self) -> None:
        self.table.index_add(0, self.index, self.values)

    def time_index_put_accumulate(self) -> None:
        self.table.index_put((self.index,), self.values, accumulate=True)

    def time_scatter_add(self) -> None:
        self.table.scatter_add(0, self.places, self.values)

    def time_gather(self) -> None:
        self.values.gather(1, self.columns)

    def time_scatter(self) -> None:
        self.values.scatter(1, self.columns, self.values)

    def time_scatter_add_within_rows(self) -> None:
        self.values.scatter_add(1, self.columns, self.values)

    def time_pairs(self) -> None:
        self.table[self.places % TABLE, self.columns]


class Masks:
    """Random masks: without branches, as numpy's cost 9 ns an element."""

    def setup(self) -> None:
        rl = library("Tensor.masked_fill")
        self.x = rl.from_numpy(numbers(1000, 1000))
        self.mask = self.x > 0

    def time_masked_fill(self) -> None:
        self.x.masked_fill(self.mask, 0.0)

    def time_masked_fill_in_place(self) -> None:
        self.x.masked_fill_(self.mask, 1.0)

    def time_select(self) -> None:
        self.x[self.mask]

    def time_tril(self) -> None:
        self.x.tril()

    def time_nonzero(self) -> None:
        self.mask.nonzero()

    def time_masked_scatter(self) -> None:
        self.x.masked_scatter(self.mask, self.x)


class Layouts:
    """Copies in another order: in tiles and blocks, on all threads."""

    def setup(self) -> None:
        self.rl = library("flip")
        self.x = self.rl.from_numpy(numbers(1000, 1000))
        self.images = self.rl.from_numpy(numbers(16, 64, 56, 56))

    def time_transpose(self) -> None:
        self.x.t().contiguous()

    def time_channels_last(self) -> None:
        self.images.contiguous(memory_format=self.rl.channels_last)

    def time_flip_columns(self) -> None:
        self.x.flip(1)

    def time_repeat_interleave(self) -> None:
        self.x.repeat_interleave(2, 1)

    def time_double(self) -> None:
        self.x.double()


class Joins:
    def setup(self) -> None:
        self.rl = library("stack")
        self.small = [self.rl.from_numpy(numbers(3, 8, seed=i)) for i in range(64)]
        self.large = [self.rl.from_numpy(numbers(1000, 256, seed=i)) for i in range(4)]

    def time_stack_a_batch(self) -> None:
        self.rl.stack(self.small)

    def time_cat_columns(self) -> None:
        self.rl.cat(self.large, 1)

    def time_cat_two_small(self) -> None:
        self.rl.cat(self.small[:2])


class Random:
    """Philox: compiled words, 2 ms a million; numpy's normal numbers take 13 to 25."""

    def setup(self) -> None:
        self.rl = library("randperm")
        self.rl.rand(1_000_000)  # the compiled kernel is loaded once

    def time_rand(self) -> None:
        self.rl.rand(1_000_000)

    def time_randn(self) -> None:
        self.rl.randn(1_000_000)

    def time_randint(self) -> None:
        self.rl.randint(0, 10, (1_000_000,))

    def time_randperm(self) -> None:
        self.rl.randperm(100_000)

    def time_rand_small(self) -> None:
        self.rl.rand(16)
