"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, arguments, results, writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any

__all__ = ["ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec",
           "SymFloatArgument", "SymIntArgument", "TensorArgument"]


class InputKind(Enum):
    """What an input of the graph is."""

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    SIZE = auto()  # a 0-dimensional tensor that holds a number computed from sizes
    RANDOM = auto()  # a tensor drawn from the default generator before the graph runs


class OutputKind(Enum):
    """What becomes of an output of the graph."""

    USER_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    USER_INPUT_MUTATION = auto()
    CHECK = auto()  # computed because it may fail; where it is a bool it must be False

    @property
    def writes(self) -> bool:
        """Is it the new value of a tensor that was there before the call?"""
        return self.name.endswith("_MUTATION")


@dataclass(frozen=True)
class TensorArgument:
    """A tensor, by its name in the graph."""

    name: str


@dataclass(frozen=True)
class ConstantArgument:
    """A number, string, None, dtype or device: an argument that has to be this one, or a result that always is."""

    name: str
    value: Any


@dataclass(frozen=True)
class SymIntArgument:
    """A whole number that is computed from open sizes: a result."""

    name: str
    value: Any  # a symbol


@dataclass(frozen=True)
class SymFloatArgument(SymIntArgument):
    """A float that is computed from open sizes: a result."""


OutputArgument = TensorArgument | ConstantArgument | SymIntArgument


@dataclass(frozen=True)
class InputSpec:
    """One input: `target` is the name of a parameter, buffer or constant in the module."""

    kind: InputKind
    arg: TensorArgument | ConstantArgument
    target: str | None = None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass(frozen=True)
class OutputSpec:
    """One output: `target` is what is written, `alias` the name of the written input that the output shares memory
    with, and `views` the view ops that lead from it to the output, as the text of a graph.
    """

    kind: OutputKind
    arg: OutputArgument
    target: str | None = None
    alias: str | None = field(default=None, compare=False)
    views: str | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportGraphSignature:
    """Inputs and outputs of an exported graph, in order.

    Inputs of the graph are those of `input_specs` whose `arg` is a tensor; likewise for outputs.

    Example:
        >>> import rushlight
        >>> from rushlight import nn
        >>> program = rushlight.export.export(nn.Linear(2, 1), (rushlight.ones(3, 2),))
        >>> print(program.graph_signature)
        # inputs
        p_weight: PARAMETER target='weight'
        p_bias: PARAMETER target='bias'
        input: USER_INPUT
        # outputs
        linear: USER_OUTPUT
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple([str(s.target) for s in self.input_specs if s.kind is kind])

    def _inputs_to(self, kind: InputKind) -> Mapping[str, str]:
        return MappingProxyType({s.arg.name: str(s.target) for s in self.input_specs if s.kind is kind})

    def _outputs_to(self, kind: OutputKind) -> Mapping[str, str]:
        return MappingProxyType({s.arg.name: str(s.target) for s in self.output_specs if s.kind is kind})

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in the module."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers in the module."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> frozenset[str]:
        """The names of the buffers that are no part of the state dict."""
        return frozenset(str(s.target) for s in self.input_specs
                         if s.kind is InputKind.BUFFER and s.persistent is False)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of the tensors that are neither parameters nor buffers."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The names of the tensors among the arguments, and the values of other arguments."""
        return tuple([_shown(s.arg) for s in self.input_specs if s.kind is InputKind.USER_INPUT])

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The names of the tensors among the results, and the values of other results."""
        return tuple([_shown(s.arg) for s in self.output_specs if s.kind is OutputKind.USER_OUTPUT])

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """From names in the graph to names in the module."""
        return self._inputs_to(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """From names in the graph to names in the module."""
        return self._inputs_to(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """From names in the graph to names in the module."""
        return self._inputs_to(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """From names of outputs to the buffers that they are written to."""
        return self._outputs_to(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """From names of outputs to the parameters that they are written to."""
        return self._outputs_to(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """From names of outputs to the inputs that they are written to."""
        return self._outputs_to(OutputKind.USER_INPUT_MUTATION)

    def __str__(self) -> str:
        return "\n".join(["# inputs", *map(str, self.input_specs), "# outputs", *map(str, self.output_specs)])


def _shown(arg: OutputArgument) -> Any:
    return arg.value if isinstance(arg, ConstantArgument) else arg.name
