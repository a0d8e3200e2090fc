"""What a loader tells of its speed."""

import io
import time

import pytest

from rushlight.utils.data import DataLoader, IterableDataset, LoaderStats
from rushlight.utils.data.stats import Meter


class Slow:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        time.sleep(0.01)
        return index


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"num_workers": 1, "worker_type": "thread"}])
def test_stats_of_a_pass(options):
    loader = DataLoader(Slow(), 4, **options)
    for _ in loader:
        time.sleep(0.05)
    stats = loader.stats()
    assert (stats.batches, stats.samples) == (2, 6)
    assert 0.06 <= stats.decode <= stats.elapsed
    assert 0 <= stats.transfer < stats.decode
    assert 0 < stats.wait < stats.elapsed
    assert stats.elapsed >= 0.05
    assert stats.wait_share == stats.wait / stats.elapsed
    assert stats.per_batch()["decode"] == stats.decode / 2


def test_samples_of_a_stream_are_counted():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(7))

    loader = DataLoader(Stream(), 4)
    list(loader)
    assert loader.stats().samples == 7


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_line_on_a_terminal_is_written_anew():
    stream = Terminal()
    meter = Meter(2, 4, stream)
    stats = LoaderStats(batches=1, samples=10, wait=1.0, elapsed=2.0)
    meter.show(stats)
    stats.batches, stats.elapsed = 2, 4.0
    meter.show(stats)
    meter.close()
    meter.close()
    assert stream.getvalue() == (
        "\r\x1b[K3/4 batches, 5 samples/s, 50 % waiting for data"
        "\r\x1b[K4/4 batches, 2 samples/s, 25 % waiting for data\n"
    )


@pytest.mark.parametrize("options", [{}, {"num_workers": 1, "persistent_workers": True}])
def test_progress_of_a_loop(capsys, options):
    loader = DataLoader(range(6), 2, progress=True, **options)
    for _ in range(2):
        for _ in loader:
            pass
        printed = capsys.readouterr().err
        assert printed.startswith("3/3 batches, ")
        assert printed.endswith(" % waiting for data\n")
    for _ in loader:
        break
    del loader
    assert capsys.readouterr().err.startswith("1/3 batches, ")
