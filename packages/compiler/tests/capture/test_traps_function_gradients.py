"""Traps: `autograd.Function`s of the program, differentiated by somebody outside of the compiled function."""

import pytest

import rushlight
from rushlight.compiler.graph.text import parse, text
from rushlight.compiler.graph.verify import verify

Function = rushlight.autograd.Function


def numbers(*shape):
    return rushlight.linspace(-1.0, 1.0, rushlight.Size(shape).numel()).reshape(shape)


class Swish(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x.sigmoid()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        s = x.sigmoid()
        return g * (s + x * s * (1 - s)) * 1.5


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * result * 2


class Rounded(Function):
    @staticmethod
    def forward(x, steps):
        return (x * steps).round() / steps

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.steps = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * (2 if ctx.steps > 4 else 1), None


class Reversed(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.factor * g, None


class Two(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        places = x.argmax()
        ctx.mark_non_differentiable(places)
        return x * y, x + y, places

    @staticmethod
    def backward(ctx, g, h, unused):
        x, y = ctx.saved_tensors
        return g * y * 3 + h, None if not ctx.needs_input_grad[1] else g * x


@pytest.mark.parametrize("function", [Swish, Exp])
def test_gradients_come_from_the_backward_of_the_function(check, function):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        net = nn.Linear(3, 2)
        for p in net.parameters():
            p.data.copy_(numbers(*p.shape))
        call = compile(lambda x: function.apply(net(x)).sum() + net.bias.sum())
        results = []
        for scale in (1.0, 2.0):
            net.zero_grad()
            loss = call(numbers(4, 3) * scale)
            loss.backward()
            results += [loss.detach(), *[p.grad for p in net.parameters()]]
        return results

    check(scenario, variants=1)


@pytest.mark.parametrize("function", [Swish, Exp])
def test_second_derivatives(check, function):
    def scenario(compile):
        x = numbers(3).requires_grad_()
        loss = compile(lambda x: function.apply(x * 2).sum())(x)
        (first,) = rushlight.autograd.grad(loss, x, create_graph=True)
        (second,) = rushlight.autograd.grad(first.sum(), x)
        return first.detach(), second

    check(scenario)


def test_several_results_of_which_some_are_used(check):
    def scenario(compile):
        x, y = numbers(3).requires_grad_(), numbers(3) + 2
        call = compile(lambda x, y: Two.apply(x, y))
        results = []
        for pick in (0, 1, "both"):
            for needs in (False, True):
                y = (numbers(3) + 2).requires_grad_(needs)
                x.grad = None
                a, b, place = call(x, y)
                (a.sum() + b.sum() if pick == "both" else (a, b)[pick].sum()).backward()
                results += [x.grad, y.grad, place, a.detach(), a.requires_grad, place.requires_grad]
        return results

    check(scenario)


def test_numbers_that_change(check):
    def scenario(compile):
        x = numbers(3).requires_grad_()
        call = compile(lambda x, factor: Reversed.apply(x * 2, factor).exp())
        results = []
        for factor in (0.5, 0.25, 0.125, 2.0):
            x.grad = None
            call(x, factor).sum().backward()
            results.append(x.grad)
        return results

    check(scenario, variants=2)


def test_contexts_set_up_apart(check):
    def scenario(compile):
        x = numbers(3).requires_grad_()
        call = compile(lambda x, steps: Rounded.apply(x, steps) * 3)
        results = []
        for steps in (2, 8, 2):
            x.grad = None
            call(x, steps).sum().backward()
            results.append(x.grad)
        return results

    check(scenario)


def test_native_programs(check):
    x = numbers(64).requires_grad_()
    found = []
    for call in (lambda x: Exp.apply(Swish.apply(x) * 2).sum(),
                 rushlight.compile(lambda x: Exp.apply(Swish.apply(x) * 2).sum(), fullgraph=True)):
        x.grad = None
        loss = call(x)
        (first,) = rushlight.autograd.grad(loss, x, create_graph=True)
        (second,) = rushlight.autograd.grad(first.sum(), x)
        found.append((loss.detach(), first.detach(), second))
        with rushlight.no_grad():
            found[-1] += (call(x),)
    for a, b in zip(*found):
        rushlight.testing.assert_close(a, b)


scale = 2.0


class Scaled(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * scale


class Noisy(Function):
    seen: list = []

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        Noisy.seen.append(1)
        return g * 2


class Asking(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g * 2 if g.sum() > 0 else g


@pytest.mark.parametrize("function", [Scaled, Noisy, Asking])
def test_what_depends_on_the_moment_of_the_backward_pass_is_left_to_eager_execution(check, function):
    def scenario(compile):
        global scale
        Noisy.seen.clear()
        x = numbers(3).requires_grad_()
        call = compile(lambda x: function.apply(x).sum())
        for factor in (2.0, -3.0):
            loss = call(x)
            scale = factor
            (loss * factor).backward()
        return x.grad, len(Noisy.seen)

    check(scenario, captured=False)


def test_saved_tensors_that_are_changed_meanwhile(check):
    def scenario(compile):
        x = numbers(3).requires_grad_()
        y = x * 2
        loss = compile(lambda y: Swish.apply(y).sum())(y)
        y.detach().add_(1)
        try:
            loss.backward()
        except RuntimeError:
            return "changed"
        return x.grad

    check(scenario)


def test_the_text_of_such_a_call_parses_back():
    compiled = rushlight.compile(lambda x: Exp.apply(x), backend="eager")
    compiled(numbers(3).requires_grad_())
    graph = compiled._rushlight_state.entries[0].graph
    verify(graph)
    assert text(parse(text(graph))) == text(graph)


rate = 2.0
table = {"rate": 2.0}
weight = rushlight.ones(3)


class Scaled(rushlight.autograd.Function):
    """What backward reads lies around, and is read by forward, too."""

    @staticmethod
    def forward(ctx, x, where):
        ctx.rate, ctx.table, ctx.where = rate, table, where
        return x * rate * table["rate"] * weight

    @staticmethod
    def backward(ctx, grad):
        read = {"global": lambda: rate, "item": lambda: ctx.table["rate"], "tensor": lambda: weight,
                "type": lambda: 2 if isinstance(rate, float) else 3, "context": lambda: ctx.rate}
        return grad * read[ctx.where](), None


@pytest.mark.parametrize("where", ["global", "item", "tensor", "type", "context"])
def test_what_changes_before_the_backward_pass(check, where):
    def scenario(compile):
        global rate, weight
        rate, weight, table["rate"] = 2.0, rushlight.ones(3), 2.0
        x = numbers(3).requires_grad_()
        call = compile(lambda x: Scaled.apply(x, where).sum())
        call(x).backward()
        y = call(x)
        rate, table["rate"] = 3, 5.0
        weight.mul_(2)
        y.backward()
        return x.grad

    check(scenario, captured=where == "context")
