"""Python source for values after the call: how the entry builds the objects that outlive it."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from functools import update_wrapper
from types import CellType, FunctionType, MemberDescriptorType, MethodType
from typing import Any

from rushlight.compiler.capture import history, replay
from rushlight.compiler.capture.derived import Derived, expression
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.guard_codegen import Writer
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.leaves import settled
from rushlight.compiler.capture.outside import Early
from rushlight.compiler.capture.session import Session, immutable
from rushlight.compiler.capture.source import Source, is_python_class
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import (
    CellV,
    FunctionV,
    InstanceV,
    MethodV,
    Obj,
    ObjectKey,
    SetV,
    TensorV,
    TupleV,
    Value,
)
from rushlight.compiler.capture.view import DequeV, DictV, ListV
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.compiler.graph.symbolic import Sym, has_symbols
from rushlight.core.meta import Size
from rushlight.core.op import prims
from rushlight.ops.copy import preserve_format


class Builder:
    """Collects the graph's outputs, and the lines that build objects from them."""

    def __init__(self, session: Session, writer: Writer, gone: set[GraphValue]) -> None:
        self.session, self.writer = session, writer
        self.gone = gone  # values that stood for samples of vmap
        self.recorder = session.recorder
        self.outputs: list[GraphValue] = []
        self.owner: dict[GraphValue, Tracer | None] = {}
        self.sources: dict[Source, str] = {}
        self.early: dict[str, str] = {}  # names of expressions that may raise: they are looked at with the guards
        self.made: dict[int, str] = {}
        self.memory: dict[int, tuple[str, int]] = {}  # outputs that are a tensor's memory, and after how many calls
        self.changed: set[GraphValue] = set()  # outputs whose version is set afterwards
        self.keep: list[Any] = []
        self.lines: list[str] = []
        self.building: set[int] = set()
        self.calls = 0  # how many calls that run as they are come before these lines
        self._names = 0

    def source(self, source: Source | Derived) -> str:
        """The name of a value that is read before the graph runs; filled in when the guards are written."""
        if isinstance(source, Derived):
            text = source.write(self.source)
            return self.early.setdefault(text, f"x{len(self.early)}") if source.fails else text
        if type(source) is Early:
            return source.name
        if source.step == "const":
            return self.writer.hold(source.example)
        source.wanted = True
        found = self.sources.get(source)
        if found is None:
            found = self.sources[source] = f"s{len(self.sources)}"
        return found

    # results

    def build(self, value: Value) -> str:
        """An expression for a value after the call."""
        if isinstance(value, Obj):
            return self._object(value)
        key = id(value.tracer) if isinstance(value, TensorV) else id(value)
        name = self.made.get(key)
        if name is None:
            if key in self.building:
                raise Abort("a container that holds itself")
            self.building.add(key)
            name = self._make(value)
            self.building.discard(key)
            self.made[key] = name
            self.keep.append(value)
        return name

    def _object(self, value: Obj) -> str:
        if value.source is not None:
            return self.source(value.source)
        if not immutable(value.obj) or has_symbols(value.obj):
            raise Abort(f"a {type(value.obj).__name__} that outlives the call")
        return self.writer.literal(value.obj)

    def _name(self) -> str:
        self._names += 1
        return f"r{self._names - 1}"

    def _assign(self, expression: str) -> str:
        name = self._name()
        self.lines.append(f"{name} = {expression}")
        return name

    def _make(self, value: Value) -> str:
        match value:
            case TensorV():
                return self.tensor(value.tracer)
            case LateV():
                return self._assign(value.write(self))
            case TupleV():
                items = "".join(f"{self.build(x)}, " for x in value.items)
                if value.kind is tuple:
                    return f"({items})"
                if value.kind is Size:
                    items = f"({items})"
                    return self._assign(f"{self.writer.hold(Size)}({items})")
                return self._assign(f"{self.writer.hold(tuple.__new__)}({self.writer.hold(value.kind)}, ({items}))")
            case ListV() | DictV() if value.base is not None:
                return self.source(value.source)
            case ListV() if any(value is other for other, _ in self.session.foreign):
                raise Abort("a list that a call makes which runs as it is")
            case DequeV():
                items = ", ".join([self.build(x) for x in value.load()])
                return self._assign(f"{self.writer.hold(deque)}([{items}], {value.most})")
            case ListV():
                return self._assign(f"[{', '.join([self.build(x) for x in value.load()])}]")
            case DictV():
                items = ", ".join([f"{self._key(k)}: {self.build(v)}" for k, v in value.load().items()])
                if is_python_class(value.kind) and not issubclass(value.kind, OrderedDict):
                    return self._own_dict(value, items)
                kind = "" if value.kind is dict else self.writer.hold(value.kind)
                if value.kind is defaultdict:
                    return self._assign(f"{kind}({self.build(value.missing())}, {{{items}}})")
                return self._with_attributes(value, self._assign(f"{kind}({{{items}}})"))
            case SetV():
                if any(type(key) is ObjectKey for key in value.keys):
                    raise Abort("a set of objects that outlives the call")
                return self._assign(f"{self.writer.hold(value.keys.copy())}.copy()")
            case InstanceV():
                return self._instance(value)
            case CellV():
                return self._cell(value)
            case FunctionV():
                return self._function(value)
            case MethodV() if self._is_function(value.func):
                parts = f"{self.build(value.func)}, {self.build(value.self)}"
                return self._assign(f"{self.writer.hold(MethodType)}({parts})")
        raise Abort(f"a {self.session.type_name(value)} that outlives the call")

    def _is_function(self, value: Value) -> bool:
        return isinstance(value, FunctionV) or isinstance(value, Obj) and isinstance(value.obj, FunctionType)

    def _key(self, key: Any) -> str:
        if not immutable(key):
            raise Abort("an object as key")
        return self.writer.literal(key)

    def _instance(self, value: InstanceV) -> str:
        name = self._assign(f"new({self.writer.hold(value.cls)})")
        self.made[id(value)] = name
        self.building.discard(id(value))
        for key, item in value.attrs.load().items():
            slot = isinstance(getattr(value.cls, key, None), MemberDescriptorType)
            self.lines.append(f"set_slot({name}, {key!r}, {self.build(item)})" if slot else
                              f"{name}.__dict__[{key!r}] = {self.build(item)}")
        return name

    def _own_dict(self, value: DictV, items: str) -> str:
        """A dict of a class of the program, made past its constructor, which has run."""
        name = self._assign(f"{self.writer.hold(dict.__new__)}({self.writer.hold(value.kind)})")
        self.lines.append(f"{self.writer.hold(dict.update)}({name}, {{{items}}})")
        return self._with_attributes(value, name)

    def _with_attributes(self, value: DictV, name: str) -> str:
        self.lines += [f"{name}.__dict__[{key!r}] = {self.build(item)}" for key, item in value.attrs.items()]
        return name

    def _cell(self, value: CellV) -> str:
        if value.base is not None:
            return self.writer.hold(value.base)
        name = self._assign(f"{self.writer.hold(CellType)}()")
        self.made[id(value)] = name
        self.building.discard(id(value))
        if value.content is not None:
            self.lines.append(f"{name}.cell_contents = {self.build(value.content)}")
        return name

    def _function(self, value: FunctionV) -> str:
        if value.annotations is not None:
            raise Abort("a function with annotations that outlives the call")
        hold = self.writer.hold
        cells = "".join(f"{self.build(c)}, " for c in value.cells)
        defaults = "".join(f"{self.build(d)}, " for d in value.defaults)
        name = self._assign(f"{hold(FunctionType)}({hold(value.code)}, {hold(value.globals)}, {value.code.co_name!r}, "
                            f"({defaults}) or None, ({cells}))")
        self.lines.append(f"{name}.__qualname__ = {value.code.co_qualname!r}")
        if value.wrapped is not None:
            self.lines.append(f"{hold(update_wrapper)}({name}, {self.build(value.wrapped)})")
        if value.kwdefaults:
            items = ", ".join(f"{k!r}: {self.build(v)}" for k, v in value.kwdefaults.items())
            self.lines.append(f"{name}.__kwdefaults__ = {{{items}}}")
        return name

    # tensors

    def tensor(self, tracer: Tracer) -> str:
        """An expression for a tensor: itself if it existed, a view replayed on its base, or an output of the graph."""
        if tracer._origin is not None:
            return self.source(tracer._origin)
        if tracer in self.session.gradients.kept:
            raise Abort("a tensor with a gradient that is kept, and that outlives the call")
        if tracer._parent is not None:
            return self._view(tracer)
        name = self._fresh(tracer)
        if tracer in self.recorder.own_leaves:
            return self._leaf(tracer, name)
        if self.recorder.freed and tracer._meta.requires_grad:
            node = self.recorder.current(tracer).node
            if node not in history.spent_nodes(self.recorder):
                raise Abort("a result with a history that a backward pass has used in part")
            return self._assign(f"spent({name}, {self.writer.hold(replay.spent_class(node.op))})")
        return name

    def _leaf(self, tracer: Tracer, name: str) -> str:
        """A tensor that the program made require grad."""
        grad = self.session.gradients.now(tracer)
        self.lines.append(f"{name}.requires_grad_()")
        if isinstance(grad, TensorV):
            self.lines.append(f"set_grad({name}, {self.build(grad)})")
        return name

    def _fresh(self, tracer: Tracer) -> str:
        """An output of the graph for a tensor that the program made."""
        if id(tracer) in self.memory:
            return self.memory[id(tracer)][0]
        if tracer in self.recorder.hidden:
            raise Abort("a result of a Function that shares memory with an argument")
        value, times = self.recorder.stages.as_of(tracer, self.calls)
        node = settled(self.recorder, value)
        constant = id(tracer) in self.recorder.reals and not tracer._count or node.node is None
        if constant or self.owner.get(node, tracer) is not tracer:
            meta = node.meta  # two tensors must not become one, and a constant must stay as it is
            node = self.recorder.graph.call(prims.convert, (node,), (meta.dtype, meta.device, preserve_format), meta)
        name = self._output(node, tracer)
        self.memory[id(tracer)] = name, self.calls
        if times and not node.meta.requires_grad:  # what is saved for gradients must stay at its version
            self.lines.append(f"written({name}, {times})")
            self.changed.add(node)
        return name

    def _view(self, tracer: Tracer) -> str:
        base, step = tracer._parent, tracer._step
        if tracer._root in self.recorder.stages.replaced:
            raise Abort("a view of a tensor whose data was set")
        if tracer in self.recorder.own_leaves:
            raise Abort("a view that the program made a leaf of, and that outlives the call")
        if step.op.name != "detach" and base._meta.requires_grad is not tracer._meta.requires_grad:
            raise Abort("a view that was made in another gradient mode")
        if step.op.name == "detach" and base._parent is None and base._origin is None:
            source = self._fresh(base)  # the history of what it shares memory with does not matter
        else:
            source = self.build(self.recorder.value_of(base))
        operands = ", ".join([source, *map(self._param, step.numbers)])
        part = "" if step.index is None else f"[{step.index}]"
        if step.silent:
            name = self._assign(f"{source}.data")
            if tracer._count:
                self.lines.append(f"written({name}, {tracer._count})")
            return name
        return self._assign(f"{self.writer.hold(step.op)}.apply(({operands},), {self._param(step.params)}){part}")

    def _param(self, x: Any) -> str:
        """An operand or param of a view: a number, or an expression of the sizes that came."""
        if type(x) is Sym:
            return expression(x, self.source)
        if has_symbols(x):
            return f"({''.join([f'{self._param(item)}, ' for item in x])})"
        return repr(x) if type(x) is int else self.writer.hold(x)

    def _output(self, node: GraphValue, owner: Tracer | None) -> str:
        if node in self.gone:
            raise Abort("a tensor of vmap that outlives it")
        if node in self.owner:
            return f"o{self.outputs.index(node)}"
        self.owner[node] = owner
        self.outputs.append(node)
        return f"o{len(self.outputs) - 1}"
