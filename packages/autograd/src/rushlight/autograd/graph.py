"""The graph as users see it: nodes, edges, and hooks for what it saves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakSet

from rushlight.autograd.api import GradientEdge
from rushlight.autograd.draw import Drawing, draw
from rushlight.autograd.modes import Decorating
from rushlight.autograd.modes import mode as this_thread
from rushlight.autograd.node import Node
from rushlight.autograd.saved import quietly
from rushlight.autograd.state import edge_of
from rushlight.core import dispatch
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor
from rushlight.ops.copy import clone

__all__ = [
    "Drawing",
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "draw",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]


class saved_tensors_hooks(Decorating):
    """Decide how tensors saved inside the block are kept: `pack_hook(tensor)` gives what is kept, `unpack_hook` of that
    gives the tensor.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> packed = []
        >>> with rushlight.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        ...     y = x.exp()
        >>> len(packed)
        1

        To keep saved tensors on disk until they are needed:

        >>> import itertools, pathlib, tempfile
        >>> folder, numbers = tempfile.TemporaryDirectory(), itertools.count()
        >>> def to_disk(t):
        ...     path = pathlib.Path(folder.name, f"{next(numbers)}.pt")
        ...     rushlight.save(t, path)
        ...     return path
        >>> with rushlight.autograd.graph.saved_tensors_hooks(to_disk, rushlight.load):
        ...     y = (x.exp() * x).sum()
        >>> y.backward()
        >>> x.grad
        tensor([5.4366, 5.4366])
        >>> folder.cleanup()
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if this_thread.hooks_forbidden is not None:
            raise RuntimeError(this_thread.hooks_forbidden)
        this_thread.saved_hooks.append((self.pack_hook, self.unpack_hook))
        this_thread.update()

    def __exit__(self, *exception: Any) -> None:
        this_thread.saved_hooks.pop()
        this_thread.update()

    def fresh(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack_hook, self.unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """Keep tensors saved inside the block in main memory, and move them back when the backward pass needs them.

    `pin_memory` and `device_type` are accepted and change nothing: copies go from and to any device, through memory
    that is not page-locked.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(x: Tensor) -> Any:
            return (x.device, x.detach().cpu().clone())

        def unpack(packed: Any) -> Tensor:
            device, x = packed
            return x.to(device)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(Decorating):
    """Make entering `saved_tensors_hooks` inside the block raise RuntimeError with the given message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        self.before = this_thread.hooks_forbidden
        this_thread.hooks_forbidden = self.message

    def __exit__(self, *exception: Any) -> None:
        this_thread.hooks_forbidden = self.before

    def fresh(self) -> disable_saved_tensors_hooks:
        return disable_saved_tensors_hooks(self.message)


class _Watched:
    """A saved tensor that may be written to: a copy takes its place before that happens."""

    __slots__ = ("tensor", "version", "copied", "__weakref__")

    def __init__(self, x: Tensor) -> None:
        self.tensor, self.version, self.copied = x, x._version, False

    def copy(self) -> None:
        self.tensor, self.copied = quietly(clone, self.tensor), True

    def open(self) -> Tensor:
        if not self.copied and self.tensor._version != self.version:
            raise RuntimeError(
                "a tensor saved under allow_mutation_on_saved_tensors was modified in place outside of that context; "
                "leave the context after the backward pass"
            )
        return self.tensor


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside the block tensors that were saved for the backward pass may be changed in place: they are copied before.

    The backward pass should run inside the block, too. Raises RuntimeError when blocks are nested.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> with rushlight.autograd.graph.allow_mutation_on_saved_tensors():
        ...     y = x * 1
        ...     z = (y**2).sum()
        ...     y.sin_()
        ...     z.backward()
        tensor([0.8415, 0.8415], grad_fn=<SinBackward0>)
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self) -> None:
        super().__init__(self._pack, _Watched.open)
        self._watched: dict[int, WeakSet[_Watched]] = {}  # by the id of their storage
        self._pushed = dispatch.push(self)

    def __enter__(self) -> None:
        if any(isinstance(handler, allow_mutation_on_saved_tensors) for handler in dispatch.handlers()):
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        super().__enter__()
        self._pushed.__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._pushed.__exit__(*exception)
        super().__exit__(*exception)
        self._watched.clear()

    def fresh(self) -> allow_mutation_on_saved_tensors:
        return type(self)()

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Copy what an operation in place is about to change, then let it run."""
        with dispatch.below():
            for i in op.mutates:
                for one in list(self._watched.pop(id(operands[i].storage()), ())):
                    one.copy()
            return op.apply(operands, params)

    def _pack(self, x: Tensor) -> _Watched:
        one = _Watched(x)
        self._watched.setdefault(id(x.storage()), WeakSet()).add(one)
        return one


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted for PyTorch's sake: there are no streams here that could differ."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted for PyTorch's sake: there are no streams here that could be captured."""


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The place in the graph where the gradient of a tensor arrives. Raises RuntimeError when it does not require grad.

    Example:
        >>> import rushlight
        >>> y = rushlight.ones(2, requires_grad=True) * 2
        >>> rushlight.autograd.graph.get_gradient_edge(y).output_nr
        0
    """
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*edge_of(tensor))


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Tell autograd that tensors were changed behind its back."""
    for x in [tensor] if isinstance(tensor, Tensor) else tensor:
        x.storage().version += 1


class _Handles:
    """Several hooks removed together."""

    def __init__(self, handles: list) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable, *, mode: str = "all") -> _Handles:
    """Call `fn` once per backward pass: with the list of all gradients (`mode="all"`), or with the first (`"any"`).

    The list is there when the last of the tensors has its gradient; when the pass does not reach all of them, at its
    end, with None for the others. A pass that reaches none calls nothing. Raises ValueError for another mode.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: expects mode to be one of ('all', 'any') but got {mode}")
    arrived = _Arrived()

    def hook(i: int) -> Callable[[Tensor], None]:
        def take(grad: Tensor) -> None:
            if arrived.in_pass is not this_thread.at_end:
                arrived.in_pass, arrived.grads = this_thread.at_end, {}
                this_thread.at_end.append(partial(finish, arrived.grads))
                if mode == "any":
                    fn(grad)
            arrived.grads[i] = grad
            if len(arrived.grads) == len(tensors):
                finish(arrived.grads)

        return take

    def finish(grads: dict[int, Tensor]) -> None:
        if grads:
            values = [grads.get(i) for i in range(len(tensors))]
            grads.clear()
            if mode == "all":
                fn(values)

    return _Handles([x.register_hook(hook(i)) for i, x in enumerate(tensors)])


class _Arrived(threading.local):
    """The gradients that have come in the pass that runs on this thread, which its list `at_end` stands for."""

    in_pass: list | None = None
    grads: dict[int, Tensor]
