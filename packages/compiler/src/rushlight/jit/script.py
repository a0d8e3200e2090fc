"""`script`: functions and modules that compile as they are called, and can be stored without their source."""

from __future__ import annotations

import copy
import functools
import inspect
import io
from collections.abc import Callable
from typing import Any

from rushlight.compiler import compile
from rushlight.compiler._compiled import original_of
from rushlight.compiler.capture import allow
from rushlight.export import readable
from rushlight.export.exported_program import ExportedProgram
from rushlight.jit.signatures import Signatures
from rushlight.utils._pytree import tree_leaves


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
           example_inputs: list | dict | None = None) -> Any:
    """A `ScriptFunction`, or a `ScriptModule` that shares everything with the module; classes come back as they are.

    There is no second language: calls run the Python function, compiled with `rushlight.compile`. What `save` and
    `graph` need, the calls as graphs, is captured for the kinds of inputs that there were calls with; RuntimeError,
    naming the line, where no graph can hold one. `example_inputs` is a list of tuples of arguments, or a dict from
    methods to such lists: they are captured at once.

    Example:
        >>> import rushlight
        >>> double = rushlight.jit.script(lambda x: x * 2)
        >>> double(rushlight.ones(1))
        tensor([2.])
        >>> print(double.code)
        def forward(x: float32[1]):
            mul: float32[1] = mul(x, 2)
            return (mul,)
    """
    if isinstance(obj, type) or isinstance(obj, ScriptFunction) or is_script_module(obj):
        return obj
    obj = getattr(obj, "_orig_mod", None) or original_of(obj)
    if allow.module_type(obj) is not None:
        made = script_module(obj)
        for name, examples in _by_method(example_inputs).items():
            for args in examples:
                made.method(name).prepare(tuple(args), {})
        return made
    if not callable(obj):
        raise TypeError(f"script: expected a function, a module or a class, got {type(obj).__name__}")
    function = ScriptFunction(obj)
    for args in example_inputs or ():
        function.prepare(tuple(args), {})
    return function


def _by_method(example_inputs: list | dict | None) -> dict[str, list]:
    if isinstance(example_inputs, dict):
        return {name if isinstance(name, str) else "forward": examples for name, examples in example_inputs.items()}
    return {"forward": list(example_inputs or ())}


class ScriptFunction:
    """A function that compiles as it is called, and remembers what kinds of calls there were. See `script`."""

    def __init__(self, fn: Callable, name: str | None = None) -> None:
        if not isinstance(fn, ScriptFunction) and allow.module_type(fn) is None:
            functools.update_wrapper(self, fn)
        self._fn = fn
        self._compiled = compile(fn) if allow.module_type(fn) is None else compile(fn)._compiled_call
        self._state = self._compiled._rushlight_state
        self._noted = 0
        self.name: str = name or getattr(fn, "__name__", type(fn).__name__)
        self._signatures = Signatures(fn, self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._compiled(*args, **kwargs)
        state = self._state
        if state.captures + len(state.aborts) != self._noted:
            self._noted = state.captures + len(state.aborts)
            self._signatures.note(args, kwargs)
        return result

    def _inlined(self, *args: Any, **kwargs: Any) -> Any:
        return self._fn(*args, **kwargs)

    __call__._rushlight_original = _inlined  # type: ignore[attr-defined]  # what captures of callers follow
    del _inlined

    def prepare(self, args: tuple, kwargs: dict) -> ExportedProgram:
        """Capture a kind of call without calling."""
        key = self._signatures.note(args, kwargs)
        if key is None:
            kinds = sorted({type(x).__name__ for x in tree_leaves((args, kwargs))})
            raise TypeError(f"{self.name}: example inputs must be tensors and constants, got {', '.join(kinds)}")
        return self._signatures.program(key)

    def argument_names(self) -> list[str]:
        """The names of the arguments that may be given by position or by name."""
        return self._signatures.argument_names()

    def seen(self) -> bool:
        """Was there a call?"""
        return self._signatures.any()

    def programs(self) -> list[tuple[bool | None, ExportedProgram]]:
        """The programs of all kinds of calls, with the mode (training or not, None for functions) of each."""
        return self._signatures.programs()

    @property
    def graph(self) -> Any:
        """The graph of the first kind of call."""
        return self.programs()[0][1].graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The program of the first kind of call, as text."""
        return readable.code(self.programs()[0][1])

    @property
    def qualified_name(self) -> str:
        """The name with that of its module."""
        return f"{getattr(self._fn, '__module__', '')}.{getattr(self._fn, '__qualname__', self.name)}"

    @property
    def schema(self) -> str:
        """Name and arguments."""
        return f"{self.name}{inspect.signature(self._fn)}"

    def save(self, f: Any, _extra_files: dict | None = None) -> None:
        """Store the programs of all kinds of calls; see `rushlight.jit.save`."""
        from rushlight.jit.files import save  # it makes objects of this class's kin

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict | None = None) -> bytes:
        """The bytes that `save` writes."""
        file = io.BytesIO()
        self.save(file, _extra_files)
        return file.getvalue()

    def __deepcopy__(self, memo: dict) -> ScriptFunction:
        return ScriptFunction(copy.deepcopy(self._fn, memo), self.name)

    def __reduce__(self) -> Any:
        if allow.module_type(self._fn) is not None:
            return ScriptFunction, (self._fn, self.name)
        return self._fn.__qualname__  # by its name, as functions are

    def __repr__(self) -> str:
        return f"<ScriptFunction {self.name}>"


# modules

_classes: dict[type, tuple[type, type]] = {}


def classes(base: Any) -> tuple[type, type]:
    """`ScriptModule`, and its subclass for modules that were scripted, for `nn.Module` as base."""
    if base not in _classes:
        _classes[base] = _make_classes(base)
    return _classes[base]


def is_script_module(obj: Any) -> bool:
    """Is it a `ScriptModule`?"""
    base = allow.module_type(obj)
    return base is not None and base in _classes and isinstance(obj, _classes[base][0])


def script_module(module: Any) -> Any:
    """A script module that shares everything with a module."""
    return classes(allow.module_type(module))[1](module)


def _make_classes(base: Any) -> tuple[type, type]:
    class ScriptModule(base):
        """A module that can be stored without its source; `script`, `trace` and `load` make such."""

        original_name: str

        def method(self, name: str) -> Any:
            """What answers calls of a method: a `ScriptFunction`, or the stored programs."""
            return self.__dict__["_methods"][name]

        def methods(self) -> dict[str, Any]:
            """All of them by name."""
            return dict(self.__dict__["_methods"])

        @property
        def graph(self) -> Any:
            """The graph of the first kind of call of `forward`."""
            return self.method("forward").graph

        inlined_graph = graph

        @property
        def code(self) -> str:
            """The same as text."""
            return self.method("forward").code

        def save(self, f: Any, _extra_files: dict | None = None) -> None:
            """Store the programs of all kinds of calls, with the weights; see `rushlight.jit.save`."""
            from rushlight.jit.files import save  # it makes objects of this class

            save(self, f, _extra_files)

        save_to_buffer = ScriptFunction.save_to_buffer

        def _get_name(self) -> str:
            return "RecursiveScriptModule"

        def extra_repr(self) -> str:
            return f"original_name={self.original_name}"

    class RecursiveScriptModule(ScriptModule):
        """A module that was scripted: parameters, buffers, submodules and all attributes are those of the original."""

        def __init__(self, module: Any) -> None:
            base.__init__(self)
            fields = self.__dict__
            for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                fields[name] = module.__dict__[name]
            del fields["training"]
            fields["_original"] = module
            fields["original_name"] = type(module).__name__
            fields["_methods"] = {"forward": ScriptFunction(module, "forward")}
            for name, function in inspect.getmembers(type(module), inspect.isfunction):
                if getattr(function, "_rushlight_exported", False) and name != "forward":
                    fields["_methods"][name] = ScriptFunction(getattr(module, name), name)
            fields.update(fields["_methods"])  # before what the base class has under these names

        def __getattr__(self, name: str) -> Any:
            fields = self.__dict__
            if "_original" not in fields:
                raise AttributeError(name)
            return getattr(fields["_original"], name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(self._original, name, value)

        def __delattr__(self, name: str) -> None:
            delattr(self._original, name)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *dir(self._original)})

        def train(self, mode: bool = True) -> Any:
            self._original.train(mode)
            return self

        def __len__(self) -> int:
            return len(self._original)

        def __bool__(self) -> bool:
            return True  # also an empty container is a module

        def __iter__(self) -> Any:
            return iter(self._original)

        def __getitem__(self, key: Any) -> Any:
            return self._original[key]

        def __contains__(self, key: Any) -> bool:
            return key in self._original

        def __deepcopy__(self, memo: dict) -> Any:
            made = memo[id(self)] = type(self)(copy.deepcopy(self._original, memo))
            return made

        def __reduce__(self) -> tuple:
            return script, (self._original,)

    ScriptModule.__qualname__, RecursiveScriptModule.__qualname__ = "ScriptModule", "RecursiveScriptModule"
    return ScriptModule, RecursiveScriptModule
