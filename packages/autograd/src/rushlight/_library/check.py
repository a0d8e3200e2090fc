"""`opcheck`: does an operator do what was said of it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.utils._pytree import tree_leaves, tree_map

_UTILS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """An operator does something else than was said of it."""


def opcheck(op: Any, args: tuple, kwargs: dict | None = None, *, test_utils: str | Sequence[str] = _UTILS,
            raise_exception: bool = True, atol: float | None = None, rtol: float | None = None) -> dict[str, Any]:
    """Look whether an operator, called with these arguments, is registered rightly.

    `test_schema`: it writes to no other arguments than it says, and its results lie in memory of their own;
    `test_autograd_registration`: it has a gradient if arguments require one; `test_faketensor`: its shape function says
    what its results are; `test_aot_dispatch_dynamic`: compiled, it gives the same results and gradients.

    Gives "SUCCESS" by name. Raises OpCheckError, or gives the error where `raise_exception` is False.

    Example:
        >>> import rushlight
        >>> def twice(x: rushlight.Tensor) -> rushlight.Tensor:
        ...     return 2 * x
        >>> op = rushlight.library.custom_op("doc::checked", twice, mutates_args=())
        >>> _ = op.register_fake(lambda x: rushlight.empty_like(x))
        >>> rushlight.library.opcheck(op, (rushlight.ones(2),), test_utils=("test_schema", "test_faketensor"))
        {'test_schema': 'SUCCESS', 'test_faketensor': 'SUCCESS'}
    """
    names = [test_utils] if isinstance(test_utils, str) else list(test_utils)
    if set(names) - set(_UTILS):
        raise ValueError(f"opcheck: unknown {sorted(set(names) - set(_UTILS))}; there are {_UTILS}")
    found: dict[str, Any] = {}
    for name in names:
        try:
            _CHECKS[name](op, *_copies((args, kwargs or {})), {"atol": atol, "rtol": rtol})
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            found[name] = error
    return found


def _copies(tree: Any) -> Any:
    def copy(x: Any) -> Any:
        return x.detach().clone().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x

    return tree_map(copy, tree)


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in tree_leaves(tree) if isinstance(x, Tensor)]


def _schema(op: Any, args: tuple, kwargs: dict, close: dict) -> None:
    before = _copies((args, kwargs))
    with rushlight.no_grad():
        results = _tensors(op(*args, **kwargs))
    written = op._written(op._kernel([*args, *kwargs.values()]), args, kwargs)
    for x, old in zip(_tensors((args, kwargs)), _tensors(before)):
        if any(x is other for other in written):
            continue
        x, old = x.detach(), old.detach()
        if not bool(((x == old) | (x != x) & (old != old)).all()):
            raise RuntimeError(f"{op._qualname} writes to an argument that mutates_args does not name")
    op._check_apart([*args, *kwargs.values()], tuple(results))


def _autograd(op: Any, args: tuple, kwargs: dict, close: dict) -> None:
    if any(x.requires_grad for x in _tensors((args, kwargs))) and op._backward is None and op._composed is None:
        raise RuntimeError(f"{op._qualname} has no gradient; register_autograd adds one")


def _fake(op: Any, args: tuple, kwargs: dict, close: dict) -> None:
    with rushlight.no_grad():
        metas = tree_map(lambda x: x.to("meta") if isinstance(x, Tensor) else x, (args, kwargs))
        expected = _tensors(op(*args, **kwargs))
        found = _tensors(op(*metas[0], **metas[1]))
    kinds = [[(x.dtype, tuple(x.shape), x.stride()) for x in made] for made in (found, expected)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(f"{op._qualname}: its shape function says {kinds[0]}, its results are {kinds[1]}")


def _compiled(op: Any, args: tuple, kwargs: dict, close: dict) -> None:
    results = []
    for run in (op, rushlight.compile(lambda *args, **kwargs: op(*args, **kwargs), backend="aot_eager", dynamic=True)):
        given = _copies((args, kwargs))
        made = _tensors(run(*given[0], **given[1]))
        wanted = [x for x in _tensors(given) if x.requires_grad]
        sums = [x.sum() for x in made if x.requires_grad]
        grads = rushlight.autograd.grad(sums, wanted, allow_unused=True) if sums and wanted else ()
        results.append([*made, *_tensors(given), *[x for x in grads if x is not None]])
    for a, b in zip(*results, strict=True):
        rushlight.testing.assert_close(a.detach(), b.detach(), **close, equal_nan=True)


_CHECKS: dict[str, Callable] = dict(zip(_UTILS, (_schema, _autograd, _fake, _compiled)))
