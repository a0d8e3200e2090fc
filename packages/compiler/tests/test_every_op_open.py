"""Every op with all its sizes open: one program of a region gives what eager execution gives, for several sizes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import rushlight
from rushlight.compiler.backends import opened
from rushlight.compiler.capture.sizes import _symbolic_strides
from rushlight.compiler.graph.facts import Facts, Fixed
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.values import Values
from rushlight.core.meta import Meta, meta
from rushlight.core.op import REGISTRY, meta_of
from rushlight.core.samples import samples_of
from rushlight.core.tensor import Tensor

rushlight.tensor(0)  # the first use declares all ops
OPS = [op for _, op in sorted(REGISTRY.items()) if not op.mutates and not op.random]


def graph_of(op, sample):
    """A graph of a call on tensors whose sizes are all open from 2 on, and its facts; None where that cannot be."""
    facts, graph = Facts(), Graph()
    facts.fractions = True
    operands = []
    for x in sample.operands:
        if isinstance(x, np.ndarray):
            m = rushlight.from_numpy(x)._meta
            shape = tuple([facts.atom(f"s{len(facts.atoms)}", n, None, 2) if n >= 2 else n for n in m.shape])
            x = graph.input(meta(m.dtype, shape, _symbolic_strides(m, shape), m.device))
        operands.append(x)
    try:
        found = op.infer(*[x.meta if isinstance(x, Value) else meta_of(x) for x in operands], *sample.params)
    except (Fixed, TypeError):
        return None
    if found is None or not facts.atoms:
        return None
    call = graph.call(op, tuple(operands), sample.params, found)
    graph.output([call] if isinstance(found, Meta) else [*call])
    facts.open = False
    return graph, facts


def tensor_like(array: np.ndarray, m: Meta) -> Tensor:
    """A tensor of some metadata with the elements of an array, repeated or cut off."""
    made = rushlight.empty_strided(m.shape, m.strides, dtype=m.dtype)
    made.copy_(rushlight.from_numpy(np.resize(array, m.shape).copy()))
    return made


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_one_program_serves_all_sizes(op):
    for sample in samples_of(op)[:2]:
        made = graph_of(op, sample)
        if made is None:
            continue
        graph, facts = made
        family = opened.family("inductor", graph, facts, {})
        for step in (0, 1, 0, 5):
            sizes = {atom.number: atom.hint + step for atom in facts.atoms if atom.parts is None}
            run = family.at(sizes) if facts.holds(sizes) else None
            if run is None:
                continue
            arrays, metas = iter(sample.operands), iter([Values(facts, sizes).meta(v.meta) for v in graph.inputs])
            operands = tuple([tensor_like(x, next(metas)) if isinstance(x, np.ndarray) else x for x in arrays])
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    expected = op.apply(operands, sample.params)
            except (RuntimeError, IndexError, ValueError):  # the elements do not suit these sizes
                continue
            got = run([x for x in operands if isinstance(x, Tensor)])
            for a, b in zip(got, expected if isinstance(expected, tuple) else (expected,), strict=True):
                assert a._meta is b._meta
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5, atol=1e-5)
