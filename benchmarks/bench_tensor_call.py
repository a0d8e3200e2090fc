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

    def time_index_of_slices(self):
        return self.matrix[1:3, ::2]

    def time_zeros(self):
        return self.torch.zeros(16)

    def time_arange(self):
        return self.torch.arange(16)

    def time_randn(self):
        return self.torch.randn(16)

    def time_linspace(self):
        return self.torch.linspace(0, 1, 16)

    def time_randint(self):
        return self.torch.randint(0, 10, (16,))

    def time_fill(self):
        self.y.fill_(0.5)

    def time_copy(self):
        self.y.copy_(self.x)

    def time_linear(self):
        return self.torch.nn.functional.linear(self.matrix, self.matrix, self.matrix[0])

    def time_reshape(self):
        return self.matrix.reshape(2, 8)


class Middle:
    """Sizes at which what surrounds the loop shows: allocation and the hand-over to other threads."""

    params = [40_000, 100_000]

    def setup(self, size):
        self.torch = torch = library("add", "exp")
        self.x, self.y = (torch.from_numpy(numbers(size, seed=seed)) for seed in (1, 2))
        for _ in range(10):
            self.x + self.y, self.x.add_(self.y, alpha=0.5)

    def time_add(self, size):
        return self.x + self.y

    def time_exp(self, size):
        return self.torch.exp(self.x)

    def time_add_in_place(self, size):
        self.x.add_(self.y)

    def time_add_a_multiple_in_place(self, size):
        self.x.add_(self.y, alpha=-0.5)
