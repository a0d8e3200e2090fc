"""Modules as functions of their parameters."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.ops.join import stack


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the given tensors in place of its parameters and buffers of these names.

    `parameter_and_buffer_dicts` is a dict from names such as `layers.0.weight` to tensors, or several of them. The
    module is as before afterwards. With `tie_weights`, a tensor given for one name of a shared parameter stands for all
    of them. Unknown names are ignored. Raises RuntimeError with `strict` when a name is unknown or missing, ValueError
    for several tensors that stand for one shared parameter.
    """
    dicts = (
        (parameter_and_buffer_dicts,) if isinstance(parameter_and_buffer_dicts, dict) else parameter_and_buffer_dicts
    )
    given: dict[str, Any] = {}
    for some in dicts:
        repeated = given.keys() & some.keys()
        if repeated:
            raise ValueError(f"functional_call: {', '.join(sorted(repeated))} appeared in multiple dictionaries")
        given.update(some)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _slots(module: Any, prefix: str = "") -> dict[str, tuple[dict, str]]:
    """Where each parameter and buffer of a module lives: the dict and the key, by full name."""
    found = {}
    for table in (module._parameters, module._buffers):
        found |= {prefix + key: (table, key) for key in table}
    for name, child in module._modules.items():
        if child is not None:
            found |= _slots(child, f"{prefix}{name}.")
    return found


@contextlib.contextmanager
def _replaced(module: Any, given: dict[str, Any], tie_weights: bool, strict: bool):
    slots = _slots(module)
    unknown = given.keys() - slots.keys()
    if unknown and strict:
        raise RuntimeError(f"functional_call: the module has no parameter or buffer named {', '.join(sorted(unknown))}")
    wanted = {name: value for name, value in given.items() if name in slots}
    if tie_weights:
        by_identity = {}
        for name, value in wanted.items():
            shared = id(slots[name][0][slots[name][1]])
            if by_identity.setdefault(shared, value) is not value:
                raise ValueError(
                    f"functional_call: {name} shares its tensor with another name that is given another value; give "
                    "one, or use tie_weights=False"
                )
        for name, (table, key) in slots.items():
            if table[key] is not None and id(table[key]) in by_identity:
                wanted.setdefault(name, by_identity[id(table[key])])
    if strict:
        missing = [name for name, (table, key) in slots.items() if name not in wanted and table[key] is not None]
        if missing:
            raise RuntimeError(f"functional_call: missing key(s): {', '.join(missing)}")
    before = {name: slots[name][0][slots[name][1]] for name in wanted}
    try:
        for name, value in wanted.items():
            slots[name][0][slots[name][1]] = value
        yield
    finally:
        for name, value in before.items():
            slots[name][0][slots[name][1]] = value


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of several equal modules, stacked along a new first dimension, for `vmap`.

    Raises RuntimeError without models, or when they differ in class or mode.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")

    def stacked(tables: list[dict[str, Tensor]]) -> dict[str, Tensor]:
        return {
            name: stack([t[name] for t in tables]).detach().requires_grad_(tables[0][name].requires_grad)
            for name in tables[0]
        }

    return stacked([dict(m.named_parameters()) for m in models]), stacked([dict(m.named_buffers()) for m in models])


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Let the batch norms in a module forget their running statistics, so that they normalize by those of each batch,
    and `vmap` need not write into what samples share. Changes the module, and returns it.
    """
    for module in root.modules():
        if any(kind.__name__ == "_BatchNorm" for kind in type(module).__mro__):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
