"""Compiled functions beside the eager ones."""

from .common import library, numbers


def gelu(x):
    return 0.5 * x * (1 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh())


class Fusion:
    params = (["eager", "compiled"], [16, 1_000_000])
    param_names = ("mode", "size")

    def setup(self, mode, size):
        torch = library("compile")
        self.function = torch.compile(gelu) if mode == "compiled" else gelu
        self.x = torch.from_numpy(numbers(size))
        self.time_call(mode, size)

    def time_call(self, mode, size):
        self.function(self.x)


class Compilation:
    """The first call of a function, with whatever the disk cache holds."""

    def setup(self):
        self.torch = library("compile")
        self.x = self.torch.from_numpy(numbers(16))

    def time_first_call(self):
        self.torch.compile(gelu)(self.x)
