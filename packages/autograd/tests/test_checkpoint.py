"""Checkpointing: the same gradients with less memory, in all its forms."""

from __future__ import annotations

import contextlib
import functools
import gc
import weakref

import pytest

import rushlight
from rushlight import func
from rushlight.autograd import graph
from rushlight.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    DefaultDeviceType,
    GraphExecGroup,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    detach_variable,
    get_device_states,
    noop_context_fn,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
    set_device_states,
)


def leaf(*values: float):
    return rushlight.tensor([float(v) for v in values], requires_grad=True)


class Counting:
    """A function of a tensor that counts its calls and keeps weak references to what it computes."""

    def __init__(self) -> None:
        self.calls, self.made = 0, []

    def __call__(self, x, *, scale=1.0):
        self.calls += 1
        y = x.exp()
        z = y.sin()
        self.made += [weakref.ref(y), weakref.ref(z._array)]
        return (z * z).sum() * scale


def expected_gradient(x, scale=1.0):
    (g,) = rushlight.autograd.grad(Counting()(x, scale=scale), x)
    return g.tolist()


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def saved_bytes(call) -> int:
    """The bytes that a call keeps for the backward pass, each memory counted once."""
    kept = {}

    def pack(x):
        kept[id(x._array)] = x
        return x

    with graph.saved_tensors_hooks(pack, lambda x: x):
        result = call()
    del result
    return sum([x.nbytes for x in kept.values()])


@pytest.mark.parametrize("early_stop", [True, False])
def test_computes_again_and_frees(early_stop, no_collector):
    x, f = leaf(0.3, 0.7), Counting()
    y = checkpoint(f, x, use_reentrant=False, early_stop=early_stop, scale=2.0)
    assert [made() for made in f.made] == [None, None]
    y.backward()
    assert f.calls == 2 and x.grad.tolist() == expected_gradient(x, 2.0)
    assert [made() for made in f.made] == [None] * 4


def test_memory_falls():
    layers = 8
    x = rushlight.ones(64, requires_grad=True)

    def block(x):
        for _ in range(layers):
            x = x.sin().exp()
        return x

    def run(wrap):
        y = x
        for _ in range(4):
            y = wrap(block, y)
        return y

    plain = saved_bytes(lambda: run(lambda f, y: f(y)))
    less = saved_bytes(lambda: run(lambda f, y: checkpoint(f, y, use_reentrant=False)))
    assert plain >= 4 * layers * 64 * 4 and less <= 4 * 64 * 4


def test_early_stop_skips_what_is_not_needed():
    seen = []

    def f(x):
        y = x.exp()
        seen.append("needed")
        z = y * y
        seen.append("not needed")
        return z + 1

    x = leaf(1)
    checkpoint(f, x, use_reentrant=False).backward()
    assert seen == ["needed", "not needed", "needed"]
    del seen[:]
    with set_checkpoint_early_stop(False):
        y = checkpoint(f, x, use_reentrant=False)
    y.backward()
    assert seen == ["needed", "not needed"] * 2


def test_nested_checkpoints_keep_only_the_outer_arguments(no_collector):
    x, calls = leaf(0.5, 0.25), []

    def inner(y):
        calls.append("inner")
        return y.exp().sin()

    def outer(x):
        calls.append("outer")
        between = x.exp()
        alive.append(weakref.ref(between._array))
        return checkpoint(inner, between, use_reentrant=False).sum()

    alive: list = []
    y = checkpoint(outer, x, use_reentrant=False)
    assert alive[0]() is None
    y.backward()
    assert calls[:2] == ["outer", "inner"] and x.grad.tolist() == pytest.approx(
        rushlight.autograd.grad(x.exp().exp().sin().sum(), x)[0].tolist()
    )


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("preserve", [True, False])
def test_random_numbers(use_reentrant, preserve):
    def f(x):
        mask = rushlight.rand(64)
        masks.append(mask.tolist())
        return (x * mask * mask).exp()

    masks: list = []
    x = rushlight.ones(64, requires_grad=True)
    rushlight.manual_seed(3)
    y = checkpoint(f, x, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    after = rushlight.get_rng_state()
    rushlight.rand(5)
    now = rushlight.get_rng_state()
    y.sum().backward()
    assert (masks[0] == masks[1]) is preserve
    if preserve:
        assert rushlight.equal(rushlight.get_rng_state(), now) and not rushlight.equal(now, after)


def test_second_order_and_several_passes():
    x = rushlight.tensor([0.5], dtype=rushlight.float64, requires_grad=True)
    y = checkpoint(lambda x: x.sin() * x, x, use_reentrant=False)
    (g,) = rushlight.autograd.grad(y, x, create_graph=True)
    (h,) = rushlight.autograd.grad(g, x, retain_graph=True)
    z = x.sin() * x
    (e,) = rushlight.autograd.grad(z, x, create_graph=True)
    assert (g.item(), h.item()) == pytest.approx((e.item(), rushlight.autograd.grad(e, x)[0].item()))
    assert rushlight.autograd.grad(y, x, retain_graph=True)[0].item() == pytest.approx(e.item())
    assert rushlight.autograd.grad(y, x)[0].item() == pytest.approx(e.item())


def test_what_one_pass_does_not_use_is_freed(no_collector):
    found = []

    def f(x, z):
        a = x.exp()
        b = z.exp()
        found.append(weakref.ref(b._array))
        return a, b

    x, z = leaf(1), leaf(2)
    a, b = checkpoint(f, x, z, use_reentrant=False)
    rushlight.autograd.grad(a, x)
    del b, found[0]
    assert [one() for one in found] == [None] * len(found)


def test_group_computes_once_for_several_passes():
    x, z, calls = leaf(1), leaf(2), []

    def f(x, z):
        calls.append(1)
        return x.exp(), z.exp()

    a, b = checkpoint(f, x, z, use_reentrant=False)
    with GraphExecGroup() as group:
        a.backward()
        b.backward()
        with pytest.raises(RuntimeError, match="inside of another"), GraphExecGroup():
            pass
    assert len(calls) == 2 and x.grad.item() == a.item() and z.grad.item() == b.item()
    assert not group._at_end


def test_custom_contexts_and_structures():
    entered = []

    @contextlib.contextmanager
    def context(name):
        entered.append(name)
        yield

    x = leaf(1)
    out = checkpoint(
        lambda x: {"a": [x.exp()]}, x, use_reentrant=False, context_fn=lambda: (context("first"), context("second"))
    )
    assert entered == ["first"]
    out["a"][0].backward()
    assert entered == ["first", "second"]


@pytest.mark.parametrize(
    "second, message",
    [
        (lambda x: x * 2, r"different number of tensors was saved .*\(1\) and recomputation \(0\)"),
        (lambda x: x[:1].exp(), "recomputed values for tensor 0 have different metadata"),
    ],
)
@pytest.mark.parametrize("debug", [True, False])
def test_other_second_pass_is_an_error(second, message, debug):
    calls = []

    def f(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else second(x)

    with set_checkpoint_debug_enabled(debug):
        y = checkpoint(f, leaf(1, 2), use_reentrant=False)
    with pytest.raises(CheckpointError, match=message) as info:
        y.sum().backward()
    assert ("operations of the first pass:\n  exp([2])" in str(info.value)) is debug


def test_more_tensors_in_the_second_pass():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.exp().exp()

    y = checkpoint(f, leaf(1), use_reentrant=False, early_stop=False)
    with pytest.raises(CheckpointError, match="more tensors"):
        y.backward()


def test_determinism_check_can_be_left_out():
    calls = []

    def f(x):
        calls.append(1)
        return x.double().exp().float() if len(calls) == 1 else x.exp()

    x = leaf(1)
    checkpoint(f, x, use_reentrant=False, determinism_check="none").backward()
    assert x.grad is not None


def test_wrong_arguments():
    x = leaf(1)
    with pytest.warns(UserWarning, match="use_reentrant explicitly"):
        checkpoint(lambda x: x * 2, x)
    with pytest.warns(UserWarning, match="use_reentrant explicitly"):
        checkpoint_sequential([lambda x: x * 2], 1, x)
    for arguments, message in (
        ({"use_reentrant": True, "y": 1}, "Unexpected keyword arguments: y"),
        ({"use_reentrant": True, "debug": True}, "only supported when use_reentrant=False"),
        ({"use_reentrant": False, "determinism_check": "all"}, "should be one of"),
        ({"use_reentrant": False, "debug": True, "context_fn": lambda: None}, "does not go with a context_fn"),
    ):
        with pytest.raises(ValueError, match=message):
            checkpoint(lambda x: x, x, **arguments)
    with pytest.raises(ValueError, match="Unexpected keyword"):
        checkpoint_sequential([lambda x: x], 1, x, use_reentrant=False, other=1)


def test_without_grad_mode_nothing_is_kept():
    with rushlight.no_grad():
        assert not checkpoint(lambda x: x.exp(), leaf(1), use_reentrant=False).requires_grad


def test_reentrant_kind():
    x, f = leaf(0.3, 0.7), Counting()
    checkpoint(f, x, use_reentrant=True).backward()
    assert f.calls == 2 and x.grad.tolist() == expected_gradient(x)
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        rushlight.autograd.grad(checkpoint(f, x, use_reentrant=True), x)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
        checkpoint(f, x.detach(), use_reentrant=True)
    with pytest.warns(UserWarning, match="None of the inputs"):
        check_backward_validity([x.detach(), 3])


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_sequence(use_reentrant):
    calls = []

    def step(x):
        calls.append(1)
        return x * x

    x = leaf(1.5)
    checkpoint_sequential([step] * 5, 2, x, use_reentrant=use_reentrant).backward()
    assert x.grad.item() == pytest.approx(32 * 1.5**31, rel=1e-5)
    assert len(calls) == 5 + 2  # the last three are not computed again


def policy_keeping(*names, asked=None):
    def policy(ctx, op, *operands, **params):
        if asked is not None:
            asked.append((op.name, ctx.is_recompute, ctx.op_output.shape, params))
        return CheckpointPolicy.MUST_SAVE if op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


@pytest.mark.parametrize("chosen", [["matmul"], [rushlight.matmul], policy_keeping("matmul")])
def test_selective_keeps_results(chosen):
    from rushlight.profiler import profile

    x = rushlight.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)

    def f(x):
        return (x @ x).exp().sin().sum(dim=0, keepdim=True)

    expected = rushlight.autograd.grad(f(x).sum(), x)[0].tolist()
    context = functools.partial(create_selective_checkpoint_contexts, chosen)
    y = checkpoint(f, x, use_reentrant=False, context_fn=context, early_stop=False)
    with profile() as prof:
        (g,) = rushlight.autograd.grad(y.sum(), x)
    assert g.tolist() == expected
    again = [e.name for e in prof.events() if e.scope == 0]
    assert again.count("matmul") == 2 and again.count("exp") == 1  # the two products are those of the gradient


def test_selective_policy_sees_calls_of_the_first_pass_only():
    asked: list = []
    context = functools.partial(create_selective_checkpoint_contexts, policy_keeping("exp", asked=asked))
    x = leaf(1, 2)
    checkpoint(lambda x: x.exp().reshape(2, 1).sum(), x, use_reentrant=False, context_fn=context).backward()
    assert [name for name, *_ in asked] == ["exp", "sum"]
    assert asked[1][1:3] == (False, ()) and asked[1][3]["dim"] == (0, 1)
    assert x.grad.tolist() == x.exp().tolist()


@pytest.mark.parametrize("allowed", [True, False])
def test_selective_kept_results_must_not_change(allowed):
    context = functools.partial(
        create_selective_checkpoint_contexts, ["exp"], allow_cache_entry_mutation=allowed
    )
    x = leaf(1)
    y = checkpoint(lambda x: x.exp().mul_(2) * x, x, use_reentrant=False, context_fn=context)
    if allowed:
        y.backward()
    else:
        with pytest.raises(RuntimeError, match="kept result of exp was changed in place"):
            y.backward()


def test_selective_notices_another_second_pass():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.sin()

    context = functools.partial(create_selective_checkpoint_contexts, ["exp"])
    with pytest.raises(CheckpointError, match="was exp in the first pass and is sin"):
        checkpoint(f, leaf(1), use_reentrant=False, context_fn=context).backward()
    with pytest.raises(ValueError, match="expected operations"):
        create_selective_checkpoint_contexts(["no such op"])


def test_selective_offload_and_several_results():
    def policy(ctx, op, *operands, **params):
        return CheckpointPolicy.MUST_CPU_OFFLOAD

    x = leaf(3, 1, 2)
    context = functools.partial(create_selective_checkpoint_contexts, policy)
    values, order = checkpoint(lambda x: x.exp().sort(), x, use_reentrant=False, context_fn=context)
    (values * rushlight.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert order.tolist() == [1, 2, 0]
    assert x.grad.tolist() == pytest.approx((x.exp() * rushlight.tensor([100.0, 1.0, 10.0])).tolist())


@pytest.mark.parametrize("inside", [False, True])
def test_arguments_must_not_change_before_the_second_pass(inside):
    w, given, named = leaf(0.5, 2), rushlight.ones(2), rushlight.ones(2)

    def function(x, y):
        return (w * (x.mul_(2) if inside else x) * y).exp()

    for change in (given, named):
        loss = checkpoint(function, given, y=named, use_reentrant=False).sum()
        if not inside:
            change.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def of_checkpoint(x):
    return checkpoint(lambda x: ((x * x).exp() * x).sum(), x, use_reentrant=False)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("transform", [func.jacfwd, func.jacrev, lambda f: lambda x: func.jvp(f, (x,), (x,))[1]])
def test_derivatives_of_gradients(transform, early_stop):
    x = rushlight.tensor([0.5, -0.25], dtype=rushlight.float64)
    with set_checkpoint_early_stop(early_stop):
        found = transform(func.grad(of_checkpoint))(x)
    expected = transform(func.grad(lambda x: ((x * x).exp() * x).sum()))(x)
    assert rushlight.allclose(found, expected)


@pytest.mark.parametrize("chosen", [["exp"], ["matmul", "sin"]])
def test_selective_in_forward_mode(chosen):
    def function(x):
        return ((x @ x).exp() @ x).sin().sum()

    def selective(x):
        contexts = functools.partial(create_selective_checkpoint_contexts, chosen)
        return checkpoint(function, x, use_reentrant=False, context_fn=contexts)

    x = rushlight.tensor([[0.5, -0.25], [0.125, 0.75]], dtype=rushlight.float64)
    assert rushlight.allclose(func.hessian(selective)(x), func.hessian(function)(x))


def test_backward_after_a_level_of_vmap_has_ended():
    x, w = rushlight.tensor([[0.5, -0.25], [1, 2]]), leaf(0.5, 1)
    nested = func.vmap(func.vmap(lambda x, y: of_checkpoint(x * w) * y, (None, 0)), (0, None))
    nested(x, rushlight.ones(3)).sum().backward()
    found, w.grad = w.grad, None
    sum(3 * of_checkpoint(part * w) for part in x).backward()
    assert rushlight.allclose(found, w.grad)


def test_small_helpers():
    x = leaf(1) * 2
    first, second = noop_context_fn()
    with first, second:
        (y, number) = detach_variable((x, 3))
    assert y.is_leaf and y.requires_grad and number == 3
    with pytest.raises(RuntimeError, match="only a tuple"):
        detach_variable(x)
    assert get_device_states(x) == ([], [])
    set_device_states([], [])
    with pytest.raises(RuntimeError, match="set_rng_state"):
        set_device_states([0], [rushlight.get_rng_state()])
    DefaultDeviceType.set_device_type("cpu")
    assert DefaultDeviceType.get_device_type() == "cpu"
    DefaultDeviceType.set_device_type()
    assert DefaultDeviceType.get_device_type() == "cuda"
