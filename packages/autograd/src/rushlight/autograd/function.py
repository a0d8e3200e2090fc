"""`Function`: operations with a gradient written by the user."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.batches import BatchLevel
from rushlight.autograd.duals import Level, apart, are_active
from rushlight.autograd.fit import fit
from rushlight.autograd.function_jvp import push_function
from rushlight.autograd.function_record import recorded
from rushlight.autograd.function_vmap import for_samples
from rushlight.autograd.memory import zeros_for
from rushlight.autograd.modes import mode, set_enabled
from rushlight.autograd.node import FREED_MESSAGE, Node, changed_message
from rushlight.autograd.saved import Packed
from rushlight.autograd.state import edge_of, new_state
from rushlight.core import dispatch
from rushlight.core.op import HANDLERS
from rushlight.core.tensor import Tensor, wrap


class FunctionCtx:
    """What `forward` and `backward` of a Function share: the `ctx` argument."""

    __slots__ = ()

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads = True
    _to_save: tuple = ()
    _for_forward: tuple | None = None
    _dirty: tuple = ()
    _not_differentiable: tuple = ()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `backward`, which finds them in `ctx.saved_tensors`; TypeError for anything else."""
        for x in tensors:
            if x is not None and not isinstance(x, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type {type(x).__name__}; "
                    "keep other values as attributes of ctx"
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, which finds them in `ctx.saved_tensors`."""
        self._for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` changed in place; it must return them too."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._not_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Say whether `backward` gets zeros (the default) or None for outputs to which no gradient came."""
        self.materialize_grads = value


class FunctionNode(FunctionCtx, Node):
    """The node of a Function's call, which is its `ctx`."""

    __slots__ = ("__dict__",)

    function: type[Function]
    input_metas: tuple
    output_metas: tuple

    @property
    def outputs(self) -> int:
        return len(self.output_metas)

    @property
    def next_functions(self) -> tuple:
        edges = iter(self.edges)
        return tuple(
            [
                next(edges) if needed else (None, 0)
                for needed, m in zip(self.needs_input_grad, self.input_metas)
                if m is not None
            ]
        )

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors given to `save_for_backward`.

        Raises RuntimeError when the graph is freed, or when one of them was changed in place since.
        """
        if self._for_forward is not None:
            return self._for_forward
        if "_saved" not in self.__dict__:
            return self._to_save
        if self._saved is None:
            raise RuntimeError(FREED_MESSAGE)
        return tuple([self._opened(*entry) for entry in self._saved])

    def _opened(self, x: Any, version: int, output: int | None) -> Any:
        if x is None:
            return None
        if isinstance(x, Packed):
            x = x.open()
        elif x._version != version:
            raise RuntimeError(changed_message(self, x, version))
        if output is None:
            return x
        linked = wrap(x._array, x._meta.with_grad(output >= 0), x._storage)
        linked._auto = new_state((self, output)) if output >= 0 else None
        return linked

    def keep(self, outputs: tuple) -> None:
        """Store what `save_for_backward` was given; an output without its history, which would be a cycle."""
        places = {id(x): i if differentiable else -1 for i, (x, differentiable) in enumerate(outputs)}
        hooks = mode.saved_hooks[-1] if mode.saved_hooks else None
        entries = []
        for x in self._to_save:
            output = None if x is None else places.get(id(x))
            if output is not None:
                x = wrap(x._array, x._meta.with_grad(False), x.storage())
            version = 0 if x is None else x._version
            if hooks and x is not None:
                x = Packed(x, hooks, edge_of(x) if x._meta.requires_grad else None)
            entries.append((x, version, output))
        self._saved = entries
        self._to_save = self._dirty = self._not_differentiable = ()

    def apply(self, grads: list, keep: bool) -> list:
        if self.materialize_grads:
            grads = [zeros_for(m) if g is None and m is not None else g for g, m in zip(grads, self.output_metas)]
        if self.function.backward is Function.backward and self.function.vjp is not Function.vjp:
            results = self.function.vjp(self, *grads)
        else:
            results = self.function.backward(self, *grads)
        if not keep:
            self._saved = None if self._saved else self._saved
        return self._checked(results if isinstance(results, (tuple, list)) else (results,))

    def _checked(self, results: Any) -> list:
        expected = len(self.input_metas)
        if len(results) > expected and all(r is None for r in results[expected:]):
            results = results[:expected]
        if len(results) != expected:
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected "
                f"{expected}, got {len(results)}); "
                "backward must return one gradient (or None) per argument of forward"
            )
        found = []
        for i, (result, m, needed) in enumerate(zip(results, self.input_metas, self.needs_input_grad)):
            if m is None and result is not None:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different from None at position {i + 1}, but the "
                    "corresponding forward input was not a Variable"
                )
            if needed:
                found.append(result if result is None else fit(self.name(), i, result, m.with_grad(False)))
        return found


class Function:
    """An operation with its own gradient: subclass it, write `forward` and `backward`, call `apply`.

    What a subclass does not write raises NotImplementedError when it is needed.

    `forward(ctx, *args)` computes; `backward(ctx, *grads)` gets a gradient per output and returns one (or None) per
    argument of `forward`. Alternatively `forward(*args)` and `setup_context(ctx, inputs, output)`.

    Example:
        >>> import rushlight
        >>> class Cube(rushlight.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         x, = ctx.saved_tensors
        ...         return grad * 3 * x * x
        >>> x = rushlight.tensor(2.0, requires_grad=True)
        >>> Cube.apply(x).backward()
        >>> x.grad
        tensor(12.)
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(
            f"{type(self).__name__} should not be instantiated: autograd functions are called as "
            f"{type(self).__name__}.apply(...)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result; write it in the subclass."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> Any:
        """Keep in `ctx` what `backward` needs, when `forward` takes no `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments of `forward`; write it in the subclass."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it "
            "with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Compute the tangents of the outputs from those of the arguments of `forward`; write it in the subclass.

        An argument without tangent gets zeros, or None without `set_materialize_grads`. Needed where forward mode is
        used, as by `func.jvp`.
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple, *args: Any) -> Any:
        """Compute the outputs for a batch: `in_dims` says where each argument has its batch dimension (None: nowhere),
        `info.batch_size` and `info.randomness` are those of the `vmap`. Returns the outputs and their batch dimensions.

        Write it in the subclass, or set `generate_vmap_rule = True` where `forward` and `backward` consist of
        operations on tensors.
        """
        raise NotImplementedError("vmap is not implemented.")

    @classmethod
    def _ctx_class(cls) -> type[FunctionNode]:
        """The class of this Function's nodes, for their name."""
        if "_node_class" not in cls.__dict__:
            cls._node_class = type(
                cls.__name__ + "Backward", (FunctionNode,), {"__doc__": f"The node of `{cls.__name__}`."}
            )
        return cls._node_class

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function; records when grad mode is on and an argument requires grad.

        Raises RuntimeError when what `forward` marked as dirty is not among its inputs and outputs, or may not be
        written to.
        """
        ctx, output = cls._called(args, kwargs)
        ctx._for_forward = None
        return output

    @classmethod
    def _called(cls, args: tuple, kwargs: dict) -> tuple[FunctionNode, Any]:
        """The context and the outputs of a call, which get tangents on each level of forward mode."""
        level = dispatch.current() if HANDLERS else None
        if isinstance(level, BatchLevel):
            return cls._batched(level, args, kwargs)
        if not isinstance(level, Level):
            return cls._recorded(args, kwargs)
        with dispatch.below():
            tangents = [level.get(x) for x in args]
            ctx, output = cls._called(args, kwargs)
            if any(t is not None for t in tangents):
                push_function(level, cls, ctx, args, tangents, output)
        return ctx, output

    @classmethod
    def _batched(cls, level: BatchLevel, args: tuple, kwargs: dict) -> tuple[FunctionNode, Any]:
        """A call in a level of `vmap`: recorded for single samples, computed and recorded for all of them below."""
        if any(level.owns(x) for x in args):
            return cls._recorded(args, kwargs, lambda *given, **named: for_samples(cls, level, given, named))
        with dispatch.below():
            return cls._called(args, kwargs)

    @classmethod
    def _recorded(cls, args: tuple, kwargs: dict, compute: Callable | None = None) -> tuple[FunctionNode, Any]:
        """The context and the outputs of a call, with `compute` in the place of `forward`."""
        ctx = object.__new__(cls._ctx_class())
        tensors = [x if isinstance(x, Tensor) else None for x in args]
        needs = tuple([x is not None and x._meta.requires_grad for x in tensors])
        ctx.needs_input_grad, ctx.function = needs, cls
        ctx.extras = None
        recording = mode.enabled and any(needs)
        before = mode.enabled
        output = None if compute is None else compute(*args, **kwargs)
        set_enabled(False)
        try:
            if cls.setup_context is not Function.setup_context:
                output = cls.forward(*args, **kwargs) if compute is None else output
                cls.setup_context(ctx, args, output)
            else:
                output = cls.forward(ctx, *args, **kwargs)
        finally:
            set_enabled(before)
        single = not isinstance(output, tuple)
        if are_active():  # what is saved of an output shares its array, and with that its tangents
            for y in (output,) if single else output:
                if isinstance(y, Tensor) and not any(y is x for x in args):
                    apart(y)
        outputs = recorded(ctx, tensors, (output,) if single else output, recording)
        return ctx, outputs[0] if single else outputs


def once_differentiable(function: Callable) -> Callable:
    """Decorate a `backward` whose result cannot be differentiated again: trying to raises RuntimeError.

    Example:
        >>> import rushlight
        >>> class Double(rushlight.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x * 2
        ...     @staticmethod
        ...     @rushlight.autograd.function.once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * 2
        >>> x = rushlight.ones(1, requires_grad=True)
        >>> Double.apply(x).backward()
        >>> x.grad
        tensor([2.])
    """

    @functools.wraps(function)
    def call(ctx: Any, *grads: Any) -> Any:
        before = mode.enabled
        set_enabled(False)
        try:
            results = function(ctx, *grads)
        finally:
            set_enabled(before)
        if not before or not any(isinstance(g, Tensor) and g._meta.requires_grad for g in grads):
            return results
        several = results if isinstance(results, tuple) else (results,)
        ended = tuple(
            [
                _Ended.apply(r, next(g for g in grads if isinstance(g, Tensor) and g._meta.requires_grad))
                if isinstance(r, Tensor)
                else r
                for r in several
            ]
        )
        return ended if isinstance(results, tuple) else ended[0]

    return call


class _Ended(Function):
    """Stands where differentiation has to stop."""

    @staticmethod
    def forward(ctx: Any, result: Tensor, grad: Tensor) -> Tensor:
        return result.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")
