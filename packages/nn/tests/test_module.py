"""Module: registration, walking, modes, state, hooks."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import pytest

import rushlight
from rushlight import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 2)
        self.register_buffer("scale", rushlight.ones(2))

    def forward(self, x):
        return self.second(self.first(x).relu()) * self.scale


def test_names_come_in_the_order_of_assignment():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert list(net.state_dict()) == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [n for n, _ in net.named_modules()] == ["", "first", "second"]


def test_repr_shows_the_tree():
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (second): Linear(in_features=4, out_features=2, bias=True)\n)"
    )


def test_reassigning_a_name_changes_its_kind():
    net = Net()
    net.scale = nn.Parameter(rushlight.ones(2))
    assert "scale" in dict(net.named_parameters()) and not list(net.buffers())
    del net.scale
    net.scale = 3
    assert net.scale == 3 and "scale" not in net.state_dict()


def test_assigning_a_tensor_to_a_parameter_is_refused():
    with pytest.raises(TypeError, match=r"nn\.Parameter"):
        nn.Linear(2, 2).weight = rushlight.zeros(2, 2)


def test_forgetting_super_init_is_told():
    class Bad(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Bad()


def test_a_shared_parameter_counts_once():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.weight = first.weight
    both = nn.Sequential(first, second)
    assert len(list(both.parameters())) == 3
    copied = copy.deepcopy(both)
    assert copied[0].weight is copied[1].weight and copied[0].weight is not first.weight


def test_train_and_eval_reach_all_descendants():
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()))
    net.eval()
    assert not any(m.training for m in net.modules())
    with pytest.raises(ValueError, match="boolean"):
        net.train("yes")


def test_conversion_keeps_parameter_objects():
    net = Net()
    before = list(net.parameters())
    net.double()
    assert all(a is b for a, b in zip(before, net.parameters()))
    assert all(p.dtype is rushlight.float64 for p in net.parameters()) and net.scale.dtype is rushlight.float64


def test_loading_lists_all_mismatches_at_once():
    state = Net().state_dict()
    state["first.weight"] = rushlight.zeros(1, 1)
    del state["second.bias"]
    state["third"] = rushlight.zeros(1)
    with pytest.raises(RuntimeError) as error:
        Net().load_state_dict(state)
    for part in ("second.bias", "third", "first.weight", "(4, 3)"):
        assert part in str(error.value)


def test_loading_copies_and_assign_takes_over():
    source, target = Net(), Net()
    kept = target.first.weight
    assert str(target.load_state_dict(source.state_dict())) == "<All keys matched successfully>"
    assert target.first.weight is kept and rushlight.equal(kept, source.first.weight)
    target.load_state_dict(source.state_dict(), assign=True)
    assert target.first.weight.data_ptr() == source.first.weight.data_ptr()


def test_non_persistent_buffers_stay_out_of_the_state():
    module = nn.Module()
    module.register_buffer("a", rushlight.ones(1), persistent=False)
    assert not module.state_dict() and len(list(module.buffers())) == 1


def test_pickled_modules_compute_the_same():
    net = Net()
    again = pickle.loads(pickle.dumps(net))
    x = rushlight.randn(5, 3)
    assert rushlight.equal(net(x), again(x))


def test_forward_hooks_change_arguments_and_output():
    layer = nn.Linear(2, 2)
    handle = layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    layer.register_forward_hook(lambda module, args, output: output + 1)
    assert rushlight.equal(layer(rushlight.ones(1, 2)), layer.bias.detach()[None] + 1)
    handle.remove()
    assert not rushlight.equal(layer(rushlight.ones(1, 2)), layer.bias.detach()[None] + 1)


def test_hooks_run_in_order_with_prepend_first():
    layer, seen = nn.Identity(), []
    layer.register_forward_hook(lambda *a: seen.append("a"))
    layer.register_forward_hook(lambda *a: seen.append("b"), prepend=True)
    layer(rushlight.ones(1))
    assert seen == ["b", "a"]


def test_always_called_hooks_run_after_an_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    seen = []
    module = Broken()
    module.register_forward_hook(lambda *a: seen.append(a[-1]), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        module(rushlight.ones(1))
    assert seen == [None]


def test_backward_hook_sees_and_changes_gradients():
    layer = nn.Linear(2, 1, bias=False)
    seen = {}

    def hook(module, grad_input, grad_output):
        seen["output"], seen["input"] = grad_output[0].tolist(), grad_input[0].tolist()
        return (grad_input[0] * 2,)

    layer.register_full_backward_hook(hook)
    x = rushlight.ones(1, 2, requires_grad=True)
    layer(x).sum().backward()
    assert seen["output"] == [[1.0]] and seen["input"] == layer.weight.tolist()
    assert rushlight.equal(x.grad, 2 * layer.weight.detach())


def test_global_hooks_reach_every_module():
    from rushlight.nn.modules.hooks import register_module_forward_hook

    seen = []
    with register_module_forward_hook(lambda module, args, output: seen.append(type(module).__name__)):
        nn.Sequential(nn.ReLU(), nn.Identity())(rushlight.ones(1))
    nn.ReLU()(rushlight.ones(1))
    assert seen == ["ReLU", "Identity", "Sequential"]


def test_containers():
    net = nn.Sequential(nn.ReLU(), nn.Tanh())
    net.insert(1, nn.Sigmoid())
    net.append(nn.Identity())
    assert [type(m).__name__ for m in net] == ["ReLU", "Sigmoid", "Tanh", "Identity"]
    del net[1]
    assert (
        [n for n, _ in net.named_children()] == ["0", "1", "2"]
        and isinstance(net[-1], nn.Identity)
        and len(net[:2]) == 2
    )
    modules = nn.ModuleDict({"a": nn.ReLU()})
    modules["b"] = nn.Linear(1, 1)
    assert list(modules) == ["a", "b"] and "b" in modules
    parameters = nn.ParameterList([rushlight.ones(1), nn.Parameter(rushlight.zeros(2))])
    assert len(list(parameters.parameters())) == 2 and list(parameters.state_dict()) == ["0", "1"]


def test_meta_modules_take_memory_or_values_but_cannot_be_copied():
    with rushlight.device("meta"):
        net = Net()
    assert net.scale.is_meta and all(p.is_meta for p in net.parameters())
    with pytest.raises(NotImplementedError, match="to_empty"):
        net.to("cpu")
    source = Net()
    net.load_state_dict(source.state_dict(), assign=True)
    x = rushlight.randn(2, 3)
    assert rushlight.equal(net(x), source(x))
    assert not any(p.is_meta for p in nn.Linear(2, 2, device="meta").to_empty(device="cpu").parameters())


def test_shared_memory_takes_all_that_a_module_holds():
    model = nn.Sequential(nn.Conv2d(2, 3, 2).to(memory_format=rushlight.channels_last), nn.BatchNorm2d(3))
    before, parameters = {name: x.clone() for name, x in model.state_dict().items()}, list(model.parameters())
    assert model.share_memory() is model
    assert all(a is b for a, b in zip(parameters, model.parameters()))
    assert all(x.is_shared() and rushlight.equal(x, before[name]) for name, x in model.state_dict().items())
    assert model[0].weight.is_contiguous(memory_format=rushlight.channels_last)


def test_memory_format_is_for_images():
    layer = nn.Conv2d(2, 3, 3).to(memory_format=rushlight.channels_last)
    assert layer.weight.is_contiguous(memory_format=rushlight.channels_last) and layer.bias.is_contiguous()


MODULES_OF_TORCH = """
import rushlight.as_torch
rushlight.as_torch.install()
import torch
from torch.nn.modules.padding import ConstantPad2d
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.activation import MultiheadAttention
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim.adamw import AdamW
from torch.distributions.normal import Normal
from torch.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
from torch.cuda.amp import GradScaler, autocast
assert ConstantPad2d is torch.nn.ConstantPad2d and AdamW is torch.optim.AdamW and Normal is torch.distributions.Normal
assert torch.cuda.amp.autocast is autocast
with autocast(enabled=False):
    assert DataParallel(torch.nn.Linear(2, 1))(torch.ones(1, 2)).dtype is torch.float32
"""


def test_programs_find_layers_where_pytorch_keeps_them():
    done = subprocess.run([sys.executable, "-c", MODULES_OF_TORCH], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_registration_hooks_see_and_replace():
    log, module = [], nn.modules.module
    handles = [
        module.register_module_parameter_registration_hook(lambda m, name, p: log.append(("parameter", name))),
        module.register_module_buffer_registration_hook(lambda m, name, b: b + 1),
        module.register_module_module_registration_hook(lambda m, name, child: log.append(("module", name))),
    ]
    net = Net()
    for handle in handles:
        handle.remove()
    Net()
    assert net.scale.tolist() == [2, 2]
    assert log == [("parameter", "weight"), ("parameter", "bias"), ("module", "first"), ("parameter", "weight"),
                   ("parameter", "bias"), ("module", "second")]  # fmt: skip


def test_hooks_are_copied_with_their_module():
    class Counts(nn.Module):
        loads = 0

        def see(self, *about):
            self.loads += 1

    module = Counts()
    module.register_load_state_dict_pre_hook(Counts.see)
    other = pickle.loads(pickle.dumps(nn.LazyLinear(2)))
    assert other(rushlight.ones(1, 3)).shape == (1, 2)
    copied = copy.deepcopy(module)
    copied.load_state_dict({})
    assert (copied.loads, module.loads) == (1, 0)


def test_parameter_dicts_hold_other_values_too():
    values = nn.ParameterDict({"a": rushlight.ones(1), "note": "word"})
    assert "(a): Parameter containing: [rushlight.FloatTensor of size 1]" in repr(values)
    assert "[rushlight.float32 of size 1]" in repr(nn.ParameterList([rushlight.ones(1)]))
    assert values["note"] == "word" and [name for name, _ in values.named_parameters()] == ["a"]
    assert values.get("none") is None and values.setdefault("b", rushlight.zeros(2)).shape == (2,)
    assert list((values | {"c": rushlight.ones(1)}).keys()) == ["a", "note", "b", "c"] and len(values) == 3
    assert values.popitem()[0] == "b" and values.pop("note") == "word" and list(values) == ["a"]
    with pytest.raises(KeyError):
        values["note"]
    with pytest.raises(TypeError, match="strings"):
        values[3] = rushlight.ones(1)


class Gated(nn.Module):
    """A module that holds layers, a buffer that is not kept, a plain attribute and functions."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.TransformerEncoderLayer(4, 2, 8))
        self.register_buffer("halves", rushlight.full((4,), 0.5), persistent=False)
        self.gate, self.loss, self.sizes = nn.functional.relu, nn.functional.mse_loss, (3, 4)
        self.layers[2].linear1.weight.requires_grad_(False)

    def forward(self, x):
        return self.gate(self.layers(x) * self.halves)


def test_whole_modules_in_files_are_read_when_their_classes_are_allowed():
    model, buffer = Gated().eval(), io.BytesIO()
    rushlight.save(model, buffer)
    buffer.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="safe_globals"):
        rushlight.load(buffer, weights_only=False)
    buffer.seek(0)
    kinds = {type(module) for module in model.modules()}
    with rushlight.serialization.safe_globals([*kinds, nn.functional.relu, nn.functional.mse_loss]):
        found = rushlight.load(buffer)
    x = rushlight.randn(2, 3)
    assert rushlight.equal(found(x), model(x)) and found.sizes == (3, 4) and found.loss is nn.functional.mse_loss
    assert [p.requires_grad for p in found.parameters()] == [p.requires_grad for p in model.parameters()]
    assert list(found.state_dict()) == list(model.state_dict()) and not found.training
    with pytest.raises(TypeError, match="cannot store"):
        rushlight.save({"function": nn.functional.relu}, io.BytesIO())
