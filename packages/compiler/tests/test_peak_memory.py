"""Compiled training steps take no more memory than eager ones."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

import rushlight as torch
from rushlight.compiler import _config
from rushlight.compiler.native import layouts
from rushlight.kernels.cpu import allocator

nn = pytest.importorskip("rushlight.nn")
pytestmark = pytest.mark.skipif(not layouts.ready(), reason="guards in Python hold what they look at")

SLACK = 1 << 15  # bytes: tensor objects, and blocks that are not quite of the same size


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self):
        super().__init__()
        self.norm, self.project = nn.LayerNorm(32), nn.Linear(32, 96)
        self.inner, self.outer = nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        q, k, v = [part.unsqueeze(1) for part in self.project(self.norm(x)).split(32, -1)]
        x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        return x + self.outer(nn.functional.gelu(self.inner(x)))


CASES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), (256, 784), (256,)),
    "convolutions": (
        lambda: nn.Sequential(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(864, 10)),
        (32, 1, 28, 28), (32,),
    ),
    "transformer": (lambda: nn.Sequential(Block(), Block(), nn.Linear(32, 10)), (8, 64, 32), (512,)),
}  # fmt: skip


def peak(call) -> int:
    """The most bytes that calls take beside what is there before them."""
    for _ in range(3):
        call()
    gc.collect()
    allocator.empty_cache()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        call()
        call()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("case", CASES)
def test_steps_take_no_more_memory(case, monkeypatch):
    monkeypatch.setattr(_config, "CALLS_BEFORE_NATIVE_GUARDS", 0)
    make, shape, labels = CASES[case]
    torch.manual_seed(0)
    model, x, y = make(), torch.randn(shape), torch.randint(0, 10, labels)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step_of(model):
        def step():
            optimizer.zero_grad()
            scores = model(x)
            loss = nn.functional.cross_entropy(scores.view(-1, 10), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager = peak(step_of(model))
    assert peak(torch.compile(step_of(model))) <= eager + SLACK
    assert peak(step_of(torch.compile(model))) <= eager + SLACK
