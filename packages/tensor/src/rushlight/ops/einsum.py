"""Contractions of several tensors: einsum, tensordot, kron, chain_matmul, bilinear."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from rushlight.core.errors import check_dim, shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.matmul import matmul_op

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


# einsum: labels are letters; the dimensions of an ellipsis get the numbers -1 (last), -2, ...


def _labels(term: str, ndim: int, which: str) -> list:
    """The label of each dimension of one operand."""
    if term.count("...") > 1 or "." in term.replace("...", ""):
        raise RuntimeError(f"einsum: found '.' in {which} that is not part of a single ellipsis '...'")
    before, dots, after = term.partition("...")
    bad = set(before + after) - set(_LETTERS)
    if bad:
        raise RuntimeError(f"einsum: invalid subscript {sorted(bad)[0]!r} in {which}; subscripts must be in [a-zA-Z]")
    named = len(before) + len(after)
    if named > ndim or (not dots and named != ndim):
        raise RuntimeError(
            f"einsum: the number of subscripts in the equation ({named}) does not match the number of dimensions "
            f"({ndim}) "
            f"for {which}{'' if dots else ' and no ellipsis was given'}"
        )
    return [*before, *(range(named - ndim, 0) if dots else ()), *after]


def _parse(equation: str, operands: Sequence[Tensor]) -> tuple[list[list], list]:
    """The labels of the operands and of the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        more = "more" if len(terms) > len(operands) else "fewer"
        raise RuntimeError(
            f"einsum: {more} subscripts were specified in the equation ({len(terms)}) than operands provided "
            f"({len(operands)})"
        )
    labels = [_labels(term, x.ndim, f"operand {i}") for i, (term, x) in enumerate(zip(terms, operands))]
    every = [label for row in labels for label in row]
    dots = sorted({label for label in every if isinstance(label, int)})
    if not arrow:
        return labels, dots + sorted(label for label in set(every) - set(dots) if every.count(label) == 1)
    result = _labels(right, len(right.replace("...", "")) + (len(dots) if "..." in right else 0), "the output")
    for label in result:
        if result.count(label) > 1:
            raise RuntimeError(f"einsum: output subscript {label} appears more than once in the output")
        if label not in every:
            raise RuntimeError(
                f"einsum: output subscript {label} does not appear in the equation for any input operand"
            )
    return labels, result


def _sublists(args: tuple) -> tuple[str, list[Tensor]]:
    """The equation and operands of the form `einsum(x, [0, 1], y, [1, 2], [0, 2])`."""

    def text(labels: Sequence) -> str:
        for label in labels:
            if label is not Ellipsis and not 0 <= label < 52:
                raise ValueError(f"einsum: expected subscripts in the range [0, 52), got {label}")
        return "".join(["..." if label is Ellipsis else _LETTERS[label] for label in labels])

    operands, lists = list(args[: len(args) // 2 * 2 : 2]), [text(labels) for labels in args[1::2]]
    return ",".join(lists) + (f"->{text(args[-1])}" if len(args) % 2 else ""), operands


def _diagonals(x: Tensor, labels: list) -> tuple[Tensor, list]:
    """A label that an operand carries twice means the diagonal of the two dimensions."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum: subscript {label} is repeated but the sizes don't match, {x.shape[second]} != "
                    f"{x.shape[first]}"
                )
            x = x.diagonal(0, first, second)
            labels = [*[m for i, m in enumerate(labels) if i not in (first, second)], label]
    return x, labels


def _sum_out(x: Tensor, labels: list, keep: set) -> tuple[Tensor, list]:
    gone = [d for d, label in enumerate(labels) if label not in keep]
    if not gone:
        return x, labels
    return x.sum(tuple(gone), dtype=x.dtype), [label for label in labels if label in keep]


def _arranged(x: Tensor, labels: list, order: list, sizes: dict) -> Tensor:
    """The dimensions in the order of labels, size 1 repeated where the other operand has more."""
    x = x.permute(*[labels.index(label) for label in order])
    wanted = [sizes[label] for label in order]
    return x if list(x.shape) == wanted else x.expand(*wanted)


def _contract(x: Tensor, xs: list, y: Tensor, ys: list, keep: set) -> tuple[Tensor, list]:
    """Sum of products over the labels that are not kept, as one batched matrix product."""
    x, xs = _sum_out(x, xs, keep | set(ys))
    y, ys = _sum_out(y, ys, keep | set(xs))
    sizes = dict(zip(xs, x.shape))
    for label, size in zip(ys, y.shape):
        sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
    shared = [label for label in xs if label in ys]
    batch, inner = [label for label in shared if label in keep], [label for label in shared if label not in keep]
    rows, columns = [label for label in xs if label not in ys], [label for label in ys if label not in xs]
    if not inner and not rows and not columns:
        return _arranged(x, xs, batch, sizes) * _arranged(y, ys, batch, sizes), batch
    b, n, k, m = (prod([sizes[label] for label in group]) for group in (batch, rows, inner, columns))
    left = _arranged(x, xs, batch + rows + inner, sizes).reshape(b, n, k)
    right = _arranged(y, ys, batch + inner + columns, sizes).reshape(b, k, m)
    order = batch + rows + columns
    return matmul_op.apply((left, right)).reshape([sizes[label] for label in order]), order


@function(method=False, out=False, memo=True)
def einsum(*args: Tensor | str | Sequence) -> Tensor:
    """Sum of products in Einstein's notation: `einsum("ij,jk->ik", a, b)` is the matrix product.

    Labels of the equation name dimensions; those missing after `->` are summed over; `...` stands for dimensions that
    broadcast. The form
    `einsum(a, [0, 1], b, [1, 2], [0, 2])` works too. Raises RuntimeError for an equation that does not fit the
    operands.

    Example:
        >>> import rushlight
        >>> rushlight.einsum("ii", rushlight.ones(3, 3))
        tensor(3.)
    """
    if len(args) < 2:
        raise ValueError(
            "einsum: must specify the equation string and at least one operand, or operands and their subscripts"
        )
    if isinstance(args[0], str):
        equation, operands = args[0], list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
    else:
        equation, operands = _sublists(args)
    if not operands:
        raise RuntimeError("einsum: must provide at least one operand")
    labels, result = _parse(equation, operands)
    _check_sizes(operands, labels)
    pairs = [_diagonals(x, row) for x, row in zip(operands, labels)]
    x, xs = pairs[0]
    for i, (y, ys) in enumerate(pairs[1:], 2):
        later = {label for _, row in pairs[i:] for label in row}
        x, xs = _contract(x, xs, y, ys, set(result) | later)
    x, xs = _sum_out(x, xs, set(result))
    return x.permute(*[xs.index(label) for label in result]) if xs != result else x


def _check_sizes(operands: Sequence[Tensor], labels: list[list]) -> None:
    sizes: dict = {}
    for i, (x, row) in enumerate(zip(operands, labels)):
        for label, size in zip(row, x.shape):
            if sizes.setdefault(label, size) != size and 1 not in (size, sizes[label]):
                raise RuntimeError(
                    f"einsum: operands do not broadcast: subscript {label} has size {size} for operand {i}, which "
                    "does not "
                    f"broadcast with previously seen size {sizes[label]}"
                )
            sizes[label] = max(size, sizes[label]) if size else size


# The others


@function(method=False)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """Sum of products over several dimensions: the last `dims` of a with the first of b, or the two lists of dimensions
    given.

    Raises RuntimeError when the sizes differ or `dims` does not fit.
    """
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)) and len(dims) == 2:
        pairs = [d if isinstance(d, (list, tuple)) else (d,) for d in dims]
    else:
        count = dims[0] if isinstance(dims, (list, tuple)) else int(dims)
        if count < 0 or count > min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot: expects dims >= 0 and at most the number of dimensions of both tensors, got dims={dims}"
            )
        pairs = [range(a.ndim - count, a.ndim), range(count)]
    if len(pairs[0]) != len(pairs[1]):
        raise RuntimeError(
            f"tensordot: both dimension lists should have same length, got {len(pairs[0])} and {len(pairs[1])}"
        )
    inner_a = [check_dim("tensordot", d, a.ndim) for d in pairs[0]]
    inner_b = [check_dim("tensordot", d, b.ndim) for d in pairs[1]]
    for da, db in zip(inner_a, inner_b):
        if a.shape[da] != b.shape[db] and 1 not in (a.shape[da], b.shape[db]):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but the first has size {a.shape[da]} in dim {da} "
                "and the "
                f"second has size {b.shape[db]} in dim {db}"
            )
    names_a = [f"a{d}" for d in range(a.ndim)]
    names_b = [names_a[inner_a[inner_b.index(d)]] if d in inner_b else f"b{d}" for d in range(b.ndim)]
    keep = {n for n in names_a + names_b if (n in names_a) != (n in names_b)}
    return _contract(a, names_a, b, names_b, keep)[0]


@function()
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product: every element of input times the whole of other; shapes multiply, size by size."""
    ndim = max(input.ndim, other.ndim)
    sizes = [(1,) * (ndim - x.ndim) + tuple(x.shape) for x in (input, other)]
    a = input.reshape([n for size in sizes[0] for n in (size, 1)])
    b = other.reshape([n for size in sizes[1] for n in (1, size)])
    return (a * b).reshape([p * q for p, q in zip(*sizes)])


def chain(name: str, matrices: Sequence[Tensor]) -> Tensor:
    """The product of matrices in the order that needs the fewest multiplications."""
    for left, right in zip(matrices, matrices[1:]):
        if left.shape[1] != right.shape[0]:
            raise RuntimeError(f"{name}: cannot multiply shapes {shape_text(left.shape)} and {shape_text(right.shape)}")
    sizes = [m.shape[0] for m in matrices] + [matrices[-1].shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(matrices))}
    for length in range(1, len(matrices)):
        for i in range(len(matrices) - length):
            j = i + length
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def multiply(i: int, j: int) -> Tensor:
        if i == j:
            return matrices[i]
        k = best[i, j][1]
        return matmul_op.apply((multiply(i, k), multiply(k + 1, j)))

    return multiply(0, len(matrices) - 1)


@function(method=False)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices in the order that needs the fewest multiplications. Raises RuntimeError when the shapes
    do not fit."""
    if not matrices:
        raise RuntimeError("chain_matmul: expected one or more matrices")
    for i, m in enumerate(matrices):
        if m.ndim != 2:
            raise RuntimeError(f"chain_matmul: tensor {i} must be 2D, got {m.ndim}D; its dimension is wrong")
    return chain("chain_matmul", matrices)


@function(method=False, out=False)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[k] @ input2 + bias[k]` for each output feature k.

    Shapes: `(*, I)`, `(*, J)`, `(K, I, J)`, `(K,)` -> `(*, K)`. Raises RuntimeError when they do not fit.
    """
    if (
        weight.ndim != 3
        or input1.shape[:-1] != input2.shape[:-1]
        or (input1.shape[-1], input2.shape[-1]) != tuple(weight.shape[1:])
    ):
        raise RuntimeError(
            f"bilinear: expected shapes (*, I), (*, J) and (K, I, J), got {shape_text(input1.shape)}, "
            f"{shape_text(input2.shape)} "
            f"and {shape_text(weight.shape)}"
        )
    result = einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias
