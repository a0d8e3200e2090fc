"""`ExportedProgram`: a whole computation as one graph, with what its inputs and outputs are, and its weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.sized import as_captured
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.verify import verify
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor
from rushlight.export import readable
from rushlight.export.dynamic_shapes import ValueRange
from rushlight.export.graph_signature import ExportGraphSignature, InputKind
from rushlight.export.module import make_module
from rushlight.utils._pytree import TreeSpec

if TYPE_CHECKING:
    from rushlight.compiler.picture import GraphPicture

__all__ = ["CallSpec", "ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "RandomDraw"]


class CallSpec(NamedTuple):
    """The trees of the arguments, `(args, kwargs)`, and of the result."""

    in_spec: TreeSpec
    out_spec: TreeSpec


@dataclass
class ModuleCallSignature:
    """How a module is called: its inputs and outputs in the graph, their trees, the names of its arguments."""

    inputs: list
    outputs: list
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module of the program, by its full name; only the outermost one, whose name is empty, has a signature."""

    fqn: str
    signature: ModuleCallSignature | None = None


class RandomDraw(NamedTuple):
    """A tensor that is drawn from the default generator: `op(seed, offset, *numbers, *params)`, where the offset counts
    from where the generator stands when the program is called.
    """

    op: Op
    offset: Any
    numbers: tuple
    params: tuple


class ExportedProgram:
    """What `export` makes of a model: `graph` with `graph_signature`, and the weights, shared with the model.

    It is not called itself: `module()` gives a module to call, compile or train. `print` shows the program.

    Example:
        >>> import rushlight
        >>> program = rushlight.export.export(lambda x: (x + 1) * 2, (rushlight.zeros(3),))
        >>> print(program)
        ExportedProgram:
            def forward(x: float32[3]):
                add: float32[3] = add(x, 1)
                mul: float32[3] = mul(add, 2)
                return (mul,)
        <BLANKLINE>
        Graph signature:
            # inputs
            x: USER_INPUT
            # outputs
            mul: USER_OUTPUT
        <BLANKLINE>
        Range constraints: {}
        >>> program.module()(rushlight.ones(3))
        tensor([4., 4., 4.])
    """

    def __init__(self, graph: Graph, graph_signature: ExportGraphSignature, state_dict: dict[str, Tensor],
                 constants: dict[str, Tensor], call_spec: CallSpec, *,
                 draws: tuple[RandomDraw, ...] = (), counters: Any = 0, numbers: tuple = (), facts: Facts | None = None,
                 small: frozenset[frozenset[tuple[str, int]]] = frozenset(),
                 example_inputs: tuple[tuple, dict] | None = None, name: str = "GraphModule") -> None:
        self._graph, self._graph_signature = graph, graph_signature
        self._state_dict, self._constants = state_dict, constants
        self.call_spec = call_spec
        self._draws, self._counters, self.numbers = draws, counters, numbers
        self.facts = facts  # what is known of open sizes, None if there are none
        self.small = small  # the sets of open sizes that may be 1 or 0 at once, with the number
        self._example_inputs = example_inputs
        self.name = name
        self._report: Any = None  # of a draft

    @property
    def graph(self) -> Graph:
        """The graph. Its inputs are the tensors of `graph_signature.input_specs`, in order; its outputs likewise."""
        return self._graph

    @property
    def graph_module(self) -> Any:
        """A copy of the graph as an `fx.GraphModule`, to be looked at: its inputs are those of `graph_signature`, its
        nodes call operations (`rushlight.ops.prims`) and have shape and dtype in `meta["val"]`. It runs, where no
        sizes are open, without the checks and writes of `module()`.

        Example:
            >>> import rushlight
            >>> from rushlight import nn
            >>> program = rushlight.export.export(nn.ReLU(), (rushlight.zeros(2),))
            >>> for node in program.graph_module.graph.nodes:
            ...     print(node.op, node.name, node.meta.get("val"))
            placeholder input float32[2]@cpu, requires_grad
            call_function relu float32[2]@cpu, requires_grad
            output output None
        """
        from rushlight.export.graph_module import graph_module  # it needs rushlight-nn

        return graph_module(self)

    def validate(self) -> None:
        """Raise GraphError where the graph is not consistent."""
        verify(self.graph if self.facts is None else as_captured(self.facts, self.graph))

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What inputs and outputs are."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by name."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Tensor]:
        """Other tensors of the program by name: those that are neither, and buffers that are not persistent."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Tensor]:
        """The same as `constants`."""
        return self._constants

    @property
    def range_constraints(self) -> dict[str, ValueRange]:
        """The sizes that are open, by name, with the smallest and the largest value that the program holds for."""
        if self.facts is None:
            return {}
        least: dict[str, int] = {}
        for name, value in [pair for values in self.small for pair in values]:
            least[name] = min(value, least.get(name, value))
        return {atom.name: ValueRange(least.get(atom.name, int(atom.low)), atom.high)
                for atom in self.facts.atoms if atom.parts is None}

    @property
    def example_inputs(self) -> tuple[tuple, dict] | None:
        """The arguments that the program was exported with: `(args, kwargs)`."""
        return self._example_inputs

    @property
    def draws(self) -> tuple[RandomDraw, ...]:
        """How inputs of kind RANDOM are made, in order."""
        return self._draws

    @property
    def counters(self) -> Any:
        """How many counters of the default generator a call takes."""
        return self._counters

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """How the program is called."""
        signature = self.graph_signature
        names = [s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        return [ModuleCallEntry("", ModuleCallSignature([], [], *self.call_spec, names))]

    def parameters(self) -> Iterator[Tensor]:
        """The parameters."""
        for _, tensor in self.named_parameters():
            yield tensor

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters with their names in the module."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        for _, tensor in self.named_buffers():
            yield tensor

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their names in the module."""
        hidden = self.graph_signature.non_persistent_buffers
        for name in self.graph_signature.buffers:
            yield name, self.constants[name] if name in hidden else self.state_dict[name]

    def module(self) -> Any:
        """A module that runs the program, with the same parameters and buffers, which it writes to as the model does.

        It takes arguments of the shapes, dtypes and structure of the export, and raises AssertionError or ValueError
        for others. Its mode is that of the model at the export: `train()` and `eval()` raise NotImplementedError.
        It compiles, too: `rushlight.compile(program.module())`.
        """
        return make_module(self)

    def draw(self) -> GraphPicture:
        """A picture of the graph as it fuses, with shapes and bytes: `.svg`, `.dot`, `.text`, `.save(path)`. Open sizes
        are those of the example.

        Example:
            >>> import rushlight
            >>> program = rushlight.export.export(lambda x: (x + 1) * 2, (rushlight.zeros(3),))
            >>> program.draw().summary
            '2 operations in 1 kernel and 0 views read 12 B and write 12 B'
        """
        from rushlight.compiler.picture import GraphPicture  # loads the kernels, which exporting does not need

        return GraphPicture(self.graph if self.facts is None else as_captured(self.facts, self.graph))

    def with_graph(self, graph: Graph, signature: ExportGraphSignature) -> ExportedProgram:
        """The same program with another graph."""
        return ExportedProgram(graph, signature, self.state_dict, self.constants, self.call_spec, draws=self.draws,
                               counters=self.counters, numbers=self.numbers, facts=self.facts, small=self.small,
                               example_inputs=self.example_inputs, name=self.name)

    def __deepcopy__(self, memo: dict) -> ExportedProgram:
        """The same program with tensors of its own."""
        made = self.with_graph(self.graph, self.graph_signature)
        made._state_dict = copy.deepcopy(self._state_dict, memo)
        made._constants = copy.deepcopy(self._constants, memo)
        return made

    def run_decompositions(self, decomp_table: dict | None = None) -> ExportedProgram:
        """The program with composed operations taken apart into those that they are defined by.

        `decomp_table` maps ops to functions of their operands and params; it is `default_decompositions()` when left
        out. What can only be taken apart for one number in the place of an open size stays whole. NotImplementedError
        for parts that a graph cannot say.
        """
        from rushlight.export.decomp_utils import run  # it captures, as this module does not

        return run(self, decomp_table)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Unable to call ExportedProgram directly. Call program.module()(...) instead")

    def __str__(self) -> str:
        return readable.program(self)

    __repr__ = __str__
