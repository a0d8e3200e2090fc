"""Open sizes of exported programs: what stays open, what calls they take, and what is violated."""

from __future__ import annotations

import io
import itertools
import math
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import rushlight
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.text import text
from rushlight.export import AdditionalInputs, Dim, ShapesCollection, dims, draft_export, export, load, save
from rushlight.export.dynamic_shapes import ConstraintViolationError


def branching(x):
    return x + 1 if x.shape[0] > 5 else x * 2


def stored(program):
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    return load(file)


@pytest.mark.parametrize("again", [lambda program: program, stored], ids=["made", "stored"])
def test_programs_take_all_sizes_of_their_dims(again):
    def f(x, y):
        return x.reshape(-1, 4).t() @ y.flatten()[:, None], rushlight.rand(x.shape[0], 3), x.shape[1] * x[1:]

    (rows,), columns = dims("rows", min=3), Dim("columns")
    program = again(export(f, (rushlight.ones(6, 3, 4), rushlight.ones(6, 3)),
                           dynamic_shapes=({0: rows, 1: columns}, {0: rows, 1: columns})))
    assert "rows" in str(program)
    run = program.module()
    for n, k in [(6, 3), (5, 2), (3, 7)]:
        x, y = rushlight.randn(n, k, 4), rushlight.randn(n, k)
        results = []
        for call in (run, f):
            rushlight.manual_seed(0)
            results.append((*call(x, y), rushlight.rand(1)))
        for a, b in zip(*results):
            rushlight.testing.assert_close(a, b)
    with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] == y.size\(\)\[0\]"):
        run(rushlight.ones(3, 2, 4), rushlight.ones(2, 3))


def test_sizes_of_one_are_taken_where_a_capture_with_them_is_the_same():
    nn = pytest.importorskip("rushlight.nn")
    batch = Dim("batch", max=10)
    run = export(nn.Linear(2, 3), (rushlight.ones(4, 2),), dynamic_shapes={"input": {0: batch}}).module()
    assert run(rushlight.ones(1, 2)).shape == (1, 3) and run(rushlight.ones(10, 2)).shape == (10, 3)
    with pytest.raises(AssertionError, match=r"input.size\(\)\[0\] <= 10"):
        run(rushlight.ones(11, 2))

    def f(x):
        return x * 2 if x.shape[0] == 1 else x

    run = export(f, (rushlight.ones(3),), dynamic_shapes=({0: Dim("n")},)).module()
    assert run(rushlight.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError, match=">= 2"):
        run(rushlight.ones(1))


def test_branches_limit_the_sizes():
    program = export(branching, (rushlight.ones(3),), dynamic_shapes={"x": {0: Dim.AUTO}})
    assert program.range_constraints == {"s0": (0, 5)} and str(program.range_constraints) == "{'s0': VR[0, 5]}"
    assert stored(program).module()(rushlight.ones(5)).tolist() == [2] * 5
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[0\] <= 5"):
        program.module()(rushlight.ones(6))
    with pytest.raises(ConstraintViolationError, match=r"2 <= n <= 5. Suggested fix: n = Dim\('n', max=5\)"):
        export(branching, (rushlight.ones(3),), dynamic_shapes={"x": {0: Dim("n")}})
    assert export(branching, (rushlight.ones(3),), dynamic_shapes={"x": {0: Dim("n", max=5)}}).range_constraints


X = rushlight.ones(3, 2)


@pytest.mark.parametrize(("fn", "args", "shapes", "error", "match"), [
    (lambda x: x.view(3, 2), (X,), ({0: Dim("n")},), ConstraintViolationError, "constant .3."),
    (lambda x: x, (rushlight.ones(1),), ({0: Dim("n")},), ConstraintViolationError, "constant .1."),
    (lambda x: x[int(x.shape[0] * 16001.0 * 16001.0 * 16001.0 * 16001.0) % 3:],  # rounded, as it exceeds 2 ** 53
     (X,), ({0: Dim("n")},), ConstraintViolationError, "constant .3."),
    (lambda x, y: x + y, (X, X), ({0: Dim("n")}, {0: Dim("m")}), ConstraintViolationError, "m == n"),
    (lambda x, y: x + y, (X, X), ({0: Dim("n")}, None), ConstraintViolationError, "constant .3."),
    (lambda x: x, (X,), ({0: 4},), ConstraintViolationError, "Static shape constraint of 4"),
    (lambda x: x, (X,), ({0: Dim("n", min=4)},), ConstraintViolationError, "3 not in range"),
    (lambda x: x, (X,), {"y": None}, RuntimeError, r"arg names \['x'\]"),
    (lambda x: x, (X,), (None, None), RuntimeError, "1 elements"),
    (lambda x: x, (X,), ({2: Dim("n")},), RuntimeError, "no dimension 2"),
    (lambda x: x, (X,), (("n", None),), RuntimeError, "expected a Dim"),
    (lambda x: x, (X,), ((None,),), RuntimeError, "expected 2 dimensions"),
])
def test_violations_say_what_to_do(fn, args, shapes, error, match):
    with pytest.raises(error, match=match):
        export(fn, args, dynamic_shapes=shapes)


@pytest.mark.parametrize("f", [
    lambda x: (x * (1 / x.shape[0]), x / math.sqrt(x.shape[0] * 3), x * (1 / math.sqrt(x.shape[0])), 1 / x.shape[0]),
    lambda x: (x * x.shape[0] ** -0.5, x - float(x.shape[0]), x * -(x.shape[0] / 3), x + math.log(x.shape[0])),
    lambda x: (rushlight.full((2,), 1 / x.shape[0]), x.clamp(max=1 / x.shape[0]), rushlight.full((2,), x.shape[0])),
    lambda x: (x.shape, x.shape[0] // 2, -x.shape[0], x[:int(x.shape[0] * 0.5)], x[:math.ceil(x.shape[0] / 2)]),
    lambda x: (x * 2 if tuple(x.shape) in ((1, 3), (x.shape[0], 3)) else x, x.view(*x.shape, 1)),
    lambda x: (rushlight.tensor([x.shape[0], 3]), rushlight.tensor(x.shape[0] / 4), rushlight.as_tensor(x.shape)),
])
def test_numbers_from_open_sizes_are_computed_in_each_call(f):
    program = export(f, (rushlight.ones(4, 3),), dynamic_shapes=({0: Dim("n")},))
    x = rushlight.linspace(-1, 1, 21).view(7, 3)
    for run in (program.module(), stored(program).module(), rushlight.compile(program.module(), fullgraph=True)):
        for a, b in zip(run(x), f(x), strict=True):
            assert type(a) is type(b)
            assert a == b if not isinstance(b, rushlight.Tensor) else a.dtype is b.dtype and rushlight.allclose(a, b)


def test_drafts_say_what_could_not_stay_open():
    n, m = Dim("n"), Dim("m")
    draft = draft_export(lambda x, y: x.view(3, 2) + y.sum(0), (X, X), dynamic_shapes=[{0: n}, {0: m, 1: None}])
    assert not draft._report.successful() and "constant (3)" in str(draft._report) and len(draft._report.failures) == 1
    assert draft.module()(X, rushlight.ones(7, 2)).tolist() == [[8, 8]] * 3
    assert draft_export(lambda x: x + 1, (X,), dynamic_shapes=({0: n},))._report.successful()
    with pytest.raises(RuntimeError, match="cannot be captured whole"):
        draft_export(lambda x: x if x.sum() > 0 else -x, (X,))


def test_names_and_limits_of_dims():
    assert Dim("n").min == 0 and repr(Dim("n", max=4)) == "Dim('n', min=0, max=4)"
    for wrong in (lambda: Dim("n", min=4, max=4), lambda: Dim("1")):
        with pytest.raises(AssertionError):
            wrong()


def test_shapes_from_nested_arguments_and_examples():
    def f(pair, *, named):
        return pair["a"][0] + 1, named.sum()

    a, named = rushlight.ones(3, 2), rushlight.ones(4)
    shapes = ShapesCollection()
    shapes[a] = (Dim.DYNAMIC, None)
    args, kwargs = ({"a": (a, 1)},), {"named": named}
    spec = shapes.dynamic_shapes(f, args, kwargs)
    run = export(f, args, kwargs, dynamic_shapes=spec).module()
    assert run({"a": (rushlight.ones(5, 2), 1)}, named=named)[0].shape == (5, 2)
    with pytest.raises(AssertionError, match=r"named.size\(\)\[0\] == 4"):
        run({"a": (a, 1)}, named=rushlight.ones(5))
    more = AdditionalInputs()
    more.add(({"a": (a, 1)},), {"named": rushlight.ones(7)})
    program = export(f, args, kwargs, dynamic_shapes=more.dynamic_shapes(f, args, kwargs))
    more.verify(program)
    assert program.module()(*args, named=rushlight.ones(9))[1].item() == 9


def test_pictures_are_drawn_for_the_sizes_of_the_example():
    program = export(lambda x: x.reshape(-1) * 2, (rushlight.ones(3, 4),), dynamic_shapes=({0: Dim("rows")},))
    assert stored(program).draw().summary == "2 operations in 1 kernel and 1 view read 48 B and write 48 B"


def test_threads_share_a_program(monkeypatch):
    monkeypatch.setattr("rushlight.export.run._KEPT", 4)
    program = export(lambda x: x.reshape(-1).sum() * x.shape[0], (rushlight.ones(4, 3),),
                     dynamic_shapes=({0: Dim("rows")},))
    run = program.module()

    def work(n):
        assert stored(program).module()(rushlight.ones(n, 3)).item() == 3 * n * n  # `save` reads the program again
        return [run(rushlight.ones(size, 3)).item() == 3 * size * size for size in range(n, n + 40)]

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            assert all(itertools.chain.from_iterable(pool.map(work, range(2, 8))))
    finally:
        sys.setswitchinterval(before)
    assert not program.facts.open


def running(program):
    """The module of a program, one from its file, and compiled ones."""
    file = io.BytesIO()
    save(program, file)
    return [program.module(), load(file).module(), rushlight.compile(program.module()),
            rushlight.compile(program.module(), backend="eager")]


def test_sizes_follow_from_other_sizes():
    n = Dim("n", max=40)

    def f(x, y, z):
        return x[1:] + y, z.reshape(-1, 2) * y[:, None]

    def arguments(n):
        return rushlight.randn(n + 1), rushlight.randn(n), rushlight.randn(2 * n)

    program = export(f, arguments(4), dynamic_shapes=({0: n + 1}, {0: n}, {0: 2 * n}))
    assert repr(program.range_constraints) == "{'n': VR[0, 40]}"
    assert [str(v.meta.shape[0]) for v in program.graph.inputs] == ["n + 1", "n", "2*n"]
    for run in running(program):
        for size in (4, 9, 1, 0):
            given = arguments(size)
            for a, b in zip(run(*given), f(*given)):
                rushlight.testing.assert_close(a, b)
        with pytest.raises(AssertionError, match=r"y.size\(\)\[0\] \+ 1 == x.size\(\)\[0\]: they are 5 and 4"):
            run(rushlight.ones(4), rushlight.ones(4), rushlight.ones(8))


def test_only_a_derived_size_is_there():
    program = export(lambda x: x.reshape(-1, 3), (rushlight.ones(6, 2),), dynamic_shapes=({0: 3 * Dim("n") - 3},))
    for run in running(program):
        assert [run(rushlight.ones(size, 2)).shape[0] for size in (6, 9, 30)] == [4, 6, 20]
        with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] is 7"):
            run(rushlight.ones(7, 2))
    with pytest.raises(ConstraintViolationError, match=r"to be of the form 2\*n, where n is an integer"):
        export(lambda x: x + 1, (rushlight.ones(7),), dynamic_shapes=({0: 2 * Dim("n")},))


@pytest.mark.parametrize("make", [lambda n: n * n, lambda n: 1.5 * n, lambda n: n * -1, lambda n: 3 - n,
                                  lambda n: n + 0.5])
def test_sizes_follow_by_growing_whole_numbers(make):
    with pytest.raises(NotImplementedError, match="Only increasing linear operations with integer coefficients"):
        make(Dim("n"))


@pytest.mark.parametrize(("f", "least"), [
    (lambda x: x.exp().sum(0), 0),
    (lambda x: x.max(0).values, 1),
    (lambda x: x * 2 if x.shape[0] > 1 else x, 2),
    (lambda x: x * 2 if x.shape[0] else x, 1),
    (lambda x: x.mT @ x, 0),
])
def test_nothing_is_a_size_where_the_program_allows_it(f, least):
    program = export(f, (rushlight.ones(4, 3),), dynamic_shapes=({0: Dim("n")},))
    assert program.range_constraints["n"].lower == least
    for run in running(program):
        for size in range(3):
            x = rushlight.randn(size, 3)
            if size >= least:
                rushlight.testing.assert_close(run(x), f(x))
            else:
                with pytest.raises(AssertionError, match=f"Guard failed: x.size\\(\\)\\[0\\] >= 2: it is {size}"):
                    run(x)


def test_numbers_follow_from_sizes():
    nn = pytest.importorskip("rushlight.nn")
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    program = export(model, (rushlight.randn(5, 3),), dynamic_shapes=({0: Dim("n")},))
    before = {name: x.clone() for name, x in model.state_dict().items()}
    for run in running(program):
        for size in (5, 8):
            x = rushlight.randn(size, 3)
            found = []
            for each in (run, model):
                for name, value in each.state_dict().items():
                    value.copy_(before[name.removeprefix("_orig_mod.")])
                found.append([each(x), *[v.clone() for v in each.state_dict().values()]])
            for a, b in zip(*found):
                rushlight.testing.assert_close(a, b)


def test_all_arguments_may_be_one():
    program = export(lambda *xs: xs[0] + xs[1], (rushlight.ones(3), rushlight.ones(3)),
                     dynamic_shapes=(({0: Dim("n")}, {0: Dim("n")}),))
    assert program.module()(rushlight.ones(5), rushlight.ones(5)).tolist() == [2.0] * 5


def test_programs_inside_of_captures_keep_their_sizes_open():
    nn = pytest.importorskip("rushlight.nn")
    captured = []

    def counting(graph, metas, options):
        captured.append(graph)
        return lambda inputs: interpret(graph, inputs)

    def f(x):
        y = x.reshape(-1, 2) @ rushlight.ones(2, 3)
        return y, nn.functional.dropout(x, 0.5), x[1:] * x.shape[0], x.var(0)

    program = export(f, (rushlight.ones(4, 6),), dynamic_shapes=({0: Dim("n", min=3)},))
    run = rushlight.compile(program.module(), backend=counting, dynamic=True)
    again = export(program.module(), (rushlight.ones(5, 6),), dynamic_shapes=({0: Dim("m", min=3)},))
    assert repr(again.range_constraints) == "{'m': VR[3, int_oo]}"
    for size in (4, 6, 3, 9):
        x = rushlight.randn(size, 6)
        for call in (run, again.module()):
            results = []
            for each in (call, f):
                rushlight.manual_seed(size)
                results.append([*each(x), rushlight.rand(2)])
            for a, b in zip(*results):
                rushlight.testing.assert_close(a, b)
    assert len({text(graph) for graph in captured}) == len(captured) <= 4  # a program for each size, from one capture
    with pytest.raises(AssertionError, match="Guard failed"):
        run(rushlight.ones(2, 6))
