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


class LongChain:
    """Ten thousand operations on one number: the engine alone."""

    def setup(self):
        torch = library("autograd")
        self.x = torch.ones(1, requires_grad=True)
        self.y = self.x
        for _ in range(10_000):
            self.y = -self.y

    def time_backward(self):
        self.y.backward()


class Selected:
    """A branch that is chosen by `where`, whose derivatives are looked at for NaN."""

    params = [16, 1 << 20]
    param_names = ["size"]

    def setup(self, size):
        self.torch = library("autograd")
        self.x = self.torch.from_numpy(numbers(size)).requires_grad_()
        self.time_gradient(size)

    def time_gradient(self, size):
        x = self.x
        self.torch.autograd.grad(self.torch.where(x > 0, x, (x.exp() - 1) * 0.5).sum(), x)


class Checkpointed:
    """Eight blocks that keep nothing but their arguments."""

    def setup(self):
        self.torch = library("utils.checkpoint")
        self.x = self.torch.from_numpy(numbers(1 << 18)).requires_grad_()
        self.time_gradient()

    def time_gradient(self):
        y = self.x
        for _ in range(8):
            y = self.torch.utils.checkpoint.checkpoint(lambda y: y.sin().exp().tanh(), y, use_reentrant=False)
        self.torch.autograd.grad(y.sum(), self.x)

    def peakmem_gradient(self):
        self.time_gradient()


class Profiled(Chain):
    """The chain while a profiler records it."""

    def setup(self):
        super().setup()
        self.profiler = library("profiler").profiler.profile()
        self.profiler.start()

    def teardown(self):
        self.profiler.stop()
