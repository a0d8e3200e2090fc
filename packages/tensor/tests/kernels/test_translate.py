"""Our translation of kernels against numba's: every scalar definition, bit for bit, at the values where it matters."""

import ast
import itertools
import math

import numpy as np
import pytest

import rushlight
from rushlight.core import declare
from rushlight.core.op import REGISTRY
from rushlight.kernels.build import build_program
from rushlight.kernels.cpu import jit, language
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.cpu.syntax import settled_names
from rushlight.kernels.cpu.translate import translate
from rushlight.kernels.half import storage_dtype
from rushlight.kernels.polynomials import POLYNOMIALS
from rushlight.kernels.source import Loop, loop_source

rushlight.tensor(0)  # the first use declares all ops
TOGETHER = 20  # definitions in one loop: numba takes a second for a loop, and little more for a long one
FLOATS = [0.0, 1.0, 0.5, 1.5, 2.0, 3.1415, 88.5, 1e-3, 1e10, 2.0**31, 2.0**63, np.inf, np.nan]


def values_of(dtype: np.dtype) -> np.ndarray:
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, 100, info.max, info.max - 1, info.min, info.min + 1], dtype)
    info = np.finfo(np.float32 if dtype.itemsize < 4 else dtype)
    numbers = np.array([*FLOATS, info.tiny, info.smallest_subnormal, info.max, 1 + info.eps])
    with np.errstate(over="ignore"):
        return np.concatenate([numbers, -numbers]).astype(dtype)


def operands_of(dtypes: list[np.dtype]) -> list[np.ndarray]:
    """All combinations of the values, in lengths that leave a rest beside whole vectors."""
    columns = zip(*itertools.product(*[values_of(dtype) for dtype in dtypes]))
    return [np.array([*column, *column[:3]], dtype) for column, dtype in zip(columns, dtypes)]


def programs(dtype: np.dtype, arity: int) -> list[tuple[str, object]]:
    """The elementwise ops that are defined for operands of a dtype, each traced alone."""
    found = []
    for name, op in sorted(REGISTRY.items()):
        if op.kind != "elementwise" or op.scalar is None or len(op.operands) != arity or op.mutates:
            continue
        try:
            program = build_program(op.scalar, [dtype] * arity, [dtype], tables=(POLYNOMIALS,))
        except TypeError:
            continue  # not defined for this dtype
        if not program.opaques() and (name, dtype.kind) != ("gcd", "b"):  # compared with Python, and not defined
            found.append((name, op.scalar))
    return found


def both_ways(definitions, dtype: np.dtype, arity: int):
    """The results of several definitions from the two routes."""

    def all_of_them(*elements):
        return tuple([definition(*elements) for _, definition in definitions])

    program = build_program(all_of_them, [dtype] * arity, [dtype] * len(definitions), tables=(POLYNOMIALS,))
    loop = Loop(program, ("c",) * (len(definitions) + arity))
    source = loop_source(loop)
    ours = jit.compile_source(source, loop.signature)
    assert jit.made_by(ours) == "llvm"
    operands = operands_of([dtype] * arity)
    stored = storage_dtype(dtype)
    results = []
    for kernel in (ours, jit._by_numba((source,), source, loop.signature, (), "")[0]):
        outs = [np.zeros(operands[0].size, stored) for _ in definitions]
        kernel(0, operands[0].size, *outs, *[x.view(stored) for x in operands])
        results.append([out.view(dtype).astype(np.float32 if dtype.itemsize == 2 else dtype) for out in outs])
    return results


CASES = [
    pytest.param(np.dtype(dtype), arity, start, id=f"{np.dtype(dtype).name}-{arity}-{start}")
    for dtype, arity in [(np.float32, 1), (np.float32, 2), (np.int32, 2), (np.bool_, 2)]
    for start in range(0, len(programs(np.dtype(dtype), arity)), TOGETHER)
]


@pytest.mark.parametrize("dtype, arity, start", CASES)
def test_both_routes_give_the_same_bits(dtype, arity, start):
    definitions = programs(dtype, arity)[start : start + TOGETHER]
    for (name, _), ours, numbas in zip(definitions, *both_ways(definitions, dtype, arity)):
        np.testing.assert_array_equal(ours, numbas, err_msg=name)  # NaN equals NaN, 0 equals -0
        if dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(ours[ours == 0]), np.signbit(numbas[ours == 0]), err_msg=name)


def opaque_functions():
    """The functions with loops and branches that elementwise ops call, and how many operands they take."""
    found = {}
    for op in REGISTRY.values():
        if op.kind == "elementwise" and op.scalar is not None and not op.mutates:
            try:
                program = build_program(op.scalar, [np.dtype(np.float64)] * len(op.operands), [np.dtype(np.float64)])
            except TypeError:
                continue  # not defined for real numbers
            found |= {opaque.name: opaque for opaque in program.opaques()}
    return sorted(found.items())


@pytest.mark.parametrize("name, opaque", opaque_functions())
def test_functions_with_loops_compute_what_python_does(name, opaque):
    arity = opaque.function.__code__.co_argcount
    kernel = elementwise_kernel(lambda *xs: opaque(*xs), [np.float64] * arity, np.float64)
    values = [0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 12.5, 40.0, math.inf, math.nan, -1.25, -8.5]
    columns = [np.array(column) for column in zip(*itertools.product(values, repeat=arity))]
    out = np.empty(columns[0].size)
    kernel(out, *columns)
    compared = 0
    for got, *numbers in zip(out, *columns):
        try:
            expected = opaque.function(*map(float, numbers))
        except (ArithmeticError, ValueError):
            continue  # Python raises where kernels go on with infinities and NaN
        if isinstance(expected, float):  # not the complex root of a negative number
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-15, err_msg=f"{name}{numbers}")
            compared += 1
    assert compared > 4


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_have_the_bits_of_numba(dtype):
    source = "def kernel(lo, hi, sums, products, quotients, sizes, equals, a, b):\n    for i in range(lo, hi):\n"
    source += "        x, y = load(a, i), load(b, i)\n        store(sums, i, x - (y + x).conjugate())\n"
    source += "        store(products, i, -x * y)\n        store(quotients, i, complex(x.imag, y.real))\n"
    source += "        store(sizes, i, abs(x))\n        store(equals, i, x == y)\n"
    parts = [0.0, -0.0, 1.5, -2.0, np.inf, np.nan]
    numbers = [complex(*pair) for pair in itertools.product(parts, parts)]
    a, b = (np.array(column, dtype) for column in zip(*itertools.product(numbers, numbers)))
    short, part = ("c64", "f32") if dtype is np.complex64 else ("c128", "f64")
    signature = ("u64", "u64", *[f"*{short}"] * 3, f"*{part}", "*b1", f"*{short}", f"*{short}")
    results = []
    for kernel in (translated(source, *signature), jit._by_numba((source, short), source, signature, (), "")[0]):
        outs = [np.zeros(a.size, kind) for kind in (dtype, dtype, dtype, np.zeros(0, dtype).real.dtype, bool)]
        kernel(0, a.size, *outs, a, b)
        results.append(outs)
    for ours, numbas in zip(*results):
        np.testing.assert_array_equal(ours, numbas)


@pytest.mark.parametrize("name", ["float64", "int64", "uint8", "bool", "complex64", "complex128"])
def test_no_definition_of_an_elementwise_op_is_left_to_numba(name):
    count = 0
    for op in REGISTRY.values():
        if op.kind != "elementwise" or op.scalar is None or op.mutates:
            continue
        operands = tuple([rushlight.ones(3, dtype=getattr(rushlight, name)) for _ in op.operands])
        try:
            out = op.infer_metas(operands, ())
        except (RuntimeError, TypeError):
            continue  # not defined for this dtype
        dtype = declare.common_dtype(op, [x._meta for x in operands]).numpy
        ins = [dtype] * len(operands)
        ins[:1] = [np.dtype(bool)] if op.promote == "where" else ins[:1]
        program = build_program(op.scalar, ins, [out.numpy], tables=(POLYNOMIALS,))
        loop = Loop(program, ("c",) * (len(operands) + 1))
        args = [language.parse_type(text) for text in loop.signature]
        translate(loop_source(loop), "kernel", args, language.types.void, jit._names(), program.opaques())
        count += 1
    assert count > 30


def translated(source: str, *signature: str, returns: str = ""):
    """The kernel of a source, which is to be ours."""
    kernel = jit.compile_source(source, signature, returns=returns)
    assert jit.made_by(kernel) == "llvm"
    return kernel


def test_integers_divide_as_in_python_and_by_zero_give_zero():
    source = "def kernel(lo, hi, q, r, a, b):\n    for i in range(lo, hi):\n        x, y = load(a, i), load(b, i)\n"
    source += "        store(q, i, x // y)\n        store(r, i, x % y)\n"
    values = [0, 1, -1, 7, -7, 3, -3, 2**62, -(2**63)]
    a, b = (np.array(column) for column in zip(*itertools.product(values, values)))
    quotient, rest = np.zeros_like(a), np.zeros_like(a)
    translated(source, "u64", "u64", *["*i64"] * 4)(0, a.size, quotient, rest, a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(quotient, np.where(b == 0, 0, a // np.where(b == 0, 1, b)))
        np.testing.assert_array_equal(rest, np.where(b == 0, 0, a % np.where(b == 0, 1, b)))


@pytest.mark.parametrize("name", ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "b1"])
def test_signs_and_bits_turn_in_the_type_that_a_number_has(name):
    source = "def kernel(lo, hi, negated, inverted, a):\n    for i in range(lo, hi):\n        x = load(a, i)\n"
    source += "        store(negated, i, f64(-x))\n        store(inverted, i, f64(~x))\n"
    a = values_of(np.dtype(np.bool_ if name == "b1" else f"{name[0]}{int(name[1:]) // 8}"))
    negated, inverted = np.zeros((2, a.size))
    translated(source, "u64", "u64", "*f64", "*f64", f"*{name}")(0, a.size, negated, inverted, a)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(negated, np.negative(a.astype(np.int64) if name == "b1" else a))
    np.testing.assert_array_equal(inverted, ~a)


def test_statements():
    source = """LIMIT = 5
def kernel(n, out):
    count = 0
    for i in range(n):
        if i == 2 or i > 3 and not i % 2:
            continue
        x = load(out, i)
        if x < 0.0:
            break
        y = x
        y += 1.0 if i else 2.0
        out[i] = y
        count += 1
    while count < LIMIT:
        count = count + 2
    for i in range(0, n, count):
        y = i32(i)
    return min(count, i64(100))
"""
    out = np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0, 1.0])
    assert translated(source, "i64", "*f64", returns="i64")(7, out) == 5
    assert out.tolist() == [3.0, 2.0, 1.0, 2.0, 1.0, -1.0, 1.0]


def test_names_that_are_always_written_before_they_are_read_are_values():
    source = """def kernel(n, out):
    settled = n * 2
    twice, last, carried = i64(0), i64(-1), i64(0)
    twice = settled
    for i in range(n):
        inner = i + settled
        if i > 0:
            store(out, i, carried + inner)
            branch = inner
        carried = inner * 10
        last += 1
    if n > 1:
        store(out, 0, branch + i)
    return twice + last
"""
    function = ast.parse(source).body[0]
    assert settled_names(function.args, function.body) == {"n", "out", "settled", "inner"}
    out = np.zeros(4, np.int64)
    assert translated(source, "i64", "*i64", returns="i64")(4, out) == 8 + 3
    assert out.tolist() == [11 + 3, 80 + 9, 90 + 10, 100 + 11]


@pytest.mark.parametrize(
    "body",
    [
        "x = load(a, 0)\n    if n:\n        x = 1\n    store(a, 1, x)",  # one name, two types
        "for i in range(n):\n        if i:\n            x = i\n        else:\n            x = 1.5\n        a[0] = x",
        "a[0] = n ** 3",
        "for x in (1.0, 2.0):\n        a[0] = x",
    ],
)
def test_what_is_not_plain_is_left_to_numba(body):
    assert jit._translated(f"def kernel(n, a):\n    {body}\n", ("i64", "*f64"), (), "", False, "test") == b""


def test_complex_arguments_are_left_to_numba():
    assert jit._translated("def kernel(x, a):\n    store(a, 0, x)\n", ("c64", "*c64"), (), "", False, "test") == b""


def test_arguments_are_checked_in_number_and_kind():
    kernel = translated("def kernel(n, x):\n    return f32(n) * x\n", "i64", "f32", returns="f32")
    assert kernel(-1, 2.5) == -2.5
    with pytest.raises(TypeError, match="takes 2 arguments"):
        kernel(1)
    with pytest.raises(TypeError):
        kernel("1", 2.0)
    with pytest.raises(TypeError):
        kernel(1, None)
