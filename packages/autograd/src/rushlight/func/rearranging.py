"""`rearrange`: reshaping, transposing, joining and splitting dimensions by a pattern of their names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rushlight.core.errors import shape_text
from rushlight.core.tensor import Tensor
from rushlight.ops.join import stack

_ELLIPSIS = "..."
_ALONE = [_ELLIPSIS]  # an ellipsis outside of parentheses, told by identity: each dimension stays one of its own
_TOKEN = re.compile(r"\s*(\.\.\.|[()]|\w+|\S)")

Groups = list[list[str]]  # the names that make up each dimension


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """The elements with their dimensions in another order, joined and split, as a pattern like `"b c h w -> b (h w) c"`
    says.

    A name stands for a dimension, names in parentheses for the parts of one, `...` for all dimensions that have no
    name, `1` or `()` for one of size 1. `axes_lengths` gives the sizes of parts; one in each pair of parentheses may be
    left out. A list of tensors is stacked along a new first dimension. Raises ValueError for a pattern that does not
    fit.

    Source: the notation is that of einops, Rogozhnikov, "Einops: Clear and Reliable Tensor Manipulations with
    Einstein-like Notation", ICLR 2022.

    Example:
        >>> import rushlight
        >>> rushlight.func.rearrange(rushlight.arange(6).view(2, 3), "a b -> (b a)")
        tensor([0, 3, 1, 4, 2, 5])
    """
    x = tensor if isinstance(tensor, Tensor) else stack(list(tensor))
    if pattern.count("->") != 1:
        raise ValueError(f"rearrange: expected a pattern with one '->', got {pattern!r}")
    left, right = [_groups(side) for side in pattern.split("->")]
    _check(left, right, axes_lengths)
    named = len(left) - any(group is _ALONE for group in left)
    missing = x.ndim - named
    if missing < 0 or (missing and named == len(left)):
        raise ValueError(
            f"rearrange: Number of dimensions in pattern ({named}) must be equal to the number of dimensions in the "
            f"tensor ({x.ndim})"
        )
    unnamed = [f"{_ELLIPSIS}{i}" for i in range(missing)]
    left, right = _spelled_out(left, unnamed), _spelled_out(right, unnamed)
    lengths = _lengths(left, x.shape, axes_lengths)
    names = [name for group in left for name in group]
    order = [name for group in right for name in group]
    parts = x.reshape([lengths[name] for name in names]).permute([names.index(name) for name in order])
    return parts.reshape([math.prod([lengths[name] for name in group]) for group in right])


def _groups(side: str) -> Groups:
    """One side of a pattern; a dimension of size 1 is a group without names."""
    groups: Groups = []
    open_group = None
    for token in _TOKEN.findall(side):
        if token == "(" and open_group is None:
            open_group = []
        elif token == ")" and open_group is not None:
            groups.append(open_group)
            open_group = None
        elif token in "()":
            raise ValueError(f"rearrange: Imbalanced parentheses in expression: {side!r}")
        elif token != _ELLIPSIS and token != "1" and not token.isidentifier():
            raise ValueError(f"rearrange: expected names of dimensions, ( ), 1 and ..., got {token!r} in {side!r}")
        elif open_group is not None:
            open_group += [] if token == "1" else [token]
        else:
            groups.append(_ALONE if token == _ELLIPSIS else [] if token == "1" else [token])
    if open_group is not None:
        raise ValueError(f"rearrange: Imbalanced parentheses in expression: {side!r}")
    return groups


def _check(left: Groups, right: Groups, lengths: dict[str, int]) -> None:
    sides = [[name for group in side for name in group] for side in (left, right)]
    for names in sides:
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ValueError(f"rearrange: Indexing expression contains duplicate dimension {sorted(repeated)[0]!r}")
    apart = set(sides[0]) ^ set(sides[1])
    if apart:
        raise ValueError(
            f"rearrange: Identifiers only on one side of rearrange expression (should be on both): {sorted(apart)}"
        )
    if any(_ELLIPSIS in group and group is not _ALONE for group in left):
        raise ValueError("rearrange: an ellipsis in parentheses is not allowed on the left side")
    unknown = lengths.keys() - set(sides[0])
    if unknown:
        raise ValueError(f"rearrange: Identifiers not found in rearrange expression: {sorted(unknown)}")


def _spelled_out(groups: Groups, unnamed: list[str]) -> Groups:
    """The groups with names for what `...` stands for, which are dimensions of their own where it stands alone."""
    found: Groups = []
    for group in groups:
        if group is _ALONE:
            found += [[name] for name in unnamed]
        else:
            found.append([n for name in group for n in (unnamed if name == _ELLIPSIS else [name])])
    return found


def _lengths(left: Groups, shape: tuple[int, ...], given: dict[str, int]) -> dict[str, int]:
    """The size of every named part."""
    lengths = dict(given)
    for group, size in zip(left, shape):
        unknown = [name for name in group if name not in given]
        known = math.prod([given[name] for name in group if name in given])
        if len(unknown) > 1:
            raise ValueError(f"rearrange: cannot infer the sizes of {' and '.join(unknown)} at once: give one of them")
        if unknown and known and size % known == 0:
            lengths[unknown[0]] = size // known
        elif unknown or known != size:
            raise ValueError(
                f"rearrange: parts ({' '.join(group)}) of sizes {[given.get(n) for n in group]} do not make up a "
                f"dimension of size {size} of a tensor of shape {shape_text(shape)}"
            )
    return lengths
