"""Training steps of small models."""

import numpy as np

from .common import library, numbers


class Step:
    """Forward, loss, backward, optimizer step."""

    params = ["perceptron", "convolutional"]
    param_names = ("model",)

    def setup(self, model):
        torch = library("nn.Linear", "nn.Conv2d", "nn.functional.cross_entropy", "optim.AdamW")
        torch.manual_seed(0)
        nn = torch.nn
        if model == "perceptron":
            layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)]
            x = numbers(64, 64)
        else:
            layers = [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)]
            x = numbers(64, 1, 8, 8)
        self.torch = torch
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.x = torch.from_numpy(x)
        self.y = torch.from_numpy(np.arange(64) % 10)
        self.time_step(model)

    def time_forward(self, model):
        self.model(self.x)

    def time_step(self, model):
        self.optimizer.zero_grad()
        self.torch.nn.functional.cross_entropy(self.model(self.x), self.y).backward()
        self.optimizer.step()


class CompiledStep:
    """A training step of a small perceptron as one compiled function."""

    def setup(self):
        torch = library("compile", "nn.Linear", "nn.functional.cross_entropy", "optim.SGD")
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

        def step(x, y):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        self.step = torch.compile(step)
        self.x, self.y = torch.from_numpy(numbers(64, 20)), torch.from_numpy(np.arange(64) % 2)
        for _ in range(3):
            self.time_step()

    def time_step(self):
        self.step(self.x, self.y)


class Recurrent:
    """Recurrent layers: 64 times, 32 sequences, 128 units."""

    params = ["RNN", "LSTM", "GRU"]
    param_names = ("layer",)

    def setup(self, layer):
        torch = library(f"nn.{layer}")
        self.layer = getattr(torch.nn, layer)(64, 128)
        self.x = torch.from_numpy(numbers(64, 32, 64))
        self.no_grad = torch.no_grad
        self.time_step(layer)
        self.time_forward(layer)

    def time_forward(self, layer):
        with self.no_grad():
            self.layer(self.x)

    def time_step(self, layer):
        self.layer(self.x)[0].sum().backward()


class Optimizer:
    """The update alone, for many small parameters."""

    params = ["SGD", "Adam", "AdamW"]
    param_names = ("name",)

    def setup(self, name):
        torch = library("nn.Parameter", f"optim.{name}")
        parameters = [torch.nn.Parameter(torch.from_numpy(numbers(64, 64, seed=seed))) for seed in range(50)]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        self.optimizer = getattr(torch.optim, name)(parameters, lr=1e-3)
        self.optimizer.step()

    def time_update(self, name):
        self.optimizer.step()
