"""`freeze`: scripts whose weights can no longer change."""

from __future__ import annotations

import contextlib
import copy
from operator import attrgetter
from typing import Any

from rushlight.jit.script import ScriptFunction, is_script_module, script_module


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """A copy of a scripted module in evaluation mode whose parameters and buffers are constants.

    It has no parameters and an empty state dict; what happens to the original's weights does not reach it. Buffers
    that calls of the script wrote to stay, and so do parameters and buffers named in `preserved_attrs`. Raises
    RuntimeError for what is not scripted, in training mode, and for names that the module does not have.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.Linear(2, 1).eval()
        >>> frozen = rushlight.jit.freeze(rushlight.jit.script(layer))
        >>> list(frozen.parameters()), frozen(rushlight.ones(1, 2)).shape
        ([], rushlight.Size([1, 1]))
    """
    original = _original(mod, "freeze")
    if original.training:
        raise RuntimeError("freeze: freezing is only implemented for modules in eval mode; call .eval() before")
    made = copy.deepcopy(original)
    kept = _written(mod)
    for name in preserved_attrs or ():
        try:
            attrgetter(name)(made)
        except AttributeError:
            raise RuntimeError(f"freeze: preserved_attrs: the module has no attribute {name!r}") from None
        kept.add(name)
    for prefix, module in made.named_modules():
        fields = module.__dict__
        for registry in ("_parameters", "_buffers"):
            for name, tensor in list(fields[registry].items()):
                if f"{prefix}.{name}".lstrip(".") not in kept and tensor is not None:
                    del fields[registry][name]
                    fields[name] = tensor.detach()
    return script_module(made)


def _written(script: Any) -> set[str]:
    """The names of the buffers that the calls which a script remembers write to."""
    found: set[str] = set()
    for method in script.methods().values():
        with contextlib.suppress(RuntimeError, TypeError, ValueError):  # no call, or none that a graph can hold
            found.update(*[program.graph_signature.buffers_to_mutate.values()
                           for training, program in method.programs() if not training])
    return found


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """A frozen copy of a scripted module: its calls are compiled, as those of all scripts are.

    Raises RuntimeError as `freeze` does.
    """
    return freeze(mod, other_methods)


def _original(mod: Any, what: str) -> Any:
    if not is_script_module(mod):
        raise RuntimeError(f"{what}: expected a ScriptModule, got {type(mod).__name__}; use rushlight.jit.script or "
                           "rushlight.jit.trace on the module before")
    original = mod.__dict__.get("_original")
    if original is None:
        raise NotImplementedError(f"{what}: a script from a file is what it is; freeze the module before it is saved")
    return original


def export_opnames(m: Any) -> list[str]:
    """The names of the operations that the programs of a script consist of, sorted."""
    methods = m.methods().values() if is_script_module(m) else [m]
    if not isinstance(m, ScriptFunction) and not hasattr(m, "programs") and not is_script_module(m):
        raise TypeError(f"export_opnames: expected a script, got {type(m).__name__}")
    return sorted({node.op.name for method in methods for _, program in method.programs()
                   for node in program.graph.nodes})
