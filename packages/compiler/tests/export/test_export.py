"""Programs that `export` makes: what they compute, write and refuse."""

from __future__ import annotations

import copy

import pytest

import rushlight
from rushlight.export import export

nn = pytest.importorskip("rushlight.nn")


class Model(nn.Module):
    """Parameters, buffers of both kinds, a constant, draws, writes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("calls", rushlight.zeros(1))
        self.register_buffer("hidden", rushlight.ones(4), persistent=False)
        self.constant = rushlight.ones(4)

    def forward(self, x, *, scale=2):
        self.calls.add_(1)
        y = self.dropout(self.norm(self.linear(x)))
        return {"y": y * scale + self.constant * self.hidden, "x": x, "number": 3, "first": self.calls[0],
                "rest": (x[1:],)}


@pytest.fixture
def model():
    rushlight.manual_seed(0)
    return Model()


def same(a, b):
    rushlight.testing.assert_close(a["y"], b["y"])
    assert a["number"] == b["number"] and a["first"].item() == b["first"].item()
    assert a["rest"][0].tolist() == b["rest"][0].tolist()


@pytest.mark.parametrize("backend", [None, "eager", "aot_eager", "inductor"])
def test_a_program_does_what_the_model_does(model, backend):
    twin, x = copy.deepcopy(model), rushlight.randn(5, 3)
    run = export(model, (x,), {"scale": 3}).module()
    if backend:
        run = rushlight.compile(run, backend=backend, fullgraph=True)
    for seed in range(2):
        x = rushlight.randn(5, 3)
        rushlight.manual_seed(seed)
        expected, following = twin(x, scale=3), rushlight.rand(1)
        rushlight.manual_seed(seed)
        found = run(x, scale=3)
        assert found["x"] is x and rushlight.rand(1).item() == following.item()
        same(found, expected)
        found["y"].sum().backward()
        expected["y"].sum().backward()
        for p, q in zip(model.parameters(), twin.parameters()):
            rushlight.testing.assert_close(p.grad, q.grad)
    rushlight.testing.assert_close(dict(model.state_dict()), dict(twin.state_dict()))
