"""What a call of a compiled function costs beside its kernels: guards, native programs, nodes, whole steps."""

from .common import library, numbers


def mlp(torch, *widths):
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


class Calls:
    """Two tensors of 16 elements; a module with 20 parameters, with and without gradients."""

    def setup(self):
        self.torch = torch = library("compile", "nn.Sequential")
        self.x, self.y = torch.from_numpy(numbers(16)), torch.from_numpy(numbers(16, seed=1))
        self.add = torch.compile(lambda a, b: (a + b) * 2)
        self.rows, self.net = torch.from_numpy(numbers(4, 16)), torch.compile(mlp(torch, *[16] * 11))
        for _ in range(100):  # guards become native after some calls
            self.time_two_tensors(), self.time_20_parameters(), self.time_20_parameters_without_grad()

    def time_two_tensors(self):
        self.add(self.x, self.y)

    def time_20_parameters(self):
        self.net(self.rows)

    def time_20_parameters_without_grad(self):
        with self.torch.no_grad():
            self.net(self.rows)


class Steps:
    """Forward, loss, backward and optimizer as one compiled function."""

    params = (["tiny", "digits"], ["SGD", "Adam"])
    param_names = ("network", "optimizer")

    def setup(self, network, optimizer):
        torch = library("compile", "optim.SGD", "nn.Sequential")
        widths = {"tiny": (20, 32, 32, 2), "digits": (784, 256, 128, 10)}[network]
        net = mlp(torch, *widths)
        steps = getattr(torch.optim, optimizer)(net.parameters(), lr=1e-3)
        self.x, self.y = torch.from_numpy(numbers(64, widths[0])), torch.arange(64) % widths[-1]

        def step(x, y):
            steps.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            steps.step()
            return loss

        self.step = torch.compile(step)
        for _ in range(150):  # guards and optimizers become native after some calls
            self.step(self.x, self.y)

    def time_step(self, network, optimizer):
        self.step(self.x, self.y)
