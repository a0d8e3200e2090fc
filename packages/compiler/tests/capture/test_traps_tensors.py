"""Traps: aliasing, in-place operations, views, gradients, random numbers."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import rushlight as torch


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def ones(n: int = 3):
    return torch.ones(n)


def test_metadata_changes(check):
    def scenario(compile):
        c = compile(lambda x: (x + 1).sum(-1))
        return [c(x)
                for x in (torch.ones(3), torch.ones(2, 3), torch.ones(3, 2).t(), torch.ones(3, dtype=torch.float64),
                               torch.ones(3, dtype=torch.int32), torch.ones(3, requires_grad=True), torch.ones(3))]

    check(scenario, variants=6)


def test_argument_is_no_tensor_anymore(check):
    def scenario(compile):
        c = compile(lambda x, k: x * k)
        return c(ones(), ones()), c(ones(), 2), c(ones(), 2.0), c(ones(), np.float64(2.0)), c(ones(), ones())

    check(scenario, captured=None)


def test_tensor_attribute_replaced(check):
    def scenario(compile):
        box = Box(w=ones())
        c = compile(lambda x: x * box.w)
        seen = [c(ones())]
        box.w = ones() * 5
        seen.append(c(ones()))
        box.w = torch.ones(1)
        seen.append(c(ones()))
        box.w = 3
        return [*seen, c(ones())]

    check(scenario, variants=3)


def test_input_changed_in_place(check):
    def scenario(compile):
        def f(x, y):
            x.mul_(2)
            return x + y

        c = compile(f)
        seen = []
        for _ in range(2):
            x, y, a = ones(), ones(), ones()
            seen += [c(x, y), x, y, c(a, a), a]
        return seen

    check(scenario, captured=None)


def test_same_tensor_twice_without_writes(check):
    def scenario(compile):
        c = compile(lambda x, y: (x + y, x is y))
        a = ones()
        return c(a, a), c(a, ones()), c(a, a)

    check(scenario)


def test_input_and_its_view(check):
    def scenario(compile):
        def f(x, v):
            x.add_(1)
            return v * 2

        c = compile(f)
        x = ones(4)
        return c(ones(4), ones(2)), c(x, x[:2]), x, c(x[:2], x), x

    check(scenario, captured=None)


def test_numpy_shares_memory(check):
    def scenario(compile):
        def f(x, y):
            x.add_(1)
            return y * 2

        c = compile(f)
        array = np.ones(4, dtype=np.float32)
        a, b = torch.from_numpy(array), torch.from_numpy(array[1:])
        seen = [c(ones(4), ones(3)), c(a, b), a, b]
        array[:] = 7
        return [*seen, c(a, ones(3)), c(ones(4), b), torch.from_numpy(array)]

    check(scenario, captured=None)


def test_in_place_on_intermediates(check):
    def scenario(compile):
        def f(x):
            y = x + 1
            z = y
            y += 2
            y.mul_(x)
            y.sub_(1)
            return y, z is y, z

        c = compile(f)
        return c(ones()), c(ones())

    check(scenario, variants=1)


def test_view_sees_later_write(check):
    def scenario(compile):
        def f(x):
            y = x + 1
            v = y.view(3, 1)
            t = y.expand(2, 3)
            before = v * 1
            y.add_(10)
            return v * 1, before, v, t.sum(), y

        c = compile(f)
        return c(ones()), c(ones())

    check(scenario, variants=1)


def test_write_through_detach(check):
    def scenario(compile):
        def f(x):
            y = x + 1
            y.detach().mul_(3)
            return y

        c = compile(f)
        return c(ones()), c(ones())

    check(scenario)


def test_write_through_view(check):
    def scenario(compile):
        def f(x):
            y = x + 1
            y[0] = 7.0
            y[1:] += 2
            return y

        c = compile(f)
        return c(ones()), c(ones())

    check(scenario, captured=None)


def test_swap_two_inputs(check):
    def scenario(compile):
        def swap(a, b):
            t = a.clone()
            a.copy_(b)
            b.copy_(t)

        c = compile(swap)
        a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        c(a, b)
        return a, b

    check(scenario)


def test_copies_chain_through_inputs(check):
    def scenario(compile):
        def f(a, b, d):
            d.copy_(b)
            b.copy_(a)
            b.add_(1)
            a.copy_(d)
            return d

        c = compile(f)
        a, b, d = torch.tensor([1.0]), torch.tensor([2.0]), torch.tensor([3.0])
        return c(a, b, d) is d, a, b, d

    check(scenario)


def test_outputs_alias_inputs(check):
    def scenario(compile):
        c = compile(lambda x: (x[:], x.t(), x[1], x * 2, x))
        seen = []
        for _ in range(2):
            x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
            a, t, r, y, same = c(x)
            a[0, 0] = 50.0
            x[1, 2] = 70.0
            seen += [x, a, t, r, y, same is x]
        return seen

    check(scenario)


def test_outputs_alias_each_other(check):
    def scenario(compile):
        def f(x):
            y = x + 1
            return y, y.view(3, 1), y, y.view(3, 1)[0]

        c = compile(f)
        y, v, again, w = c(ones())
        v.fill_(9.0) if hasattr(v, "fill_") else v.mul_(9)
        return y, v, y is again, w

    check(scenario, variants=1)


def test_equal_outputs_stay_distinct(check):
    def scenario(compile):
        def f(x):
            a = x + 1
            b = torch.zeros(3)
            b.copy_(a)
            return a, b

        c = compile(f)
        a, b = c(ones())
        a.mul_(5)
        return a, b

    check(scenario)


def test_identity_operations(check):
    def scenario(compile):
        def f(a, b, d, e):
            for y in (a.reshape(4), b.contiguous(), d.to(torch.float32), e[:]):
                y += y
            return a + b + d + e

        c = compile(f)
        ts = [torch.ones(2, 2) for _ in range(4)]
        return c(*ts), ts

    check(scenario, captured=None)


def test_constant_tensor_is_fresh_each_call(check):
    def scenario(compile):
        def f(x):
            t = torch.tensor([1.0, 2.0, 3.0])
            return t, x + t

        c = compile(f)
        a = c(ones())[0]
        a.mul_(100)
        return a, c(ones())

    check(scenario)


def test_factories_and_default_dtype(check):
    def scenario(compile):
        c = compile(lambda n: (torch.zeros(n) + 1.5, torch.ones(2, n, dtype=torch.int32), torch.full((n,), 7.0)))
        seen = [c(2), c(3)]
        torch.set_default_dtype(torch.float64)
        try:
            seen.append(c(2))
        finally:
            torch.set_default_dtype(torch.float32)
        return [*seen, c(2)]

    check(scenario)


def test_function_given_to_a_framework_function(check):
    pytest.importorskip("rushlight.nn")

    def scenario(compile):
        scale = 2.0

        def distance(a, b):
            return (a - b).abs().sum(-1) * scale

        loss = torch.nn.functional.triplet_margin_with_distance_loss
        c = compile(lambda a, b, n: loss(a, b, n, distance_function=distance))
        first = c(torch.ones(2, 3), torch.zeros(2, 3), torch.ones(2, 3) * 2)
        scale = 3.0
        return first, c(torch.ones(2, 3), torch.zeros(2, 3), torch.ones(2, 3) * 2)

    check(scenario, captured=None)


def test_random_numbers_follow_the_seed(check):
    if not hasattr(torch, "rand"):
        pytest.skip("no random numbers yet")

    def scenario(compile):
        c = compile(lambda x: x + torch.rand(3))
        torch.manual_seed(3)
        a, b = c(ones()), c(ones())
        torch.manual_seed(3)
        return a, b, c(ones())

    check(scenario, captured=None)


def test_numpy_inside_is_left_to_eager(check):
    def scenario(compile):
        c = compile(lambda x: torch.from_numpy(np.sqrt(x.numpy())) + 1)
        return c(ones()), c(ones() * 4)

    check(scenario, captured=False)


def test_the_value_of_an_item_has_a_variant_each(check):
    def scenario(compile):
        c = compile(lambda x: x * round(x.sum().item()))
        return c(ones()), c(ones() * 2), c(ones())

    check(scenario, variants=2)


def test_monkeypatched_method(check):
    def scenario(compile):
        c = compile(lambda x: x.exp())
        a = c(ones())
        kept = torch.Tensor.exp
        torch.Tensor.exp = lambda self: self * 100
        try:
            b = c(ones())
        finally:
            torch.Tensor.exp = kept
        return a, b, c(ones())

    check(scenario)


def test_user_attribute_on_a_tensor(check):
    def scenario(compile):
        x = ones()
        x.mark = 5
        c = compile(lambda x: x * x.mark)
        a = c(x)
        x.mark = 6
        return a, c(x)

    check(scenario, captured=None)


def test_tensor_subclass_is_left_to_eager(check):
    class Mine(torch.Tensor):
        pass

    def scenario(compile):
        c = compile(lambda x: x + 1)
        return c(ones()), c(ones().as_subclass(Mine))

    check(scenario, captured=None)


def test_stance(check):
    from rushlight.compiler import set_stance

    c = check.compile(lambda x: x + 1)
    with set_stance("force_eager"):
        c(ones())
    assert not check.states[0].entries
    c(ones())
    with set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="fail_on_recompile"):
        c(ones(4))
    with set_stance("eager_on_recompile"):
        assert c(ones(4)).tolist() == [2.0] * 4
    assert check.states[0].captures == 1


def test_fullgraph_names_the_reason(check):
    c = check.compile(lambda x: x * round(x.sum().item()), fullgraph=True)
    with pytest.raises(RuntimeError, match="item"):
        c(ones())


def test_nothing_of_the_first_call_is_kept_alive(check):
    class Holder:
        pass

    holder = Holder()
    holder.w = ones()
    holder.items = [Holder()]
    c = check.compile(lambda x, h: x * h.w + len(h.items))
    x = ones()
    c(x, holder)
    gone = [weakref.ref(x), weakref.ref(holder), weakref.ref(holder.w), weakref.ref(holder.items[0])]
    del x, holder
    gc.collect()
    assert [r() for r in gone] == [None] * 4
    assert check.states[0].entries[0].why((ones(4), None), {}).text.startswith("args[0]")


def test_threads(check):
    def f(x, k):
        with torch.no_grad() if k % 2 else torch.enable_grad():
            return x * k + 1

    c = check.compile(f)
    wrong = []

    def work(k):
        for n in (2, 3, 4):
            for _ in range(20):
                x = torch.ones(n, requires_grad=True)
                y = c(x, k)
                if y.tolist() != [k + 1.0] * n or y.requires_grad is not (k % 2 == 0):
                    wrong.append((k, n))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_random_draws_on_another_thread_during_a_capture(check):
    drawn = []

    def other():
        for _ in range(50):
            drawn.append(tuple(torch.rand(4).tolist()))

    thread = threading.Thread(target=other)
    c = check.compile(lambda x: x + torch.rand(3))
    thread.start()
    for n in range(1, 6):
        c(torch.ones(n, 3))
    thread.join()
    assert len(set(drawn)) == 50


def test_framework_constants(check):
    def scenario(compile):
        def f(x, layout):
            low = torch.finfo(x.dtype).min
            y = x.to(memory_format=layout).masked_fill(x > 2, low)
            facts = torch.iinfo(torch.int8).max, torch.Size([1, 2]), x.layout == torch.strided, str(x.dtype), y.stride()
            return y, *facts

        c = compile(f)
        x = torch.ones(2, 3, 2, 2) * 3
        first = c(x, torch.channels_last)
        return first[:3], first[3:], c(x, torch.contiguous_format)[0], c(x.double(), torch.channels_last)[0]

    check(scenario)


def test_unused_result_with_a_wrong_index(check):
    def scenario(compile):
        def f(x, i):
            y = x + 1
            y[i] = 0
            x[i]
            return x * 2

        c = compile(f)
        seen = [c(ones(), torch.tensor([0]))]
        try:
            c(ones(), torch.tensor([5]))
        except IndexError as error:
            seen.append(str(error))
        return seen

    check(scenario)


def test_overlapping_writes_are_refused_as_in_eager(check):
    def scenario(compile):
        def attempt(change):
            x = ones(4)
            try:
                return compile(lambda x: change(x * 2))(x), x
            except RuntimeError as error:
                return str(error)

        return [
            attempt(lambda x: x[1:].copy_(x[:-1])),
            attempt(lambda x: x[1:].add_(x[:-1])),
            attempt(lambda x: x[:2].copy_(x[2:])),
            attempt(lambda x: x[:2].mul_(x.view(2, 2)[0])),
            attempt(lambda x: x.view(2, 2).add_(x.view(2, 2).t())),
        ]

    check(scenario, captured=None)
