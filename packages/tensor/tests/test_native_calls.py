"""Native calls give what Python's give, and behave as they do: see `rushlight.core.native`."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import rushlight
from rushlight.core import dispatch, native
from rushlight.core.op import INPLACE, REGISTRY, plan_key

pytestmark = pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")
BUILTIN = type(len)


@pytest.fixture(scope="module", autouse=True)
def installed():
    assert native.install()


def _tensors(dtype: str) -> list[rushlight.Tensor]:
    """Layouts of a dtype that broadcast with each other: contiguous, transposed, strided, expanded, 0-dim, a row."""
    values = np.array([[0, 1, 2, 3], [7, 5, 120, 9], [1, 1, 0, 3]]).astype(dtype)
    if np.dtype(dtype).kind == "f":
        values[1, :3] = np.nan, -np.inf, -0.0
    x = rushlight.tensor(values)
    return [
        x, rushlight.tensor(values.T.copy()).T, rushlight.tensor(np.repeat(values, 2, 1))[:, ::2],
        x[:1].expand(3, 4), x[0, 1], x[0], x[:, :1], rushlight.tensor(values[None, :2, None])[:, :1],
    ]  # fmt: skip


def _same(found: rushlight.Tensor, expected: rushlight.Tensor) -> None:
    assert type(found) is type(expected) is rushlight.Tensor
    assert found._meta is expected._meta
    assert found._storage is None and found._auto is None
    assert found._array.flags.num == expected._array.flags.num and found._array.strides == expected._array.strides
    assert found._array.tobytes() == expected._array.tobytes()


@pytest.mark.parametrize(("kind", "least"), [("view", 20), ("structured", 8)])
def test_samples_of_operations_give_what_the_python_plans_give(kind, least):
    natively = 0
    for op in REGISTRY.values():
        for sample in op.samples() if op.kind == kind and not op.mutates else ():
            operands = tuple([rushlight.tensor(x) if isinstance(x, np.ndarray) else x for x in sample.operands])
            found = op.apply(operands, sample.params)
            plan = op.plans[plan_key(operands, sample.params)]
            if type(plan) is BUILTIN:
                made = plan.__self__[1](*operands)
                natively += 1
                for x, y in zip(*[m if isinstance(m, tuple) else (m,) for m in (found, made)], strict=True):
                    assert x._meta is y._meta and x._storage is y._storage, op
                    assert x._array.strides == y._array.strides and x._auto == y._auto, op
                    assert x._array.tobytes() == y._array.tobytes(), op
    assert natively >= least


def test_single_complex_numbers_are_those_of_the_python_plans():
    values = np.random.default_rng(0).standard_normal((2, 9, 2)).astype(np.float32).view(np.complex64)
    for a, b in zip(*values):
        for x, y in ((rushlight.tensor(a), rushlight.tensor(b)), (rushlight.tensor(a[0]), rushlight.tensor(b[0]))):
            assert (x * y).numpy().tobytes() == np.multiply(x.numpy(), y.numpy()).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"])
def test_loops_give_the_bytes_of_the_python_plans(dtype):
    natively = 0
    names = ("add", "mul", "true_divide", "lt", "eq", "maximum", "exp", "neg", "sqrt", "relu")
    ops = [REGISTRY[name] for name in names]
    for op in ops:
        for x in _tensors(dtype):
            others = [(*_tensors(dtype), 2, 1.5, True)] if len(op.operands) == 2 else [((),)]
            for y in others[0]:
                operands = (x,) if len(op.operands) == 1 else (x, y)
                try:
                    result = op.apply(operands)
                except (RuntimeError, TypeError):
                    continue  # the op refuses the dtype
                plan = op.plans[tuple([getattr(z, "_meta", None) or type(z) for z in operands])]
                if type(plan) is BUILTIN:
                    natively += 1
                    _same(result, plan.__self__[1](*operands))
    assert natively > 100


def _views(x):
    """Views of a tensor of shape (3, 4) by all routes."""
    yield from (x[1], x[-1], x[:, 2], x[0:2], x[1:], x[:-1], x[3:], x[-2:9], x[1:3, ::2], x[..., None, 1], x[0, 1])
    yield from (x.T, x.transpose(0, 1), x.permute(1, 0), x.reshape(2, 6), x.view(12), x.view((4, 3)), x.detach())
    yield from (x.unsqueeze(1), x[None].squeeze(0), x.flatten(), x.expand(2, 3, 4), x.select(1, 1), x.narrow(0, 1, 2))
    yield from (x.diagonal(), x.unfold(1, 2, 1), x.reshape(x.shape), x[:1, 1:2], x[2, 1:3], *x, *x.split(2))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128"])
@pytest.mark.parametrize("owner", [True, False])
def test_views_are_those_of_numpy(dtype, owner):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    for _ in range(3):  # the second time natively
        x = rushlight.from_numpy(values) if owner else rushlight.tensor(values)[:, :]
        y = rushlight.tensor(values)  # has no storage yet
        for tensor in (x, y):
            for view in _views(tensor):
                array = view._array
                assert view._storage is tensor._storage is not None and type(view) is rushlight.Tensor
                assert array.shape == view._meta.shape and array.flags.writeable and array.flags.aligned
                assert array.strides == tuple([n * array.itemsize for n in view._meta.strides])
                assert np.shares_memory(array, tensor._array) or not view.numel()
                assert view.flatten().tolist() == array.reshape(-1).tolist()
        assert x.detach()._array is x._array and y.detach()._array is y._array
        assert x[1:, 2]._auto[1].name == "select" and x[1:, 2]._auto[0]._auto[1].name == "slice"
        for name in ("select", "slice", "permute", "view"):
            assert type(next(reversed(REGISTRY[name].plans.values()))) is BUILTIN
        assert x[-1]._auto[2:] == ((-1,), (0,), None) and x[1:3]._auto[2:] == ((1,), (0, 2, 1), None)


def test_views_keep_the_state_of_their_memory():
    x = rushlight.zeros(4)
    for _ in range(3):
        part = x[1:3]
        part += 1
        assert x.tolist()[1:3] == part.tolist() and part._version == x._version
    locked = np.zeros(4)
    locked.flags.writeable = False
    y = rushlight.from_numpy(locked)
    for _ in range(3):
        assert not y[1:3]._array.flags.writeable


def test_indices_are_checked():
    x = rushlight.zeros(3, 4)
    for _ in range(3):
        x[1], x[1, 2], x[1:2]
        for index in (3, -4, (0, 4), (slice(1, 2), -5), 2**63, 2**70):
            with pytest.raises(ValueError if type(index) is int and index > 4 else IndexError):
                x[index]
        assert x[5:].shape == x[2:1].shape == (0, 4) and x[0:3].shape == (3, 4) and x[True].shape == (1, 3, 4)
        assert x[::2].shape == (2, 4) and x[::-1].shape == (3, 4) and x[np.int64(1)].shape == (4,)
        with pytest.raises(IndexError):
            rushlight.tensor(1)[0]
        with pytest.raises(IndexError):
            rushlight.tensor(1)[0:1]


def test_arguments_that_are_equal_but_not_the_same():
    for _ in range(3):
        assert rushlight.zeros(2).shape == (2,) and rushlight.zeros((2, 3)).shape == (2, 3)
        assert rushlight.arange(2).dtype is rushlight.int64 and rushlight.arange(2.0).dtype is rushlight.float32
        with pytest.raises(TypeError):
            rushlight.zeros(2.0)
        assert rushlight.zeros(1, dtype=rushlight.int8).dtype is rushlight.int8
        assert rushlight.zeros(1, dtype=rushlight.bool).dtype is rushlight.bool
        x = rushlight.ones(2, 3)
        assert x.sum().shape == () and x.sum(0).shape == (3,) and x.sum(1).shape == (2,)
        assert x.sum(0, True).shape == x.sum(dim=0, keepdim=True).shape == (1, 3) and x.sum(dim=0).shape == (3,)
    for n in (999, 2**20, 2**31):
        assert [rushlight.empty(n, 0).shape for _ in range(3)] == [(n, 0)] * 3


def test_creations_are_apart():
    for make in (
        lambda: rushlight.zeros(3),
        lambda: rushlight.arange(3),
        lambda: rushlight.eye(3),
        lambda: rushlight.ones((), dtype=rushlight.float64),
    ):
        first = [make() for _ in range(3)][-1]
        before = first.tolist()
        first += 1
        assert make().tolist() == before and make()._array.base is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
def test_folds_give_the_bytes_of_numpy(dtype):
    for n in (1, 2, 7, 8, 9, 100, 127, 128, 129, 1000, 4097):
        values = np.random.default_rng(n).standard_normal(n).astype(dtype)
        if np.dtype(dtype).kind == "i":
            values = np.random.default_rng(n).integers(-(2**31), 2**31 - 1, n).astype(dtype)
        elif n == 1:
            values[0] = -0.0
        x = rushlight.tensor(values)
        for _ in range(2):
            assert x.sum(dtype=x.dtype).numpy().tobytes() == np.add.reduce(values, None, values.dtype).tobytes()
            assert type(next(reversed(REGISTRY["sum"].plans.values()))) is BUILTIN
            assert x.amax().numpy().tobytes() == values.max().tobytes()
            if np.dtype(dtype).kind == "f":
                mean = np.add.reduce(values, axis=None) / values.size
                assert x.mean().numpy().tobytes() == mean.tobytes() and x.mean().shape == ()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_rows_fold_to_the_bytes_of_the_python_plans(dtype):
    for shape in ((3, 1), (3, 2), (1, 9), (16, 16), (2, 3, 8), (2, 1000), (300, 3), (2, 1, 130)):
        values = np.random.default_rng(0).standard_normal(shape) * 100
        x = rushlight.tensor(values.astype(dtype))
        dim, kind = (len(shape) - 1,), x.dtype
        for keepdim in (False, True):
            for name, params in (("sum", (kind,)), ("amax", ()), ("amin", ()), ("mean", (kind,))):
                if name == "mean" and dtype == "int32":
                    continue
                op = REGISTRY[name]
                found = op.apply((x,), (dim, keepdim, *params))
                plan = op.plans[x._meta, dim, keepdim, *params]
                expected = plan.__self__[1](x)
                assert type(plan) is BUILTIN and found._meta is expected._meta
                assert found._array.tobytes() == expected._array.tobytes()


def test_numbers_become_elements_as_in_python():
    x = rushlight.tensor([1.0, -2.0])
    assert (x * 1e300).tolist() == [float("inf"), float("-inf")]
    assert (x + (2**24 + 1)).tolist() == (x.numpy() + np.float32(2**24 + 1)).tolist()
    small = rushlight.tensor([1, 2], dtype=rushlight.int8)
    for number in (300, -1, True):
        assert ((small + number).numpy() == (small.numpy() + np.array(number).astype(np.int8))).all()
    for tensor, number in ((x, 10**400), (small, 2**70)):
        with pytest.raises(OverflowError):
            tensor * number


def test_fronts_find_the_plan_of_the_operands():
    x, y, whole = rushlight.ones(3), rushlight.ones(2, 3), rushlight.arange(3)
    for _ in range(3):
        assert (x + y).shape == (2, 3) and (y + x).shape == (2, 3)
        assert (x - 1).tolist() == [0, 0, 0] and (3 - x).tolist() == [2, 2, 2] and (whole - 1).tolist() == [-1, 0, 1]
        assert (whole - 1).dtype is rushlight.int64 and (whole - 1.0).dtype is rushlight.float32
        assert (whole + True).dtype is rushlight.int64 and x.__add__("a") is NotImplemented
        assert rushlight.exp(x).shape == x.exp().shape == (3,)


def test_what_is_not_a_plain_tensor_or_number_goes_to_python():
    class Own(rushlight.Tensor):
        pass

    x = rushlight.ones(3)
    own = x.as_subclass(Own)
    for _ in range(3):
        assert (own + x).tolist() == (x + own).tolist() == [2, 2, 2]
        assert (x * np.float32(2)).tolist() == [2, 2, 2]
        with pytest.raises(TypeError, match="input must be a Tensor"):
            rushlight.exp(2.0)
        with pytest.raises(TypeError):
            x + None
        with pytest.raises(RuntimeError):
            x + rushlight.ones(2)


def test_a_subclass_may_override_an_operator():
    class Own(rushlight.Tensor):
        def __add__(self, other):
            return "own"

    x = rushlight.ones(2)
    assert x.as_subclass(Own) + x == "own" and type(x + x) is rushlight.Tensor


def test_handlers_see_calls():
    class Notes:
        def __init__(self):
            self.names = []

        def handle(self, op, operands, params):
            self.names.append(op.name)
            with dispatch.below():
                return op.execute(operands, params)

    x, notes = rushlight.ones(3), Notes()
    x + x
    with dispatch.push(notes):
        x + x
        x.exp()
    assert notes.names == ["add", "exp"]


def test_the_default_dtype_is_asked_again():
    whole = rushlight.arange(3)
    assert (whole / 2).dtype is rushlight.float32 and (whole / 2).dtype is rushlight.float32
    rushlight.set_default_dtype(rushlight.float64)
    try:
        assert (whole / 2).dtype is rushlight.float64
    finally:
        rushlight.set_default_dtype(rushlight.float32)
    assert (whole / 2).dtype is rushlight.float32


def test_references_are_given_back():
    x, y = rushlight.ones(3), rushlight.ones(3)
    meta, descr = x._meta, x._array.dtype
    calls = [lambda: x + y, lambda: x * 2.0, lambda: 2 - x, lambda: x.exp(), lambda: x > y, lambda: x + 10**400]
    calls += [lambda: x[1], lambda: x[1:], lambda: x[None], lambda: x[:2, None], x.detach, lambda: x.view(3, 1)]
    calls += [lambda: rushlight.cat([x, y]), x.sum, lambda: rushlight.zeros(3), lambda: x.add_(0), lambda: x[9]]
    for call in [*calls, *calls]:  # the first makes the plan, the second remembers it
        call_quietly(call)
    gc.collect()
    before = [sys.getrefcount(thing) for thing in (x, y, meta, descr, x._array)]
    nones = sys.getrefcount(None)
    tracemalloc.start()
    for _ in range(1000):
        for call in calls:
            call_quietly(call)
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    after = [sys.getrefcount(thing) for thing in (x, y, meta, descr, x._array)]
    assert all(now <= then for now, then in zip(after, before)), (after, before)  # others may let the metadata go
    assert abs(sys.getrefcount(None) - nones) < 100
    assert current < 20_000


def call_quietly(call):
    try:
        call()
    except (OverflowError, IndexError):
        pass


def test_more_plans_than_are_remembered():
    tensors = [rushlight.ones(n) for n in range(1, 200)]
    for _ in range(2):
        assert [(x + 1).shape[0] for x in tensors] == list(range(1, 200))
        assert [(x + x).shape[0] for x in tensors] == list(range(1, 200))


def test_threads_may_call_while_plans_are_forgotten():
    x, wrong = rushlight.ones(4), []

    def work():
        for _ in range(3000):
            if (x + x).tolist() != [2, 2, 2, 2]:
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(300):
        REGISTRY["add"].plans.clear()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_stay_what_they_are():
    import inspect
    import pickle

    assert inspect.isfunction(rushlight.exp) and inspect.isfunction(rushlight.Tensor.__add__)
    assert pickle.loads(pickle.dumps(rushlight.exp)) is rushlight.exp
    assert list(inspect.signature(rushlight.mul).parameters) == ["input", "other"]


@pytest.mark.parametrize(("setting", "expected"), [("0", "False"), ("1", "True")])
def test_the_setting_decides(setting, expected):
    program = (
        "import rushlight; from rushlight.core import native; x = rushlight.ones(3); x + x; y = x + x; "
        "print(native.installed(), y.tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "RUSHLIGHT_NATIVE_CALLS": setting},
    )  # fmt: skip
    assert done.stdout.strip() == f"{expected} [2.0, 2.0, 2.0]"


def test_python_does_the_work_where_llvmlite_cannot_be_imported():
    program = (
        "import sys; sys.modules['llvmlite'] = None; import rushlight; from rushlight.core import native; "
        "x = rushlight.ones(3); print([(x + x).tolist() for _ in range(2)], native.installed())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "RUSHLIGHT_NATIVE_CALLS": "1"},
    )  # fmt: skip
    assert done.stdout.strip() == "[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]] False"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_give_the_bytes_of_numpy(dtype):
    draw = np.random.default_rng(0).standard_normal
    for n, k, m in ((16, 16, 16), (1, 3, 1), (5, 1, 7), (4, 9, 1), (1, 8, 8)):
        a, b, row = [draw(shape).astype(dtype) for shape in ((n, k), (k, m), m)]
        x, y, z = [rushlight.tensor(array) for array in (a, b, row)]
        turned = rushlight.tensor(b.T.copy())
        for _ in range(2):
            assert (x @ y).numpy().tobytes() == (a @ b).tobytes()
            assert (x @ turned.T).numpy().tobytes() == (a @ b.T.copy().T).tobytes()
            found = REGISTRY["linear"].apply((x, turned, z))
            assert found.numpy().tobytes() == (a @ b.T.copy().T + row).tobytes()
            assert REGISTRY["linear"].apply((x, turned, None)).shape == (n, m)
    assert BUILTIN in {type(plan) for plan in REGISTRY["linear"].plans.values()}
    assert BUILTIN in {type(plan) for plan in REGISTRY["matmul"].plans.values()}


def test_tensors_are_joined():
    x, y = rushlight.arange(6).reshape(2, 3), rushlight.arange(2).reshape(2, 1)
    for _ in range(3):
        assert rushlight.cat([x, y, x], 1).tolist() == [[0, 1, 2, 0, 0, 1, 2], [3, 4, 5, 1, 3, 4, 5]]
        assert rushlight.cat([x, x[:0], x]).tolist() == [[0, 1, 2], [3, 4, 5]] * 2
        assert rushlight.stack([x, x], 1).tolist() == [[[0, 1, 2]] * 2, [[3, 4, 5]] * 2]
        assert rushlight.cat([x[:, 0]] * 20).shape == (40,) and rushlight.cat([x.T, x.T]).shape == (6, 2)
    assert BUILTIN in {type(plan) for plan in REGISTRY["cat"].plans.values()}


def test_small_draws_are_the_numbers_of_a_large_one():
    sizes = [16, 3, (2, 5), 1, 512, 64] * 40
    for draw in (rushlight.rand, rushlight.randn):
        for dtype, each in ((rushlight.float32, 4), (rushlight.float64, 2)):
            rushlight.manual_seed(5)
            small = [draw(size, dtype=dtype) for size in sizes]
            counters = [-(-x.numel() // each) for x in small]
            rushlight.manual_seed(5)
            large, at = draw(sum(counters) * each, dtype=dtype), 0
            for x, taken in zip(small, counters, strict=True):
                assert x.flatten().tolist() == large[at : at + x.numel()].tolist()
                at += taken * each


def test_arrays_are_adopted():
    for _ in range(3):
        for array in (np.zeros((2, 3)), np.zeros((), np.int8), np.zeros((3, 2)), np.zeros(0), np.zeros(3, np.float32)):
            x = rushlight.from_numpy(array)
            assert x.numpy() is array and x.shape == array.shape and x.storage().base is array and x.storage().exposed
        part = rushlight.from_numpy(np.zeros((4, 4))[1:, ::2])
        assert part.shape == (3, 2) and part.stride() == (4, 2)
        for wrong in (np.zeros(2, "U1"), [1], np.zeros(2)[::-1]):
            with pytest.raises((TypeError, ValueError)):
                rushlight.from_numpy(wrong)


def test_direct_subclasses_are_taken_as_tensors():
    class Own(rushlight.Tensor):
        pass

    class Below(Own):
        pass

    x = rushlight.ones(2, 2)
    for kind in (Own, Below):
        for _ in range(3):
            own = x.as_subclass(kind)
            for result in (own + x, own @ x, own[0], own.T, own.sum(), own.exp(), own.reshape(4), rushlight.cat([own])):
                assert type(result) is rushlight.Tensor


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
def test_writing_in_place(dtype):
    for x in _tensors(dtype):
        if 0 in x.stride() and x.numel() > 1:
            continue  # an expanded tensor is refused
        for y in (x, x.clone(), x.clone()[..., :1] if x.ndim else x.clone(), 3, True):
            for name in ("add", "mul", "maximum"):
                op = INPLACE[REGISTRY[name]]
                expected, target = x.clone(), x.clone() if x._meta.contiguous else x
                operands = (target, target if y is x else y)
                expected.copy_(REGISTRY[name].apply((expected, expected if y is x else y)))
                for _ in range(2):
                    before = target.clone()
                    version = target._version
                    assert op.apply(operands) is target
                    assert target._version == version + 1 and target.numpy().tobytes() == expected.numpy().tobytes()
                    target.copy_(before)
    x = rushlight.ones(3)
    x += x
    assert type(INPLACE[REGISTRY["add"]].plans[x._meta, x._meta]) is BUILTIN


def test_writing_in_place_asks_whether_it_may():
    locked = np.zeros(4, np.float32)
    locked.flags.writeable = False
    x = rushlight.from_numpy(locked)
    y = rushlight.zeros(6)
    for _ in range(3):
        with pytest.raises((RuntimeError, ValueError)):
            x += 1
        with pytest.raises(RuntimeError, match="memory"):
            y[1:].add_(y[:-1])
        with pytest.raises(RuntimeError):
            y[:3] += rushlight.zeros(2, 3)
        y[:3] += y[3:]
    assert locked.tolist() == [0] * 4


@pytest.mark.parametrize("native_calls", ["0", "1"])
def test_elements_that_share_memory_are_written_one_after_the_other(native_calls):
    program = """
import rushlight
for size in (8, 40000):
    x = rushlight.ones(size)
    for _ in range(2):
        part = x.fill_(1).unfold(0, 3, 1)
        part.mul_(2)
        assert x[:4].tolist() == [2, 4, 8, 8]
        part.sub_(rushlight.ones(3))
        assert x[:4].tolist() == [1, 2, 5, 5]
"""
    setting = {**os.environ, "RUSHLIGHT_NATIVE_CALLS": native_calls}
    subprocess.run([sys.executable, "-c", program], env=setting, check=True)


@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128"])
def test_indices_take_what_numpy_takes(dtype):
    values = np.arange(24).reshape(2, 3, 4).astype(dtype)
    x, rng = rushlight.from_numpy(values), np.random.default_rng(0)
    for _ in range(3):
        natively = 0
        for dim, size in enumerate(values.shape):
            index = rng.integers(0, size, 5)
            at = rushlight.from_numpy(index)
            assert np.array_equal(x.index_select(dim, at), values.take(index, dim))
            signed = rng.integers(-size, size, (2, 2))
            place = (slice(None),) * dim
            assert np.array_equal(x[(*place, rushlight.from_numpy(signed))], values[(*place, signed)])
            lines = rng.integers(0, size, [2 if d != dim else 5 for d in range(3)])
            found = x.gather(dim, rushlight.from_numpy(lines))
            part = values[tuple([slice(2) if d != dim else slice(None) for d in range(3)])]
            assert np.array_equal(found, np.take_along_axis(part, lines, dim))
            for name in ("index_select", "index", "gather"):
                natively += type(next(reversed(REGISTRY[name].plans.values()))) is BUILTIN
            for wrong in (size, -size - 1, 2**62):
                with pytest.raises(IndexError, match=f"index {wrong} is out of bounds for dimension {dim}"):
                    x[(*place, rushlight.tensor([[0, wrong], [0, 0]]))]
                with pytest.raises(IndexError, match="out of bounds"):
                    x.index_select(dim, rushlight.tensor([0, 0, 0, 0, wrong]))
                with pytest.raises(RuntimeError, match="out of bounds"):
                    x.gather(dim, rushlight.full(found.shape, wrong))
            with pytest.raises(IndexError, match="out of bounds"):
                x.index_select(dim, rushlight.tensor([0, 0, 0, 0, -1]))
        assert natively == 9
    narrow = rushlight.from_numpy(np.array([1, 0], np.int32))
    assert np.array_equal(x[narrow], values[::-1])
