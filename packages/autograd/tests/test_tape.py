"""The tape and its engine: what is recorded, in which order it runs, what it keeps alive."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import rushlight
from rushlight.autograd import Function, grad


def leaf(*values: float):
    return rushlight.tensor([float(v) for v in values], requires_grad=True)


@pytest.fixture
def no_collector():
    """Only reference counts free memory inside the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_gradients_add_up_over_uses_and_passes():
    x = leaf(1, 2)
    (x * x + x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 8]


def test_broadcast_and_promoted_operands_get_gradients_of_their_own_form():
    a = rushlight.ones(2, 1, requires_grad=True)
    b = rushlight.ones(3, dtype=rushlight.float64, requires_grad=True)
    c = rushlight.tensor(2.0, requires_grad=True)
    (a * b * c).sum().backward()
    assert (a.grad.shape, a.grad.dtype, a.grad.tolist()) == ((2, 1), rushlight.float32, [[6], [6]])
    assert (b.grad.dtype, b.grad.tolist()) == (rushlight.float64, [4, 4, 4])
    assert (c.grad.shape, c.grad.item()) == ((), 6)


def test_long_chain_neither_recurses_in_backward_nor_in_freeing():
    x = leaf(1)
    y = x
    for _ in range(30_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1
    z = x
    for _ in range(30_000):
        z = z * 1.0
    del z


def test_only_the_last_reference_keeps_a_graph(no_collector):
    x = leaf(1, 2)
    y = (x.exp() * x).sum()
    nodes = [weakref.ref(y.grad_fn), weakref.ref(y.grad_fn.next_functions[0][0])]
    y.backward(retain_graph=True)
    (g,) = grad(y, x, create_graph=True)
    del g, y
    assert [node() for node in nodes] == [None, None]


def test_in_place_and_custom_functions_make_no_cycles(no_collector):
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return g * y

    x = leaf(1, 2)
    y = Exp.apply(x)
    y = y * 1
    y[0].exp_()
    nodes = [weakref.ref(y.grad_fn), weakref.ref(y)]
    del y
    assert [node() for node in nodes] == [None, None]


def test_saved_tensors_go_as_soon_as_they_are_used(no_collector):
    alive = []

    class Watch(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            alive.append(saved() is not None)
            return g

    x = leaf(1, 2)
    a = Watch.apply(x)
    b = a * 2
    saved = weakref.ref(b)
    y = (b * b).sum()
    del b
    y.backward()
    assert alive == [False]


def test_second_backward_says_what_to_do():
    x = leaf(1)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time.*retain_graph=True"):
        y.backward()
    z = x + 1
    z.backward()
    z.backward()  # nothing was saved, so nothing is missing


def test_the_youngest_node_runs_first():
    order = []

    def noting(name):
        return lambda g: order.append(name)

    x = leaf(1)
    a, b = x * 2, x * 3
    for name, y in (("a", a), ("b", b)):
        y.register_hook(noting(name))
    (a + b).backward()
    assert order == ["b", "a"]


def test_gradient_is_not_shared_with_other_tensors():
    x, y = leaf(1, 2), leaf(3, 4)
    weight = rushlight.ones(2)
    (x + y).backward(weight)
    x.grad.add_(10)
    assert (y.grad.tolist(), weight.tolist()) == ([1, 1], [1, 1])


def test_expanded_gradient_gets_memory_of_its_own():
    x = rushlight.ones(3, requires_grad=True)
    x.sum().backward()
    assert x.grad.stride() == (1,)
    x.grad[0] = 5
    assert x.grad.tolist() == [5, 1, 1]


@pytest.mark.parametrize("size", [2, 100_000])  # the larger one in pooled memory
def test_fresh_gradient_is_taken_without_a_copy(size):
    x = rushlight.ones(size, requires_grad=True)
    seen = []
    x.register_hook(lambda g: seen.append(g.data_ptr()))
    (x * x * x).sum().backward()
    assert x.grad.data_ptr() == seen[0]


def test_gradient_accumulates_in_the_same_memory():
    x = leaf(1, 2)
    (x * 2).sum().backward()
    first = x.grad
    (x * 2).sum().backward()
    assert x.grad is first and first.tolist() == [4, 4]


def test_backward_inside_backward():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            y = x.detach().requires_grad_()
            with rushlight.enable_grad():
                (y * y).backward(g)
            return y.grad

    x = leaf(3)
    Inner.apply(x).backward()
    assert x.grad.item() == 6


def test_threads_share_leaves():
    x = leaf(*[1.0] * 64)

    def work():
        for _ in range(50):
            (x * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad.tolist() == [400] * 64


def test_failing_backward_leaves_grad_mode_as_it_was():
    x = leaf(1)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 2).backward()
    assert rushlight.is_grad_enabled()


def test_higher_derivatives():
    x = rushlight.tensor(2.0, dtype=rushlight.float64, requires_grad=True)
    y, values = x**4, []
    for _ in range(4):
        (y,) = grad(y, x, create_graph=True)
        values.append(y.item())
    assert values == [32, 48, 48, 24]


def test_saved_result_is_linked_in_second_order():
    x = rushlight.tensor(0.5, dtype=rushlight.float64, requires_grad=True)
    (g,) = grad(x.tanh(), x, create_graph=True)
    (h,) = grad(g, x)
    t = np.tanh(0.5)
    assert h.item() == pytest.approx(-2 * t * (1 - t * t), rel=1e-12)


@pytest.mark.parametrize(
    "outputs, message",
    [
        (lambda x: x.detach(), "does not require grad and does not have a grad_fn"),
        (lambda x: x * 2, "grad can be implicitly created only for scalar outputs"),
    ],
)
def test_backward_refuses(outputs, message):
    with pytest.raises(RuntimeError, match=message):
        outputs(leaf(1, 2)).backward()


def test_backward_refuses_gradients_of_another_shape():
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \[3\]"):
        (leaf(1, 2) * 2).backward(rushlight.ones(3))


def test_grad_of_unused_inputs():
    x, y = leaf(1), leaf(2)
    z = x * 2
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(z, (x, y), retain_graph=True)
    assert grad(z, (x, y), retain_graph=True, allow_unused=True)[1] is None
    assert grad(z, (x, y), materialize_grads=True)[1].tolist() == [0]
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        grad(x * 2, rushlight.ones(1))


def test_grad_needs_inputs_and_only_those():
    x = leaf(3)
    with pytest.raises(RuntimeError, match="`inputs` cannot be empty"):
        grad(x * 2, [])
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert grad(x * 2, x, only_inputs=False)[0].item() == 2


def test_grad_of_intermediate_and_of_the_output_itself():
    x = leaf(3)
    y = x * x
    z = y * y
    assert [g.item() for g in grad(z, (y, z, x), retain_graph=True)] == [18, 1, 108]
    assert x.grad is None


def test_grad_runs_only_what_it_needs():
    x, y = leaf(1), leaf(2)
    y.register_hook(lambda g: 1 / 0)
    assert grad(x * y, x)[0].item() == 2


def test_backward_with_inputs():
    x, y = leaf(1), leaf(2)
    z = x * y
    (z * z).backward(inputs=[x, z], retain_graph=True)
    assert (x.grad.item(), z.grad.item(), y.grad) == (8, 4, None)


def test_batched_gradients():
    x = leaf(1, 2)
    (g,) = grad(x * x, x, rushlight.tensor([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True)
    assert g.tolist() == [[2, 0], [0, 4]]


def test_complex_gradients_follow_the_conjugate_convention():
    z = rushlight.tensor([1 + 2j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j]
    r = rushlight.tensor([2.0], requires_grad=True)
    (r * (1 + 2j)).real.sum().backward()
    assert r.grad.tolist() == [1]


def test_next_functions_and_names():
    x = leaf(1)
    y = x * 2.0 + rushlight.ones(1)
    assert y.grad_fn.name() == "AddBackward0"
    (mul, _), (nothing, _) = y.grad_fn.next_functions
    assert (type(mul).__name__, nothing) == ("MulBackward0", None)
    accumulate = mul.next_functions[0][0]
    assert accumulate.name() == "AccumulateGrad" and accumulate.variable is x
    assert mul._saved_other == 2.0


def test_sums_of_many_gradients_reuse_memory_only_when_nobody_sees_it():
    x = leaf(1, 2)
    kept = []
    a = x * 1
    a.register_hook(lambda g: kept.append(g))
    b = a * 2
    b.register_hook(lambda g: kept.append(g))
    c = a * 3
    (b + c + b * a).sum().backward()
    assert x.grad.tolist() == [2 + 3 + 4, 2 + 3 + 8]
    assert [k.tolist() for k in kept] == [[2, 3], [9, 13]]


def test_backward_gives_memory_back_as_it_goes():
    """The peak is what the forward pass keeps and a few gradients, not a gradient per node."""
    steps, size = 16, 1 << 20
    x = rushlight.ones(size // 4, requires_grad=True)
    x.sin().sum().backward()  # loads kernels
    x.grad = None
    rushlight.cpu.empty_cache()
    before = rushlight.cpu.memory_stats()["allocated"]
    rushlight.cpu.reset_peak_memory_stats()
    y = x
    for _ in range(steps):
        y = y.sin()
    y.sum().backward()
    rise = rushlight.cpu.memory_stats()["reserved_peak"] - before
    assert steps * size <= rise <= (steps + 5) * size
    del y
    assert rushlight.cpu.memory_stats()["allocated"] - before <= size
