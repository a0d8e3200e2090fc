"""Traps: modules that change between calls. They need rushlight-nn, which the compiler itself does not."""

from __future__ import annotations

import copy

import pytest

import rushlight as torch

nn = pytest.importorskip("rushlight.nn")


def ones(*shape: int):
    return torch.ones(*(shape or (2, 3)))


def net(seed: int = 0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def test_module_call(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        return c(ones()), c(ones(1, 3)), c(ones())

    check(scenario, variants=2)


def test_parameter_replaced_or_loaded_needs_no_new_variant(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        seen = [c(ones())]
        model[0].weight = nn.Parameter(ones(4, 3))
        seen.append(c(ones()))
        model.load_state_dict(net(3).state_dict())
        seen.append(c(ones()))
        with torch.no_grad():
            model[2].bias.add_(1)
        return [*seen, c(ones())]

    check(scenario, variants=1)


def test_layer_replaced(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        seen = [c(ones())]
        model[1] = nn.Identity()
        seen.append(c(ones()))
        model[0].bias = None
        seen.append(c(ones()))
        model.append(nn.ReLU())
        return [*seen, c(ones())]

    check(scenario)


def test_hooks(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        seen = [c(ones())]
        handle = model[0].register_forward_hook(lambda m, args, out: out * 2)
        seen.append(c(ones()))
        pre = model.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
        seen.append(c(ones()))
        handle.remove()
        seen.append(c(ones()))
        pre.remove()
        return [*seen, c(ones())]

    check(scenario)


def test_forward_replaced(check):
    def scenario(compile):
        class Layer(nn.Module):
            def forward(self, x):
                return x + 1

        layer = Layer()
        c = compile(layer)
        seen = [c(ones())]
        layer.forward = lambda x: x * 5
        seen.append(c(ones()))
        del layer.forward
        Layer.forward = lambda self, x: x - 7
        return [*seen, c(ones())]

    check(scenario)


def test_train_and_eval(check):
    def scenario(compile):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("seen", torch.zeros(1))

            def forward(self, x):
                if self.training:
                    self.seen.add_(x.shape[0])
                    return x * self.seen
                return x

        layer = Layer()
        c = compile(layer)
        seen = [c(ones()), c(ones())]
        layer.eval()
        seen.append(c(ones()))
        c.train()
        return [*seen, c(ones()), layer.seen]

    check(scenario, variants=2)


def test_buffer_replaced(check):
    def scenario(compile):
        class Slots(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = torch.zeros(3)

            def forward(self, where, what):
                self.table[where] = what
                return self.table.sum()

        m = Slots()
        c = compile(m)
        first = m.table
        seen = [c(torch.tensor([0]), torch.tensor([5.0])), c(torch.tensor([2]), torch.tensor([1.0]))]
        m.table = torch.zeros(3)
        return [*seen, c(torch.tensor([1]), torch.tensor([8.0])), m.table, first]

    check(scenario)


def test_counters_and_state_on_the_module(check):
    def scenario(compile):
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0
                self.history = []
                self.cache = {}

            def forward(self, x):
                self.calls += 1
                self.history.append(x.shape[0])
                self.cache["last"] = x * 2
                self.last = x + self.calls
                return self.last

        layer = Layer()
        c = compile(layer)
        return [c(ones()) for _ in range(3)], layer.calls, layer.history, layer.cache, layer.last

    check(scenario)


def test_gradients_reach_the_parameters(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        for _ in range(2):
            c(ones()).sum().backward()
        return [p.grad for p in model.parameters()]

    check(scenario, variants=1)


def test_frozen_parameters(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        seen = [c(ones())]
        for p in model.parameters():
            p.requires_grad_(False)
        seen.append(c(ones()))
        model[2].weight.requires_grad_(True)
        return [*seen, c(ones())]

    check(scenario, variants=3)


def test_shared_layer(check):
    def scenario(compile):
        layer = nn.Linear(3, 3)
        torch.manual_seed(1)
        layer.load_state_dict(nn.Linear(3, 3).state_dict())
        c = compile(nn.Sequential(layer, nn.ReLU(), layer))
        c(ones()).sum().backward()
        return c(ones()), layer.weight.grad

    check(scenario)


def test_loops_over_module_lists(check):
    def scenario(compile):
        torch.manual_seed(0)

        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
                self.heads = nn.ModuleDict({"a": nn.Linear(3, 1), "b": nn.Linear(3, 2)})

            def forward(self, x, head):
                for i, layer in enumerate(self.layers):
                    x = layer(x) + i
                return self.heads[head](x), len(self.layers), sum(p.numel() for p in self.parameters())

        deep = Deep()
        c = compile(deep)
        seen = [c(ones(), "a"), c(ones(), "b")]
        deep.layers.append(nn.Linear(3, 3, bias=False))
        return [*seen, c(ones(), head="a")[1:]]

    check(scenario)


def test_functional_code_with_a_module(check):
    def scenario(compile):
        model = net()

        @compile
        def loss(x, y):
            return nn.functional.cross_entropy(model(x), y)

        seen = [loss(ones(), torch.tensor([0, 1]))]
        seen[0].backward()
        return seen, [p.grad for p in model.parameters()]

    check(scenario)


def test_training_steps(check):
    def scenario(compile):
        model = net()
        c = compile(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(c(ones()), torch.tensor([0, 1]))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, list(model.parameters())

    check(scenario, variants=1)


def test_whole_training_step_inside_is_right(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @compile
        def step(x, y):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return [step(ones(), torch.tensor([0, 1])) for _ in range(3)], list(model.parameters())

    check(scenario, captured=None)


def test_dropout_follows_the_seed(check):
    def scenario(compile):
        model = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
        c = compile(model)
        torch.manual_seed(5)
        a, b = c(ones(10, 10)), c(ones(10, 10))
        torch.manual_seed(5)
        again = c(ones(10, 10))
        model.eval()
        return a, b, again, c(ones(10, 10))

    check(scenario)


def test_batch_norm(check):
    def scenario(compile):
        model = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU())
        c = compile(model)
        x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 0.0, -1.0]])
        seen = [c(x), c(x)]
        model.eval()
        return [*seen, c(x), model.state_dict()]

    check(scenario)


def test_compiled_module_is_the_module(check):
    model = net()
    c = check.compile(model)
    assert isinstance(c, nn.Module)
    assert c._orig_mod is model
    assert [id(p) for p in c.parameters()] == [id(p) for p in model.parameters()]
    assert list(c.state_dict()) == ["_orig_mod." + name for name in model.state_dict()]
    assert getattr(c, "0") is model[0]
    c.extra = 5
    assert model.extra == 5 and c.extra == 5
    c.eval()
    assert not model.training and not model[0].training and not c.training
    assert list(dict(c.named_modules())) == ["", "_orig_mod",
                                             *[f"_orig_mod.{n}" for n, _ in model.named_modules() if n]]
    other = copy.deepcopy(c)
    assert other._orig_mod is not model
    assert other(ones()).tolist() == c(ones()).tolist()


def test_compiled_modules_nest(check):
    def scenario(compile):
        inner = net()
        outer = nn.Sequential(compile(inner), nn.ReLU())
        c = compile(outer)
        return c(ones()), outer(ones())

    check(scenario)


def test_method_decorated_in_a_class(check):
    def scenario(compile):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.k = 2

            @compile
            def forward(self, x):
                return x * self.k

        model = Model()
        a = model(ones())
        model.k = 3
        return a, model(ones())

    check(scenario)


def test_writing_in_place_of_a_buffer_does_not_recompile(check):
    def scenario(compile):
        class Mean(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(2))
                self.calls = 0

            def forward(self, x):
                self.calls += len(self._buffers) and 1
                self.mean = 0.5 * self.mean + x
                return self.mean + len(vars(self))

        model = Mean()
        c = compile(lambda x: model(x))
        return [c(torch.ones(2) * i) for i in range(5)], model.mean, model.calls

    check(scenario, variants=2)
