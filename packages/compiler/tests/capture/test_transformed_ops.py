"""Operations under `vmap`, `jvp` and `vjp` inside a captured program: what eager execution gives, or no capture."""

import numpy as np
import pytest

import rushlight
from rushlight.compiler.backends.registry import lookup
from rushlight.compiler.capture.capture import MISS, Abort, capture
from rushlight.core.op import REGISTRY
from rushlight.core.samples import samples_of

func = pytest.importorskip("rushlight.func")
rushlight.tensor(0)  # the first use declares all ops
EVERY = 11  # op of the registry; the rules of all are tested where they are
OPS = [op for _, op in sorted(REGISTRY.items()) if not op.mutates and not op.random and samples_of(op)][::EVERY]


def programs(op, sample):
    """Functions of tensors that transform a call, and the tensors that they are given."""
    operands = [rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in sample.operands]
    places = [i for i, x in enumerate(operands) if isinstance(x, rushlight.Tensor)]

    @rushlight.compiler.allow_in_graph
    def call(*tensors):
        given = list(operands)
        for i, x in zip(places, tensors):
            given[i] = x
        return op.apply(tuple(given), sample.params)

    tensors = tuple([operands[i] for i in places])
    if op.infer_metas(tuple(operands), sample.params) is None or not tensors:
        return
    batch = tuple([rushlight.stack([x, x]) for x in tensors])
    yield "vmap", lambda *xs: func.vmap(call)(*xs), batch
    if all(x.dtype.is_inexact for x in tensors):
        yield "jvp", lambda *xs: func.jvp(call, xs, tuple([x * 0.5 for x in xs])), tensors

        def pulled(*xs):
            values, pull = func.vjp(call, *xs)
            return pull(values)

        yield "vjp", pulled, tensors
        yield "vjp of samples", lambda *xs: func.vmap(lambda *ys: pulled(*ys))(*xs), batch


def flat(x):
    return [y for item in x for y in flat(item)] if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_transformed(op):
    for name, program, inputs in programs(op, samples_of(op)[0]):
        try:
            expected = flat(program(*inputs))
        except Exception as error:
            expected = error
        try:
            entry = capture(program, inputs, {}, lookup("eager"), {}, program)
        except Abort:
            continue
        if isinstance(expected, Exception):
            with pytest.raises(type(expected)):
                entry.run(inputs, {})
            continue
        found = entry.run(inputs, {})
        assert found is not MISS
        for a, b in zip(flat(found), expected, strict=True):
            for what in ("dtype", "shape", "requires_grad"):
                assert getattr(a, what) == getattr(b, what), name
            assert a.stride() == b.stride(), name
            rushlight.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
