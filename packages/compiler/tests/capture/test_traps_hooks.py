"""Traps: hooks of tensors and modules, and gradients of intermediates that are kept, in captured training steps."""

import pytest

import rushlight

nn = pytest.importorskip("rushlight.nn")


def numbers(*shape):
    return rushlight.linspace(-1.0, 1.0, rushlight.Size(shape).numel()).reshape(shape)


def net(*sizes):
    made = nn.Sequential(*[layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.Tanh())])
    for i, p in enumerate(made.parameters()):
        p.data.copy_(numbers(*p.shape) * (0.3 + 0.1 * i))
    return made


def test_hooks_see_and_change_gradients(check):
    def scenario(compile):
        model, seen = net(3, 4, 2), []

        def step(x, factor):
            h = model[0](x)
            h.register_hook(lambda g: seen.append(g.norm().item()))
            h.register_hook(lambda g: g * factor)
            h.register_hook(lambda g: seen.append(g))
            model.zero_grad()
            model[1](h).sum().backward()
            return [p.grad for p in model[0].parameters()]

        call = compile(step)
        return call(numbers(2, 3), 2.0), call(numbers(2, 3), 2.0), call(numbers(2, 3), 5.0), seen

    check(scenario)


def test_hooks_run_from_the_youngest_tensor_to_the_oldest(check):
    def scenario(compile):
        w, order = numbers(3).requires_grad_(), []

        def step():
            a = w * 2
            b = a.exp()
            c = b.sum()
            for name, x in (("b", b), ("c", c), ("a", a)):
                x.register_hook(lambda g, name=name: order.append(name))
            w.grad = None
            (c + a.sum()).backward()
            return w.grad

        call = compile(step)
        return call(), call(), order

    check(scenario)


def test_a_removed_hook(check):
    def scenario(compile):
        w = numbers(3).requires_grad_()

        def step():
            h = w * 2
            handle = h.register_hook(lambda g: g * 100)
            h.register_hook(lambda g: g + 1)
            handle.remove()
            handle.remove()
            w.grad = None
            h.sum().backward()
            return w.grad

        return compile(step)()

    check(scenario)


def test_hooks_in_two_passes_and_under_create_graph(check):
    def scenario(compile):
        w = numbers(3).requires_grad_()

        def step():
            h = w * w
            h.register_hook(lambda g: g * 3)
            (first,) = rushlight.autograd.grad((h * h).sum(), w, create_graph=True)
            w.grad = None
            first.sum().backward()
            return first.detach(), w.grad

        return compile(step)()

    check(scenario)


def test_gradients_that_are_kept(check):
    def scenario(compile):
        w = numbers(3).requires_grad_()

        def step(x):
            h = w * x
            h.retain_grad()
            h.register_hook(lambda g: g * 2)
            before = h.grad is None
            h.sin().sum().backward(retain_graph=True)
            once = h.grad.clone()
            h.sum().backward()
            return before, once, h.grad

        call = compile(step)
        return call(numbers(3)), call(numbers(3) + 1), w.grad

    check(scenario)


def test_saliency_of_a_class(check):
    def scenario(compile):
        model, store = net(3, 4, 2), {}

        def saliency(x):
            h = model[0](x)
            h.register_hook(lambda g: store.__setitem__("g", g))
            out = model[2](model[1](h))
            model.zero_grad()
            out[0, out[0].argmax().item()].backward()
            return (store["g"].mean(0) * h).sum().detach()

        call = compile(saliency)
        return call(numbers(1, 3)), call(numbers(1, 3) * -1), store

    check(scenario)


def test_hooks_of_modules(check):
    def scenario(compile):
        model, seen = net(3, 4, 2), []
        model[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        handle = model[0].register_forward_hook(lambda module, args, out: out + 1)
        model[2].register_forward_hook(lambda module, args, out: seen.append(out.detach().sum().item()))
        model[0].register_full_backward_hook(lambda module, before, after: seen.append(after[0].sum().item()))

        def step(x):
            model.zero_grad()
            model(x).sum().backward()
            return [p.grad for p in model.parameters()]

        call = compile(step)
        results = [call(numbers(2, 3)), call(numbers(2, 3))]
        handle.remove()
        return results, call(numbers(2, 3)), seen

    check(scenario, variants=2)


@pytest.mark.parametrize("what", ["leaf", "outside", "in place", "form", "result", "view"])
def test_what_is_left_to_eager_execution(check, what):
    def scenario(compile):
        w, outside, seen = numbers(4).requires_grad_(), numbers(4).requires_grad_() * 1, []

        def step():
            h = w * 2
            if what == "leaf":
                w.register_hook(lambda g: g * 2)
            elif what == "outside":
                outside.register_hook(lambda g: g)
            elif what == "in place":
                h.register_hook(lambda g: g.mul_(2) and None)
            elif what == "form":
                h.register_hook(lambda g: g[0])
            elif what == "view":
                v = h.view(2, 2)
                k = h * 3
                for x in (v, k):
                    x.register_hook(lambda g: seen.append(tuple(g.shape)))
                h = v.sum() + k.sum()
            else:
                h.register_hook(lambda g: g * 2)
                return h.sum()
            (h * numbers(4)).sum().backward()
            return w.grad

        try:
            result = compile(step)()
        except RuntimeError as error:
            return str(error)
        if what == "result":
            result.backward()
        return result.detach(), w.grad, seen

    check(scenario, captured=False)


def test_hooks_of_parameters(check):
    def scenario(compile):
        model, limit = net(3, 4, 2), [0.05]
        handles = [p.register_hook(lambda g: g.clamp(-limit[0], limit[0])) for p in model.parameters()]
        model[0].weight.register_hook(lambda g: g * 2)
        optimizer = rushlight.optim.SGD(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()
            (first,) = rushlight.autograd.grad(model(x).sum(), model[0].bias)
            return [p.grad.norm().item() for p in model.parameters()], first

        call = compile(step)
        results = [call(numbers(2, 3)), call(numbers(2, 3))]
        limit[0] = 0.01
        results.append(call(numbers(2, 3)))
        handles[0].remove()
        results.append(call(numbers(2, 3)))
        for handle in handles[1:]:
            handle.remove()
        return *results, call(numbers(2, 3)), list(model.parameters())

    check(scenario)


@pytest.mark.parametrize("what", ["effect", "method", "post"])
def test_other_hooks_of_parameters_are_left_to_eager_execution(check, what):
    def scenario(compile):
        w, seen = numbers(3).requires_grad_(), []
        if what == "effect":
            w.register_hook(lambda g: seen.append(g.sum().item()))
        elif what == "method":
            w.register_hook(seen.append)
        else:
            w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.sum().item()))

        def step(x):
            (w * x).sum().backward()

        compile(step)(numbers(3))
        return w, len(seen)

    check(scenario, captured=False)
