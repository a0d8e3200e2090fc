"""Forward mode: what a level of dual numbers costs on small calls, and Jacobians in one run."""

from .common import library, numbers


class Forward:
    """A network with 32 inputs."""

    def setup(self):
        torch = library("autograd")
        self.torch = torch
        self.x = torch.from_numpy(numbers(32))
        self.weights = [torch.from_numpy(numbers(32, 32, seed=seed)) for seed in (1, 2)]
        self.time_jvp()

    def network(self, x):
        first, second = self.weights
        return (second @ (first @ x).tanh()).softmax(0).log()

    def time_jvp(self):
        self.torch.func.jvp(self.network, (self.x,), (self.x,))

    def time_jacfwd(self):
        self.torch.func.jacfwd(self.network)(self.x)

    def time_hessian(self):
        self.torch.func.hessian(lambda x: self.network(x).sum())(self.x)
