"""What an eager call costs before any work: the operands are tiny."""

from .common import library, numbers


class Call:
    def setup(self):
        self.torch = torch = library("add", "exp")
        self.x = torch.from_numpy(numbers(16, seed=1))
        self.y = torch.from_numpy(numbers(16, seed=2))
        self.matrix = torch.from_numpy(numbers(4, 4))
        self.x + self.y, self.x.sum(), self.matrix.t()

    def time_add(self):
        return self.x + self.y

    def time_add_number(self):
        return self.x + 1.0

    def time_add_in_place(self):
        self.x.add_(self.y)

    def time_sum(self):
        return self.x.sum()

    def time_transpose(self):
        return self.matrix.t()

    def time_index(self):
        return self.matrix[1]
