"""`Optimizer`: parameter groups, state, and their saving; the updates are in the subclasses."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from copy import deepcopy
from itertools import chain
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.core.dispatch import PUTTING_OFF, at_once
from rushlight.core.op import HANDLERS
from rushlight.nn.modules.hooks import Registry, RemovableHandle


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Optimizer:
    """Base of all optimizers.

    `params` is an iterable of tensors, of `(name, tensor)` pairs, or of dicts, one per parameter group, with a key
    `params` and options of the
    group. A subclass passes its `defaults` and defines `update(group, params, grads, states)`.

    Raises TypeError for something else than leaf tensors, ValueError for an empty list or a parameter that appears in
    two groups.
    """

    def __init__(self, params: Iterable, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, got "
                f"{type(params).__name__}: "
                "put it in a list"
            )
        self.defaults = defaults
        self.state: dict[Tensor, dict] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        self._pre_hooks, self._post_hooks = Registry(), Registry()
        self._batches: dict[int, Any] = {}  # see `rushlight.optim.native`
        self._state_hooks = {
            name: Registry() for name in ("state_dict_pre", "state_dict_post", "load_pre", "load_post")
        }
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group `{"params": tensors, **options}`; options not given are the optimizer's defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but a set has no order: use a list"
            )
        params = list(params)
        named = [isinstance(p, tuple) for p in params]
        if any(named) and not all(named):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        if any(named):
            group["param_names"] = [name for name, _ in params]
            params = [tensor for _, tensor in params]
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with' if any(named) else 'without'} names to the optimizer"
            )
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor: it was computed from others; optimize those")
        group["params"] = params
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        known = set(map(id, chain.from_iterable(g["params"] for g in self.param_groups)))
        if len(set(map(id, params))) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; each step changes them twice",
                stacklevel=3,
            )
        if known & set(map(id, params)):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    # The step

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient; `closure` recomputes the loss first and its value is returned."""
        for hook in self._pre_hooks.values():
            hook(self, (), {})
        loss = None
        if closure is not None:
            with rushlight.enable_grad():
                loss = closure()
        if PUTTING_OFF:
            with at_once():  # most steps write memory without operations
                self._update_groups()
        else:
            self._update_groups()
        for hook in self._post_hooks.values():
            hook(self, (), {})
        return loss

    def _update_groups(self) -> None:
        groups = [group for group in self.param_groups if not self._repeat(group)]
        with rushlight.no_grad() if groups else nullcontext():
            for group in groups:
                params = group["params"]
                grads = [p.grad for p in params]
                if any(g is None for g in grads):
                    params = [p for p, g in zip(params, grads) if g is not None]
                    grads = [g for g in grads if g is not None]
                if params:
                    self.update(group, params, grads, self._states(group, params))

    def _repeat(self, group: dict[str, Any]) -> bool:
        """Do the step of a group as the last one, in one native call, if nothing but numbers has changed."""
        found = self._batches.get(id(group))
        quick = found is not None and found.gather is not None and not HANDLERS and not group["differentiable"]
        return quick and self.repeat(group, found)

    def repeat(self, group: dict[str, Any], found: Any) -> bool:
        """`update` of a group whose last step was native; False, having done nothing, where it is another one now."""
        return False

    def _states(self, group: dict[str, Any], params: list[Tensor]) -> list[dict]:
        """The state of each parameter, an empty one where there is none yet."""
        return [self.state[p] for p in params]

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        """Change the parameters of one group in place; runs without recording gradients."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step nor update")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or set them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:  # without a look at what there was, on which compiled steps would depend
                    p.grad = None
                elif p.grad is not None:
                    p.grad = rushlight.zeros_like(p.grad)

    # Saving

    def state_dict(self) -> dict[str, Any]:
        """`{"state": ..., "param_groups": ...}`, with parameters replaced by their number, as PyTorch lays it out."""
        for hook in self._state_hooks["state_dict_pre"].values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        result = {"state": {numbers.get(id(p), p): value for p, value in self.state.items()}, "param_groups": groups}
        for hook in self._state_hooks["state_dict_post"].values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` returned, by the order of the parameters.

        Tensors that fit are taken as they are, so later steps change them in `state_dict`, too. Raises ValueError,
        before anything changes, when the groups do not fit.
        """
        state_dict = dict(state_dict)
        for hook in self._state_hooks["load_pre"].values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups, saved = self.param_groups, deepcopy(state_dict["param_groups"])
        _check_groups(groups, saved)
        numbers, params = (chain.from_iterable(g["params"] for g in side) for side in (saved, groups))
        by_number = dict(zip(numbers, params))
        state: dict[Any, dict] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in by_number:
                param = by_number[number]
                state[param] = {name: self._adopt(param, name, value) for name, value in values.items()}
            else:
                state[number] = values
        self.state = state
        names = [{"param_names": own["param_names"]} if "param_names" in own else {} for own in groups]
        self.param_groups = [
            {**name, **other, "params": own["params"]} for name, other, own in zip(names, saved, groups)
        ]
        for hook in self._state_hooks["load_post"].values():
            hook(self)

    def _adopt(self, param: Tensor, name: str | None, value: Any) -> Any:
        """A state entry with its tensors on the device and in the dtype of the parameter; step counts stay."""
        if isinstance(value, Tensor):
            dtype = param.dtype if param.is_floating_point() else None
            return value if name == "step" else value.to(device=param.device, dtype=dtype)
        if isinstance(value, dict):
            return {key: self._adopt(param, key, item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([self._adopt(param, None, item) for item in value])
        return value

    def __getstate__(self) -> dict:
        return {name: value for name, value in self.__dict__.items() if name != "_batches"}

    def __setstate__(self, state: dict) -> None:
        self._batches = {}
        self.__dict__.update(state)

    # Hooks and text

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(optimizer, args, kwargs)` before each step."""
        return self._pre_hooks.add(hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(optimizer, args, kwargs)` after each step."""
        return self._post_hooks.add(hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(optimizer)` before state_dict."""
        return self._state_hooks["state_dict_pre"].add(hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(optimizer, state_dict)` after state_dict; it may return a changed one."""
        return self._state_hooks["state_dict_post"].add(hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(optimizer, state_dict)` before loading; it may return a changed one."""
        return self._state_hooks["load_pre"].add(hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(optimizer)` after loading."""
        return self._state_hooks["load_post"].add(hook, prepend)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def _check_groups(groups: list[dict], saved: list[dict]) -> None:
    """ValueError when groups of parameters differ in number or length from saved ones."""
    if len(groups) != len(saved):
        raise ValueError(
            f"loaded state dict has a different number of parameter groups: {len(saved)}, the optimizer has "
            f"{len(groups)}"
        )
    for i, (own, other) in enumerate(zip(groups, saved)):
        if len(own["params"]) != len(other["params"]):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group "
                f"{i}: {len(other['params'])} parameters, the optimizer has {len(own['params'])}"
            )


def check_options(name: str, **checks: tuple[Any, bool]) -> None:
    """Raise ValueError for the first option whose check failed: `check_options("SGD", lr=(lr, lr >= 0))`."""
    for option, (value, good) in checks.items():
        if not good:
            raise ValueError(f"{name}: invalid {option}: {value}")


def as_float(value: Any) -> float:
    """An option that may be a number or a one-element tensor."""
    if not isinstance(value, Tensor):
        return value
    if value.numel() != 1:
        raise ValueError(f"Tensor lr must be 1-element, got shape {tuple(value.shape)}")
    return value.item()
