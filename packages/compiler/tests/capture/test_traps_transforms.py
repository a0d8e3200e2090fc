"""Traps: `rushlight.func` inside of compiled functions, and compiled functions that it made."""

import pytest

import rushlight
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

nn = pytest.importorskip("rushlight.nn")
F = nn.functional


def numbers(*shape):
    return rushlight.linspace(-1.0, 1.0, max(1, rushlight.Size(shape).numel())).reshape(shape)


def test_gradients_of_a_closure(check):
    def scenario(compile):
        scale = [2.0]

        def f(x):
            return grad(lambda y: (y.sin() * x * scale[0]).sum())(x)

        call = compile(f)
        results = [call(numbers(3)), call(numbers(3))]
        scale[0] = 5.0
        return *results, call(numbers(3))

    check(scenario)


def test_a_function_made_by_grad(check):
    def scenario(compile):
        call = compile(grad(lambda x, y: (x ** 3).sum() * y, argnums=(0, 1)))
        return [call(numbers(3), numbers(1).sum() + i) for i in range(2)]

    check(scenario, variants=1)


def test_gradients_of_gradients(check):
    def scenario(compile):
        call = compile(lambda x: grad(lambda a: grad(lambda b: b.sin() * a)(a) * a)(x))
        return call(rushlight.tensor(0.5)), call(rushlight.tensor(0.7))

    check(scenario)


def test_a_step_by_hand_with_auxiliary_results(check):
    def scenario(compile):
        params = {"w": numbers(4, 2), "b": rushlight.zeros(2)}

        def loss(params, x, y):
            out = x @ params["w"] + params["b"]
            return F.mse_loss(out, y), {"out": out, "n": 3}

        def step(x, y):
            nonlocal params
            found, (value, aux) = grad_and_value(loss, has_aux=True)(params, x, y)
            params = {name: p - 0.1 * found[name] for name, p in params.items()}
            return value, aux

        call = compile(step)
        return [call(numbers(3, 4), numbers(3, 2)) for _ in range(3)], params

    check(scenario, variants=1)


@pytest.mark.parametrize("outer", [False, True])
def test_gradients_through_gradients_to_the_outside(check, outer):
    def scenario(compile):
        w = numbers(3).requires_grad_(outer)

        def f(x):
            inner = grad(lambda y: ((y * w) ** 3).sum())(x)
            return inner.sum(), inner.requires_grad

        call = compile(f)
        results = []
        for x in (numbers(3), numbers(3).requires_grad_()):
            total, flag = call(x)
            if total.requires_grad:
                total.backward()
            results += [total.detach(), flag, x.grad, w.grad]
        return results

    check(scenario)


def test_what_grad_does_not_record(check):
    def scenario(compile):
        x = numbers(3).requires_grad_()

        def f(x):
            with rushlight.no_grad():
                inside = grad(lambda y: (y * y).sum())(x)
            return inside, inside.requires_grad, x.is_leaf

        return compile(f)(x)

    check(scenario)


def test_samples_of_a_batch(check):
    def scenario(compile):
        call = compile(lambda x: vmap(lambda row: row.softmax(0) * row.sum())(x))
        return call(numbers(3, 4)), call(numbers(3, 4) * 2)

    check(scenario, variants=1)


def test_batches_of_other_sizes_and_dimensions(check):
    def scenario(compile):
        call = compile(lambda x, y: vmap(lambda a, b: a * b, in_dims=(1, None), out_dims=1)(x, y))
        return [call(numbers(2, n), numbers(2)) for n in (3, 4, 5)]

    check(scenario)


def test_a_batch_inside_a_batch(check):
    def scenario(compile):
        call = compile(lambda x: vmap(lambda a: vmap(lambda b: a.dot(b) + x.sum())(x))(x))
        return call(numbers(3, 2))

    check(scenario)


def test_gradients_of_each_sample(check):
    def scenario(compile):
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
        for p in net.parameters():
            p.data.fill_(0.1)
        params = {name: p.detach() for name, p in net.named_parameters()}

        def loss(params, x, y):
            return F.cross_entropy(functional_call(net, params, (x[None],)), y[None])

        call = compile(lambda x, y: vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y))
        return call(numbers(4, 3), rushlight.tensor([0, 1, 1, 0]))

    check(scenario)


def test_gradients_to_parameters_through_a_batch(check):
    def scenario(compile):
        w = nn.Parameter(numbers(3))

        def f(x):
            with rushlight.no_grad():
                fixed = vmap(lambda row: (row * w).sum())(x)
            return (vmap(lambda row: (row * w).sin().sum())(x) * fixed).sum()

        f(numbers(2, 3)).backward()
        call = compile(f)
        w.grad = None
        call(numbers(2, 3)).backward()
        return w.grad

    check(scenario)


def test_many_networks_at_once(check):
    def scenario(compile):
        nets = [nn.Linear(3, 2) for _ in range(3)]
        for i, net in enumerate(nets):
            for p in net.parameters():
                p.data.fill_(0.1 * (i + 1))
        params, buffers = stack_module_state(nets)

        def f(x):
            one = lambda p, b, x: functional_call(nets[0], (p, b), (x,))  # noqa: E731
            return vmap(one, in_dims=(0, 0, None))(params, buffers, x)

        out = compile(f)(numbers(4, 3))
        out.sum().backward()
        return out.detach(), {name: p.grad for name, p in params.items()}

    check(scenario)


def test_jacobians_and_hessians(check):
    def scenario(compile):
        def f(x):
            g = lambda v: v.sin() * v.sum()  # noqa: E731
            return jacrev(g)(x), jacfwd(g)(x), hessian(lambda v: (v ** 3).sum())(x), jacrev(jacrev(g))(x)

        return compile(f)(numbers(3))

    check(scenario)


def test_products_with_jacobians(check):
    def scenario(compile):
        def f(x, t):
            value, tangent = jvp(lambda v: (v * 2).exp().detach() * v, (x,), (t,))
            out, pull = vjp(lambda v: {"a": v.sin(), "b": v * 2}, x)
            return value, tangent, out, pull({"a": t, "b": t}), pull({"a": t, "b": t})

        return compile(f)(numbers(3), numbers(3) + 1)

    check(scenario)


def test_forward_mode_knows_gradient_modes(check):
    def scenario(compile):
        w = numbers(3).requires_grad_()

        def f(x, t):
            def inner(v):
                with rushlight.no_grad():
                    a = v * w
                return a + v * w

            return jvp(inner, (x,), (t,))

        value, tangent = compile(f)(numbers(3), numbers(3) + 1)
        (value.sum() + tangent.sum()).backward()
        return value.detach(), tangent.detach(), w.grad

    check(scenario)


def test_meta_learning(check):
    def scenario(compile):
        net = nn.Linear(3, 1)
        for p in net.parameters():
            p.data.fill_(0.2)
        optimizer = rushlight.optim.SGD(net.parameters(), 0.1)

        def inner(params, x, y):
            return F.mse_loss(functional_call(net, params, (x,)), y)

        def task(params, x, y):
            found = grad(inner)(params, x, y)
            return inner({name: p - 0.1 * found[name] for name, p in params.items()}, x, y)

        def step(xs, ys):
            optimizer.zero_grad()
            loss = vmap(task, in_dims=(None, 0, 0))(dict(net.named_parameters()), xs, ys).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        call = compile(step)
        return [call(numbers(2, 4, 3), numbers(2, 4, 1)) for _ in range(3)], list(net.parameters())

    check(scenario, variants=1)


def test_writing_inside_of_a_batch(check):
    def scenario(compile):
        def f(x):
            def one(row):
                made = row * 0
                made[1] = row.sum()
                made += 1
                return made

            return vmap(one)(x)

        return compile(f)(numbers(2, 3))

    check(scenario)


@pytest.mark.parametrize("what", ["outside", "argument", "shared", "decision", "random", "kept", "statistics"])
def test_what_a_batch_cannot_do_is_left_to_eager_execution(check, what):
    def scenario(compile):
        outside, kept = rushlight.zeros(3), []
        norm = nn.BatchNorm1d(3)

        def one(row):
            if what == "outside":
                outside.add_(1)
            elif what == "argument":
                row.add_(1)
            elif what == "shared":
                rushlight.zeros(3).copy_(row)
            elif what == "decision" and row.sum() > 0:
                return row
            elif what == "random":
                return row + rushlight.rand(3)
            elif what == "kept":
                kept.append(row.sum())
            elif what == "statistics":
                return norm(row.expand(2, 3))
            return row * 2

        x = numbers(2, 3)
        try:
            result = compile(lambda x: vmap(one)(x))(x)
        except Exception as error:
            result = type(error).__name__
        return result, outside, x, len(kept), norm.running_mean

    check(scenario, captured=False)


def test_errors_of_transforms_are_those_of_eager_execution(check):
    def scenario(compile):
        found = []
        for f in (lambda x: grad(lambda y: y * 2)(x), lambda x: vmap(lambda y: y)(x.sum()),
                  lambda x: vmap(lambda y: 3)(x), lambda x: jvp(lambda y: y, (x,), (x[0],)),
                  lambda x: grad(lambda y: y.sum())(3)):
            with pytest.raises(Exception) as caught:
                compile(f)(numbers(2, 3))
            found.append((type(caught.value).__name__, str(caught.value)))
        return found

    check(scenario, captured=False)


def test_a_decision_inside_of_grad(check):
    def scenario(compile):
        call = compile(lambda x: grad(lambda y: (y * y).sum() if y.sum() > 0 else y.sum())(x))
        return call(numbers(3) + 1), call(numbers(3) - 1), call(numbers(3) + 2)

    check(scenario, variants=2)


def test_the_function_of_pull_outlives_no_call(check):
    def scenario(compile):
        value, pull = compile(lambda x: vjp(lambda y: y.sin(), x))(numbers(3))
        return value, pull(numbers(3))

    check(scenario, captured=None)


@pytest.mark.parametrize("transform", ["vmap", "jvp", "grad"])
def test_numbers_read_inside(check, transform):
    def scenario(compile):
        def f(x):
            return (x * x.sum().item() * x[:1].tolist()[0]).sum()

        call = compile({"vmap": rushlight.vmap(f), "grad": rushlight.func.grad(f),
                        "jvp": lambda x: rushlight.func.jvp(f, (x,), (x + 1,))}[transform])
        try:
            return call(rushlight.ones(2, 3) if transform == "vmap" else numbers(3))
        except RuntimeError as error:
            return str(error)

    check(scenario, captured=transform != "vmap")
