"""The module that runs an exported program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight.core import siblings
from rushlight.core.tensor import Tensor
from rushlight.export import readable
from rushlight.export.graph_signature import InputKind, InputSpec
from rushlight.export.run import Runner
from rushlight.export.trees import build, flatten_arguments

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram

_classes: dict[type, type] = {}


def make_module(program: ExportedProgram) -> Any:
    """A module that runs the program and shares its tensors."""
    base = module_base()
    cls = _classes.get(base)
    if cls is None:
        cls = _classes[base] = _make_class(base)
    return cls(program)


def module_base() -> type:
    """`nn.Module` where rushlight-nn is installed, else a class that can do the little that a program needs."""
    try:
        return siblings.root_name("nn").Module
    except (AttributeError, ModuleNotFoundError):  # it is not there, or lacks what it needs
        return _PlainModule


def as_parameter(x: Tensor) -> Tensor:
    """A parameter of a module with the memory of a tensor."""
    try:
        parameter = siblings.root_name("nn").Parameter
    except (AttributeError, ModuleNotFoundError):  # it is not there, or lacks what it needs
        return x
    return parameter(x, requires_grad=x._meta.requires_grad)


class _PlainModule:
    """Holds tensors, and calls `forward`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)  # type: ignore[attr-defined]


def _make_class(base: Any) -> type:
    class GraphModule(base):
        """Runs an exported program; parameters and buffers have the names that they have in the model."""

        def __init__(self, program: ExportedProgram) -> None:
            base.__init__(self)
            fields = self.__dict__
            fields["training"] = True
            fields["_program"], fields["_specs"] = program, tuple(program.call_spec)
            fields["_run"], fields["_places"] = runner(program), []
            fields["_places"] += _fill(self, base, program)  # last, so that it sees which names are taken

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            tensors = [getattr(owner, name) for owner, name in self._places]
            in_spec, out_spec = self._specs
            return build(self._run(tensors, flatten_arguments(args, kwargs, in_spec)), out_spec)

        @property
        def graph(self) -> Any:
            """The graph."""
            return self._program.graph

        @property
        def code(self) -> str:
            """The program as text."""
            return readable.code(self._program)

        def print_readable(self) -> str:
            """Print the program; returns the text."""
            print(self.code)
            return self.code

        def train(self, mode: bool = True) -> NoReturn:
            _refuse_mode("train")

        def eval(self) -> NoReturn:
            _refuse_mode("eval")

    GraphModule.__qualname__ = "GraphModule"
    return GraphModule


def _refuse_mode(name: str) -> NoReturn:
    raise NotImplementedError(f"Calling {name}() is not supported yet: an exported program does what the model did in "
                              "the mode that it was exported in. Export the model once in each mode")


def _fill(module: Any, base: type, program: ExportedProgram) -> list[tuple[Any, str]]:
    """Give a module the tensors of a program; returns where those lie that are inputs, in their order."""
    places = []
    for spec in program.graph_signature.input_specs:
        if spec.target is not None:
            tensor, persistent = held(program, spec)
            places.append(place(module, base, spec.target, tensor, spec.kind, persistent))
    for name, tensor, kind, persistent in other_names(program):
        place(module, base, name, tensor, kind, persistent)
    return places


def held(program: ExportedProgram, spec: InputSpec) -> tuple[Tensor, bool]:
    """The tensor that an input of a program is, and whether it belongs to the state of the model."""
    hidden = spec.kind is InputKind.CONSTANT_TENSOR or spec.persistent is False
    return (program.constants if hidden else program.state_dict)[str(spec.target)], not hidden


def other_names(program: ExportedProgram) -> Iterator[tuple[str, Tensor, InputKind, bool]]:
    """The names that inputs of a program have in the model beside their own, with tensor, kind, and as `held` says."""
    specs = [spec for spec in program.graph_signature.input_specs if spec.target is not None]
    kinds = {id(held(program, spec)[0]): spec.kind for spec in specs}
    known = {spec.target for spec in specs}
    for tensors, persistent in ((program.state_dict, True), (program.constants, False)):
        for name, tensor in tensors.items():
            if name not in known and id(tensor) in kinds:
                yield name, tensor, kinds[id(tensor)], persistent


def place(module: Any, base: type, target: str, tensor: Tensor, kind: InputKind, persistent: bool) -> tuple[Any, str]:
    """Put a tensor where its name says, in modules that are made for that; returns where `getattr` finds it, and its
    name there. No attribute that there is already is touched, whatever the name.
    """
    *path, name = target.split(".")
    owner = module
    for part in path:
        children = vars(owner).get("_modules", vars(owner))
        if children.get(part) is None and (children is not vars(owner) or not hasattr(owner, part)):
            children[part] = base()
        owner = children.get(part)
        if not isinstance(owner, base):
            raise ValueError(f"no name for a tensor of a module: {target!r}")
    taken = hasattr(type(owner), name) or name in vars(owner)
    held = vars(owner)
    if kind is InputKind.PARAMETER:
        held = held.get("_parameters", held)
    elif kind is InputKind.BUFFER:
        if not persistent and "_buffers" in held:
            owner._non_persistent_buffers_set.add(name)
        held = held.get("_buffers", held)
    if held is vars(owner) and taken:
        held = {}
    held[name] = tensor
    return _Hidden(held) if taken else owner, name


class _Hidden:
    """Tensors of a module that has other attributes of their names, such as `code`."""

    __slots__ = ("_held",)

    def __init__(self, held: dict[str, Any]) -> None:
        self._held = held

    def __getattr__(self, name: str) -> Any:
        if name == "_held" or name not in self._held:  # a copy that is being made has no `_held` yet
            raise AttributeError(name)
        return self._held[name]


def runner(program: ExportedProgram) -> Callable[[list, list], list]:
    """The function `run(tensors, leaves)`; a compiled caller records its operations."""
    run = Runner(program)

    def call(tensors: list, leaves: list) -> list:
        return run(tensors, leaves)

    call._rushlight_leaf = True  # type: ignore[attr-defined]
    call.check = run.checked  # type: ignore[attr-defined]
    return call
