"""Eager work on arrays that do not fit the caches close to a core."""

from .common import library, numbers


class Elementwise:
    params = (["add", "exp", "tanh", "sigmoid", "gt", "where"], [10_000, 4_000_000])
    param_names = ("op", "size")

    def setup(self, op, size):
        torch = library(op)
        x, y = (torch.from_numpy(numbers(size, seed=seed)) for seed in (1, 2))
        call = getattr(torch, op)
        operands = {"add": (x, y), "gt": (x, y), "where": (x > 0, x, y)}.get(op, (x,))
        self.run = lambda: call(*operands)
        self.run()

    def time_call(self, op, size):
        self.run()


class Transcendental:
    params = (["exp", "log", "sigmoid", "tanh", "erf", "sin", "pow", "hypot"], ["float32", "float64"])
    param_names = ("op", "dtype")

    def setup(self, op, dtype):
        torch = library(op)
        x, y = (torch.from_numpy(abs(numbers(100_000, seed=seed)).astype(dtype)) for seed in (1, 2))
        call = getattr(torch, op)
        operands = (x, y) if op in ("pow", "hypot") else (x,)
        self.run = lambda: call(*operands)
        self.run()

    def time_call(self, op, dtype):
        self.run()


class Transposed:
    """Operands whose neighbours lie along different dimensions: 37 ms where they are walked by lines."""

    def setup(self):
        torch = library("add")
        self.x, self.y = (torch.from_numpy(numbers(2048, 2048, seed=seed)) for seed in (1, 2))
        self.time_add()

    def time_add(self):
        return self.x.t() + self.y


class Into:
    """Results in memory of the caller: with a result of its own in between, 80 us instead of 30 for 1e5 numbers."""

    params = [100_000, 4_000_000]
    param_names = ("size",)

    def setup(self, size):
        torch = library("add")
        x, y = (torch.from_numpy(numbers(size, seed=seed)) for seed in (1, 2))
        out = torch.empty(size)
        self.run = lambda: torch.add(x, y, out=out)
        self.run()

    def time_call(self, size):
        self.run()


class Reduction:
    params = (["sum", "amax", "mean", "var", "softmax"], [0, 1])
    param_names = ("op", "dim")

    def setup(self, op, dim):
        torch = library(op)
        x = torch.from_numpy(numbers(1024, 1024))
        call = getattr(torch, op)
        self.run = lambda: call(x, dim=dim)
        self.run()

    def time_call(self, op, dim):
        self.run()


class Matmul:
    params = [64, 512]
    param_names = ("n",)

    def setup(self, n):
        torch = library("matmul")
        self.x, self.y = (torch.from_numpy(numbers(n, n, seed=seed)) for seed in (1, 2))
        self.x @ self.y

    def time_call(self, n):
        return self.x @ self.y


class Convolution:
    params = [1, 3]
    param_names = ("kernel",)

    def setup(self, kernel):
        torch = library("conv2d", "max_pool2d")
        x = torch.from_numpy(numbers(8, 32, 28, 28))
        weight = torch.from_numpy(numbers(32, 32, kernel, kernel))
        self.conv = lambda: torch.conv2d(x, weight, padding=kernel // 2)
        self.pool = lambda: torch.max_pool2d(x, 2)
        self.conv(), self.pool()

    def time_conv2d(self, kernel):
        self.conv()

    def time_max_pool2d(self, kernel):
        self.pool()


class Pooling:
    params = ["max_pool2d", "avg_pool2d"]
    param_names = ("op",)

    def setup(self, op):
        torch = library(f"nn.functional.{op}")
        self.x = torch.from_numpy(numbers(16, 64, 56, 56)).requires_grad_()
        self.pool = getattr(torch.nn.functional, op)
        self.time_forward(op), self.time_both(op)

    def time_forward(self, op):
        self.pool(self.x.detach(), 3, 2, 1)

    def time_both(self, op):
        self.pool(self.x, 3, 2, 1).sum().backward()
