"""`gradcheck` and `gradgradcheck`: gradients against finite differences.

For a function of real or complex inputs the gradient of `Re(conj(v) . f(x))` is what autograd gives for the incoming
gradient `v`; real and imaginary parts are compared separately, which covers complex functions that are not analytic
(Wirtinger derivatives, PyTorch's convention).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.autograd.api import grad
from rushlight.autograd.batches import over_batch
from rushlight.autograd.differences import differences, random_like, unit_weights
from rushlight.autograd.duals import dual, new_level
from rushlight.autograd.function import FunctionNode
from rushlight.autograd.memory import zeros_for
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.ops.create import tensor
from rushlight.ops.join import stack


class GradcheckError(RuntimeError):
    """The gradients differ from the finite differences."""


def gradcheck(
    func: Callable,
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Are the gradients of `func(*inputs)` by the inputs that require grad those of finite differences?

    `|analytic - numeric| <= atol + rtol * |numeric|` must hold for each element (with `fast_mode`, for one random
    projection). Also checked: repeating the backward pass gives the same within `nondet_tol`, and an output whose
    gradient does not come counts as zeros.
    `check_forward_ad` compares forward mode with the finite differences, too, and `check_batched_forward_grad` several
    directions at once with single ones. Raises GradcheckError (a RuntimeError) where it fails, or returns False without
    `raise_exception`. ValueError when no input requires grad, RuntimeError for one whose elements share memory, and
    AssertionError when nothing, or batches of an unchecked forward mode, are to be checked. `masked` is for layouts
    that rushlight has not.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([0.5, 2.0], dtype=rushlight.float64, requires_grad=True)
        >>> rushlight.autograd.gradcheck(lambda x: x * x, x)
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad and check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    try:
        if check_forward_ad:
            _check_forward(func, _tuple(inputs), eps, atol, rtol, check_batched_forward_grad, fast_mode)
        if check_backward_ad:
            _check(
                func,
                _tuple(inputs),
                eps,
                atol,
                rtol,
                nondet_tol,
                check_undefined_grad,
                check_grad_dtypes,
                check_batched_grad,
                fast_mode,
            )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable,
    inputs: Tensor | Sequence[Any],
    grad_outputs: Tensor | Sequence[Tensor] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Are the gradients of the gradients of `func(*inputs)` those of finite differences? Arguments as in `gradcheck`;
    `check_fwd_over_rev` checks forward mode over the gradients. `grad_outputs` are the incoming gradients, by default
    random ones, with `gen_non_contig_grad_outputs` such that are not contiguous in memory.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([0.5, 2.0], dtype=rushlight.float64, requires_grad=True)
        >>> rushlight.autograd.gradgradcheck(lambda x: x * x * x, x)
        True
    """
    arguments = _tuple(inputs)
    if grad_outputs is None:
        random = np.random.default_rng(0)
        outputs = _differentiable(func(*arguments))
        weights = [random_like(y, random, gen_non_contig_grad_outputs).detach().requires_grad_() for y in outputs]
    else:
        weights = list(_tuple(grad_outputs))
    count = len(arguments)

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        args, given = values[:count], values[count:]
        sources = [x for x in args if _wants(x)]
        outputs = _differentiable(func(*args))
        found = grad(outputs, sources, given, create_graph=True, allow_unused=True)
        return tuple([g for g in found if g is not None])

    return gradcheck(
        gradients,
        (*arguments, *weights),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )


def _tuple(inputs: Any) -> tuple:
    return (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)


def _wants(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad


def _differentiable(outputs: Any) -> list[Tensor]:
    return [y for y in _tuple(outputs) if isinstance(y, Tensor) and y.requires_grad]


def _check(
    func: Callable,
    inputs: tuple,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    undefined: bool,
    same_dtypes: bool,
    batched: bool,
    fast: bool,
) -> None:
    sources = [x for x in inputs if _wants(x)]
    if not sources:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i, x in enumerate(sources):
        if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape)):
            raise RuntimeError(
                f"gradcheck: input {i} has a dimension with stride 0: moving one of its elements moves others, so "
                "there are no finite differences; clone() it first"
            )
        if x.dtype not in (dtypes.float64, dtypes.complex128) and eps < 1e-4:
            warnings.warn(
                f"gradcheck: input {i} has dtype {x.dtype.name}: finite differences with eps={eps} need float64 or "
                "complex128, so this check is likely to fail",
                stacklevel=4,
            )
    outputs = _differentiable(func(*inputs))
    if not outputs:
        _check_constant(func, inputs, sources, eps, atol)
        return
    random = np.random.default_rng(0)
    for i, y in enumerate(outputs):

        def one(*values: Any, i: int = i) -> Tensor:
            return _differentiable(func(*values))[i]

        if fast:
            _compare(one, inputs, sources, [random_like(y, random)], i, eps, atol, rtol, nondet_tol, random)
        else:
            _compare(one, inputs, sources, unit_weights(y), i, eps, atol, rtol, nondet_tol, None)
        if batched:
            _check_batched(y, sources, random, i)
    if same_dtypes:
        found = grad(
            [y.sum() if not y.is_complex() else y.real.sum() for y in outputs],
            sources,
            allow_unused=True,
            retain_graph=True,
        )
        for x, g in zip(sources, found):
            if g is not None and g.dtype is not x.dtype:
                raise GradcheckError(
                    f"gradcheck: gradient of dtype {g.dtype.name} for an input of dtype {x.dtype.name}"
                )
    if undefined:
        _check_nothing_defined(outputs)
        if len(outputs) > 1:
            _check_undefined(func, inputs, sources)


def _check_forward(
    func: Callable, inputs: tuple, eps: float, atol: float, rtol: float, batched: bool, fast: bool
) -> None:
    """The tangents of each output along each direction of each input against finite differences."""
    random = np.random.default_rng(2)
    for at, x in enumerate(inputs):
        if not _wants(x):
            continue
        for i in range(len(_differentiable(func(*inputs)))):

            def one(*values: Any, i: int = i) -> Tensor:
                return _differentiable(func(*values))[i]

            directions, columns = differences(one, inputs, x, eps, random if fast else None)
            along = [tensor(d, dtype=x.dtype) for d in directions]
            found = [_along(one, inputs, at, t).detach().numpy().reshape(-1) for t in along]
            for a, n in zip(found, columns):
                if not np.allclose(a, n, rtol=rtol, atol=atol):
                    raise GradcheckError(
                        f"Jacobian computed with forward mode mismatch for output {i} with respect to input {at}: "
                        f"numerical:\n{n}\nanalytical:\n{a}"
                    )
            if batched and along and not np.allclose(found, _together(one, inputs, at, along)):
                raise GradcheckError(
                    f"gradcheck: the batched tangents of output {i} by input {at} differ from the single ones"
                )


def _along(one: Callable, inputs: tuple, at: int, direction: Tensor) -> Tensor:
    """The tangent of a function's result for a direction of one input."""
    with new_level() as level:
        y = one(*[dual(level, x, direction) if k == at else x for k, x in enumerate(inputs)])
        found = level.get(y)
        return zeros_for(y._meta) if found is None else found


def _together(one: Callable, inputs: tuple, at: int, directions: list) -> np.ndarray:
    """The tangents for several directions, computed as a batch."""
    found = over_batch(lambda direction: _along(one, inputs, at, direction), stack(directions))
    return found.detach().numpy().reshape(len(directions), -1)


def _compare(
    one: Callable,
    inputs: tuple,
    sources: list,
    weights: list,
    index: int,
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    random: np.random.Generator | None,
) -> None:
    """The gradient of each weighting of output `index` against finite differences."""
    jacobians = [differences(one, inputs, x, eps, random) for x in sources]
    for weight in weights:
        y = one(*inputs)
        found = grad(y, sources, weight, allow_unused=True, retain_graph=True)
        again = grad(y, sources, weight, allow_unused=True, retain_graph=True)
        w = weight.detach().numpy().reshape(-1)
        for at, (x, g, g2, (directions, columns)) in enumerate(zip(sources, found, again, jacobians)):
            analytic = (
                np.zeros(tuple(x.shape))
                if g is None
                else g.detach().resolve_conj().numpy()
                if g.is_complex()
                else g.detach().numpy()
            )
            if g is not None and np.abs(analytic - g2.detach().numpy()).max(initial=0.0) > nondet_tol:
                raise GradcheckError(f"gradcheck: backward is not deterministic: output {index}, input {at}")
            a = np.array([np.real(np.sum(np.conj(d) * analytic)) for d in directions])
            n = np.array([np.real(np.sum(np.conj(w) * column)) for column in columns])
            if not np.allclose(a, n, rtol=rtol, atol=atol, equal_nan=False):
                worst = int(np.argmax(np.abs(a - n)))
                raise GradcheckError(
                    f"Jacobian mismatch for output {index} with respect to input {at}: at direction {worst} "
                    f"numerical {n[worst]}, analytical {a[worst]}; all numerical:\n{n}\nall analytical:\n{a}"
                )


def _check_constant(func: Callable, inputs: tuple, sources: list, eps: float, atol: float) -> None:
    """A function whose outputs do not require grad must not change with its inputs."""
    before = [y.detach().numpy().copy() for y in _tuple(func(*inputs)) if isinstance(y, Tensor)]
    for x in sources:
        moved = tensor(x.detach().numpy() + eps, dtype=x.dtype).requires_grad_()
        after = [
            y.detach().numpy() for y in _tuple(func(*[moved if y is x else y for y in inputs])) if isinstance(y, Tensor)
        ]
        if any(np.abs(a - b).max(initial=0.0) / eps > atol for a, b in zip(before, after)):
            raise GradcheckError(
                "Numerical gradient for function expected to be zero: its outputs do not require grad, "
                "but they change with the inputs"
            )


def _check_nothing_defined(outputs: list) -> None:
    """A custom function to which no gradient comes must give none, or zeros."""
    for node in {y.grad_fn for y in outputs if isinstance(y.grad_fn, FunctionNode)}:
        found = node.apply([None] * node.outputs, True)
        if any(g is not None and g.detach().numpy().any() for g in found):
            raise GradcheckError(
                "gradcheck: Expected all input grads to be undefined or zero when all output grads are undefined or "
                f"zero, but {node.name()} gives others; backward gets None for such outputs without materialize_grads"
            )


def _check_undefined(func: Callable, inputs: tuple, sources: list) -> None:
    """Leaving out the gradient of an output must equal a gradient of zeros."""
    outputs = _differentiable(func(*inputs))
    random = np.random.default_rng(1)
    weights = [random_like(y, random) for y in outputs]
    for i in range(len(outputs)):
        zero: list = [w * 0 if k == i else w for k, w in enumerate(weights)]
        full = grad(outputs, sources, zero, allow_unused=True, retain_graph=True)
        rest = [k for k in range(len(outputs)) if k != i]
        part = grad(
            [outputs[k] for k in rest], sources, [weights[k] for k in rest], allow_unused=True, retain_graph=True
        )
        for a, b in zip(full, part):
            left, right = [0.0 if g is None else g.detach().numpy() for g in (a, b)]
            if not np.allclose(left, right):
                raise GradcheckError(
                    f"gradcheck: a missing gradient of output {i} gives something else than a gradient of zeros"
                )


def _check_batched(y: Tensor, sources: list, random: np.random.Generator, index: int) -> None:
    """A batch of incoming gradients must give the batch of results."""
    weights = [random_like(y, random) for _ in range(2)]
    stacked = tensor(np.stack([w.numpy() for w in weights]), dtype=y.dtype)
    batch = grad(y, sources, stacked, allow_unused=True, retain_graph=True, is_grads_batched=True)
    for i, w in enumerate(weights):
        for g, b in zip(grad(y, sources, w, allow_unused=True, retain_graph=True), batch):
            if g is not None and not np.allclose(g.detach().numpy(), b[i].detach().numpy()):
                raise GradcheckError(f"gradcheck: the batched gradient of output {index} differs from the single ones")
