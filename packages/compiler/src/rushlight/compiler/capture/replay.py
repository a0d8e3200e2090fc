"""What the lines after the graph call: writes to tensors that existed before, and histories that results are given."""

from __future__ import annotations

from functools import cache
from typing import Any

from rushlight.compiler.capture.memory import untouched
from rushlight.core.dispatch import settle
from rushlight.core.op import Op, prims
from rushlight.core.tensor import Tensor, wrap


def write_back(target: Tensor, value: Tensor, times: int = 1) -> None:
    """Give an existing tensor the value that the captured program left in it after so many writes."""
    settle()
    alias = prims.detach.execute((target,))
    prims.copy_.execute((alias, value), (False,))
    if times != 1:
        target.storage().version += times - 1


def written(result: Tensor, times: int) -> None:
    """Give a result the version of a tensor that was made and then written so many times."""
    result.storage().version = times


def spent_class(op: Op) -> type:
    """The class of the nodes of an op's results after their backward pass; it has the name of the eager ones."""
    from rushlight.autograd.node import SpentNode  # only programs with gradients need rushlight-autograd
    from rushlight.autograd.recipe import node_class

    return type(node_class(op).__name__, (SpentNode,), {"__slots__": ()})


def spent(result: Tensor, node: type) -> Tensor:
    """Give a result the history that a backward pass left: it requires grad, but there is nothing to go back through.
    """
    _autograd()[0](result, node(), 0)
    return result


def set_grad(x: Tensor, grad: Tensor | None) -> None:
    """`x.grad = grad` for a gradient that is known to fit."""
    _autograd()[1](x).grad = grad


def set_grads(leaves: tuple, grads: tuple) -> None:
    """`set_grad` for several leaves."""
    _, state_of, kind = _autograd()
    for x, grad in zip(leaves, grads):
        state = x._auto
        (state if type(state) is kind else state_of(x)).grad = grad


def let_go(leaves: tuple) -> list:
    """Forget the gradients of leaves, and give what `put_back` needs."""
    metas = []
    for x in leaves:
        grad = None if x._auto is None else x._auto.grad
        metas.append(None if grad is None else grad._meta)
        if grad is not None:
            x._auto.grad = None
    return metas


def put_back(leaves: tuple, metas: list) -> None:
    """Give leaves gradients like those that were let go, whose elements nobody is going to see."""
    for x, m in zip(leaves, metas):
        if m is not None:
            set_grad(x, wrap(untouched(m), m))


@cache
def _autograd() -> tuple[Any, Any, type]:
    """`attach`, `state_of` and the class of its results: of the package that only programs with gradients need."""
    from rushlight.autograd.recorder import attach
    from rushlight.autograd.state import AutogradState, state_of

    return attach, state_of, AutogradState


FUNCTIONS = {"write_back": write_back, "written": written, "new": object.__new__, "set_slot": object.__setattr__,
             "set_grad": set_grad, "set_grads": set_grads, "let_go": let_go, "put_back": put_back,
             "spent": spent}
