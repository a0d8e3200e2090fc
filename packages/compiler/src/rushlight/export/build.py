"""`export`: from a model and example arguments to an `ExportedProgram`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import MethodType
from typing import Any

from rushlight.compiler._compiled import original_of
from rushlight.compiler.capture import allow
from rushlight.compiler.capture.sized import as_captured
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym
from rushlight.compiler.graph.text import literal
from rushlight.compiler.graph.verify import verify
from rushlight.core import dtypes
from rushlight.core.op import prims
from rushlight.core.tensor import Tensor
from rushlight.export import small
from rushlight.export.dynamic_shapes import wishes
from rushlight.export.exported_program import CallSpec, ExportedProgram, RandomDraw
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from rushlight.export.readable import is_name, tensor_inputs, unique, value_names
from rushlight.export.trace import Traced, flatten_call, trace
from rushlight.export.trees import is_constant, leaf_names
from rushlight.ops.copy import preserve_format
from rushlight.utils._pytree import TreeSpec


def export(mod: Callable, args: tuple, kwargs: dict | None = None, *, dynamic_shapes: Any = None, strict: bool = False,
           preserve_module_call_signature: tuple = (), prefer_deferred_runtime_asserts_over_guards: bool = False,
           ) -> ExportedProgram:
    """The computation `mod(*args, **kwargs)` as a graph that holds for all arguments of these shapes and dtypes.

    `mod` is a module or function. Nothing is computed: the code is followed on stand-ins for the tensors. What it reads
    of Python's state counts as it is now, and so do arguments that are no tensors; their values are checked in calls.
    Control flow that depends on the values of tensors is an error that names the line. `strict` changes nothing.

    `dynamic_shapes` says which sizes stay open: a dict from the names of arguments, or a tuple, that holds for each
    tensor a dict from dimensions to `Dim("name")`, `Dim.AUTO` or `Dim.DYNAMIC`, or a tuple of them; None keeps sizes.

    Raises TypeError or ValueError for arguments of another kind, RuntimeError for programs that no graph can hold, and
    its subclass ConstraintViolationError where the program does not hold for all sizes that are wanted.

    Example:
        >>> import rushlight
        >>> from rushlight import nn
        >>> program = rushlight.export.export(nn.Linear(2, 1), (rushlight.ones(3, 2),))
        >>> program.module()(rushlight.zeros(3, 2)).shape
        rushlight.Size([3, 1])
    """
    mod = _original(mod)
    if not callable(mod) or isinstance(mod, type):
        raise ValueError(f"export: expected a module or a function, got {type(mod).__name__}")
    if not isinstance(args, tuple):
        raise TypeError("export: expecting `args` to be a tuple of example positional inputs, got "
                        f"{type(args).__name__}")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TypeError("export: expecting `kwargs` to be a dict of example keyword inputs, got "
                        f"{type(kwargs).__name__}")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature: programs keep the outermost module alone")
    kwargs = dict(kwargs or {})
    return build("export", mod, args, kwargs, dynamic_shapes, (args, kwargs))


def build(what: str, mod: Callable, args: tuple, kwargs: dict, dynamic_shapes: Any = None,
          example: tuple[tuple, dict] | None = None) -> ExportedProgram:
    """The program of a call; `what` asks for it, in messages, and `example` is kept in it."""
    leaves, spec = flatten_call(args, kwargs)
    names = argument_names(mod, spec)
    for name, leaf in zip(names, leaves):
        if not isinstance(leaf, Tensor) and not is_constant(leaf):
            raise TypeError(f"{what}: unsupported type {type(leaf).__name__} of the argument {name}: expected tensors, "
                            "numbers, strings, dtypes, devices, None, and lists, tuples, dicts, named tuples or "
                            "registered dataclasses of them")
    wanted = wishes(spec, leaves, names, dynamic_shapes, mod, list(kwargs))

    def captured(leaves: list, wanted: list, example: tuple[tuple, dict] | None) -> ExportedProgram:
        traced = trace(what, mod, leaves, spec, wanted)
        return _Assembly(mod, leaves, names, traced).program(CallSpec(spec, traced.out_spec), example)

    program = captured(leaves, wanted, example)
    if program.facts is not None:
        program.small = small.proven(program, wanted, leaves, lambda smaller, left: captured(smaller, left, None))
    return program


def module_of(mod: Any) -> Any:
    """The module that a model is, or whose method it is; None for functions."""
    owner = mod.__self__ if isinstance(mod, MethodType) else mod
    return owner if allow.module_type(owner) is not None else None


def _original(mod: Any) -> Any:
    """The model behind a compiled one."""
    return getattr(mod, "_orig_mod", None) or original_of(mod)


def argument_names(mod: Callable, spec: TreeSpec) -> list[str]:
    """A name for each leaf of the arguments, from the signature of the function."""
    args, kwargs = spec.children_specs
    function = mod.forward if allow.module_type(mod) is not None else mod  # type: ignore[attr-defined]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    given = [positional[i] if i < len(positional) else f"{rest}_{i - len(positional)}"
             for i in range(len(args.children_specs))]
    given += [str(key) for key in kwargs.context[0]]
    taken: dict[str, int] = {}
    children = [*args.children_specs, *kwargs.children_specs]
    return [unique(_identifier(name), taken) for child, own in zip(children, given) for name in leaf_names(child, own)]


def _number_or_constant(x: Any) -> SymIntArgument | ConstantArgument:
    """A result that is no tensor."""
    if type(x) in SYMBOLS:
        return (SymIntArgument if type(x) is Sym else SymFloatArgument)(literal(x), x)
    return ConstantArgument("", x)


def _identifier(name: str) -> str:
    made = "".join([c if f"_{c}".isidentifier() else "_" for c in name])
    return made if is_name(made) else f"_{made}"


class _Assembly:
    """Orders the inputs and outputs of a captured graph, and names them."""

    def __init__(self, mod: Callable, leaves: list, names: list[str], traced: Traced) -> None:
        self.mod, self.leaves, self.names, self.traced = mod, leaves, names, traced
        self.graph = Graph()
        self.graph.nodes = traced.graph.nodes
        self.specs: list[InputSpec] = []
        self.taken = dict.fromkeys(names, 0)
        self.target_of: dict[Value, str] = {}
        self.kind_of: dict[Value, InputKind] = {}
        self.state: dict[str, Tensor] = {}
        self.constants: dict[str, Tensor] = {}

    def program(self, call_spec: CallSpec, example: tuple[tuple, dict] | None) -> ExportedProgram:
        self._states()
        self._users()
        self._draws()
        outputs = self._outputs()
        traced = self.traced
        verify(self.graph if traced.facts is None else as_captured(traced.facts, self.graph))
        draws = tuple([RandomDraw(d.op, d.operands[1].at, d.operands[2:], d.params) for d, _ in traced.draws])
        return ExportedProgram(self.graph, ExportGraphSignature(self.specs, outputs), self.state, self.constants,
                               call_spec, draws=draws, counters=traced.counters,
                               numbers=tuple([sym for sym, _ in traced.numbers]), facts=traced.facts,
                               example_inputs=example, name=getattr(self.mod, "__name__", type(self.mod).__name__))

    def _input(self, value: Value | None, tensor: Tensor, kind: InputKind, target: str, prefix: str,
               persistent: bool | None = None) -> None:
        """An input that is a tensor of the model; one that the graph does not use gets a value, too."""
        made = value or self.graph.input(tensor._meta)
        if value is not None:
            self.graph.inputs.append(value)
        self.target_of[made], self.kind_of[made] = target, kind
        name = unique(_identifier(f"{prefix}_{target.replace('.', '_')}"), self.taken)
        self.specs.append(InputSpec(kind, TensorArgument(name), target, persistent))

    def _states(self) -> None:
        values = {id(real): value for real, _, value in self.traced.found}
        buffers: list[tuple[str, Tensor, bool]] = []
        attributes: dict[int, str] = {}
        model = module_of(self.mod)
        if model is not None:
            for name, tensor in model.named_parameters():
                self._input(values.pop(id(tensor), None), tensor, InputKind.PARAMETER, name, "p")
            self.state.update(model.named_parameters(remove_duplicate=False))
            hidden = {f"{prefix}.{name}".lstrip(".") for prefix, module in model.named_modules()
                      for name in module._non_persistent_buffers_set}
            buffers = [(name, tensor, name not in hidden) for name, tensor in model.named_buffers()]
            for name, tensor in model.named_buffers(remove_duplicate=False):
                (self.constants if name in hidden else self.state)[name] = tensor
            for prefix, module in model.named_modules():
                for name, found in vars(module).items():
                    if isinstance(found, Tensor):
                        attributes.setdefault(id(found), f"{prefix}.{name}".lstrip("."))
            order = {name: i for i, name in enumerate(model.state_dict())}
            self.state = dict(sorted(self.state.items(), key=lambda item: order.get(item[0], len(order))))
        for name, tensor, persistent in buffers:
            self._input(values.pop(id(tensor), None), tensor, InputKind.BUFFER, name, "b", persistent)
        taken: dict[str, int] = {}
        left = [(real, value) for real, _, value in self.traced.found if id(real) in values]
        for real, value in [*left, *self.traced.constants]:
            name = attributes.get(id(real)) or unique("lifted_tensor_0", taken)
            self.constants[name] = real
            self._input(value, real, InputKind.CONSTANT_TENSOR, name, "c")

    def _users(self) -> None:
        for i, (name, leaf) in enumerate(zip(self.names, self.leaves)):
            if not isinstance(leaf, Tensor):
                self.specs.append(InputSpec(InputKind.USER_INPUT, ConstantArgument(name, leaf)))
                continue
            value = self.traced.given.get(i) or Value(self.traced.metas[i])
            self.graph.inputs.append(value)
            self.kind_of[value], self.target_of[value] = InputKind.USER_INPUT, name
            self.specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(name)))

    def _draws(self) -> None:
        for _, value in self.traced.numbers:
            self.graph.inputs.append(value)
            self.specs.append(InputSpec(InputKind.SIZE, TensorArgument(unique("size", self.taken))))
        self.traced.draws.sort(key=lambda item: int(item[0].operands[1]))
        for draw, value in self.traced.draws:
            self.graph.inputs.append(value)
            self.specs.append(InputSpec(InputKind.RANDOM, TensorArgument(unique(draw.op.name, self.taken))))

    def _outputs(self) -> list[OutputSpec]:
        """Set the outputs of the graph: writes, results, checks."""
        writes, values = [], []
        kinds = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
                 InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION,
                 InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION}
        for target, value in self.traced.writes:
            writes.append((kinds[self.kind_of[target]], self.target_of[target]))
            values.append(value)
        for tensor, value in self.traced.assigned:
            writes.append((OutputKind.BUFFER_MUTATION, self._replaced(tensor)))
            values.append(value)
        values += [r.value for r in self.traced.results if r.value is not None]
        values += [*self.traced.checks, *map(self._number, self._unused_indexing(values))]
        self.graph.output(values)
        names = value_names(self.graph, tensor_inputs(ExportGraphSignature(self.specs, [])))
        specs = [OutputSpec(kind, TensorArgument(names[v]), target) for (kind, target), v in zip(writes, values)]
        for result in self.traced.results:
            if result.value is None:
                specs.append(OutputSpec(OutputKind.USER_OUTPUT, _number_or_constant(result.constant)))
                continue
            alias = None if result.alias is None else names[result.alias]
            specs.append(OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(names[result.value]), None, alias,
                                    result.views))
        done = sum(isinstance(s.arg, TensorArgument) for s in specs)
        return [*specs, *[OutputSpec(OutputKind.CHECK, TensorArgument(names[v])) for v in values[done:]]]

    def _replaced(self, tensor: Tensor) -> str:
        """The name of a buffer that the program sets to another tensor, which a program says by writing to it."""
        name = next(name for name, found in {**self.state, **self.constants}.items() if found is tensor)
        held = [(module, key) for module in module_of(self.mod).modules()
                for place in (module._buffers, vars(module)) for key, found in place.items() if found is tensor]
        if len(held) > 1:
            raise RuntimeError(f"export: the program replaces the buffer {name}, which the model has under "
                               f"{len(held)} names ({', '.join(key for _, key in held)}): the others would change with "
                               "it; write to it in place, or clone it for the other names")
        return name

    def _number(self, value: Value) -> Value:
        """A value that is computed because it may fail; not as a bool, which would have to be False."""
        m = value.meta
        if m.dtype is not dtypes.bool:
            return value
        return self.graph.call(prims.convert, (value,), (dtypes.uint8, m.device, preserve_format))

    def _unused_indexing(self, used: list[Value]) -> list[Value]:
        """Results that nobody needs of operations that fail for a wrong index: they have to fail all the same."""
        live: set[Any] = set()
        kept: list[Value] = []

        def mark(value: Any) -> None:
            pending = [value]
            while pending:
                node = getattr(pending.pop(), "node", None)
                if node is not None and node not in live:
                    live.add(node)
                    pending.extend(node.inputs)

        for value in used:
            mark(value)
        for node in reversed(self.graph.nodes):
            indexed = node.op.kind == "structured" and any(
                isinstance(x, Value) and x.meta.dtype.category == 1 for x in node.inputs)
            if indexed and node not in live and node.op is not prims.convert:
                kept.append(node.outputs[0])
                mark(node.outputs[0])
        return kept
