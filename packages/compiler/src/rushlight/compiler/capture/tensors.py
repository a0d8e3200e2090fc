"""Tracer tensors, and the recorder that turns op calls on them into a graph.

The graph is pure. In-place ops become pure ones that give the written tensor a new value; a view reads its base through
the view op again once the base was written to. Inputs that were written to get their new value after the graph ran.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.compiler.capture import state
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.value import TensorV
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.ir import Value as Node
from rushlight.core import eager
from rushlight.core.meta import Meta
from rushlight.core.op import Op, prims
from rushlight.core.tensor import Tensor


def _refuse(name: str) -> Any:
    def refuse(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
        raise Abort(f"{name} of a tensor inside the captured function")

    return refuse


class Tracer(Tensor):
    """Stands for a tensor during capture: it has metadata and a node in the graph, but no memory."""

    __slots__ = ("_kind", "_node", "_root", "_parent", "_step", "_seen", "_count", "_severed", "_origin")

    _array = property(_refuse("the memory"))
    _storage = property(_refuse("the memory"))
    _auto = property(_refuse("the gradient state"))
    _version = property(_refuse("the version"))
    grad = property(_refuse("grad"), _refuse("setting grad"))
    grad_fn = property(_refuse("grad_fn"))
    is_leaf = property(_refuse("is_leaf"))
    data = property(_refuse("data"), _refuse("setting data"))


for _name in ("requires_grad_", "backward", "retain_grad", "register_hook", "storage", "data_ptr", "numpy", "item",
              "tolist", "as_subclass", "__bool__", "__int__", "__float__", "__index__", "__complex__", "__repr__",
              "__format__", "__contains__", "__deepcopy__", "__reduce_ex__", "resize_", "set_", "detach_"):
    setattr(Tracer, _name, _refuse(_name))


class Recorder:
    """The dispatch handler of a capture."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.inputs: list[Tracer] = []  # in the order of the graph's inputs
        self.by_source: dict[Source, Tracer] = {}
        self.reals: dict[int, Tensor] = {}
        self.constants: list[tuple[Tracer, Tensor]] = []
        self.grad_may_change = False

    # making tracers

    def _tracer(self, meta: Meta, node: Node | None = None, kind: type = Tensor) -> Tracer:
        tracer = object.__new__(Tracer)
        tracer._meta, tracer._node, tracer._kind = meta, node, kind
        tracer._root, tracer._parent, tracer._step = tracer, None, None
        tracer._seen = tracer._count = 0
        tracer._severed, tracer._origin = False, None
        return tracer

    def input(self, real: Tensor, source: Source) -> Tracer:
        """The tracer of a tensor that existed before the call; becomes a graph input when it is used."""
        found = self.by_source.get(source)
        if found is None:
            if type(real) is not Tensor and not type(real).__module__.startswith("rushlight.nn"):
                raise Abort(f"a tensor of class {type(real).__name__}")
            found = self.by_source[source] = self._tracer(real._meta, kind=type(real))
            found._origin = source
            self.reals[id(found)] = real
            source.check("tensor", type(real), real._meta)
        return found

    def constant(self, real: Tensor) -> Tracer:
        """The tracer of a tensor that framework code made from plain data during the dry run."""
        found = self._tracer(real._meta)
        if real._meta.requires_grad:
            raise Abort("a new leaf tensor that requires grad")
        self.constants.append((found, real))
        self.reals[id(found)] = real
        return found

    def inputs_by_source(self) -> list[Tracer]:
        """The tracers of all tensors that existed before the call."""
        return list(self.by_source.values())

    def real(self, tracer: Tracer) -> Tensor:
        """The tensor that a tracer of an input stands for."""
        return self.reals[id(tracer)]

    def value_of(self, tracer: Tracer) -> TensorV:
        """The interpreted value of a tracer."""
        return TensorV(tracer, tracer._origin)

    # values

    def current(self, tracer: Tracer) -> Node:
        """The graph node that holds a tracer's present value."""
        root = tracer._root
        if root._severed and state.grad_enabled():
            raise Abort("a parameter that was changed without gradients and is then used with them")
        if tracer._parent is None:
            if tracer._node is None:
                tracer._node = self.graph.input(tracer._meta)
                self.inputs.append(tracer)
        elif tracer._node is None or tracer._seen != root._count:
            op, params = tracer._step
            tracer._node = self.graph.call(op, (self.current(tracer._parent),), params, tracer._meta)
            tracer._seen = root._count
        return tracer._node

    # ops

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Record one op call."""
        operands = tuple([self._operand(op, i, x) for i, x in enumerate(operands)])
        if op.mutates:
            return self._mutate(op, operands, params)
        if op.random:
            raise Abort(f"the random op {op.name}")
        metas = op.infer_metas(operands, params)
        if metas is None:
            raise Abort(f"the shape of {op.name} depends on data")
        if op.kind == "view":
            return self._view(op, operands[0], params, metas)
        records = state.records(op, operands)
        if isinstance(metas, Meta):
            metas = _with_grad(metas, records)
            return self._tracer(metas, self.graph.call(op, self._nodes(operands), params, metas))
        metas = tuple([_with_grad(m, records) for m in metas])
        nodes = self.graph.call(op, self._nodes(operands), params, metas)
        return tuple([self._tracer(m, n) for m, n in zip(metas, nodes)])

    def _operand(self, op: Op, index: int, x: Any) -> Any:
        x = eager.operand(op, index, x)
        if isinstance(x, Tensor) and not isinstance(x, Tracer):
            return self.constant(x)
        return x

    def _nodes(self, operands: tuple) -> tuple:
        return tuple([self.current(x) if isinstance(x, Tracer) else x for x in operands])

    def _view(self, op: Op, base: Tracer, params: tuple, meta: Meta) -> Tracer:
        result = self._tracer(_with_grad(meta, state.records(op, (base,))))
        result._root, result._parent, result._step = base._root, base, (op, params)
        if base._root._severed:
            self.current(base)
        return result

    # in-place ops

    def _mutate(self, op: Op, operands: tuple, params: tuple) -> Any:
        target = operands[0]
        if op.mutates != (0,) or not isinstance(target, Tracer):
            raise Abort(f"the in-place op {op.name}")
        op.infer_metas(operands, params)  # raises what the call would raise
        if op.name == "copy_":
            value = self._fitted(operands[1], target._meta)
        elif op.functional is not None and op.kind == "inplace":
            value = self._fitted(self.handle(op.functional, operands, params), target._meta)
        else:
            raise Abort(f"the in-place op {op.name}")
        self.write(target, value)
        return target

    def _fitted(self, value: Any, like: Meta) -> Tracer:
        """A value converted and broadcast to the metadata of the tensor that it is written to."""
        if not isinstance(value, Tracer):
            value = self.handle(prims.full, (value,), (like.shape, like.dtype, like.device))
        if value._meta.device is not like.device:
            raise Abort("copying to another device in place")
        if value._meta.shape != like.shape:
            value = self.handle(prims.expand, (value,), (like.shape,))
        if not like.contiguous:
            raise Abort("writing into a tensor that is not contiguous")
        if value._meta.dtype is not like.dtype or not value._meta.contiguous or value._origin or value._parent is not None \
                or value._node is None:
            value = self.handle(prims.convert, (value,), (like.dtype, like.device, "contiguous"))
        return value

    def write(self, target: Tracer, value: Tracer) -> None:
        """Give a tensor a new value, through the views that lead to it."""
        root = target._root
        grad = state.grad_enabled()
        existing = id(root) in self.reals
        if value._meta.requires_grad and existing or root._meta.requires_grad and (grad or not existing or target is not root):
            raise Abort("an in-place change of a tensor that takes part in gradients")
        self._assign(target, value)

    def _assign(self, target: Tracer, value: Tracer) -> None:
        if target._parent is not None:
            op, params = target._step
            base = target._parent
            back = _INVERSE.get(op.name)
            if back is None:
                raise Abort(f"writing through the view {op.name}")
            target._node, new = self.current(value), back(self, base, value, params)
            self._assign(base, new)
            target._seen = target._root._count
            return
        target._node = self.current(value)
        target._count += 1
        if target._origin is not None:
            target._severed = target._meta.requires_grad
        else:
            target._meta = target._meta.with_grad(value._meta.requires_grad)


def _with_grad(meta: Meta, records: bool) -> Meta:
    return meta.with_grad(True) if records and meta.dtype.is_inexact else meta


def _unpermute(recorder: Recorder, base: Tracer, value: Tracer, params: tuple) -> Tracer:
    order = params[0]
    return recorder._fitted(recorder.handle(prims.permute, (value,), (tuple(sorted(range(len(order)), key=order.__getitem__)),)),
                            base._meta)


_INVERSE = {
    "detach": lambda recorder, base, value, params: value,
    "permute": _unpermute,
}
