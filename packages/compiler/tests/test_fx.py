"""`rushlight.fx`: traced programs do what the program does, are read and rewritten node by node, and are modules."""

from __future__ import annotations

import copy
import enum
import math
import operator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rushlight

nn = pytest.importorskip("rushlight.nn")
fx = pytest.importorskip("rushlight.fx")
F = nn.functional
float64 = rushlight.float64
Kind = enum.IntEnum("Kind", ["ONE"])
taken = F.relu  # a function that the program took out of its module


@fx.wrap
def several(x, n):
    return x * n if n > 1 else x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.scale = nn.Parameter(rushlight.full((4,), 2.0))
        self.register_buffer("shift", rushlight.ones(4))

    def forward(self, x):
        y = F.relu(self.norm(self.linear(x))) * self.scale + self.shift
        y = rushlight.cat([y, x[:, :2]], dim=1)
        a, b = y.chunk(2, 1)
        return {"z": (a + 2).view(a.size(0), -1), "s": taken(1 - b)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks, self.drop = nn.Sequential(Block()), nn.Dropout(0.5)

    def forward(self, x, flag=True, *, k=3):
        found = self.blocks(x)
        z = found["z"] * k if flag else found["z"]
        return self.drop(z).mean(dim=-1), found["s"], -x, math.sqrt(x.size(0)), 2 ** x, several(x, x.shape[0])


def leaves(f, *args):
    return [rushlight.as_tensor(x) for x in f(*args)]


def test_a_trace_does_what_the_module_does_and_shares_its_weights():
    model = Net().eval()
    traced = fx.symbolic_trace(model, concrete_args={"flag": True})
    traced.graph.lint()
    assert isinstance(traced, fx.GraphModule) and not traced.training
    assert dict(traced.named_parameters()).keys() == dict(model.named_parameters()).keys()
    x = rushlight.randn(3, 4)
    for run in (traced, copy.deepcopy(traced), fx.Interpreter(traced).run, fx.Transformer(traced).transform(),
                rushlight.compile(traced)):
        for a, b in zip(leaves(run, x), leaves(model, x), strict=True):
            rushlight.testing.assert_close(a, b)
    traced(x)[0].sum().backward()
    expected = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    model(x)[0].sum().backward()
    assert len(expected) == 5
    for a, p in zip(expected, [p for p in model.parameters() if p.grad is not None], strict=True):
        rushlight.testing.assert_close(a, p.grad)
    with pytest.raises(AssertionError, match="specialized to have value True"):
        traced(x, False)


def test_nodes_say_what_is_called():
    graph = fx.symbolic_trace(Net(), {"flag": True}).graph
    calls = [(n.op, n.target) for n in graph.nodes]
    for call in (("call_module", "blocks.0.linear"), ("call_function", rushlight.cat), ("call_function", operator.mul),
                 ("call_function", math.sqrt), ("call_function", several), ("call_method", "chunk"),
                 ("get_attr", "blocks.0.scale"), ("call_function", getattr), ("call_module", "drop")):
        assert call in calls
    cat, = graph.find_nodes(op="call_function", target=rushlight.cat)
    assert [n.name for n in cat.all_input_nodes] == ["add", "getitem"] and cat.kwargs == {"dim": 1}
    assert [user.name for user in cat.users] == ["chunk"]

    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)

    assert "blocks.0" in [n.target for n in Whole().trace(Net(), {"flag": True}).nodes]


def test_the_code_is_python():
    traced = fx.symbolic_trace(
        lambda x, *rest, k=1.0: (x[0, ..., None], x[1:2], rest[1].to(rushlight.float64), x @ x * k))
    assert traced.code == """def forward(self, x, *rest, k = 1.0):
    getitem = x[0, ..., None]
    getitem_1 = x[1:2]
    getitem_2 = rest[1];  rest = None
    to = getitem_2.to(rushlight.float64);  getitem_2 = None
    matmul = x @ x;  x = None
    mul = matmul * k;  matmul = k = None
    return (getitem, getitem_1, to, mul)
"""
    x = rushlight.ones(2, 2)
    assert traced(x, 0, x)[2].dtype is rushlight.float64


@pytest.mark.parametrize(("f", "error"), [
    (lambda x: x if x.sum() > 0 else -x, "control flow"), (lambda x: [y for y in x], "cannot be iterated"),  # noqa: C416
    (lambda x: int(x), "as an int"), (lambda x: 1 in x, "'in'"),
    (lambda x: rushlight.relu(**x), "keys"),
])
def test_what_depends_on_values_is_an_error_and_leaves_nothing_behind(f, error):
    call = nn.Module.__call__, nn.Module.__getattr__, math.sqrt, taken, rushlight.relu
    with pytest.raises(fx.TraceError, match=error):
        fx.symbolic_trace(f)
    assert call == (nn.Module.__call__, nn.Module.__getattr__, math.sqrt, taken, rushlight.relu)
    assert nn.Linear(2, 2)(rushlight.ones(2)).shape == (2,)


def test_graphs_are_rewritten():
    traced = fx.symbolic_trace(lambda x, y: rushlight.add(x, y) * rushlight.relu(x))
    graph = traced.graph
    old, = graph.find_nodes(op="call_function", target=rushlight.relu)
    with graph.inserting_after(old):
        new = graph.call_function(rushlight.sigmoid, (old.args[0],))
    assert [n.name for n in old.replace_all_uses_with(new)] == ["mul"]
    with pytest.raises(RuntimeError, match="still had 3 users"):
        graph.erase_node(old.args[0])
    graph.erase_node(old)
    with graph.inserting_before():
        graph.call_function(rushlight.zeros, (2,))
    assert graph.eliminate_dead_code() and not graph.eliminate_dead_code()
    graph.lint()
    traced.recompile()
    x = rushlight.randn(3)
    rushlight.testing.assert_close(traced(x, x), 2 * x * x.sigmoid())
    new.append(next(iter(graph.nodes)))
    with pytest.raises(RuntimeError, match="used before it has been defined"):
        graph.lint()


def test_patterns_are_replaced():
    def f(x, w):
        return (rushlight.matmul(x, w) + 1).relu() + rushlight.matmul(w, x + 1) + 1

    traced = fx.symbolic_trace(f)
    found = fx.replace_pattern(traced, lambda a, b: rushlight.matmul(a, b) + 1, lambda a, b: rushlight.matmul(b, a) - 1)
    assert [match.anchor.name for match in found] == ["add"]  # the second sum adds something else than 1 first
    x, w = rushlight.randn(2, 2), rushlight.randn(2, 2)
    rushlight.testing.assert_close(traced(x, w), (w @ x - 1).relu() + w @ (x + 1) + 1)
    chain = fx.symbolic_trace(lambda x: x.exp().exp().exp())
    assert len(fx.replace_pattern(chain, lambda x: x.exp().exp(), lambda x: x.sin())) == 1
    rushlight.testing.assert_close(chain(x), x.sin().exp())


def test_graphs_are_made_by_hand_and_modules_of_them():
    graph = fx.Graph()
    x = graph.placeholder("input")
    h = graph.call_module("inner.fc", (x,))
    graph.output((h, graph.get_attr("inner.fc.bias"), graph.call_method("add", (h, 1.5), {"alpha": 2})))
    fc = nn.Linear(2, 3)
    made = fx.GraphModule({"inner.fc": fc, "inner.fc.bias": fc.bias}, graph, "Made")
    assert type(made).__name__ == "Made" and made.inner.fc is fc
    a, bias, b = made(rushlight.ones(2))
    assert bias is fc.bias
    rushlight.testing.assert_close(b, a + 3)
    assert made.add_submodule("extra.one", nn.ReLU()) and "extra.one" in dict(made.named_modules())
    made.delete_all_unused_submodules()
    assert "extra" not in dict(made.named_modules()) and made.inner.fc is fc
    with pytest.raises(ValueError, match="Callable"):
        graph.call_function("relu", (x,))


def test_shapes_are_noted():
    from rushlight.fx.passes.shape_prop import ShapeProp

    traced = fx.symbolic_trace(nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten()))
    ShapeProp(traced).propagate(rushlight.ones(1, 1, 5, 5))
    found = {n.name: tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes}
    assert found == {"input_1": (1, 1, 5, 5), "_0": (1, 2, 3, 3), "_1": (1, 2, 3, 3), "_2": (1, 18),
                     "output": (1, 18)}


def test_two_modules_of_one_trace_are_apart():
    traced = fx.symbolic_trace(lambda x: x + 1)
    other = copy.deepcopy(traced)
    add, = other.graph.find_nodes(op="call_function")
    add.update_arg(1, 5)
    other.recompile()
    assert [m(rushlight.zeros(())).item() for m in (traced, other)] == [1.0, 5.0]


def test_code_means_what_the_graph_says():
    """Numbers that print otherwise than they are, and names that something else has already."""
    x = rushlight.tensor([1.0, 2.0, 3.0])
    assert fx.symbolic_trace(lambda x: operator.pow(-2, x))(x).tolist() == [-2.0, 4.0, -8.0]
    assert fx.symbolic_trace(lambda x: x * Kind.ONE * np.float64(2))(x).tolist() == [2.0, 4.0, 6.0]
    assert fx.symbolic_trace(lambda rushlight, slice, self: rushlight.to(float64)[1:] + slice[:2] + self[0])(
        x, x, x).tolist() == [4.0, 6.0]
    model = nn.Module()
    model.add_module("lambda", nn.Identity())
    model.add_module("a\"b", nn.Identity())
    graph = fx.Graph()
    y = graph.call_module("a\"b", (graph.call_module("lambda", (graph.placeholder("x"),)),))
    graph.output(graph.call_function(dict, (), {"class": y}))
    assert fx.GraphModule(model, graph)(x)["class"] is x


@pytest.mark.parametrize("name", ["x=print()", "x: print()", "*", "lambda", ""])
def test_code_in_the_place_of_names_does_not_run(name):
    graph = fx.Graph()
    node = graph.placeholder("x")
    node.target = node.name = name
    graph.output(1)
    with pytest.raises(ValueError, match="none in Python"):
        fx.GraphModule(nn.Module(), graph)


def test_other_threads_run_modules_while_one_traces():
    model, x = nn.Linear(3, 3), rushlight.ones(2, 3)
    expected = model(x)

    class Waiting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            with ThreadPoolExecutor(1) as pool:
                found.append(pool.submit(lambda: model(rushlight.ones(2, 3)) + model.weight.sum() * 0).result())
            return self.inner(x)

    found = []
    traced = fx.symbolic_trace(Waiting())
    assert rushlight.equal(found[0], expected) and rushlight.equal(traced(x), expected)


def test_modules_are_split_into_parts():
    from rushlight.fx.passes.split_module import split_module

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last, self.scale = nn.Linear(3, 3), nn.Linear(3, 2), nn.Parameter(rushlight.ones(3) * 2)

        def forward(self, x, y):
            a = self.first(x) * self.scale
            b = a.relu() + y
            return self.last(b) + a.sum(), b, self.scale

    model, names = Model(), {}
    traced, x = fx.symbolic_trace(model), rushlight.ones(2, 3)
    order = {node: i for i, node in enumerate(traced.graph.nodes)}
    parts = split_module(traced, model, lambda node: order[node] // 3, names)
    for a, b in zip(parts(x, x), model(x, x), strict=True):
        assert a.tolist() == b.tolist()
    assert set(names.values()) == {"first", "last"}
    assert {id(p) for p in parts.parameters()} == {id(p) for p in model.parameters()}
    with pytest.raises(RuntimeError, match="cycle exists"):
        split_module(traced, model, lambda node: order[node] % 2)
