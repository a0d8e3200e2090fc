"""`rushlight.cond` in captured programs: both branches are there, the right one counts."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.export import export


@pytest.mark.parametrize("capture", [lambda f, x: export(f, (x,)).module(),
                                     lambda f, x: rushlight.compile(f, fullgraph=True),
                                     lambda f, x: rushlight.compile(f)],
                         ids=["export", "fullgraph", "compile"])
def test_the_branch_of_the_value_counts(capture):
    weight = rushlight.tensor([2.0, 3.0], requires_grad=True)

    def f(x):
        twice = x * 2
        return rushlight.cond(x.sum() > 0, lambda x: (x * weight, [twice.log()]), lambda x: (x - 1, [x.exp()]), (x,))

    run = capture(f, rushlight.ones(2))
    for value in (3.0, -3.0):
        found, expected = [], []
        for function, out in ((run, found), (f, expected)):
            x = rushlight.full((2,), value, requires_grad=True)
            a, (b,) = function(x)
            out += [a, b, *rushlight.autograd.grad(a.sum() + b.sum(), x)]
        for one, other in zip(found, expected):
            rushlight.testing.assert_close(one, other)


def test_a_condition_that_is_known_takes_its_branch():
    program = export(lambda x: rushlight.cond(x.shape[0] > 1, lambda: x[:1], lambda: x), (rushlight.ones(2),))
    assert [node.op.name for node in program.graph.nodes] == ["slice"]


@pytest.mark.parametrize(("branch", "match"), [
    (lambda x: x.add_(1), "writes to a tensor"),
    (lambda x: x + rushlight.rand(2), "random"),
    (lambda x: x[:1], "same dtype and shape"),
    (lambda x: 3, "different kinds"),
])
def test_branches_that_both_cannot_run_are_refused(branch, match):
    with pytest.raises(RuntimeError, match=match):
        export(lambda x: rushlight.cond(x.sum() > 0, branch, lambda x: x * 1, (x,)), (rushlight.ones(2),))


def test_loops_of_unknown_length_are_refused_and_run_compiled():
    def f(x):
        return rushlight.while_loop(lambda x: x.sum() < 9, lambda x: (x * 2,), (x,))

    with pytest.raises(RuntimeError, match="depends on data"):
        export(f, (rushlight.ones(2),))
    assert rushlight.compile(f)(rushlight.ones(2))[0].tolist() == f(rushlight.ones(2))[0].tolist()
