"""Hooks on tensors, nodes and saved tensors; anomaly mode."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.autograd import graph


def leaf(*values: float):
    return rushlight.tensor([float(v) for v in values], requires_grad=True)


def test_tensor_hooks_change_the_gradient_in_order():
    x = leaf(1)
    y = x * 2
    y.register_hook(lambda g: g + 1)
    removed = y.register_hook(lambda g: g * 100)
    y.register_hook(lambda g: g * 10)
    removed.remove()
    y.backward()
    assert x.grad.tolist() == [40]


def test_leaf_hook_sees_the_whole_gradient_once_per_pass():
    x = leaf(1)
    seen = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    (x * 2 + x * 3 + x.exp() * 0).backward()
    assert seen == [[5]]


def test_hook_must_return_a_tensor():
    x = leaf(1)
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="expected a Tensor or None"):
        (x * 2).backward()


def test_post_accumulate_hook_sees_the_gradient_and_may_use_it():
    x = leaf(1, 2)

    def step(p):
        with rushlight.no_grad():
            p -= p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 3).sum().backward()
    assert (x.tolist(), x.grad) == ([-2, -1], None)


def test_node_hooks():
    x = leaf(1)
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 10,))
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs[0].tolist(), outputs[0].tolist())))
    y.backward()
    assert seen == [([20], [10])] and x.grad.tolist() == [20]


def test_hooks_only_where_a_gradient_is_needed():
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        rushlight.ones(1).register_hook(print)


def test_multi_grad_hook():
    x, y = leaf(1), leaf(2)
    seen = []
    with graph.register_multi_grad_hook((x, y), lambda grads: seen.append([g.tolist() for g in grads])):
        (x * y).backward()
    (x * y).backward()
    assert seen == [[[2], [1]]]


def test_multi_grad_hook_in_passes_that_do_not_reach_all_tensors():
    x, y = leaf(1), leaf(2)
    together, first = [], []
    graph.register_multi_grad_hook((x, y), lambda grads: together.append([g and g.item() for g in grads]))
    graph.register_multi_grad_hook((x, y), lambda g: first.append(g.item()), mode="any")
    x.register_hook(lambda g: 1 / 0 if g.item() == 7 else None)
    (x * 3).backward()
    with pytest.raises(ZeroDivisionError):
        (x * 7).backward()
    (y * 5).backward()
    leaf(1).backward()
    assert together == [[3, None], [None, 5]]
    assert first == [3, 7, 5]


def test_saved_tensors_go_through_the_hooks():
    kept = []

    def pack(x):
        kept.append(x.detach().clone())
        return len(kept) - 1

    x = leaf(1, 2)
    with graph.saved_tensors_hooks(pack, lambda i: kept[i]):
        y = (x * x.exp()).sum()
    g, = rushlight.autograd.grad(y, x, create_graph=True)
    assert len(kept) == 3
    second, = rushlight.autograd.grad(g.sum(), x)
    assert second.tolist() == pytest.approx([3 * 2.718281828, 4 * 7.389056], rel=1e-5)


def test_saving_on_the_cpu_and_forbidding_hooks():
    x = leaf(2)
    with graph.save_on_cpu():
        y = x * x
    y.backward()
    assert x.grad.tolist() == [4]
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not here"):
        with graph.save_on_cpu():
            pass


def test_gradient_edge_as_input_and_output():
    x = leaf(3)
    y = x * x
    edge = graph.get_gradient_edge(y)
    z = y * 2
    assert rushlight.autograd.grad(z, edge, retain_graph=True)[0].tolist() == [2]
    assert rushlight.autograd.grad(edge, x, rushlight.ones(1))[0].tolist() == [6]


def test_anomaly_mode_shows_the_forward_line():
    x = leaf(0)
    with rushlight.autograd.detect_anomaly():
        y = (x * 0 / 0).sum()  # the line to be named
        with pytest.warns(UserWarning, match=r"MulBackward0(.|\n)*the line to be named"):
            with pytest.raises(RuntimeError, match="MulBackward0' returned nan values in its 0th output"):
                y.backward()
    assert not rushlight.autograd.is_anomaly_enabled()


def test_anomaly_mode_shows_where_a_failing_node_was_made():
    x = leaf(1)
    with rushlight.autograd.set_detect_anomaly(True):
        y = x.exp()
        with rushlight.no_grad():
            y.zero_()
        with pytest.warns(UserWarning, match="y = x.exp()"), pytest.raises(RuntimeError, match="inplace"):
            y.backward()


def test_saved_tensors_on_disk(tmp_path):
    """What is saved goes to files, which are gone after their use."""
    files = []

    def pack(x):
        path = tmp_path / f"{len(files)}.pt"
        files.append(path)
        rushlight.save(x, path)
        return path

    def unpack(path):
        x = rushlight.load(path)
        path.unlink()
        return x

    x = leaf(1, 2)
    with graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x).sum()
    assert len(files) == 3 and all(path.exists() for path in files)
    y.backward()
    assert x.grad.tolist() == pytest.approx((x.exp() * (1 + x)).tolist())
    assert not any(path.exists() for path in files)


def test_saved_tensors_may_change_when_that_is_allowed():
    x = leaf(1, 2)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y**2).sum() + y.exp().mul_(0).sum()
        y[:1].sin_()
        y.zero_()
        with pytest.raises(RuntimeError, match="cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
        z.backward()
    assert x.grad.tolist() == [2, 4]


def test_saved_tensors_may_not_change_after_that():
    x = leaf(1, 2)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y**2).sum()
    y.zero_()
    with pytest.raises(RuntimeError, match="outside of that context"):
        z.backward()


def test_change_behind_the_back_is_announced():
    x, y = leaf(1), leaf(2)
    a, b = x * 1, y * 1
    z = a * b
    graph.increment_version([a, b])
    assert (a._version, b._version) == (1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_layout_of_gradients_may_be_left_as_it_comes():
    x = rushlight.ones(2, 3).t().requires_grad_()
    y = rushlight.ones(3, 2)
    (x * y).sum().backward()
    assert x.grad.stride() == x.stride()
    x.grad = None

    @rushlight.autograd.enforce_grad_layout_policy(False)
    def relaxed():
        (x * y).sum().backward()

    relaxed()
    assert x.grad.stride() == (2, 1)
    x.grad = None
    (x * y).sum().backward()
    assert x.grad.stride() == x.stride()


def test_modules_under_their_other_names():
    from rushlight.autograd import grad_mode, variable

    assert grad_mode.no_grad is rushlight.no_grad and variable.Variable is rushlight.Tensor
    assert rushlight.autograd.profiler.record_function is rushlight.profiler.record_function
    graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    graph.set_override_stale_capture_stream(True)


@pytest.mark.parametrize(
    "hook, message",
    [
        (lambda g: g[:1], "changed the size of value: it got \\[2\\]"),
        (lambda g: g.double(), "changed the type of value"),
    ],
)
def test_hooks_keep_the_form_of_a_gradient(hook, message):
    x = leaf(1, 2)
    y = x * 2
    with y.register_hook(hook), pytest.raises(RuntimeError, match=message):
        y.sum().backward(retain_graph=True)
    with y.grad_fn.register_prehook(lambda grads: (hook(grads[0]),)), pytest.raises(RuntimeError, match=message):
        y.sum().backward()


def test_pack_hook_must_not_write_to_what_it_gets():
    x = leaf(1, 2) * 1
    with (
        graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t),
        pytest.raises(RuntimeError, match="modifying its input in place"),
    ):
        x.exp()


def test_tensors_that_are_kept_otherwise_have_their_tangents():
    def function(x):
        return ((x * x).exp() * x).sum()

    def packed(x):
        with graph.saved_tensors_hooks(lambda t: t.tolist(), lambda kept: rushlight.tensor(kept, dtype=x.dtype)):
            return function(x)

    x = rushlight.tensor([0.5, -0.25], dtype=rushlight.float64)
    tangents = [rushlight.func.jvp(rushlight.func.grad(f), (x,), (x,))[1] for f in (packed, function)]
    assert rushlight.allclose(*tangents)
