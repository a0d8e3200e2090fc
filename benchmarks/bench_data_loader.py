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
