"""What is checked of a program that is read from a file, so that nothing in the file has to be believed."""

from __future__ import annotations

import re
from typing import Any

from rushlight.compiler.capture.sized import Concrete
from rushlight.compiler.graph.control import graphs_of
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.text import parse, text
from rushlight.compiler.graph.verify import verify
from rushlight.core.op import meta_of
from rushlight.export.exported_program import CallSpec, ExportedProgram, RandomDraw
from rushlight.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from rushlight.export.readable import tensor_inputs
from rushlight.export.sizes import Sizes
from rushlight.export.symbols import reading, symbol_text
from rushlight.utils._pytree import TreeSpec


def require(condition: bool, otherwise: str) -> None:
    """ValueError unless something holds."""
    if not condition:
        raise ValueError(otherwise)


def read_graph(source: str, facts: Facts | None = None) -> Graph:
    """The graph of a text, which has to be exactly the text of this graph, and consistent."""
    with reading(facts) as size:
        graph = parse(source, size)
        require(text(graph, symbol_text) == source, "the text of the graph is not in its canonical form")
    if facts is not None:  # for the sizes of the example; in calls the graph is checked for those that come
        concrete = Concrete(facts, {atom.number: atom.hint for atom in facts.atoms}).graph(graph)
        require(concrete is not None, "the graph does not hold for the sizes of its example")
        _checkmetas(concrete)  # type: ignore[arg-type]
        verify(concrete)  # type: ignore[arg-type]
        return graph
    _checkmetas(graph)
    return verify(graph)


def _checkmetas(graph: Graph) -> None:
    for inner in [x for node in graph.nodes for x in graphs_of(node)]:
        _checkmetas(inner)
    for value in [*graph.inputs, *[v for node in graph.nodes for v in node.outputs]]:
        require(min([*value.meta.shape, *value.meta.strides], default=0) >= 0, f"no tensor is {value.meta}")


_NAME = re.compile(r"[^.]+(\.[^.]+)*\Z")  # modules may have any name, such as "conv-1"


_ORDER = (InputKind.PARAMETER, InputKind.USER_INPUT, InputKind.SIZE, InputKind.RANDOM)


def check_inputs(graph: Graph, specs: list[InputSpec], state: dict, constants: dict,
                  draws: tuple[RandomDraw, ...]) -> None:
    """Do the inputs come in order, and are those that the file has tensors for such tensors?"""
    values = iter(graph.inputs)
    random = iter(draws)
    order = [0 if s.target is not None else _ORDER.index(s.kind) for s in specs]
    require(order == sorted(order), "the inputs are in disorder")
    names = [s.arg.name for s in specs]
    require(len(set(names)) == len(names), "two inputs have one name")
    targets = [s.target for s in specs if s.target is not None]
    require(len(set(targets)) == len(targets), "two inputs are one tensor")
    for spec in specs:
        if isinstance(spec.arg, ConstantArgument):
            require(spec.kind is InputKind.USER_INPUT, f"{spec.arg.name} has to be a tensor")
            continue
        meta = next(values).meta
        if spec.kind in (InputKind.USER_INPUT, InputKind.SIZE, InputKind.RANDOM):
            require(spec.target is None, f"{spec.arg.name} is no tensor of the model")
            if spec.kind is InputKind.SIZE:
                require(meta.ndim == 0 and meta.device.type == "cpu", f"a number that is {meta}")
            if spec.kind is InputKind.RANDOM:
                draw = next(random)
                made: Any = draw.op.infer(*metas_of((0, 0, *draw.numbers)), *draw.params)
                require(made is meta, f"{spec.arg.name} is {meta}, drawn is {made}")
            continue
        target = str(spec.target)
        require(_NAME.match(target) is not None, f"no name of a tensor: {spec.target!r}")
        hidden = spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False
        found = (constants if hidden else state)[target]._meta
        require((found.dtype, found.shape, found.device) == (meta.dtype, meta.shape, meta.device),
                 f"{target} is {found}, the graph has {meta}")
    require(next(values, None) is None and next(random, None) is None, "an input that nothing is said of")


def metas_of(numbers: tuple) -> list:
    """The metadata of numbers as operands."""
    return [meta_of(x) for x in numbers]


def check_outputs(graph: Graph, specs: list[OutputSpec], inputs: list[InputSpec], facts: Facts | None) -> None:
    """Are outputs written to what they fit, and are views of inputs views?"""
    metas = dict(zip(tensor_inputs(ExportGraphSignature(inputs, [])), [v.meta for v in graph.inputs]))
    by_target = {s.target: metas[s.arg.name] for s in inputs if s.target is not None}
    users = {s.arg.name for s in inputs if s.kind is InputKind.USER_INPUT}
    values = iter(graph.outputs)
    for spec in specs:
        if not isinstance(spec.arg, TensorArgument):
            require(spec.kind is OutputKind.USER_OUTPUT, f"{spec.arg.name} has to be a tensor")
            continue
        meta = next(values).meta
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            require(spec.target in users, f"{spec.target} is no argument")
        if spec.kind.writes:
            target = metas[str(spec.target)] if spec.target in users and spec.kind is OutputKind.USER_INPUT_MUTATION \
                else by_target[spec.target]
            require(target.dtype is meta.dtype and _equal(target.shape, meta.shape),
                    f"{spec.target} cannot become {meta}")
        if spec.alias is not None:
            require(spec.alias in metas, f"{spec.alias} is no input")
        if spec.views is not None:
            views = read_graph(spec.views, facts)
            fits = spec.alias is not None and len(views.inputs) == len(views.outputs) == 1
            require(fits and all(node.op.kind == "view" for node in views.nodes), "a view that is none")
            require(views.inputs[0].meta.with_grad(False) is metas[str(spec.alias)].with_grad(False),
                     "a view of something else")
    require(next(values, None) is None, "an output that nothing is said of")


def _equal(a: tuple, b: tuple) -> bool:
    return len(a) == len(b) and all(x is y or type(x) is type(y) is int and x == y for x, y in zip(a, b))


def check_trees(call_spec: CallSpec, inputs: list[InputSpec], outputs: list[OutputSpec]) -> None:
    """Have the trees places for the arguments and results?"""
    taken: TreeSpec = call_spec.in_spec
    args = taken.children_specs
    require(taken.type is tuple and len(args) == 2 and args[0].type is tuple and args[1].type is dict,
             "the arguments are no (args, kwargs)")
    count = sum(s.kind is InputKind.USER_INPUT for s in inputs)
    require(taken.num_leaves == count, f"{count} arguments for {taken.num_leaves} places")
    count = sum(s.kind is OutputKind.USER_OUTPUT for s in outputs)
    require(call_spec.out_spec.num_leaves == count, f"{count} results for {call_spec.out_spec.num_leaves} places")


def check_sizes(program: ExportedProgram, facts: Facts) -> None:
    """Is each open size the size of an argument, and does the graph hold for the example?"""
    inputs = [s for s in program.graph_signature.input_specs if isinstance(s.arg, TensorArgument)]
    known = Sizes(program, inputs).places
    require(all(atom.number in known for atom in facts.atoms if atom.parts is None), "a size that no argument has")
    users = [i for i, s in enumerate(inputs) if s.kind is InputKind.USER_INPUT]
    require(all(places[0].input in users for places in known.values()), "a size of something else than an argument")
