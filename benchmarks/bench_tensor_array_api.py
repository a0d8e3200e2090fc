"""What the functions of the array API cost above rushlight's own, which `bench_tensor_call` measures."""

from .common import library, numbers


class SmallCall:
    params = ["add", "maximum", "sum", "concat", "matmul", "promotion"]
    param_names = ("what",)

    def setup(self, what):
        torch = library("array_api")
        xp = torch.array_api
        x, y = (torch.from_numpy(numbers(8, 8, seed=seed)) for seed in (1, 2))
        wide = torch.tensor(2.0, dtype=torch.float64)
        self.run = {
            "add": lambda: xp.add(x, y),
            "maximum": lambda: xp.maximum(x, y),
            "sum": lambda: xp.sum(x),
            "concat": lambda: xp.concat([x, y]),
            "matmul": lambda: xp.matmul(x, y),
            "promotion": lambda: xp.multiply(x, wide),
        }[what]
        self.run()

    def time_call(self, what):
        self.run()
