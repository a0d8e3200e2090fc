"""Every combination of a loader's arguments has the outcome that it has in PyTorch: the same batches or error."""

import pytest

import rushlight
import rushlight.utils.data

torch = pytest.importorskip("torch")

ARGUMENTS = [
    {},
    {"batch_size": 0},
    {"batch_size": -1},
    {"batch_size": 1.5},
    {"batch_size": None},
    {"batch_size": True},
    {"batch_size": None, "drop_last": True},
    {"batch_size": 2, "drop_last": True},
    {"shuffle": True, "sampler": [1]},
    {"drop_last": "a"},
    {"num_workers": -1},
    {"num_workers": "a"},
    {"timeout": -1},
    {"timeout": 5},
    {"prefetch_factor": 2},
    {"prefetch_factor": -1, "num_workers": 1},
    {"persistent_workers": True},
    {"batch_sampler": [[0, 1], [2]]},
    {"batch_sampler": [(0, 1), (2,)]},
    {"batch_sampler": [[0]], "batch_size": 2},
    {"batch_sampler": [[0]], "sampler": [0]},
    {"sampler": [2, 1]},
    {"sampler": [-1]},
    {"sampler": [7]},
    {"sampler": ["a"]},
    {"multiprocessing_context": "spawn"},
    {"multiprocessing_context": "none", "num_workers": 1},
    {"multiprocessing_context": 3, "num_workers": 1},
    {"collate_fn": list},
    {"generator": 3},
    {"in_order": False},
]


def outcome(library, kind, arguments):
    data = library.utils.data

    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    class SizedStream(Stream):
        def __len__(self):
            return 5

    source = {"map": list(range(5)), "empty": [], "stream": Stream(), "sized": SizedStream()}[kind]
    try:
        loader = data.DataLoader(source, **arguments)
        batches = [batch if isinstance(batch, (int, list)) else batch.tolist() for batch in loader]
    except Exception as error:
        return type(error)
    try:
        length = len(loader)
    except TypeError:
        length = None
    return batches, length, loader.batch_size, loader.drop_last, loader.prefetch_factor, loader.timeout


@pytest.mark.parametrize("kind", ["map", "empty", "stream", "sized"])
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_outcome(kind, arguments):
    assert outcome(rushlight, kind, arguments) == outcome(torch, kind, arguments)
