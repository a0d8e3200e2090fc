"""An epoch through the DataLoader."""

from .common import library, numbers


class Epoch:
    params = [0, 2]
    param_names = ("workers",)

    def setup(self, workers):
        torch = library("utils.data.DataLoader", "utils.data.TensorDataset")
        data = torch.utils.data.TensorDataset(torch.from_numpy(numbers(2048, 64)), torch.arange(2048))
        self.loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True, num_workers=workers)
        self.time_batches(workers)

    def time_batches(self, workers):
        for _ in self.loader:
            pass


class LargeBatches:
    """Images of 600 kB: what a batch costs between two processes."""

    params = ["process", "thread"]
    param_names = ("worker_type",)

    def setup(self, worker_type):
        torch = library("utils.data.DataLoader", "utils.data.stats")
        images = list(torch.from_numpy(numbers(64, 3, 224, 224)))
        self.loader = torch.utils.data.DataLoader(images * 8, 64, num_workers=2, worker_type=worker_type)
        self.time_batches(worker_type)

    def time_batches(self, worker_type):
        for _ in self.loader:
            pass


class Resume:
    """Going on near the end of a long pass draws the order again, and fetches nothing of it."""

    def setup(self):
        torch = library("utils.data.DataLoader", "utils.data.stats")
        self.loader = torch.utils.data.DataLoader(range(200_000), 64, shuffle=True)
        next(iter(self.loader))
        self.state = self.loader.state_dict() | {"batches": len(self.loader) - 1}

    def time_last_batch(self):
        self.loader.load_state_dict(self.state)
        for _ in self.loader:
            pass
