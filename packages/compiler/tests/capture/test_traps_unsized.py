"""Traps: shapes that depend on data, which are decided: a variant for each."""

import pytest

import rushlight
from rushlight.compiler.graph.text import parse, text
from rushlight.compiler.graph.verify import verify


def tensor(*values):
    return rushlight.tensor(values)


def test_elements_where_a_mask_holds(check):
    def scenario(compile):
        def f(x):
            kept = x[x > 0]
            return kept * 2, (kept ** 2).mean(), kept.shape

        call = compile(f)
        return [call(x) for x in (tensor(1.0, -1.0, 2.0), tensor(-1.0, 3.0, 4.0), tensor(1.0, 2.0, 3.0),
                                  tensor(-1.0, -2.0, -3.0), tensor(5.0, -1.0, 7.0))]

    check(scenario, variants=3)


@pytest.mark.parametrize("what", ["nonzero", "tuple", "select", "unique", "consecutive", "dim", "bincount", "repeat"])
def test_every_operation(check, what):
    functions = {
        "nonzero": lambda x: x.nonzero(),
        "tuple": lambda x: rushlight.where(x > 1),
        "select": lambda x: rushlight.masked_select(x, x > 1).float() * 2,
        "unique": lambda x: rushlight.unique(x, return_inverse=True, return_counts=True),
        "consecutive": lambda x: x.unique_consecutive(),
        "dim": lambda x: rushlight.unique(x.view(2, 2), dim=0),
        "bincount": lambda x: rushlight.bincount(x, minlength=3),
        "repeat": lambda x: rushlight.arange(4).repeat_interleave(x),
    }

    def scenario(compile):
        call = compile(functions[what])
        return [call(x) for x in (tensor(1, 0, 2, 2), tensor(3, 3, 3, 3), tensor(2, 0, 1, 2), tensor(0, 0, 0, 0))]

    check(scenario)


def test_only_the_size_counts(check):
    def scenario(compile):
        call = compile(lambda x: x.nonzero().shape[0] * 10)
        return [call(x) for x in (tensor(1, 0), tensor(1, 1), tensor(0, 1), tensor(0, 0))]

    check(scenario, variants=3)


def test_gradients_through_masks(check):
    def scenario(compile):
        w = tensor(1.0, 2.0, 3.0).requires_grad_()
        rows = tensor(1.0, -1.0, 1.0)

        def f(x):
            return ((w * x)[x > 0] ** 2).sum() + w[rows > 0].sum()

        call = compile(f)
        results = []
        for x in (tensor(1.0, -1.0, 2.0), tensor(1.0, 1.0, 2.0), tensor(-1.0, 4.0, 2.0)):
            w.grad = None
            loss = call(x)
            loss.backward()
            results += [loss.detach(), w.grad]
        return results

    check(scenario, variants=2)


def test_a_step_on_masked_words(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        words, head = nn.Embedding(5, 3), nn.Linear(3, 5)
        for p in (*words.parameters(), *head.parameters()):
            p.data.copy_(rushlight.linspace(-1, 1, p.numel()).view(p.shape))
        optimizer = rushlight.optim.SGD([*words.parameters(), *head.parameters()], 0.1)

        def step(ids, mask):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(head(words(ids)[mask]), ids[mask])
            loss.backward()
            optimizer.step()
            return loss.item()

        call = compile(step)
        ids = tensor(0, 1, 2, 3)
        masks = [ids > 1, ids > 1, ids > 0, ids < 2]
        return [call(ids, mask) for mask in masks], words, head

    check(scenario, variants=2)


def test_other_sizes_change_nothing_before_they_are_seen(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        norm, seen = nn.BatchNorm1d(2), []
        rushlight.manual_seed(0)

        def f(x):
            y = norm(x)
            seen.append(y.shape[0])
            noise = rushlight.rand(2)
            kept = x[x.sum(1) > 0]
            return kept.sum(0) + noise, y

        call = compile(f)
        x = rushlight.linspace(-1.0, 1.0, 8).view(4, 2)
        return [call(x + shift) for shift in (0.0, 0.1, 0.6, -0.2, 2.0)], norm, seen, rushlight.rand(2)

    check(scenario)


def test_sizes_and_branches_together(check):
    def scenario(compile):
        def f(x):
            kept = x[x > 0]
            if kept.sum() > 3:
                kept = kept[kept > 1]
            return kept.numel(), kept * 2

        call = compile(f)
        return [call(x) for x in (tensor(1.0, -1.0), tensor(2.0, 2.0), tensor(3.0, 1.0), tensor(-1.0, 5.0))]

    check(scenario)


def test_ever_new_sizes_are_given_up(check):
    def scenario(compile):
        call = compile(lambda x: x[x > 0] * 2)
        return [call(rushlight.arange(40) - 39 + n) for n in range(36)]

    check(scenario, captured=False)


def test_what_is_left_to_eager_execution(check):
    pytest.importorskip("rushlight.nn")

    def scenario(compile):
        w = tensor(1.0, -1.0).requires_grad_()
        optimizer = rushlight.optim.SGD([w], 0.5)

        def f(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            return w.detach()[w.detach() > 0]

        call = compile(f)
        return call(tensor(1.0, 1.0)), call(tensor(1.0, -9.0))

    check(scenario, captured=False)


def test_the_text_of_such_a_call_parses_back():
    compiled = rushlight.compile(lambda x: x.nonzero() + 1, backend="eager")
    compiled(tensor(1, 0, 3))
    graph = compiled._rushlight_state.entries[0].graph
    verify(graph)
    assert text(parse(text(graph))) == text(graph)
