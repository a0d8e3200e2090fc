"""The programs that PyTorch's tutorials begin with run after changing the import, with all packages together."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset


def test_tensors_from_data_numpy_and_other_tensors():
    data = torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(torch.ones_like(data), torch.tensor([[1, 1], [1, 1]]))
    assert torch.rand_like(data, dtype=torch.float).dtype is torch.float32
    tensor = torch.ones(4, 4)
    tensor[:, 1] = 0
    assert tensor[..., -1].tolist() == [1.0] * 4 and torch.cat([tensor, tensor], dim=1).shape == (4, 8)
    assert torch.allclose(tensor @ tensor.T, tensor.matmul(tensor.T)) and tensor.sum().item() == 12.0
    array = tensor.numpy()
    tensor.add_(5)
    assert array[0, 0] == 6.0


def test_broadcasting():
    x, y = torch.arange(3.0).view(3, 1), torch.tensor([10.0, 20.0])
    assert (x + y).tolist() == [[10, 20], [11, 21], [12, 22]]
    with pytest.raises(RuntimeError, match="broadcast"):
        torch.ones(3) + torch.ones(2)


def test_gradients_of_a_vector_function():
    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = torch.tensor([6.0, 4.0], requires_grad=True)
    q = 3 * a**3 - b**2
    q.backward(gradient=torch.tensor([1.0, 1.0]))
    assert bool((9 * a**2 == a.grad).all()) and bool((-2 * b == b.grad).all())


def test_custom_function():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, i):
            result = i.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (result,) = ctx.saved_tensors
            return grad_output * result

    x = torch.randn(3, requires_grad=True)
    Exp.apply(x).sum().backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_polynomial_fit_by_hand():
    x = torch.linspace(-3.141592, 3.141592, 2000)
    y = torch.sin(x)
    weights = [torch.full((), 0.0, requires_grad=True) for _ in range(4)]
    losses = []
    for _ in range(100):
        a, b, c, d = weights
        loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 1e-6 * w.grad
                w.grad = None
    assert losses[-1] < losses[0]


class NeuralNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.linear_relu_stack = nn.Sequential(
            nn.Linear(28 * 28, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.linear_relu_stack(self.flatten(x))


def test_model_prints_and_predicts():
    model = NeuralNetwork().to("cpu")
    assert str(model).startswith("NeuralNetwork(\n  (flatten): Flatten(start_dim=1, end_dim=-1)\n  (linear_relu_stack)")
    probabilities = nn.Softmax(dim=1)(model(torch.rand(1, 28, 28)))
    assert probabilities.argmax(1).shape == (1,) and abs(probabilities.sum().item() - 1) < 1e-6


def test_compiled_function_and_model():
    @torch.compile
    def foo(x, y):
        return torch.sin(x) + torch.cos(y)

    x, y = torch.randn(10, 10), torch.randn(10, 10)
    assert torch.allclose(foo(x, y), torch.sin(x) + torch.cos(y))
    model, images = NeuralNetwork(), torch.rand(4, 28, 28)
    assert torch.allclose(torch.compile(model)(images), model(images), atol=1e-6)


def test_saved_model_comes_back(tmp_path):
    model, other = NeuralNetwork(), NeuralNetwork()
    torch.save(model.state_dict(), tmp_path / "model.pth")
    other.load_state_dict(torch.load(tmp_path / "model.pth", weights_only=True))
    images = torch.rand(2, 28, 28)
    assert torch.equal(model(images), other(images))


LOOP = """
    import rushlight as torch
    from rushlight import nn
    from rushlight.utils.data import DataLoader, TensorDataset

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.fc2 = nn.Linear(20, 32), nn.Linear(32, 2)

        def forward(self, x):
            return self.fc2(torch.relu(self.fc1(x)))

    torch.manual_seed(0)
    X = torch.randn(256, 20)
    y = (X[:, 0] + X[:, 1] > 0).long()
    loader = DataLoader(TensorDataset(X, y), batch_size=32, shuffle=True, num_workers=2)
    model = torch.compile(Net())
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(5):
        running = 0.0
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(epoch, running / len(loader))
"""


def test_complete_training_loop_as_a_script(tmp_path):
    """Without `if __name__ == "__main__"`, as tutorials write it."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(LOOP))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    losses = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(losses) == 5 and losses[-1] < 0.5 * losses[0] and not done.stderr


def test_loop_over_batches():
    loader = DataLoader(TensorDataset(torch.arange(10.0).view(10, 1), torch.arange(10)), batch_size=4)
    assert [len(labels) for _, labels in loader] == [4, 4, 2]
