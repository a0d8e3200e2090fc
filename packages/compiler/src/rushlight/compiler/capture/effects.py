"""What a call leaves behind: its result and its writes, as Python source.

Everything that the call found is read before the graph runs; then the new objects are built; then the writes are done
on the real objects.
"""

from __future__ import annotations

from types import CellType, FunctionType, MethodType
from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.gradients import set_grad
from rushlight.compiler.capture.guard_codegen import Writer
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.session import Session, immutable
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.symbolic import Derived
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
from rushlight.compiler.capture.view import DELETED, DictV, ExistingSetV, ListV
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.core.op import Op, prims
from rushlight.core.tensor import Tensor
from rushlight.ops.copy import preserve_format


def write_back(target: Tensor, value: Tensor, times: int = 1) -> None:
    """Give an existing tensor the value that the captured program left in it after so many writes."""
    alias = prims.detach.execute((target,))
    prims.copy_.execute((alias, value), (False,))
    if times > 1:
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
    from rushlight.autograd.recorder import attach

    attach(result, node(), 0)
    return result


class Epilogue:
    """Collects the graph's outputs and the lines that follow the graph call."""

    def __init__(self, session: Session, writer: Writer) -> None:
        self.session, self.writer = session, writer
        self.recorder = session.recorder
        self.outputs: list[GraphValue] = []
        self.owner: dict[GraphValue, Tracer | None] = {}
        self.sources: dict[Source, str] = {}
        self.made: dict[int, str] = {}
        self.keep: list[Any] = []
        self.lines: list[str] = []
        self.wrong: list[str] = []  # outputs that must be False
        self.building: set[int] = set()

    def write(self, result: Value) -> str:
        """Work out all lines; returns the expression of the call's result."""
        backs = [t for t in self.recorder.inputs_by_source() if t._count]
        writes = [(self.source(t._origin), self._output(t._node, None), t._count) for t in backs]
        text = self.build(result)
        self.wrong = [self._output(self.recorder.current(t), None) for t in self.recorder.wrong]
        effects = self._effects()
        self.lines += [f"write_back({target}, {value}{f', {times}' if times > 1 else ''})"
                       for target, value, times in writes]
        self.lines += effects
        self._keep_checks()
        self.writer.held.update(write_back=write_back, written=written, new=object.__new__, set_slot=object.__setattr__,
                                set_grad=set_grad, spent=spent)
        return text

    def _effects(self) -> list[str]:
        """The writes to existing objects, with each deferred call between what came before and after it."""
        session, effects = self.session, list[str]()
        done: dict[int, int] = {}
        gradients = 0
        for call in session.deferred:
            self._write_logs(done, call.writes, effects)
            self._write_gradients(session.gradients.log[gradients:call.gradients], effects)
            done, gradients = call.writes, call.gradients
            effects.append(f"{self.writer.hold(call.fn)}({self.source(call.owner)})")
        self._write_logs(done, None, effects)
        self._write_gradients(session.gradients.log[gradients:], effects)
        for view in session.views.values():
            if isinstance(view, CellV) and view.written:
                effects.append(f"{self.writer.hold(view.base)}.cell_contents = {self.build(view.content)}")
        for (_, name), (source, _, value) in session.slots.items():
            effects.append(f"set_slot({self.source(source)}, {name!r}, {self.build(value)})")
        return effects

    def _write_logs(self, start: dict[int, int], stop: dict[int, int] | None, effects: list[str]) -> None:
        """The writes to containers from one moment to another, which are counts of writes by view."""
        for view in self.session.views.values():
            if not isinstance(view, CellV):
                end = len(view.log) if stop is None else stop.get(id(view), 0)
                self._replay(view, view.log[start.get(id(view), 0):end], effects)

    def _write_gradients(self, log: list[tuple[Tracer, Value]], effects: list[str]) -> None:
        for tracer, value in {id(tracer): (tracer, value) for tracer, value in log}.values():
            effects.append(f"set_grad({self.source(tracer._origin)}, {self.build(value)})")

    def _keep_checks(self) -> None:
        """Make unused ops that check an index outputs too, so that they still fail where eager calls do."""
        live: set[Any] = set()

        def mark(value: Any) -> None:
            pending = [value]
            while pending:
                node = getattr(pending.pop(), "node", None)
                if node is not None and node not in live:
                    live.add(node)
                    pending.extend(node.inputs)

        for value in self.outputs:
            mark(value)
        for node in reversed(self.recorder.graph.nodes):
            indexed = node.op.kind == "structured" and any(
                isinstance(x, GraphValue) and x.meta.dtype.category == 1 for x in node.inputs)
            if indexed and node not in live:
                self._output(node.outputs[0], None)
                mark(node.outputs[0])

    def source(self, source: Source | Derived) -> str:
        """The name of a value that is read before the graph runs; filled in when the guards are written."""
        if isinstance(source, Derived):
            return source.write(self.source)
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
        if not immutable(value.obj):
            raise Abort(f"a {type(value.obj).__name__} that outlives the call")
        return self.writer.literal(value.obj)

    def _assign(self, expression: str) -> str:
        name = f"r{len(self.lines)}"
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
                return self._assign(f"{self.writer.hold(value.kind)}({items})")
            case ListV() | DictV() if value.base is not None:
                return self.source(value.source)
            case ListV():
                return self._assign(f"[{', '.join([self.build(x) for x in value.load()])}]")
            case DictV():
                items = ", ".join([f"{self._key(k)}: {self.build(v)}" for k, v in value.load().items()])
                kind = "" if value.kind is dict else self.writer.hold(value.kind)
                return self._assign(f"{kind}({{{items}}})")
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
            self.lines.append(f"{name}.__dict__[{key!r}] = {self.build(item)}")
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
        if value.kwdefaults:
            items = ", ".join(f"{k!r}: {self.build(v)}" for k, v in value.kwdefaults.items())
            self.lines.append(f"{name}.__kwdefaults__ = {{{items}}}")
        return name

    # tensors

    def tensor(self, tracer: Tracer) -> str:
        """An expression for a tensor: itself if it existed, a view replayed on its base, or an output of the graph."""
        if tracer._origin is not None:
            return self.source(tracer._origin)
        if tracer._parent is not None:
            return self._view(tracer)
        name = self._fresh(tracer)
        if self.recorder.freed and tracer._meta.requires_grad:
            node = self.recorder.current(tracer).node
            if node not in self.recorder.spent:
                raise Abort("a result with a history that a backward pass has used in part")
            return self._assign(f"spent({name}, {self.writer.hold(spent_class(node.op))})")
        return name

    def _fresh(self, tracer: Tracer) -> str:
        """An output of the graph for a tensor that the program made."""
        node = self.recorder.current(tracer)
        constant = id(tracer) in self.recorder.reals and not tracer._count or node.node is None
        if constant or self.owner.get(node, tracer) is not tracer:
            meta = tracer._meta  # two tensors must not become one, and a constant must stay as it is
            node = self.recorder.graph.call(prims.convert, (node,), (meta.dtype, meta.device, preserve_format), meta)
        name = self._output(node, tracer)
        if tracer._count and not tracer._meta.requires_grad:  # what is saved for gradients must stay at its version
            self.lines.append(f"written({name}, {tracer._count})")
        return name

    def _view(self, tracer: Tracer) -> str:
        base, step = tracer._parent, tracer._step
        if self.recorder.freed and tracer._meta.requires_grad:
            raise Abort("a view with a history that a backward pass has used")
        if step.op.name != "detach" and base._meta.requires_grad is not tracer._meta.requires_grad:
            raise Abort("a view that was made in another gradient mode")
        if step.op.name == "detach" and base._parent is None and base._origin is None:
            source = self._fresh(base)  # the history of what it shares memory with does not matter
        else:
            source = self.build(self.recorder.value_of(base))
        operands = ", ".join([source, *map(repr, step.numbers)])
        part = "" if step.index is None else f"[{step.index}]"
        return self._assign(f"{self.writer.hold(step.op)}.apply(({operands},), {self.writer.hold(step.params)}){part}")

    def _output(self, node: GraphValue, owner: Tracer | None) -> str:
        if node in self.owner:
            return f"o{self.outputs.index(node)}"
        self.owner[node] = owner
        self.outputs.append(node)
        return f"o{len(self.outputs) - 1}"

    # writes

    def _replay(self, view: Any, log: list[tuple], effects: list[str]) -> None:
        if not log:
            return
        target = self.source(view.source)
        if isinstance(view, ExistingSetV):
            effects += [f"{target}.{method}({self._key(key)})" for method, key in log]
        elif isinstance(view, ListV):
            for method, *arguments in log:
                effects.append(self._list_write(target, method, arguments))
        else:
            for key, value in compact(log):
                if value is DELETED:
                    effects.append(f"del {target}[{self._key(key)}]")
                else:
                    effects.append(f"{target}[{self._key(key)}] = {self.build(value)}")

    def _list_write(self, target: str, method: str, arguments: list[Any]) -> str:
        match method:
            case "setitem" | "setslice":
                at, value = arguments
                items = self.build(value) if method == "setitem" else f"[{', '.join([self.build(x) for x in value])}]"
                return f"{target}[{self._index(at)}] = {items}"
            case "delitem":
                return f"del {target}[{self._index(arguments[0])}]"
            case "append":
                return f"{target}.append({self.build(arguments[0])})"
            case "extend":
                return f"{target}.extend([{', '.join([self.build(x) for x in arguments[0]])}])"
            case "insert":
                return f"{target}.insert({arguments[0]!r}, {self.build(arguments[1])})"
            case _:
                return f"{target}.{method}({', '.join(map(repr, arguments))})"

    def _index(self, at: Any) -> str:
        return self.writer.literal(at) if isinstance(at, int) else self.writer.hold(at)


def compact(log: list[tuple]) -> list[tuple]:
    """A dict's writes without those that later ones make invisible."""
    if any(value is DELETED for _, value in log):
        return log
    return list(dict(log).items())
