"""Training in PyTorch and here, from the same weights and batches, gives the same curve of the loss.

Both start from PyTorch's state_dict and end with ours loaded back. There is no dropout: its random numbers differ.
"""

from __future__ import annotations

import pathlib
import sysconfig

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

STEPS = 200


def digits_cnn(lib):
    """The network of examples/digits.py, on 8x8 images with a bright stroke where the label says."""
    nn = lib.nn
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64), nn.ReLU(), nn.Linear(64, 10))  # fmt: skip

    def batch(rng):
        labels = rng.integers(0, 10, 32)
        images = rng.random((32, 1, 8, 8), dtype=np.float32)
        images[np.arange(32), 0, labels % 8] += 0.5 + labels[:, None] // 8
        return images, labels

    return model, batch, lambda x, y: nn.functional.cross_entropy(model(x), y), 1e-3


def forecasting_lstm(lib):
    """Two layers that read noisy waves and write their next value."""
    nn = lib.nn

    class Forecaster(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(1, 24, num_layers=2, batch_first=True), nn.Linear(24, 1)

        def forward(self, x):
            return self.head(self.lstm(x)[0])

    model = Forecaster()

    def batch(rng):
        t = np.arange(25) * rng.uniform(0.2, 0.6, (16, 1)) + rng.uniform(0, 6, (16, 1))
        wave = (np.sin(t) + 0.1 * rng.normal(size=t.shape)).astype(np.float32)[..., None]
        return wave[:, :-1], wave[:, 1:]

    return model, batch, lambda x, y: nn.functional.mse_loss(model(x), y), 3e-3


def character_gpt(lib):
    """The network of examples/gpt.py, smaller, on the source text of this Python's `argparse`."""
    nn, F = lib.nn, lib.nn.functional
    text = (pathlib.Path(sysconfig.get_path("stdlib")) / "argparse.py").read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = np.array([letters.index(c) for c in text])
    width, heads, context = 32, 2, 24

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x):
            batch, length, _ = x.shape
            q, k, v = self.qkv(self.norm_1(x)).split(width, dim=2)
            q, k, v = (t.view(batch, length, heads, width // heads).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
            return x + self.mlp(self.norm_2(x))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = nn.Embedding(len(letters), width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(Block(), Block())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(letters), bias=False)
            self.head.weight = self.token.weight

        def forward(self, tokens):
            x = self.token(tokens) + self.position(lib.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = GPT()
    nn.init.normal_(model.token.weight, std=0.1)

    def batch(rng):
        window = data[rng.integers(0, len(data) - context - 1, (8, 1)) + np.arange(context + 1)]
        return window[:, :-1], window[:, 1:]

    def loss(x, y):
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    return model, batch, loss, 3e-3


def train(lib, make, state=None):
    """The losses of all steps, the model, and its state before and after."""
    lib.manual_seed(0)
    model, batch, loss_of, lr = make(lib)
    if state is not None:
        model.load_state_dict({name: lib.from_numpy(value) for name, value in state.items()})
    before = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    optimizer = lib.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.1)
    schedule = lib.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    rng, losses = np.random.default_rng(0), []
    for _ in range(STEPS):
        x, y = (lib.from_numpy(np.ascontiguousarray(part)) for part in batch(rng))
        loss = loss_of(x, y)
        optimizer.zero_grad()
        loss.backward()
        lib.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return np.array(losses), model, before, lib.from_numpy(np.ascontiguousarray(batch(rng)[0]))


@pytest.fixture
def one_thread():
    """PyTorch's threads wait for each other, which takes long on a machine that does other things too."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("make", [digits_cnn, forecasting_lstm, character_gpt])
def test_the_loss_falls_as_in_torch(make):
    theirs, their_model, state, x = train(torch, make)
    ours, model, start, same = train(rushlight, make, state)
    assert list(start) == list(state) and theirs[-10:].mean() < 0.7 * theirs[:5].mean()
    # Rounding differs from the first step on, and training may make the difference grow.
    assert np.abs(ours - theirs)[:10].max() < 1e-6 * theirs[0]
    assert np.abs(ours - theirs).max() < 1e-4 * theirs[0]
    their_model.load_state_dict({name: torch.from_numpy(value.numpy()) for name, value in model.state_dict().items()})
    with torch.no_grad():
        expected = their_model.eval()(x).numpy()
    assert np.allclose(model.eval()(same).detach().numpy(), expected, rtol=1e-4, atol=1e-4)
