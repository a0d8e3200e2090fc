"""`state_dict` and `load_state_dict`: a module's parameters and buffers by name, out and in."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.parameter import Parameter

EXTRA_STATE = "_extra_state"
IncompatibleKeys = namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])


class _IncompatibleKeys(IncompatibleKeys):
    """Names that a loaded state lacked, and names in it that the module does not know."""

    def __repr__(self) -> str:
        return (
            "<All keys matched successfully>"
            if not self.missing_keys and not self.unexpected_keys
            else super().__repr__()
        )

    __str__ = __repr__


class StateMixin:
    """The part of Module that saves and loads state."""

    _version = 1

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by dotted name, without copies and without gradient history.

        `keep_vars` keeps the parameters themselves.

        Example:
            >>> import rushlight
            >>> list(rushlight.nn.Linear(2, 3).state_dict())
            ['weight', 'bias']
        """
        if args:
            destination = args[0]
            prefix = args[1] if len(args) > 1 else prefix
            keep_vars = args[2] if len(args) > 2 else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook, may_replace in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, metadata)
            if changed is not None:
                if not may_replace:
                    raise RuntimeError("state_dict post-hook must return None: change the state_dict in place")
                destination = changed
        return destination

    def get_extra_state(self) -> Any:
        """Overridden by modules with state that is no tensor; stored under `_extra_state`."""
        raise RuntimeError(f"{type(self).__name__} has no extra state: override get_extra_state to save some")

    def set_extra_state(self, state: Any) -> None:
        """Overridden beside `get_extra_state` to take its value back."""
        raise RuntimeError(f"{type(self).__name__} cannot load extra state: override set_extra_state")

    def _load_from_state_dict(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        for hook, with_module in self._load_state_dict_pre_hooks.values():
            about = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook(self, *about) if with_module else hook(*about)
        buffers = {name: b for name, b in self._buffers.items() if name not in self._non_persistent_buffers_set}
        own = {name: value for name, value in (*self._parameters.items(), *buffers.items()) if value is not None}
        for name, current in own.items():
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            error = self._load_one(
                name, key, current, state_dict[key], local_metadata.get("assign_to_params_buffers", False)
            )
            if error:
                error_msgs.append(error)
        extra = prefix + EXTRA_STATE
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    first = key[len(prefix) :].split(".", 1)
                    if len(first) > 1 and first[0] in self._modules:
                        continue
                    if len(first) > 1 or first[0] not in own:
                        unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, current: Tensor, value: Any, assign: bool) -> str | None:
        """Copy or assign one entry; returns what is wrong with it."""
        if not isinstance(value, Tensor):
            return f"entry {key!r} must be a Tensor, got {type(value).__name__}"
        if current.ndim == 0 and value.shape == (1,):
            value = value[0]
        if value.shape != current.shape:
            return f"size mismatch for {key}: got shape {tuple(value.shape)}, the module has {tuple(current.shape)}"
        if assign:
            if isinstance(current, Parameter) and not isinstance(value, Parameter):
                value = Parameter(value, requires_grad=current.requires_grad)
            setattr(self, name, value)
        else:
            with rushlight.no_grad():
                current.copy_(value)
        return None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy a state into this module's parameters and buffers (`assign` puts the given tensors in place instead).

        Raises RuntimeError that lists all mismatches at once: missing and unexpected names (when `strict`), wrong
        shapes; TypeError when `state_dict` is no mapping. Entries that do fit are loaded before the error is raised.

        Example:
            >>> import rushlight
            >>> a, b = rushlight.nn.Linear(2, 1), rushlight.nn.Linear(2, 1)
            >>> a.load_state_dict(b.state_dict())
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: state_dict must be a mapping, got {type(state_dict).__name__}")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata

        def load(module: Any, local: dict, prefix: str) -> None:
            about = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
            if assign:
                about["assign_to_params_buffers"] = True
            module._load_from_state_dict(local, prefix, about, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    inner = f"{prefix}{name}."
                    load(child, {k: v for k, v in local.items() if k.startswith(inner)}, inner)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in module._load_state_dict_post_hooks.values():
                hook(module, incompatible)

        load(self, state, "")
        if strict:
            if unexpected:
                errors.insert(0, f"unexpected key(s) in state_dict: {', '.join(map(repr, unexpected))}")
            if missing:
                errors.insert(0, f"missing key(s) in state_dict: {', '.join(map(repr, missing))}")
        if errors:
            raise RuntimeError(
                f"load_state_dict: the state does not fit {type(self).__name__}:\n\t" + "\n\t".join(errors)
            )
        return _IncompatibleKeys(missing, unexpected)
