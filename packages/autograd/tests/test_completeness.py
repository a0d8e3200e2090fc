"""Every op has a gradient row or is listed as having none."""

import numpy as np
import pytest

import rushlight
from rushlight.autograd.recipe import Recipe
from rushlight.autograd.rules.registry import NONDIFFERENTIABLE, ROWS
from rushlight.core.declare import structured
from rushlight.core.op import REGISTRY, kernel, meta_of
from rushlight.core.samples import samples_of


def test_every_op_has_a_row_or_is_listed_as_nondifferentiable():
    assert ROWS
    decomposed = {op for op in REGISTRY.values() if op.decomposition is not None and not op.kernels}
    missing = sorted(op.name for op in set(REGISTRY.values()) - set(ROWS) - NONDIFFERENTIABLE - decomposed)
    assert not missing, (
        f"{len(missing)} ops without gradient row; add one in rushlight/autograd/rules or list them: "
        f"{', '.join(missing)}"
    )


def test_no_op_is_in_both_lists():
    assert not set(ROWS) & NONDIFFERENTIABLE


@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in sorted(ROWS, key=lambda op: op.name)])
def test_formulas_find_what_they_ask_for(op):
    """Each formula's arguments can be supplied for a sample of its op."""
    sample = samples_of(op)[0]
    operands = [rushlight.tensor(x) if hasattr(x, "dtype") else x for x in sample.operands]
    metas = tuple(
        [m if m is None or m.weak or not m.dtype.is_inexact else m.with_grad(True) for m in map(meta_of, operands)]
    )
    out = op.infer(*metas, *sample.params)
    recipe = Recipe(op, metas, sample.params, len(out) if isinstance(out, tuple) else 1, ROWS[op])
    assert len(recipe.calls) == len(recipe.wanted)


def test_an_op_without_row_refuses_only_to_be_recorded():
    op = structured("rowless", lambda input: input.with_grad(False), registered=False)
    kernel(op, "cpu")(np.negative)
    x = rushlight.ones(2, requires_grad=True)
    with pytest.raises(NotImplementedError, match="rowless: no gradient formula is known"):
        op(x)
    with rushlight.no_grad():
        assert op(x).tolist() == [-1, -1]
