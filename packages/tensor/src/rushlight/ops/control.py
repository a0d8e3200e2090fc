"""Control flow as functions: cond, while_loop, scan, map, associative_scan. Eagerly they are `if`, `while` and `for`.

An exported program keeps them as graphs of their own, whatever the values are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.core.front import function
from rushlight.core.tensor import Tensor


def _truth(name: str, value: Any) -> bool:
    if isinstance(value, Tensor) and value.numel() != 1:
        raise RuntimeError(f"{name}: expected a bool or a tensor with one element, got shape {tuple(value.shape)}")
    return bool(value)


@function(method=False, out=False)
def cond(
    pred: bool | Tensor, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()
) -> Any:
    """`true_fn(*operands)` if `pred` holds, else `false_fn(*operands)`.

    Raises RuntimeError when `pred` is a tensor with several elements.

    Example:
        >>> import rushlight
        >>> rushlight.cond(rushlight.tensor(True), lambda x: x + 1, lambda x: x - 1, (rushlight.zeros(1),))
        tensor([1.])
    """
    return (true_fn if _truth("cond", pred) else false_fn)(*operands)


@function(method=False, out=False)
def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> tuple:
    """Replace the carried values by `body_fn(*values)` as long as `cond_fn(*values)` holds; returns the last ones, as
    tensors of their own.

    Raises RuntimeError when the body returns another number of values.

    Example:
        >>> import rushlight
        >>> rushlight.while_loop(lambda i: i < 3, lambda i: (i + 1,), (rushlight.tensor(0),))
        (tensor(3),)
    """
    return _while(cond_fn, body_fn, tuple(carried_inputs))


def _while(cond_fn: Callable, body_fn: Callable, carried: tuple) -> tuple:
    values = carried
    while _truth("while_loop", cond_fn(*values)):
        found = body_fn(*values)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(values):
            raise RuntimeError(f"while_loop: body_fn must return {len(values)} values as it takes, got {len(found)}")
        values = found
    return tuple([_own(x, carried) for x in values])


def _own(x: Any, given: Sequence[Any]) -> Any:
    """A tensor that is none of those given."""
    return x.clone() if isinstance(x, Tensor) and any(x is other for other in given) else x


def scan(combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """Go along dimension `dim` of the tensors in `xs` with `carry, y = combine_fn(carry, x)`, from `init`; returns the
    last carry and the `y`, stacked along `dim`.

    `init` and `xs` may be nested tuples, lists and dicts of tensors; the carry keeps its structure, shapes and dtypes.
    `reverse` starts at the end. Raises RuntimeError for tensors of different lengths, and without elements.

    Example:
        >>> import rushlight
        >>> from rushlight._higher_order_ops import scan
        >>> scan(lambda sum, x: (sum + x, sum * x), rushlight.tensor(0), rushlight.arange(4))
        (tensor(6), tensor([0, 0, 2, 9]))
    """
    if not _leaves(xs):
        return init, []
    if not _leaves(init):
        raise RuntimeError("scan() operator requires init leaves.")
    carry, made = _steps(combine_fn, init, _each(lambda x: _first(x, dim, reverse, "scan"), xs))
    place = dim % _leaves(xs)[0].ndim  # of the tensors in xs: what is made of them may have more dimensions
    return carry, _each(lambda y: _back(y, place, reverse), made)


def map(f: Callable, xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for each slice of the first dimension of the tensors in `xs`, stacked.

    Raises RuntimeError for tensors of different lengths, and without elements.

    Example:
        >>> import rushlight
        >>> from rushlight._higher_order_ops import map
        >>> map(lambda x, y: x * y, rushlight.arange(3), rushlight.tensor(2))
        tensor([0, 2, 4])
    """
    return _steps(lambda carry, x: (carry, f(x, *args)), (), _each(lambda x: _first(x, 0, False, "map"), xs))[1]


def associative_scan(combine_fn: Callable, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
                     ) -> Any:
    """What `combine_fn` makes of the first elements along `dim`, for each number of them: cumulative sums for `+`.

    `combine_mode` says in PyTorch what `combine_fn` may do; here it may do everything in both modes.

    Example:
        >>> import rushlight
        >>> from rushlight._higher_order_ops import associative_scan
        >>> associative_scan(lambda a, b: a + b, rushlight.arange(4), 0)
        tensor([0, 1, 3, 6])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    moved = _each(lambda x: _first(x, dim, reverse, "associative_scan"), xs)
    if _leaves(moved)[0].shape[0] == 1:
        return _each(lambda x: x.clone(), xs)

    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        made = combine_fn(carry, x)
        return made, _each(lambda y: y.clone(), made)

    _, rest = _steps(step, _each(lambda x: x[0], moved), _each(lambda x: x[1:], moved))
    joined = _together(lambda both: rushlight.cat((both[0][:1], both[1])), [moved, rest])
    return _each(lambda y: _back(y, dim, reverse), joined)


def _steps(combine_fn: Callable, init: Any, xs: Any) -> tuple[Any, Any]:
    """`scan` along the first dimension."""
    lengths = [x.shape[0] for x in _leaves(xs)]
    if any(n != lengths[0] for n in lengths):
        raise RuntimeError(f"scan, map: tensors of different lengths: {lengths}")
    carry, made = init, []
    for k in range(lengths[0]):
        carry, y = combine_fn(carry, _each(lambda x: x[k], xs))  # noqa: B023  it is called at once
        made.append(y)
    return _each(lambda x: _own(x, _leaves(init)), carry), _together(rushlight.stack, made)


# nested tuples, lists and dicts, in code that captures follow


def _each(f: Callable, tree: Any) -> Any:
    return _together(lambda leaf: f(leaf[0]), [tree])


def _leaves(tree: Any) -> list:
    found: list = []
    _each(found.append, tree)
    return found


def _together(f: Callable, trees: list) -> Any:
    """`f(leaves)` for the leaves at each place of trees that are built alike."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: _together(f, [tree[key] for tree in trees]) for key in first}
    if isinstance(first, (list, tuple)):
        items = [_together(f, [tree[i] for tree in trees]) for i in range(len(first))]
        return items if isinstance(first, list) else tuple(items) if type(first) is tuple else type(first)(*items)
    return f(trees)


def _first(x: Any, dim: int, reverse: bool, name: str) -> Tensor:
    """A tensor with the dimension to go along as the first one."""
    if not isinstance(x, Tensor):
        raise RuntimeError(f"{name}: All xs leaves must be a Tensor but got {x}")
    if not -x.ndim <= dim < x.ndim or x.shape[dim] == 0:
        raise RuntimeError(f"{name}: All xs leaves must at least have 'dim' number of dimensions and scan dimension "
                           f"> 0, got shape {tuple(x.shape)} and dim {dim}")
    moved = x.movedim(dim, 0) if dim else x
    return moved.flip((0,)) if reverse else moved


def _back(y: Tensor, dim: int, reverse: bool) -> Tensor:
    """A stacked tensor with the dimension where it belongs."""
    y = y.flip((0,)) if reverse else y
    return y.movedim(0, dim) if dim and dim < y.ndim else y
