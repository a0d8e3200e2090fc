"""Small programs of layers and what one does with them, run in PyTorch and here: they print, hold and give the same.

A program is a stack of layers and a list of steps. Both are drawn; a step is written once, for either library.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
import rushlight.nn.utils.parametrize
import rushlight.nn.utils.prune

torch = pytest.importorskip("torch")
pytest.importorskip("torch.nn.utils.prune")

WIDTH = 4
LAYERS = {
    "linear": lambda nn: nn.Linear(WIDTH, WIDTH),
    "no bias": lambda nn: nn.Linear(WIDTH, WIDTH, bias=False),
    "lazy": lambda nn: nn.LazyLinear(WIDTH),
    "batch norm": lambda nn: nn.BatchNorm1d(WIDTH),
    "layer norm": lambda nn: nn.LayerNorm(WIDTH),
    "relu": lambda nn: nn.ReLU(inplace=True),
    "tanh": lambda nn: nn.Tanh(),
    "prelu": lambda nn: nn.PReLU(),
    "nested": lambda nn: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Softplus()),
    "list": lambda nn: Averaged(nn, [nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Identity()]),
    "attention": lambda nn: Attending(nn),
    "shared": lambda nn: Shared(nn),
}


def Averaged(nn, layers):  # noqa: N802  makes an instance of a class of either library
    class Averaged(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            return sum(layer(x) for layer in self.layers) / len(self.layers)

    return Averaged()


def Attending(nn):  # noqa: N802
    class Attending(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, 2)

        def forward(self, x):
            y, weights = self.attention(x, x, x)
            return y + weights.mean()

    return Attending()


def Shared(nn):  # noqa: N802
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.second.weight = self.first.weight
            self.again = self.first

        def forward(self, x):
            return self.again(self.second(self.first(x)))

    return Shared()


def inputs(lib, seed=0):
    return lib.from_numpy(np.random.default_rng(seed).normal(size=(3, WIDTH)).astype("float32"))


def fill(lib, module):
    """The same values in both libraries."""
    rng = np.random.default_rng(7)
    with lib.no_grad():
        for parameter in module.parameters():
            if not isinstance(parameter, lib.nn.UninitializedParameter):
                parameter.copy_(lib.from_numpy(rng.normal(size=tuple(parameter.shape)).astype("float32") / 2))


def linear(lib, module):
    """The first linear layer, or None."""
    found = [m for m in module.modules() if type(m) is lib.nn.Linear]
    return found[0] if found else None


# The steps


def run(lib, module):
    return module(inputs(lib, 1).to(next(module.parameters(), lib.zeros(1)).dtype))


def evaluate(lib, module):
    module.eval()
    return run(lib, module)


def train(lib, module):
    module.train()
    return run(lib, module)


def text(lib, module):
    return repr(module)


def names(lib, module):
    kept = [[name for name, _ in module.named_parameters()], [name for name, _ in module.named_buffers()]]
    return [*kept, [name for name, _ in module.named_modules(remove_duplicate=False)], list(module.state_dict())]


def gradients(lib, module):
    x = inputs(lib, 2).to(next(module.parameters(), lib.zeros(1)).dtype).requires_grad_()
    module.zero_grad()
    module(x * 1).square().sum().backward()
    return [x.grad, *[p.grad for p in module.parameters()]]


def to_double(lib, module):
    return [v.dtype for v in module.double().state_dict().values()]


def copied(lib, module):
    other = copy.deepcopy(module)
    with lib.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    return [run(lib, other), [name for name, _ in other.named_parameters()]]


def reloaded(lib, module):
    state = {name: value * 0.5 for name, value in module.state_dict().items()}
    return [module.load_state_dict(state), run(lib, module)]


def assigned(lib, module):
    state = {name: value.clone() for name, value in module.state_dict().items()}
    module.load_state_dict(state, assign=True)
    return [value.data_ptr() == state[name].data_ptr() for name, value in module.state_dict().items()]


def loaded_in_part(lib, module):
    state = dict(list(module.state_dict().items())[1:])
    found = module.load_state_dict({**state, "other.weight": lib.ones(1)}, strict=False)
    return [found.missing_keys, found.unexpected_keys]


def loaded_wrong(lib, module):
    return module.load_state_dict({"other.weight": lib.ones(1)})


def hooked(lib, module):
    log = []
    handles = [
        module.register_forward_pre_hook(lambda m, args: (args[0] * 2,)),
        module.register_forward_pre_hook(lambda m, args: log.append(args[0]), prepend=True),
        module.register_forward_hook(lambda m, args, output: output + 1),
        module.register_forward_hook(lambda m, args, kwargs, output: log.append(output), with_kwargs=True),
    ]
    log.append(run(lib, module))
    for handle in handles:
        handle.remove()
    return [*log, run(lib, module)]


def hooked_backward(lib, module):
    log = []
    handle = module[0].register_full_backward_hook(lambda m, inward, outward: log.append([inward, outward]))
    found = gradients(lib, module)
    handle.remove()
    return [log, found]


def pruned(lib, module):
    layer = linear(lib, module)
    lib.nn.utils.prune.l1_unstructured(layer, "weight", amount=3)
    return [layer.weight, layer.weight_mask, run(lib, module)]


def normed(lib, module):
    layer = linear(lib, module)
    lib.nn.utils.parametrizations.weight_norm(layer)
    return [run(lib, module), text(lib, module)]


def parametrized(lib, module):
    lib.nn.utils.parametrize.register_parametrization(linear(lib, module), "weight", lib.nn.Tanh())
    return [run(lib, module), text(lib, module)]


def replaced(lib, module):
    module[0] = lib.nn.Identity()
    return module


def shortened(lib, module):
    del module[1:]
    return module


def on_meta(lib, module):
    return [value.is_meta for value in copy.deepcopy(module).to("meta").state_dict().values()]


def frozen(lib, module):
    return [p.requires_grad for p in module.requires_grad_(False).parameters()]


def stepped(lib, module):
    module.requires_grad_(True)
    optimizer = lib.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        module(inputs(lib, 3).to(next(module.parameters()).dtype)).square().mean().backward()
        optimizer.step()
    return list(module.parameters())


def called_with_others(lib, module):
    given = {name: p * 0 for name, p in module.named_parameters()}
    # A copy, because PyTorch does not put all back in a module that holds a child under two names.
    return lib.func.functional_call(copy.deepcopy(module), given, (inputs(lib).to(next(module.parameters()).dtype),))


def wrong_input(lib, module):
    return module(lib.ones(3, WIDTH + 1))


def looked_up(lib, module):
    return module.get_submodule("0.layers.1")


STEPS = (
    run, evaluate, train, text, names, gradients, to_double, copied, reloaded, assigned, loaded_in_part, loaded_wrong,
    hooked, hooked_backward, pruned, normed, parametrized, replaced, shortened, on_meta, frozen, stepped,
    called_with_others, wrong_input, looked_up,
)  # fmt: skip


def plain(value):
    """What can be compared of a value of either library."""
    if isinstance(value, (torch.Tensor, rushlight.Tensor)):
        kind = str(value.dtype).split(".")[-1]
        return ["tensor", kind, value.requires_grad, value.detach().numpy().astype("float64")]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, bool, int, type(None))) else repr(value).replace("rushlight", "torch")


def largest(value):
    """The largest number of a result, at least 1: rounding goes by it, as small gradients are sums of large ones."""
    if isinstance(value, list):
        return max(map(largest, value), default=1.0)
    return max(1.0, float(np.abs(value).max(initial=0))) if isinstance(value, np.ndarray) else 1.0


def same(a, b, scale):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y, scale) for x, y in zip(a, b))
    if isinstance(a, np.ndarray):
        return np.allclose(a, b, rtol=1e-3, atol=1e-4 * scale, equal_nan=True)
    return a == b


def outcome(lib, step, module):
    try:
        return plain(step(lib, module))
    except Exception as error:
        return f"raises {type(error).__name__}"


@settings(max_examples=60)
@given(st.lists(st.sampled_from(list(LAYERS)), min_size=1, max_size=3), st.lists(st.sampled_from(STEPS), max_size=6))
def test_programs_do_the_same(layers, steps):
    modules = []
    for lib in (torch, rushlight):
        module = lib.nn.Sequential(*[LAYERS[name](lib.nn) for name in layers])
        first = plain(repr(module))
        fill(lib, module)
        modules.append(module)
        with lib.no_grad():
            module(inputs(lib))  # lazy layers take their size
        fill(lib, module)
        assert first == plain(repr(modules[0])) or "lazy" in layers
    for step in (names, run, *steps, text):
        expected, found = (outcome(lib, step, module) for lib, module in zip((torch, rushlight), modules))
        assert same(expected, found, largest(expected)), f"{step.__name__}: torch {expected}, rushlight {found}"
