"""Programs that `export` makes: what they compute, write and refuse."""

from __future__ import annotations

import copy
import io

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


def test_fused_operations_come_apart():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0).eval()
    program = export(model, (rushlight.randn(2, 5, 8),))
    apart = program.run_decompositions()
    names = [{node.op.name for node in p.graph.nodes} for p in (program, apart)]
    assert {"layer_norm", "attention"} <= names[0] and not {"layer_norm", "attention"} & names[1]
    found = []
    for p in (program, apart):
        x = rushlight.ones(2, 5, 8).requires_grad_()
        y = p.module()(x)
        y.pow(2).sum().backward()
        found += [y, x.grad]
    rushlight.testing.assert_close(found[0], found[2])
    rushlight.testing.assert_close(found[1], found[3])
    own = program.run_decompositions({rushlight.core.op.prims.relu: lambda x: x.clamp(min=0)})
    assert "relu" not in {node.op.name for node in own.graph.nodes}
    for table in ({"relu": lambda x: x}, {rushlight.core.op.prims.relu: None}):
        with pytest.raises(TypeError, match="expected a table from ops to functions"):
            program.run_decompositions(table)


def test_what_needs_the_number_of_an_open_size_stays_whole():
    model = nn.Sequential(nn.LSTM(3, 4, batch_first=True))
    program = export(model, (rushlight.randn(2, 5, 3),), dynamic_shapes=({1: rushlight.export.Dim("time")},))
    apart, x = program.run_decompositions(), rushlight.randn(2, 7, 3)
    assert "recurrent_training" in {node.op.name for node in apart.graph.nodes}
    rushlight.testing.assert_close(apart.module()(x)[0], model(x)[0])


def test_gradients_reach_inputs_that_required_none_in_the_export():
    def f(x, y):
        with rushlight.no_grad():
            z = y * 2
        return x * z + y.detach()

    run = export(f, (rushlight.ones(2), rushlight.ones(2))).module()
    x, y = rushlight.ones(2).requires_grad_(), rushlight.ones(2).requires_grad_()
    run(x, y).sum().backward()
    assert x.grad.tolist() == [2, 2] and y.grad is None
    with rushlight.no_grad():  # it makes no difference that the export is made here
        run = export(lambda x: x * 3, (rushlight.ones(2),)).module()
    assert run(rushlight.ones(2).requires_grad_()).requires_grad


def test_results_share_memory_with_inputs_as_in_eager_execution():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", rushlight.zeros(4, 2))
            self.register_buffer("last", rushlight.zeros(2))

        def forward(self, x):
            self.cache[1:2].copy_(x)
            self.last = x[0] + 1
            return self.cache, self.cache[1], x.t(), x

    model = Cache()
    run = export(model, (rushlight.ones(1, 2),)).module()
    x = rushlight.full((1, 2), 5.0)
    cache, row, transposed, same_x = run(x)
    assert cache is run.cache is model.cache and same_x is x and run.last.tolist() == [6, 6]
    row.fill_(7)
    transposed.fill_(8)
    assert cache[1].tolist() == [7, 7] and x.tolist() == [[8, 8]]


def test_inputs_that_are_written():
    def f(x, y):
        x.mul_(2)
        return x + y, x[0]

    run = export(f, (rushlight.ones(2), rushlight.ones(2))).module()
    x = rushlight.ones(2)
    total, first = run(x, rushlight.ones(2))
    assert x.tolist() == [2, 2] and total.tolist() == [3, 3] and first.item() == 2
    x.fill_(0)
    assert first.item() == 0
    with pytest.raises(RuntimeError, match="shares memory"):
        run(x, x)


def test_layouts_other_than_in_the_export():
    run = export(lambda x: (x.reshape(6), x + 1), (rushlight.ones(2, 3),)).module()
    flat, more = run(rushlight.arange(6.0).reshape(3, 2).t())
    assert flat.tolist() == [0, 2, 4, 1, 3, 5] and more.tolist() == [[1, 3, 5], [2, 4, 6]]


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x


class Kept(nn.Module):
    def forward(self, x):
        self.kept = x * 2
        return x


class TwoNames(nn.Module):
    """One tensor as a buffer, as another one and as an attribute, in a part whose name is no name of Python's."""

    def __init__(self, replaced=False):
        super().__init__()
        self.replaced = replaced
        self.parts = nn.ModuleDict({"part-1": nn.BatchNorm1d(3, affine=False)})
        self.mean = self.parts["part-1"].running_mean
        self.register_buffer("again", self.mean)

    def forward(self, x):
        if self.replaced:
            self.again = self.again + 1
        else:
            self.again.add_(1)
        return x + self.mean + self.parts["part-1"](x)


def test_a_tensor_of_several_names_is_one_input():
    x, file = rushlight.ones(2, 3), io.BytesIO()
    model = TwoNames()
    twin = copy.deepcopy(model)
    program = export(model, (x,))
    rushlight.export.save(program, file)
    stored = rushlight.export.load(io.BytesIO(file.getvalue())).module()
    for _ in range(2):
        want = twin(x)
        assert program.module()(x).tolist() == want.tolist() == stored(x).tolist()
    assert stored.state_dict()["parts.part-1.running_mean"].tolist() == twin.mean.tolist()
    assert sorted(stored.state_dict()) == sorted(twin.state_dict())
    with pytest.raises(RuntimeError, match=r"replaces the buffer .*3 names \(again, mean, running_mean\)"):
        export(TwoNames(replaced=True), (x,))


@pytest.mark.parametrize("kept", [{"a"}, {"b"}, {"a", "b"}, set()])
def test_each_name_of_a_buffer_is_kept_or_not(kept):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            shared = rushlight.ones(2)
            for name in ("a", "b"):
                self.register_buffer(name, shared, persistent=name in kept)

        def forward(self, x):
            return x + self.a + self.b

    program, file = export(Shared(), (rushlight.ones(2),)), io.BytesIO()
    rushlight.export.save(program, file)
    for one in (program, rushlight.export.load(io.BytesIO(file.getvalue()))):
        assert {*one.state_dict} == {*one.module().state_dict()} == kept
        assert {name for name, _ in one.module().named_buffers(remove_duplicate=False)} == {"a", "b"}


def test_writes_to_python_state():
    model = Attribute()
    with pytest.warns(UserWarning, match=r"calls.*register_buffer"):
        export(model, (rushlight.ones(1),))
    assert model.calls == 0
    with pytest.raises(ValueError, match="register_buffer"):
        export(Kept(), (rushlight.ones(1),))
    with pytest.raises(RuntimeError, match=r"args\[0\]"):
        export(lambda items: items.append(1) or items[0], ([rushlight.ones(1)],))


def control(x):
    if x.sum() > 0:
        return x
    return -x


@pytest.mark.parametrize(("call", "error", "match"), [
    (lambda: export(control, (rushlight.ones(2),)), RuntimeError, r"test_export.py.*in control.*rushlight\.cond"),
    (lambda: export(lambda x: x.tolist(), (rushlight.ones(2),)), RuntimeError, r"tolist\(\)"),
    (lambda: export(lambda x: x[x > 0], (rushlight.ones(2),)), RuntimeError, "depends on data"),
    (lambda: export(lambda x: object(), (rushlight.ones(2),)), RuntimeError, "object"),
    (lambda: export(nn.Linear(3, 2), (rushlight.ones(2),)), RuntimeError, "linear: input and weight shapes"),
    (lambda: export(3, ()), ValueError, "module or a function"),
    (lambda: export(lambda x: x, rushlight.ones(2)), TypeError, "tuple"),
    (lambda: export(lambda x: x, ({1, 2},)), TypeError, "unsupported type set"),
    (lambda: export(lambda x: x, (rushlight.ones(2),))(rushlight.ones(2)), RuntimeError, r"module\(\)"),
    (lambda: export(lambda x: x, (rushlight.ones(2),)).module().train(), NotImplementedError, "mode"),
])
def test_what_export_refuses(call, error, match):
    with pytest.raises(error, match=match):
        call()


@pytest.mark.parametrize(("args", "kwargs", "error", "match"), [
    ((rushlight.ones(3),), {"k": 2}, AssertionError, r"x.size\(\)\[0\] == 2: it is 3"),
    ((rushlight.ones(2, 1),), {"k": 2}, AssertionError, r"x.dim\(\) == 1"),
    ((rushlight.ones(2).double(),), {"k": 2}, AssertionError, "x.dtype == float32"),
    ((rushlight.ones(2),), {"k": 3}, AssertionError, "k == 2"),
    ((rushlight.ones(2),), {"k": 2.0}, AssertionError, "k == 2"),
    ((rushlight.ones(2),), {}, ValueError, "kwarg keyword mismatch"),
    ((), {"k": 2}, ValueError, "tuple of 1"),
    ((3,), {"k": 2}, TypeError, "x must be a tensor"),
])
def test_calls_that_do_not_fit_are_refused(args, kwargs, error, match):
    run = export(lambda x, k: x * k, (rushlight.ones(2),), {"k": 2}).module()
    with pytest.raises(error, match=match):
        run(*args, **kwargs)


def test_copies_have_tensors_of_their_own(model):
    program = export(model, (rushlight.ones(5, 3),))
    run = program.module()
    twin, again = copy.deepcopy(run), copy.deepcopy(program)
    with rushlight.no_grad():
        model.linear.weight.fill_(0)
    assert run.linear.weight.sum().item() == 0
    for other in (twin, again.module()):
        assert other.linear.weight.sum().item() != 0 and other(rushlight.ones(5, 3))["first"].item() == 1


def test_graphs_are_seen_as_those_of_fx():
    nn = pytest.importorskip("rushlight.nn")
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    x = rushlight.randn(2, 3)
    program = export(lambda x: (rushlight.cond(x.sum() > 0, model, lambda x: -model(x), (x,)), *x.max(0)), (x,))
    made = program.graph_module
    signature = program.graph_signature
    assert [n.name for n in made.graph.find_nodes(op="placeholder")] == [s.arg.name for s in signature.input_specs]
    assert [n.name for n in made.graph.output_node().args[0]] == [s.arg.name for s in signature.output_specs]
    calls = made.graph.find_nodes(op="call_function")
    assert rushlight.ops.prims.sum in [n.target for n in calls]
    assert all(tuple(n.meta["val"].shape) == (2, 4) for n in calls if n.name == "cond")
    for given in (x, -x):
        states = [*program.constants.values(), given]
        for a, b in zip(made(*states), program.module()(given), strict=True):
            rushlight.testing.assert_close(a, b)
    program.validate()


def test_indexing_that_nobody_uses_fails_for_wrong_indices_alone():
    def f(x, i):
        (x > 0)[i]
        x[i].abs()
        return x + 1

    run = export(f, (rushlight.ones(3), rushlight.tensor([0, 1]))).module()
    rushlight.testing.assert_close(run(rushlight.ones(3), rushlight.tensor([0, 2])), rushlight.full((3,), 2.0))
    with pytest.raises(IndexError, match="out of bounds"):
        run(rushlight.ones(3), rushlight.tensor([0, 5]))
