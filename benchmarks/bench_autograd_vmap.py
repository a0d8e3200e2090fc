"""`func.vmap`: what a level of batched tensors costs on small calls, and gradients per sample."""

from .common import library, numbers


class Batched:
    """A network of two layers on 64 samples, and small functions."""

    def setup(self):
        torch = self.torch = library("autograd", "nn")
        self.x = torch.from_numpy(numbers(64, 32))
        self.labels = torch.arange(64) % 10
        self.params = [torch.from_numpy(numbers(*shape)) for shape in ((64, 32), (64,), (10, 64), (10,))]
        self.call = torch.func.vmap(lambda a, b: (a * b).sum().exp())
        self.gradients = torch.func.vmap(torch.func.grad(self.loss), (None, 0, 0))
        self.time_gradients_per_sample()

    def loss(self, params, x, label):
        functional = self.torch.nn.functional
        first, shift, second, last = params
        hidden = functional.relu(functional.linear(x, first, shift))
        logits = functional.linear(hidden, second, last)
        return functional.cross_entropy(logits.unsqueeze(0), label.unsqueeze(0))

    def time_small(self):
        self.call(self.x, self.x)

    def time_nested(self):
        self.torch.func.vmap(self.torch.func.vmap(lambda a: a.sin() * a))(self.x)

    def time_gradients_per_sample(self):
        self.gradients(self.params, self.x, self.labels)

    def time_jacrev(self):
        self.torch.func.jacrev(lambda x: (self.params[0][:32] @ x.tanh()).sin() * x)(self.x[0])

    def time_linear_map(self):
        _, push = self.torch.func.linearize(lambda x: (self.params[0][:32] @ x.tanh()).sin() * x, self.x[0])
        for direction in self.x[:8]:
            push(direction)


class Images:
    """Gradients per sample of a convolution: filters of each sample become groups."""

    def setup(self):
        torch = library("autograd", "nn")
        weight = torch.from_numpy(numbers(16, 8, 3, 3))
        self.images = torch.from_numpy(numbers(16, 8, 16, 16))

        def loss(weight, image):
            return torch.nn.functional.conv2d(image.unsqueeze(0), weight, padding=1).relu().square().mean()

        self.run = lambda: torch.func.vmap(torch.func.grad(loss), (None, 0))(weight, self.images)
        self.run()

    def time_gradients_per_sample(self):
        self.run()
