"""The recorder that turns op calls on tracers into a graph.

The graph is pure. In-place ops become pure ones that give the written tensor a new value; a view reads its base through
the view op again once the base was written to. Inputs that were written get their new value after the graph ran.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.capture import leaves, memory, scatter, state
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.functions import FunctionCall
from rushlight.compiler.capture.randomness import Draw, draw_of
from rushlight.compiler.capture.sizes import Sizes
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.stages import Stages
from rushlight.compiler.capture.symbolic import beside_tensors
from rushlight.compiler.capture.tracer import Tracer, View, cut_off, place, refuse, same_place
from rushlight.compiler.capture.transforms import Transformed
from rushlight.compiler.capture.value import TensorV
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.symbolic import Sym, replaced
from rushlight.core import dtypes, eager
from rushlight.core.meta import Meta
from rushlight.core.meta import meta as make_meta
from rushlight.core.op import Op, prims
from rushlight.core.overlap import check_apart
from rushlight.core.tensor import Tensor
from rushlight.ops.copy import contiguous_format


class Recorder(Transformed):
    """The dispatch handler of a capture."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.decide: Callable[[Tracer, type | None], Any] = refuse("the value")
        self.unsized: Callable[[Op, tuple, tuple], Any] = refuse("a shape")  # records what has one that data decides
        self.control: Callable | None = None  # runs calls with graphs, where they are not followed; see `control`
        self.graph = Graph()
        self.inputs: list[Tracer] = []  # in the order of the graph's inputs
        self.by_value: dict[Value, Tracer] = {}  # the same by the graph's input
        self.by_source: dict[Source, Tracer] = {}
        self.alone = False  # is the graph to be a program of its own, which has each tensor once?
        self.leaves: dict[int, Tracer] = {}  # of existing tensors that require grad, or all, by id
        self.leaf_values: dict[Value, Tracer] = {}  # see `leaves`
        self.leaf_hooks: dict[Tracer, tuple] = {}
        self.own_leaves: set[Tracer] = set()  # tensors that the program made require grad
        self.toggled: dict[Tracer, bool] = {}  # the existing ones among them, and those that no longer do
        self.functions: dict[Node, FunctionCall] = {}  # by the nodes of their outputs
        self.hidden: set[Tracer] = set()  # tensors whose memory is not what it should be for anybody outside
        self.frozen: set[Tracer] = set()  # tensors that must not be written any more
        self.freed: set[Any] = set()  # nodes of which a backward pass let go what they had saved
        self.stale: dict[Value, Node | None] = {}  # values that were written over, and the op that did so knowingly
        self.wrong: list[Tracer] = []  # bools that must be False, else the call is an error
        self.reals: dict[int, Tensor] = {}
        self.drawn: dict[int, Draw] = {}
        self.scalars: dict[tuple, Tracer] = {}  # by source and dtype
        self.scalar_of: dict[int, Any] = {}
        self.keep: list[Tracer] = []
        self.stages = Stages(self)

    # making tracers

    def tracer(self, meta: Meta, node: Value | None = None, kind: type = Tensor) -> Tracer:
        """A tracer that is no view."""
        made = object.__new__(Tracer)
        made._meta, made._node, made._kind = meta, node, kind
        made._root, made._parent, made._step = made, None, None
        made._seen = made._count = made._silent = made._epoch = made._views = 0
        made._severed, made._origin = False, None
        return made

    def input(self, real: Tensor, source: Source) -> Tracer:
        """The tracer of a tensor that existed before the call; becomes a graph input when it is used."""
        found = self.by_source.get(source)
        if found is None:
            if type(real) is not Tensor and not type(real).__module__.startswith("rushlight.nn"):
                raise Abort(f"a tensor of class {type(real).__name__}")
            if (found := self.leaves.get(id(real))) is not None:  # gradients belong to a tensor, whatever its path
                source.tree.relate("same", found._origin, source)
                self.by_source[source] = found
                return found
            found = self.by_source[source] = self.tracer(self.sizes.metadata(real, source), kind=type(real))
            found._origin = source
            self.reals[id(found)] = real
            if real._meta.requires_grad or self.alone:
                self.leaves[id(real)] = found
        return found

    def constant(self, real: Tensor) -> Tracer:
        """The tracer of a tensor that framework code made from plain data during the dry run."""
        found = self.tracer(real._meta.with_grad(False))
        self.reals[id(found)] = prims.detach.execute((real,)) if real._meta.requires_grad else real
        self.keep.append(found)
        if real._meta.requires_grad:
            leaves.require_grad(self, found, True)
        return found

    def scalar(self, source: Any, dtype: dtypes.dtype, device: Any) -> Tracer:
        """The tracer of an open number; a 0-dim input of the graph."""
        if device.type != "cpu":
            raise Abort("an open number on another device")
        found = self.scalars.get((source, dtype))
        if found is None:
            found = self.scalars[source, dtype] = self.tracer(make_meta(dtype, ()))
            self.scalar_of[id(found)] = source
        return found

    def inputs_by_source(self) -> list[Tracer]:
        """The tracers of all tensors that existed before the call, each once."""
        return list(dict.fromkeys(self.by_source.values()))

    def real(self, tracer: Tracer) -> Tensor:
        """The tensor that a tracer of an input stands for."""
        return self.reals[id(tracer)]

    def value_of(self, tracer: Tracer) -> TensorV:
        """The interpreted value of a tracer."""
        return TensorV(tracer, tracer._origin)

    def put_off(self, x: Any) -> bool:
        """Look whether a bool is True, which is an error, when the graph has run."""
        if isinstance(x, Tracer):
            self.wrong.append(x)
        return isinstance(x, Tracer)

    def new_input(self, tracer: Tracer) -> Value:
        """A new input of the graph: what a tensor is when the program reads it."""
        made = self.graph.input(tracer._meta)
        self.inputs.append(tracer)
        self.by_value[made] = tracer
        if tracer in self.stages.read:
            self.stages.births[made] = self.stages.read[tracer]
        return made

    def snapshot(self, tracer: Tracer) -> TensorV:
        """A tensor as it is now, for somebody who looks at it later."""
        if tracer._meta.requires_grad:
            raise Abort("the text of a tensor with gradients")
        kept = self.tracer(tracer._meta, self.current(tracer))
        self.keep.append(kept)
        return TensorV(kept)

    # values

    def current(self, tracer: Tracer) -> Value:
        """The graph value that a tracer has at present."""
        root = tracer._root
        if self.stages.changes and root._origin is not None:
            self.stages.look(root)
        if root._severed and state.grad_enabled():
            leaves.revive(self, root)
        if tracer._parent is None or tracer in self.own_leaves:
            if tracer._node is None:
                tracer._node = self.new_input(tracer)
        elif tracer._node is None or tracer._seen != root._epoch:
            if root in self.stages.replaced and tracer._seen < self.stages.replaced[root]:
                raise Abort("a view of memory that a tensor had before its data was set")
            tracer._node, tracer._seen = self._view_node(tracer), root._epoch
        return tracer._node

    def _view_node(self, tracer: Tracer) -> Value:
        step = tracer._step
        found = step.nodes.get(tracer._root._epoch)
        if found is None:
            parent = self.current(tracer._parent)
            metas = step.op.infer_metas((tracer._parent, *step.numbers), step.params)
            grad = tracer._meta.requires_grad  # as it was when the view was made, whatever the mode is now
            metas = metas.with_grad(grad) if isinstance(metas, Meta) else tuple([m.with_grad(grad) for m in metas])
            found = self.graph.call(step.op, (parent, *step.numbers), step.params, metas)
            step.nodes[tracer._root._epoch] = found
        return found if step.index is None else found[step.index]

    def written_over(self, value: Any, node: Node | None) -> bool:
        """Would an eager node find that what it saved was changed in place since?"""
        while isinstance(value, Value):
            if self.stale.get(value, node) is not node:
                return True
            value = value.node.inputs[0] if value.node is not None and value.node.op.kind == "view" else None
        return False

    # ops

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Record one op call."""
        if self.levels:
            return self.inside(op, operands, params)
        return self.record(op, operands, params)

    def record(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Record one op call, of whichever function."""
        if op.random and op.name != "empty":
            if op.decomposition is None or any(state.records(op, operands)):
                return self._draw(draw_of(op, operands, params))
            op.infer_metas(operands, params)  # raises what the call would raise
            return op.decomposition(*operands, *params)
        if any(type(x) is Sym for x in operands) and op.kind in ("elementwise", "inplace"):
            operands = beside_tensors(self, op, operands)
        operands = tuple([self._operand(op, i, x) for i, x in enumerate(operands)])
        if op.mutates:
            return self._mutate(op, operands, params)
        metas = op.infer_metas(operands, params)
        if metas is None:
            return self.unsized(op, operands, params)
        if op.kind == "view":
            return self._view(op, operands, params, metas)
        records = state.records(op, operands, 1 if isinstance(metas, Meta) else len(metas))
        nodes = tuple([self.current(x) if isinstance(x, Tracer) else x for x in operands])
        if isinstance(metas, Meta):
            metas = _with_grad(metas, records[0])
            return self.tracer(metas, self.graph.call(op, nodes, params, metas))
        metas = tuple([_with_grad(m, r) for m, r in zip(metas, records)])
        return tuple([self.tracer(m, n) for m, n in zip(metas, self.graph.call(op, nodes, params, metas))])

    def _draw(self, item: Draw) -> Tracer:
        """A random tensor: made before the graph runs, and one of its inputs."""
        meta = item.op.infer_metas(item.operands, item.params)
        if not isinstance(meta, Meta):
            raise Abort(f"the random op {item.op.name}")
        made = self.tracer(meta)
        self.drawn[id(made)] = item
        self.keep.append(made)
        return made

    def _operand(self, op: Op, index: int, x: Any) -> Any:
        x = eager.operand(op, index, x)
        if isinstance(x, Tensor) and not isinstance(x, Tracer):
            return self.constant(x)
        return x

    def _view(self, op: Op, operands: tuple, params: tuple, metas: Any) -> Any:
        base, *numbers = operands
        if any(isinstance(x, Tensor) for x in numbers):
            raise Abort(f"the view {op.name} at a place that depends on data")
        if base._root._severed and state.grad_enabled():
            leaves.revive(self, base._root)
        if numbers:  # places are checked by the kernel, not by inference: try it on an array that takes no memory
            shape = _hints(base._meta.shape)
            op.numpy(np.broadcast_to(np.zeros((), base._meta.numpy), shape), *_hints(numbers), *_hints(params))
            least, beyond = op.places(base._meta, *params)
            if not all(least <= x < beyond for x in numbers):  # of symbols, a guard: the view of an input is made late
                raise Abort(f"the view {op.name} of nothing, outside of a tensor")
        nodes: dict[int, Any] = {}
        records = any(state.records(op, (base,)))
        many, results = not isinstance(metas, Meta), []
        for i, meta in enumerate(metas if many else (metas,)):
            made = self.tracer(_with_grad(meta, records))
            made._root, made._parent, made._seen = base._root, base, base._root._epoch
            made._step = View(op, tuple(numbers), params, i if many else None, nodes, len(self.graph.nodes))
            base._root._views += 1
            results.append(made)
        return tuple(results) if many else results[0]

    # in-place ops

    def _mutate(self, op: Op, operands: tuple, params: tuple) -> Any:
        target = operands[0]
        if op.mutates != (0,) or not isinstance(target, Tracer):
            raise Abort(f"the in-place op {op.name}")
        op.infer_metas(operands, params)  # raises what the call would raise
        self._check_apart(op, target, operands)
        if op.name == "copy_":
            value = operands[1]
        elif op.functional is not None:
            value = self.handle(op.functional, operands, params)
        else:
            raise Abort(f"the in-place op {op.name}")
        self._check_gradients(target, value)
        before = target._root._node
        self.assign(target, self.fitted(value, target._meta))
        if before is not None and op.functional is not None and value._node is not None:
            self.stale[before] = value._node.node  # what it needs of the old value, it keeps
        return target

    def _check_apart(self, op: Op, target: Tracer, operands: tuple) -> None:
        """Refuse what eager execution refuses: to read, at other places, the memory that is written."""
        views = [x for x in operands
                 if isinstance(x, Tracer) and x._root is target._root and not same_place(x, target)]
        if not views:
            return
        if op.name != "copy_" and (op.functional is None or op.functional.kind != "elementwise"):
            raise Abort(f"the in-place op {op.name} on the memory that it reads")
        root = memory.untouched(target._root._meta)
        check_apart(op.name, place(target, root), [place(x, root) for x in views], itself=True)

    def fitted(self, value: Any, like: Meta) -> Tracer:
        """A value with a node of its own, converted and broadcast to what it is written to."""
        if not isinstance(value, Tracer):
            value = self.handle(prims.full, (value,), (like.shape, like.dtype, like.device))
        if value._meta.device is not like.device:
            raise Abort("copying to another device in place")
        if value._meta.shape != like.shape:
            value = self.handle(prims.expand, (value,), (like.shape,))
        fresh = value._parent is None and value._node is not None and value._node.node is not None
        if value._meta.dtype is not like.dtype or value._meta.strides != like.strides or not fresh:
            value = self.handle(prims.convert, (value,), (like.dtype, like.device, contiguous_format))
        return value

    def _check_gradients(self, target: Tracer, value: Any) -> None:
        """Leave to eager execution what autograd has to see or refuse."""
        root = target._root
        brings = isinstance(value, Tracer) and value._meta.requires_grad
        if not brings and not root._meta.requires_grad and not target._meta.requires_grad:
            return
        if root._origin is not None or root in self.own_leaves:
            if brings or state.grad_enabled() and not cut_off(target):
                raise Abort("an in-place change of a leaf that takes part in gradients")
            return
        if not state.grad_enabled():
            raise Abort("an in-place change without gradients of a tensor that has some")
        elif target is root and not brings:
            raise Abort("a tensor with gradients overwritten by one without")
        chain, at = 0, target
        while at._parent is not None:
            if at._step.op.name == "detach" or at._step.index is not None:
                raise Abort(f"an in-place change through {at._step.op.name}, with gradients")
            chain, at = chain + 1, at._parent
        if not root._meta.requires_grad and root._views > chain:
            raise Abort("an in-place change that brings gradients to a tensor with views")

    def detach_in_place(self, target: Tracer) -> None:
        """`tensor.detach_()` of a tensor that the program made."""
        if target._origin is not None or target._parent is not None or target._views:
            raise Abort("detach_ of an input or of a tensor with views")
        target._meta = target._meta.with_grad(False)
        target._node = self.graph.call(prims.detach, (self.current(target),), (), target._meta)

    def data(self, tracer: Tracer) -> Tracer:
        """`tensor.data`: the same memory outside autograd, with a counter of changes of its own."""
        made: Tracer = self.handle(prims.detach, (tracer,), ())
        made._step = made._step._replace(silent=True)
        return made

    def replace(self, target: Tracer, new: Tracer) -> None:
        """`target.data = new`: an existing tensor gets the memory of one that the program made."""
        a, b = target._meta, new._meta
        if new._parent is target and new._step.silent:
            self.stages.put_back(target, new)
            return
        if target._origin is None or new._origin is not None or new._parent is not None or new._meta.requires_grad:
            raise Abort("setting data to a tensor that existed before, or to a view")
        if new._views or (a.dtype, a.shape, a.strides, a.device) != (b.dtype, b.shape, b.strides, b.device):
            raise Abort("setting data of a tensor with views, or of another form")
        if target not in self.stages.memory and self.stages.pending(target):
            raise Abort("setting data of a tensor that was changed: others may share the memory that it had")
        before, target._node = target._node, self.current(new)
        if before is not None:
            self.stale[before] = None
        self.stages.written(target, before, target._node)
        self.frozen.update((target, new))
        target._count += 1
        target._epoch += 1
        self.stages.replaced[target], self.stages.memory[target] = target._epoch, new
        target._severed = a.requires_grad

    def assign(self, target: Tracer, value: Tracer, silent: bool = False) -> None:
        """Give a tensor a new value, through the views that lead to it; a `silent` change does not count as one."""
        if target._parent is not None:
            base, step = target._parent, target._step
            whole = scatter.whole(self, base, value, step)
            if value._meta.requires_grad:
                target._meta = target._meta.with_grad(True)
            target._count += step.silent
            self.assign(base, self.fitted(whole, base._meta), silent or step.silent)
            return
        if target._meta.strides != value._meta.strides and target._origin is None:
            raise Abort("an in-place change of a tensor with another layout")
        before, target._node = target._node, self.current(value)
        for level in self.levels:
            level.check_write(before, target._node)
        if before is not None:
            self.stale[before] = None
        if target in self.frozen:
            raise Abort("an in-place change of memory that a new leaf shares")
        self.stages.written(target, before, target._node)
        target._count += 1
        target._silent += silent
        target._epoch += 1
        if target._origin is not None or target in self.own_leaves:
            if target._meta.strides != value._meta.strides:
                raise Abort("an in-place change of an input that is not contiguous")
            target._severed = target._meta.requires_grad
        else:
            target._meta = target._meta.with_grad(value._meta.requires_grad)


def _hints(x: Any) -> tuple:
    """Nested tuples with the values at hand in the place of symbols, where nothing follows from them."""
    return replaced(tuple(x), lambda sym: sym.hint)


def _with_grad(meta: Meta, records: bool) -> Meta:
    return meta.with_grad(True) if records and meta.dtype.is_inexact else meta

