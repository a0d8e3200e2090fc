"""Affine maps of compiled programs: one kernel with the bias in it, or a product whose bias the loop after it adds."""

import numpy as np
import pytest

import rushlight
from rushlight.compiler.codegen.program import Program
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph
from rushlight.core.meta import meta
from rushlight.core.op import prims

RANDOM = np.random.default_rng(3)


def affine(lead, inner, outer, dtype, *after):
    """A graph of `linear` and what follows it, and operands."""
    graph = Graph()
    shapes = [(*lead, inner), (outer, inner), (outer,)]
    value = graph.call(prims.linear, tuple([graph.input(meta(dtype, shape)) for shape in shapes]))
    for op, params in after:
        value = graph.call(op, (value,), params)
    graph.output([value])
    return graph, [rushlight.from_numpy(RANDOM.standard_normal(shape)).to(dtype) for shape in shapes]


def lines_of(graph, operands):
    program = Program(graph)
    result, expected = program(list(operands))[0], interpret(graph, list(operands))[0]
    np.testing.assert_allclose(result.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    assert result.shape == expected.shape and result.stride() == expected.stride()
    return [line for line in program.source.splitlines() if "#" in line]


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64])
@pytest.mark.parametrize("lead", [(1000,), (4, 250)])
def test_bias_is_where_the_tiles_begin(lead, dtype):
    graph, operands = affine(lead, 64, 96, dtype)
    (line,) = lines_of(graph, operands)
    assert line.endswith("# linear")
    graph, operands = affine(lead, 64, 96, dtype, (prims.permute, (tuple(reversed(range(len(lead) + 1))),)))
    assert any(line.endswith("# linear") for line in lines_of(graph, operands))


def test_bias_is_in_the_loop_after_the_product():
    graph, operands = affine((1000,), 64, 96, rushlight.float32, (prims.relu, ()))
    lines = lines_of(graph, operands)
    assert any(line.endswith("# matmul") for line in lines) and any(line.endswith("# add, relu") for line in lines)


def test_affine_maps_that_our_kernel_does_not_take():
    for lead, inner, outer in (((1,), 2000, 600), ((2,), 3, 2), ((1500,), 700, 40)):
        graph, operands = affine(lead, inner, outer, rushlight.float32)
        assert lines_of(graph, operands)
