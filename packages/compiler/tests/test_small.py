"""Small calls in compiled programs: single native calls, and what they leave away."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.compiler.codegen.program import compile_program
from rushlight.compiler.graph.ir import Graph
from rushlight.core.op import prims
from rushlight.ops.cross_entropy import cross_entropy, cross_entropy_op


def program(op, shapes, params=(), dtype=torch.float32, layouts=None):
    """A program of one call, and tensors for it."""
    inputs = [None if shape is None else torch.randn(shape, dtype=dtype) for shape in shapes]
    for i in layouts or ():
        inputs[i] = inputs[i].mT.contiguous().mT
    graph = Graph()
    values = [None if x is None else graph.input(x._meta) for x in inputs]
    made = graph.call(op, tuple(values), params)
    graph.output([made] if not isinstance(made, tuple) else list(made))
    return compile_program(graph), [x for x in inputs if x is not None], op.apply(tuple(inputs), params)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("op", "shapes", "layouts"),
    [
        (prims.linear, [(5, 7), (3, 7), (3,)], ()),
        (prims.linear, [(5, 7), (3, 7), None], ()),
        (prims.linear, [(2, 5, 7), (3, 7), (3,)], ()),
        (prims.linear, [(5, 7), (3, 7), (3,)], (0, 1)),
        (prims.matmul, [(5, 7), (7, 3)], ()),
        (prims.matmul, [(5, 7), (7, 3)], (0, 1)),
        (prims.matmul, [(4, 5, 7), (4, 7, 3)], ()),
        (prims.matmul, [(4, 2, 5, 7), (7, 3)], ()),
        (prims.linear_weight_grad, [(5, 7), (5, 3)], ()),
    ],
)
def test_products_are_one_call(op, shapes, layouts, dtype):
    run, inputs, expected = program(op, shapes, dtype=dtype, layouts=layouts)
    assert "product(" in run.source
    torch.testing.assert_close(run(inputs)[0], expected)


def test_products_of_other_dtypes_than_their_result_are_left_to_eager_plans():
    graph, tensors = Graph(), (torch.randn(5, 2), torch.arange(10).reshape(5, 2))
    graph.output([graph.call(prims.linear_weight_grad, tuple([graph.input(x._meta) for x in tensors]))])
    found = compile_program(graph)([*tensors])[0]
    torch.testing.assert_close(found, prims.linear_weight_grad.apply(tensors))


@pytest.mark.parametrize("shapes", [[(1, 7), (7, 3)], [(5, 7), (7, 1)], [(7,), (7, 3)], [(5, 0), (0, 3)]])
def test_products_with_vectors_are_left_to_others(shapes):
    run, inputs, expected = program(prims.matmul, shapes)
    assert "product(" not in run.source
    torch.testing.assert_close(run(inputs)[0], expected)


def step(weight, x, target):
    weight.grad = None
    loss = cross_entropy(x @ weight, target, reduction="sum")
    loss.backward()
    return loss.detach()


def test_loss_of_few_rows():
    weight = torch.randn(4, 3, requires_grad=True)
    x, target = torch.randn(6, 4), torch.tensor([0, 2, 1, -100, 2, 0])
    expected = step(weight, x, target), weight.grad
    compiled = torch.compile(step, fullgraph=True)
    torch.testing.assert_close((compiled(weight, x, target), weight.grad), expected)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(weight, x, target + 2)


def test_loss_of_many_rows_is_the_eager_one():
    x, target = torch.randn(64, 512, requires_grad=True), torch.randint(0, 512, (64,))
    graph = Graph()
    graph.output([*graph.call(cross_entropy_op, (*map(graph.input, (x.detach()._meta, target._meta)), None),
                              (-100, "mean"))][:1])
    run = compile_program(graph)
    assert "cross_entropy_kernel(" not in run.source and "cross_entropy(wrap(" in run.source
    torch.testing.assert_close(run([x.detach(), target])[0], cross_entropy(x, target).detach())

    @torch.compile
    def loss_of(x, target):
        loss = cross_entropy(x, target)
        loss.backward()
        return loss.detach()

    for rows in (64, 80, 96):  # the second size makes the number of rows an open one
        x = torch.randn(rows, 512, requires_grad=True)
        target = torch.randint(0, 512, (rows,))
        loss_of(x, target)
        found, x.grad = x.grad, None
        cross_entropy(x, target).backward()
        torch.testing.assert_close(found, x.grad)
        with pytest.raises(IndexError, match="out of bounds"):
            loss_of(x, target + 512)


def test_a_constant_is_made_once_and_never_written_to():
    def f(x):
        ones = torch.full((3,), 2.0)
        return x * ones, ones.add_(x), torch.full((3,), 2.0)

    compiled, x = torch.compile(f, fullgraph=True), torch.arange(3.0)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), f(x))


def test_views_that_kernels_read_in_place_are_not_made():
    graph = Graph()
    x, y = (graph.input(torch.ones(5, 7)._meta) for _ in range(2))
    turned = graph.call(prims.permute, (y,), ((1, 0),))
    graph.output([graph.call(prims.matmul, (x, turned))])
    assert "transpose" not in compile_program(graph).source
