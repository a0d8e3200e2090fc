"""Shared blocks, in one process."""

import os

import numpy as np
import pytest

from rushlight.utils.data import blocks

pytestmark = pytest.mark.skipif(not blocks.CAN_SHARE, reason="needs Unix sockets")
FLOAT = np.dtype(np.float32)


def ship(arena, leases, *arrays):
    """What `Outbox` and `Inbox` do with the large arrays of a batch."""
    pieces = [arena.find(array) for array in arrays]
    new, fds, retired = arena.finish(pieces)
    for (id, size), fd in zip(new, fds):
        leases.add(id, size, fd)
    leases.retire(retired)
    return pieces, leases.arrays(pieces)


def test_small_arrays_stay_private():
    arena = blocks.Arena()
    assert arena.find(arena.empty((10,), FLOAT)) is None
    assert arena.find(arena.empty((100_000,), np.dtype(object))) is None


def test_both_sides_see_the_same_memory():
    arena, leases = blocks.Arena(), blocks.Leases()
    array = arena.empty((200, 300), FLOAT)
    array[:] = 3
    _, [raw] = ship(arena, leases, array)
    np.testing.assert_array_equal(raw.view(FLOAT), np.full(60_000, 3, FLOAT))


def test_block_is_used_again_when_both_sides_let_go():
    arena, leases = blocks.Arena(), blocks.Leases()
    used = []
    for _ in range(4):
        array = arena.empty((50_000,), FLOAT)
        [piece], received = ship(arena, leases, array)
        used.append(piece.block)
        del array, received
        arena.give_back(leases.collect())
    assert used == [0, 0, 0, 0]


def test_view_in_the_program_keeps_the_block():
    arena, leases = blocks.Arena(), blocks.Leases()
    array = arena.empty((50_000,), FLOAT)
    _, [raw] = ship(arena, leases, array)
    view = raw.view(FLOAT).reshape(50, 1000)[3].T
    del raw
    assert leases.collect() == []
    assert leases.unused() == []
    del view
    assert leases.collect() == [0]


def test_array_kept_in_the_worker_keeps_the_block():
    arena, leases = blocks.Arena(), blocks.Leases()
    kept = arena.empty((50_000,), FLOAT)
    ship(arena, leases, kept)
    arena.give_back(leases.collect())
    other = arena.empty((50_000,), FLOAT)
    assert not np.shares_memory(kept, other)


def test_arrays_that_are_not_sent_free_their_block():
    arena, leases = blocks.Arena(), blocks.Leases()
    first, second = arena.empty((50_000,), FLOAT), arena.empty((50_000,), FLOAT)
    [piece], _ = ship(arena, leases, second)
    del first
    again = arena.empty((50_000,), FLOAT)
    assert arena.find(again).block != piece.block
    assert len(leases.unused()) == 1


def test_larger_block_replaces_a_free_one():
    arena, leases = blocks.Arena(), blocks.Leases()
    for size in (50_000, 70_000, 90_000):
        array = arena.empty((size,), FLOAT)
        array[:] = size
        _, [raw] = ship(arena, leases, array)
        assert (raw.view(FLOAT) == size).all()
        del array, raw
        arena.give_back(leases.collect())
    assert len(leases.unused()) == 1


def test_copies_are_given_out_when_many_blocks_are_held(monkeypatch):
    monkeypatch.setattr(blocks, "MAX_LEASES", 2)
    arena, leases = blocks.Arena(), blocks.Leases()
    held = []
    for number in range(5):
        array = arena.empty((50_000,), FLOAT)
        array[:] = number
        held += ship(arena, leases, array)[1]
        del array
        arena.give_back(leases.collect())
    assert [raw.view(FLOAT)[0] for raw in held] == [0, 1, 2, 3, 4]
    assert len(leases.unused()) == 1


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memfd and /proc")
@pytest.mark.parametrize(
    "places",
    [("os.memfd_create", "tempfile.TemporaryFile"), ("os.ftruncate",), ("rushlight.utils.data.blocks._map",)],
)
def test_without_shared_memory_arrays_are_private(monkeypatch, places):
    def full(*arguments):
        raise OSError("no space left")

    before = sorted(os.listdir("/proc/self/fd"))
    for place in places:
        monkeypatch.setattr(place, full)
    arena = blocks.Arena()
    assert arena.find(arena.empty((50_000,), FLOAT)) is None
    assert sorted(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("reason", ["absent", "forbidden"])
def test_file_in_the_temporary_folder_where_there_is_no_memfd(monkeypatch, tmp_path, reason):
    def forbid(*arguments):
        raise PermissionError(1, "not in this sandbox")

    monkeypatch.delattr(os, "memfd_create", raising=False)
    if reason == "forbidden":
        monkeypatch.setattr(os, "memfd_create", forbid, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    arena, leases = blocks.Arena(), blocks.Leases()
    array = arena.empty((50_000,), FLOAT)
    array[:] = 2
    _, [raw] = ship(arena, leases, array)
    assert (raw.view(FLOAT) == 2).all()
    assert os.listdir(tmp_path) == []
