"""Recording and walking the tape."""

from .common import library, numbers


class Chain:
    """Ten operations on a few numbers: the cost of the tape alone."""

    def setup(self):
        torch = library("autograd")
        self.torch = torch
        self.x = torch.from_numpy(numbers(16)).requires_grad_()
        self.time_forward_backward()

    def forward(self):
        y = self.x
        for _ in range(5):
            y = (y * 0.5).tanh()
        return y.sum()

    def time_forward(self):
        self.forward()

    def time_forward_backward(self):
        self.torch.autograd.grad(self.forward(), [self.x])

    def time_double_backward(self):
        (first,) = self.torch.autograd.grad(self.forward(), [self.x], create_graph=True)
        self.torch.autograd.grad(first.sum(), [self.x])


class Perceptron:
    """Two matrix products: the tape beside real work, and the memory it holds."""

    def setup(self):
        torch = library("autograd")
        self.torch = torch
        self.x = torch.from_numpy(numbers(128, 256))
        self.weights = [torch.from_numpy(numbers(256, 256, seed=seed)).requires_grad_() for seed in (1, 2)]
        self.time_gradients()

    def time_gradients(self):
        y = self.x
        for weight in self.weights:
            y = (y @ weight).tanh()
        self.torch.autograd.grad(y.sum(), self.weights)

    def peakmem_gradients(self):
        self.time_gradients()
