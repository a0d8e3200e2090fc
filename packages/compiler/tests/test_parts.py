"""Kernels in a row as one native call: fresh results, errors, threads. That they give the right numbers `test_fusion`
finds out, on random graphs."""

from __future__ import annotations

import ctypes
import threading
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.compiler.codegen import parts
from rushlight.compiler.codegen.program import Program
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.native.programs import builtin, ready, record
from rushlight.core.meta import meta
from rushlight.core.op import prims
from rushlight.ops.cross_entropy import cross_entropy

pytestmark = pytest.mark.skipif(not ready(), reason="this interpreter has no native calls")
F32 = torch.float32


def layers(graph: Graph, count: int = 3, width: int = 8):
    """An input, and what `count` layers make of it, with what they make between."""
    x = graph.input(meta(F32, (4, width)))
    values = [x]
    for _ in range(count):
        weight = graph.input(meta(F32, (width, width)))
        values.append(graph.call(prims.tanh, (graph.call(prims.matmul, (values[-1], weight)),)))
    return values


def inputs_of(graph: Graph):
    torch.manual_seed(0)
    return [torch.randn(v.meta.shape) for v in graph.inputs]


def expected(inputs):
    x, *weights = inputs
    results = []
    for weight in weights:
        x = (x @ weight).tanh()
        results.append(x)
    return results


def test_a_program_of_kernels_is_one_call():
    graph = Graph()
    values = layers(graph)
    graph.output(values[2:])
    program, inputs = Program(graph), inputs_of(graph)
    assert program._native is not None
    first, again = program(inputs), program(inputs)
    for x, y, z in zip(first, again, expected(inputs)[1:], strict=True):
        torch.testing.assert_close(x, z)
        assert x.equal(y) and x._array is not y._array and x.storage() is not y.storage()
        assert x._array.base is None and x._meta is y._meta and not x.requires_grad


def test_what_is_no_kernel_stands_between_parts():
    graph = Graph()
    values = layers(graph)
    turned = graph.call(prims.permute, (values[-1],), ((1, 0),))
    summed = graph.call(prims.cumsum, (turned,), (1, F32, False))
    graph.output([graph.call(prims.tanh, (graph.call(prims.matmul, (summed, values[1])),)), values[1]])
    program, inputs = Program(graph), inputs_of(graph)
    assert program._native is None and program.source.count("def part_") == 2
    first, *_, last = expected(inputs)
    for x, y in zip(program(inputs), [(last.T.cumsum(1) @ first).tanh(), first], strict=True):
        torch.testing.assert_close(x, y)


def test_large_results_come_from_the_pool_and_not_from_parts():
    graph = Graph()
    x = graph.input(meta(F32, (400, 400)))
    graph.output([graph.call(prims.tanh, (graph.call(prims.exp, (x,)),))])
    assert Program(graph)._native is None


def test_wrong_targets_raise_as_they_do_eagerly():
    x, target = torch.randn(6, 3), torch.tensor([0, 1, 2, 3, 0, 1])
    graph = Graph()
    inputs = [graph.input(v._meta) for v in (x, target)]
    loss, largest, rest = graph.call(prims.cross_entropy, (*inputs, None), (-100, "mean"))
    graph.output([graph.call(prims.tanh, (loss,)), largest, rest])
    program = Program(graph)
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        program([x, target])
    right = torch.where(target < 3, target, -100)
    found, *_ = program([x, right])
    torch.testing.assert_close(found, cross_entropy(x, right).tanh())


def test_wrong_targets_in_memory_that_was_taken_over_raise():
    """Run again from memory that the part has written to, 2 - t would be a class."""

    def loss(x, t):
        t = t * 1 + 1
        scores = (x.T.contiguous() * t).cumsum(1)
        two = scores[0, 0].long() * 0 + 2
        return cross_entropy(scores.T.contiguous() * 1, two - t)

    compiled, x, t = torch.compile(loss, fullgraph=True), torch.ones(64, 4), -(torch.arange(64) % 2)
    torch.testing.assert_close(compiled(x, t), loss(x, t))
    t[3] = 2
    with pytest.raises(IndexError, match="Target -1 is out of bounds"):
        compiled(x, t)


@pytest.mark.parametrize("width", [8, 128])  # the second takes long enough to let other threads run meanwhile
def test_calls_on_several_threads(width):
    graph = Graph()
    values = layers(graph, 6, width)
    graph.output([values[-1]])
    program, wrong = Program(graph), []
    assert program._native is not None
    calls = [[torch.randn(v.meta.shape) for v in graph.inputs] for _ in range(6)]
    right = [program(inputs)[0] for inputs in calls]

    def work():
        for _ in range(30):
            wrong.extend(1 for inputs, y in zip(calls, right) if not program(inputs)[0].equal(y))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_parts_are_no_larger_than_the_machine_code_has_room_for():
    from rushlight.compiler.native import program_code  # it imports llvmlite

    assert (parts.MOST_SLOTS, parts.MOST_ARGUMENTS) == (program_code.MOST_SLOTS, program_code.MOST_ARGUMENTS)
    graph = Graph()
    x = graph.input(meta(F32, (4,)))
    values = [graph.call(prims.tanh, (x,))]
    for _ in range(2 * parts.MOST_SLOTS):
        values.append(graph.call(prims.tanh, (values[-1],)))
    graph.output(values)
    program, inputs = Program(graph), inputs_of(graph)
    found = program(inputs)
    assert len(found) == len(values) and found[1].allclose(inputs[0].tanh().tanh())


def test_memory_that_is_taken_over_twice():
    graph = Graph()
    x, weight = [graph.input(meta(F32, (16, 16))) for _ in range(2)]
    first = graph.call(prims.cumsum, (x,), (1, F32, False))  # made outside of the part
    second = graph.call(prims.relu, (first,))
    product = graph.call(prims.matmul, (second, weight))
    third = graph.call(prims.relu_backward, (product, second))
    graph.output([graph.call(prims.cumsum, (third,), (0, F32, False)), graph.call(prims.matmul, (product, weight))])
    program, inputs = Program(graph), inputs_of(graph)
    assert "def part_0" in program.source
    expected = inputs[0].cumsum(1).relu() @ inputs[1]
    found, other = program(inputs)
    torch.testing.assert_close(found, (expected * (inputs[0].cumsum(1) > 0)).cumsum(0))
    torch.testing.assert_close(other, expected @ inputs[1])


def test_memory_that_the_line_after_a_part_takes_over_and_reads():
    graph = Graph()
    x, weight, y = [graph.input(meta(F32, shape)) for shape in ((64, 10), (10, 512), (64, 512))]
    product = graph.call(prims.matmul, (graph.call(prims.relu, (x,)), weight))
    graph.output([graph.call(prims.gelu_backward, (product, y))])
    program, inputs = Program(graph), inputs_of(graph)
    assert "def part_0" in program.source and "fused_1.run" in program.source
    expected = prims.gelu_backward.apply((inputs[0].relu() @ inputs[1], inputs[2]))
    torch.testing.assert_close(program(inputs)[0], expected)


@pytest.mark.parametrize("fails", [False, True])
def test_inputs_keep_their_arrays_while_other_threads_run(fails):
    x, seen = torch.ones(4), []

    @ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 5)
    def kernel(result, exception, source, *numbers):
        array = weakref.ref(x._array)
        x._array = np.zeros(4, np.float32)  # as another thread may do it
        seen.append((array() is not None, source == array().ctypes.data if array() is not None else None))
        return 0

    address = ctypes.cast(kernel, ctypes.c_void_p).value
    wrong = np.array([int(fails)])
    steps = [("kernel", address, [(True, 0), (False, 0), (False, 0)]), ("check", 0, [(False, wrong)])]
    outputs = [(np.dtype(np.float32), (4,), x._meta)]
    call = builtin(lambda x: "python", record(1, outputs, [], 0, steps, tensors=True, long=True))
    array = weakref.ref(x._array)
    result = call(x)
    assert seen == [(True, True)] and array() is None
    assert result == "python" if fails else result[0]._meta is x._meta
