"""Optimizers and schedules: against their formulas, and through state."""

from __future__ import annotations

import copy
import math
import warnings

import numpy as np
import pytest

import rushlight
from rushlight import nn, optim
from rushlight.optim import native

MAKERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.1, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.5),
    "Adadelta": lambda p: optim.Adadelta(p, lr=10.0),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.1),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.5, eps=(None, 1.0)),
}


def bowl(p):
    return ((p - rushlight.tensor([1.0, -2.0])) ** 2 * rushlight.tensor([1.0, 0.3])).sum()


@pytest.mark.parametrize("name", MAKERS)
def test_every_optimizer_goes_downhill_and_survives_its_state(name):
    p = nn.Parameter(rushlight.zeros(2))
    optimizer = MAKERS[name]([p])
    start = bowl(p).item()

    def step(parameter, opt):
        opt.zero_grad()
        loss = bowl(parameter)
        loss.backward()
        opt.step()
        return loss.item()

    for _ in range(30):
        step(p, optimizer)
    assert bowl(p).item() < 0.5 * start
    twin = nn.Parameter(p.detach().clone())
    restored = MAKERS[name]([twin])
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for _ in range(3):
        step(p, optimizer)
        step(twin, restored)
    assert rushlight.equal(p, twin)


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - {"Adafactor"}))
def test_complex_parameters_move_as_pairs_of_numbers(name):
    z = nn.Parameter(rushlight.tensor([0.5 + 1j, -2 - 0.1j]))
    x = nn.Parameter(rushlight.view_as_real(z.detach()).clone())
    optimizers = MAKERS[name]([z]), MAKERS[name]([x])
    for _ in range(3):
        for p, optimizer in zip((z, x), optimizers):
            optimizer.zero_grad()
            (p.abs() ** 2).sum().backward()
            optimizer.step()
    np.testing.assert_allclose(rushlight.view_as_real(z).detach().numpy(), x.detach().numpy(), rtol=1e-5)


def test_loaded_state_is_shared_where_it_fits():
    p, half = nn.Parameter(rushlight.zeros(2)), nn.Parameter(rushlight.zeros(2, dtype=rushlight.float16))
    optimizer = optim.Adam([("weight", p)])
    bowl(p).backward()
    optimizer.step()
    state = optimizer.state_dict()
    del state["param_groups"][0]["param_names"]
    twin, other = optim.Adam([("twin", p)]), optim.Adam([half])
    twin.load_state_dict(state)
    other.load_state_dict(state)
    assert all(value is optimizer.state[p][key] for key, value in twin.state[p].items())
    assert twin.param_groups[0]["param_names"] == ["twin"]
    kinds = {key: value.dtype for key, value in other.state[half].items()}
    assert kinds == {"step": rushlight.float32, "exp_avg": rushlight.float16, "exp_avg_sq": rushlight.float16}


def test_adam_follows_its_formula():
    p = nn.Parameter(rushlight.tensor([1.0], dtype=rushlight.float64))
    optimizer = optim.Adam([p], lr=0.1, betas=(0.8, 0.9), eps=1e-3)
    m = v = 0.0
    x = 1.0
    for t in range(1, 6):
        optimizer.zero_grad()
        (p**3).sum().backward()
        optimizer.step()
        g = 3 * x * x
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g * g
        x -= 0.1 * (m / (1 - 0.8**t)) / (math.sqrt(v / (1 - 0.9**t)) + 1e-3)
        assert p.item() == pytest.approx(x, rel=1e-12)


def test_closure_and_groups():
    a, b = nn.Parameter(rushlight.ones(1)), nn.Parameter(rushlight.ones(1))
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": [b]}], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (a + b).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 2
    assert a.item() == 0 and b.item() == pytest.approx(0.9)


@pytest.mark.parametrize("bad, error", [([], ValueError), (3, TypeError), ([3], TypeError)])
def test_bad_parameters_are_refused(bad, error):
    with pytest.raises(error):
        optim.SGD(bad, lr=0.1)


def test_a_parameter_in_two_groups_is_refused():
    p = nn.Parameter(rushlight.ones(1))
    with pytest.raises(ValueError, match="more than one"):
        optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1)
    with pytest.raises(ValueError, match="invalid lr"):
        optim.SGD([p], lr=-1)
    with pytest.raises(ValueError, match="non-leaf"):
        optim.SGD([p * 2], lr=1)


def rates(make, epochs):
    optimizer = optim.SGD([nn.Parameter(rushlight.ones(1))], lr=1.0, momentum=0.9)
    scheduler = make(optimizer)
    found = []
    for _ in range(epochs):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


S = optim.lr_scheduler


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda o: S.StepLR(o, 2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
        (lambda o: S.MultiStepLR(o, [1, 3], 0.1), [1, 0.1, 0.1, 0.01, 0.01]),
        (lambda o: S.ExponentialLR(o, 0.5), [1, 0.5, 0.25, 0.125, 0.0625]),
        (lambda o: S.LambdaLR(o, lambda e: 1 / (1 + e)), [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5]),
        (lambda o: S.LinearLR(o, 0.5, 1.0, 2), [0.5, 0.75, 1, 1, 1]),
        (lambda o: S.PolynomialLR(o, 4), [1, 0.75, 0.5, 0.25, 0]),
        (lambda o: S.CosineAnnealingLR(o, 4), [(1 + math.cos(math.pi * e / 4)) / 2 for e in range(5)]),
        (lambda o: S.CosineAnnealingWarmRestarts(o, 2), [1, 0.5, 1, 0.5, 1]),
        (lambda o: S.CyclicLR(o, 0.0, 1.0, 2), [0, 0.5, 1, 0.5, 0]),
        (
            lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 10), S.ExponentialLR(o, 0.5)], [2]),
            [0.1, 0.1, 1, 0.5, 0.25],
        ),
        (  # up until 0.25 * 8 - 1, down until 0.5 * 8 - 2
            lambda o: S.OneCycleLR(o, 1.0, 8, pct_start=0.25, anneal_strategy="linear", div_factor=2, three_phase=True),
            [0.5, 1, 0.5],
        ),
    ],
)
def test_schedules_follow_their_rule(make, expected):
    assert rates(make, len(expected)) == pytest.approx(expected)


def test_one_cycle_rises_and_falls():
    found = rates(lambda o: S.OneCycleLR(o, max_lr=2.0, total_steps=10), 10)
    assert max(found) == pytest.approx(2.0) and found[0] == pytest.approx(2.0 / 25) and found[-1] < 1e-4


def test_plateau_waits_for_its_patience():
    optimizer = optim.SGD([nn.Parameter(rushlight.ones(1))], lr=1.0)
    scheduler = S.ReduceLROnPlateau(optimizer, patience=1, factor=0.1)
    for metric in (1.0, 1.0, 1.0):
        scheduler.step(metric)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)


def test_clipping_scales_all_gradients_together():
    a, b = nn.Parameter(rushlight.zeros(1)), nn.Parameter(rushlight.zeros(1))
    a.grad, b.grad = rushlight.tensor([3.0]), rushlight.tensor([4.0])
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == pytest.approx(5)
    assert a.grad.item() == pytest.approx(0.6, rel=1e-4) and b.grad.item() == pytest.approx(0.8, rel=1e-4)
    a.grad = rushlight.tensor([float("nan")])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1, maximize=True),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5),
        lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1, maximize=True),
        lambda p: optim.AdamW(p, lr=rushlight.tensor(0.1), amsgrad=True),
    ],
)
@pytest.mark.parametrize("shapes", [[(90, 100), (3,), (70, 80)], [(3, 2), (), (4, 1)]], ids=["native", "numpy"])
def test_the_loops_do_what_the_operations_do(make, shapes):
    starts = [rushlight.randn(shape) for shape in shapes]
    found = []
    for by_operations in (False, True):
        params = [nn.Parameter(s.clone()) for s in starts]
        params.append(nn.Parameter(starts[2].clone().t()))  # in another layout
        optimizer = make(params)
        if by_operations:
            optimizer.param_groups[0]["differentiable"] = True
        rushlight.manual_seed(0)
        for _ in range(4):
            for p in params:
                p.grad = rushlight.randn(p.shape)
            params[0].grad = params[0].grad.t().contiguous().t()
            version = params[0]._version
            optimizer.step()
            assert params[0]._version > version
        found.append(params)
    for looped, operated in zip(*found):
        assert rushlight.allclose(looped, operated, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [3, 100_000])
def test_a_parameter_in_read_only_memory_is_refused(size):
    memory = np.zeros(size, np.float32)
    memory.flags.writeable = False
    with warnings.catch_warnings(action="ignore"):  # from_numpy says that the memory is read-only
        parameter = rushlight.from_numpy(memory).requires_grad_()
    parameter.grad = rushlight.ones(size)
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        rushlight.optim.SGD([parameter], lr=0.1).step()
    assert not memory.any()


def test_lbfgs_solves_the_valley_of_rosenbrock():
    p = nn.Parameter(rushlight.tensor([-1.2, 1.0], dtype=rushlight.float64))
    optimizer = optim.LBFGS([p], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(24.2)
    assert p.tolist() == pytest.approx([1, 1], abs=1e-4)
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()
    with pytest.raises(ValueError, match="groups"):
        optim.LBFGS([{"params": [p]}, {"params": [nn.Parameter(rushlight.ones(1))]}])


def test_muon_steps_have_equal_singular_values():
    p = nn.Parameter(rushlight.zeros(6, 4))
    optimizer = optim.Muon([p], lr=1.0, weight_decay=0.0)
    p.grad = rushlight.randn(6, 4)
    optimizer.step()
    values = rushlight.linalg.svdvals(p.detach()) / math.sqrt(6 / 4)
    assert 0.5 < values.min().item() and values.max().item() < 1.3
    with pytest.raises(ValueError, match="2D"):
        optim.Muon([nn.Parameter(rushlight.zeros(3))])


def test_names_are_for_all_parameters_or_none():
    layer = nn.Linear(2, 2)
    optimizer = optim.SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    with pytest.raises(ValueError, match="without names"):
        optimizer.add_param_group({"params": [nn.Parameter(rushlight.ones(1))]})
    with pytest.raises(ValueError, match="names are missing"):
        optim.SGD([("weight", layer.weight), layer.bias], lr=0.1)
    with pytest.raises(ValueError, match="1-element"):
        optim.SGD(layer.parameters(), lr=rushlight.ones(2))


def test_averages_follow_their_rule():
    model = nn.Linear(1, 1, bias=False)
    mean = optim.swa_utils.AveragedModel(model)
    decayed = optim.swa_utils.AveragedModel(model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9))
    for value in (1.0, 2.0, 6.0):
        nn.init.constant_(model.weight, value)
        mean.update_parameters(model)
        decayed.update_parameters(model)
    assert mean.module.weight.item() == pytest.approx(3) and mean.n_averaged.item() == 3
    assert decayed.module.weight.item() == pytest.approx(0.9 * (0.9 * 1 + 0.1 * 2) + 0.1 * 6)


def test_update_bn_takes_the_statistics_of_the_whole_loader():
    model = nn.Sequential(nn.BatchNorm1d(1)).eval()
    optim.swa_utils.update_bn([(rushlight.tensor([[0.0], [2.0]]), 0), (rushlight.tensor([[4.0], [6.0]]), 0)], model)
    assert model[0].running_mean.item() == pytest.approx(3) and model[0].momentum == 0.1 and not model.training


def test_swalr_anneals_and_stays():
    found = rates(lambda o: optim.swa_utils.SWALR(o, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear"), 4)
    assert found == pytest.approx([1, 0.75, 0.5, 0.5])


@pytest.mark.parametrize("make", [
    lambda p: optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1),
    lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
])
def test_few_elements_go_native_in_the_end(make):
    start = rushlight.linspace(-1, 1, 12).reshape(3, 4)
    dtypes = rushlight.float32, rushlight.float64
    narrow, wide = ([nn.Parameter(start[i].to(dtype)) for i in range(3)] for dtype in dtypes)
    optimizers = [make(narrow), make(wide)]
    for step in range(native.SOON + 20):
        for params, optimizer in zip((narrow, wide), optimizers):
            for p in params:
                p.grad = (p.detach() - step / 50).sin()
            optimizer.step()
    (batch,) = optimizers[0]._batches.values()
    assert batch.native == [0, 1, 2] and not batch.small
    for p, q in zip(narrow, wide):
        rushlight.testing.assert_close(p.double(), q, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [rushlight.optim.AdamW, rushlight.optim.SGD])
def test_steps_on_parameters_that_are_swapped_in(kind):
    options = {"lr": 0.1, "momentum": 0.9} if kind is rushlight.optim.SGD else {"lr": 0.1}

    def made():
        params = [rushlight.nn.Parameter(rushlight.ones(2)), rushlight.nn.Parameter(rushlight.ones(3))]
        optimizer = kind([{"params": params[:1]}, {"params": params[1:], "lr": 0.2}], **options)
        for p in params:
            p.grad = rushlight.ones_like(p)
        optimizer.step()
        return params, optimizer

    (own, optimizer), (others, expected) = made(), made()
    values, state = [p.detach().clone() for p in own], optimizer.state
    saved = expected.state_dict()
    with rushlight.optim.swap_in_optimizer_params_and_state(optimizer, dict(zip("ab", others)), saved):
        optimizer.step()
    reference, again = made()
    again.step()
    assert all(map(rushlight.equal, others, reference)) and all(map(rushlight.equal, own, values))
    assert optimizer.state is state and optimizer.param_groups[0]["params"] == own[:1]
    with pytest.raises(ValueError, match=r"\[1, 1\]"):
        with rushlight.optim.swap_in_optimizer_params_and_state(optimizer, {}, saved):
            pass
