"""Small calls that read or write by index tensors, as native plans: see `rushlight.core.native_indices`."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.core import native
from rushlight.core.op import INPLACE, REGISTRY

pytestmark = pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")

_PLACES, _VECTOR = np.array([[0, 3, 1, 2], [3, 0, 0, 2]]), np.array([1, 3, 1])
_TABLE, _SOURCE = np.arange(20.0).reshape(4, 5).astype(np.float32), np.arange(15.0).reshape(3, 5).astype(np.float32) / 7


def _with_item(x, index, values):
    x[index] = values
    return x


SMALL = {
    "scatter": (lambda x, i, s: x.scatter(0, i, x[:, ::2]), (_PLACES[:, :3],)),
    "scatter a number": (lambda x, i, s: x.scatter_(1, i, 0.1), (_PLACES,)),
    "scatter_add": (lambda x, i, s: x.scatter_add(0, i, s), (_PLACES,)),
    "scatter_reduce": (lambda x, i, s: x.scatter_reduce_(1, i, s, "amin"), (_PLACES,)),
    "index_add": (lambda x, i, s: x.index_add(0, i, s), (_VECTOR,)),
    "index_add by columns": (lambda x, i, s: x.t().index_add_(1, i, s.t()), (_VECTOR,)),
    "index_copy": (lambda x, i, s: x.index_copy(0, i, s[:, :1].expand(2, 5)), (_VECTOR[:2],)),
    "index_fill": (lambda x, i, s: x.index_fill(1, i, 7), (-_VECTOR,)),
    "index_put": (lambda x, i, s: x.index_put((i,), s, accumulate=True), (_VECTOR - 4,)),
    "index_put of rows": (lambda x, i, s: _with_item(x, i, s[0]), (_VECTOR,)),
    "index_put of columns": (lambda x, i, s: _with_item(x, (slice(None), i), s[0, 0]), (_VECTOR,)),
    "index_put of pairs": (lambda x, i, s: _with_item(x, (i, -i), 2), (_VECTOR,)),
    "pairs": (lambda x, i, s: x[i, i[:, None]], (_VECTOR - 1,)),
    "pairs apart": (lambda x, i, s: x.reshape(2, 2, 5)[i % 2, :, i], (_VECTOR,)),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_calls_by_native_plans(name):
    assert native.installed() or native.install()
    function, (index,) = SMALL[name]

    def run(index, x=_TABLE):
        tensors = [rushlight.from_numpy(a.copy()) for a in (x, index, _SOURCE[: len(index), : index.shape[-1] + 2])]
        found = function(*tensors)
        assert tensors[0]._version == (found is tensors[0] or found._storage is tensors[0]._storage)
        return found.numpy()

    ops = [op for op in (*REGISTRY.values(), *INPLACE.values()) if op.name.startswith(("scatter", "index"))]
    for op in ops:
        op.plans.clear()
    found = [run(index) for _ in range(4)]  # the last ones by what was remembered
    plans = [plan for op in ops for plan in op.plans.values()]
    assert type(len) in map(type, plans)
    from rushlight.core import native_plans

    for op in ops:
        op.plans.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native_plans, "give", lambda plan, *rest, **more: plan)
        patch.setattr(native_plans, "take", lambda plan, *rest, **more: plan)
        expected = run(index)
    for op in ops:
        op.plans.clear()
    assert all(x.tobytes() == expected.tobytes() and x.shape == expected.shape for x in found)
    run(index)
    for wrong in (index + 9, index - 9):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            run(wrong)
