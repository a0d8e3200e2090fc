"""`Module`: the base of all layers and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules import hooks as hook_module
from rushlight.nn.modules.convert import ConvertMixin
from rushlight.nn.modules.hooks import (
    Registry,
    RemovableHandle,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
    registered,
)
from rushlight.nn.modules.state import StateMixin, _IncompatibleKeys
from rushlight.nn.modules.traverse import TraverseMixin
from rushlight.nn.parameter import Buffer, Parameter, is_lazy

__all__ = [
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

_REGISTRIES = (
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module(TraverseMixin, StateMixin, ConvertMixin):
    """A function with parameters. Subclasses assign layers and Parameters in `__init__` and define `forward`.

    Example:
        >>> import rushlight
        >>> class Double(rushlight.nn.Module):
        ...     def forward(self, x):
        ...         return 2 * x
        >>> Double()(rushlight.ones(2))
        tensor([2., 2.])
    """

    training: bool
    call_super_init = False
    _stored_by_name = True  # `rushlight.save` takes whole modules

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            if not self.call_super_init:
                raise TypeError(
                    f"{type(self).__name__}.__init__() got arguments that it does not take: {args or tuple(kwargs)}"
                )
        fields = self.__dict__
        fields["training"] = True
        fields["_parameters"], fields["_buffers"], fields["_modules"] = {}, {}, {}
        fields["_non_persistent_buffers_set"] = set()
        for name in _REGISTRIES:
            fields[name] = Registry()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The computation; every subclass defines it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or hook_module.any_global()
        ):
            return hook_module.call_with_hooks(self, args, kwargs)
        return self.forward(*args, **kwargs)

    # Attributes

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        if "_parameters" in fields:  # not so before Module.__init__() has run
            if name in (found := fields["_parameters"]):
                return found[name]
            if name in (found := fields["_modules"]):
                return found[name]
            if name in (found := fields["_buffers"]):
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        kind = "_parameters" if isinstance(value, Parameter) else "_modules" if isinstance(value, Module) else None
        if kind is not None:
            if kind not in fields:
                raise AttributeError(
                    f"cannot assign {kind[1:]} before Module.__init__() call: begin __init__ with super().__init__()"
                )
            self._forget(name, keep=kind)
            if kind == "_parameters":
                self.register_parameter(name, value)
            else:
                fields["_modules"][name] = registered("module", self, name, value)
        elif isinstance(value, Buffer) and "_buffers" in fields:
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in fields.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign {type(value).__name__} as parameter {name!r}; wrap it: nn.Parameter(tensor), or "
                    "None"
                )
            fields["_parameters"][name] = None
        elif name in fields.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign {type(value).__name__} as child module {name!r}; it must be a nn.Module or None"
                )
            fields["_modules"][name] = None
        elif name in fields.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign {type(value).__name__} as buffer {name!r}; it must be a Tensor or None")
            fields["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Take a name out of all places but `keep`, so that it has one meaning."""
        fields = self.__dict__
        fields.pop(name, None)
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry != keep:
                fields[registry].pop(name, None)
        fields["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name: str) -> None:
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__[registry]:
                del self.__dict__[registry][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*object.__dir__(self), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict:
        """The attributes, without registries of hooks that are empty: files need not name their class."""
        return {name: value for name, value in self.__dict__.items() if type(value) is not Registry or value}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        for name in _REGISTRIES:
            self.__dict__.setdefault(name, Registry())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())

    def _check_name(self, kind: str, name: Any) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name must be a string, got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got {name!r}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None keeps the name free for one.

        Raises TypeError for another kind of object, KeyError for a name with a dot or one that is taken, ValueError
        for a tensor with history.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError(
                "cannot assign parameter before Module.__init__() call: begin __init__ with super().__init__()"
            )
        self._check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute {name!r} already exists")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign {type(param).__name__} as parameter {name!r}; wrap it: nn.Parameter(tensor), or "
                    "None"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"cannot assign non-leaf Tensor to parameter {name!r}: it was computed from others; use .detach()"
                )
            param = registered("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but no parameter; `persistent=False` leaves it out of the state_dict.

        Raises TypeError for another kind of object, KeyError for a name with a dot or one that is taken.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError(
                "cannot assign buffer before Module.__init__() call: begin __init__ with super().__init__()"
            )
        self._check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute {name!r} already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign {type(tensor).__name__} as buffer {name!r}; it must be a Tensor or None")
        self._buffers[name] = registered("buffer", self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under a name. Raises TypeError for another kind of object, KeyError for a bad or taken
        name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name)
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute {name!r} already exists")
        self._modules[name] = registered("module", self, name, module)

    register_module = add_module

    # Changing everything inside

    def _apply(self, change: Callable[[Tensor], Tensor], recurse: bool = True) -> Module:
        """Replace every parameter, gradient and buffer by `change(tensor)`; parameters stay the same objects."""
        if recurse:
            for child in self.children():
                child._apply(change)
        with rushlight.no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    grad = parameter.grad
                    parameter.data = change(parameter.detach())
                    if grad is not None:
                        parameter.grad = change(grad.detach())
            for name, buffer in self._buffers.items():
                if is_lazy(buffer):
                    buffer.data = change(buffer.detach())
                elif buffer is not None:
                    self._buffers[name] = change(buffer)
        return self

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Call `fn` on every descendant, then on this module, as initialisation functions want it."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Module:
        """Set training mode here and below: dropout drops, batch norm uses batch statistics. ValueError unless `mode`
        is a bool."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self) -> Module:
        """Set evaluation mode: `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Set whether the parameters record gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:  # without a look at what there was, on which compiled steps would depend
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = rushlight.zeros_like(parameter.grad)

    def share_memory(self) -> Module:
        """Move all parameters and buffers to memory that other processes of the program share, and return the module.

        Gradients that there are move, too. See `Tensor.share_memory_`.
        """
        return self._apply(lambda tensor: tensor.share_memory_())

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's calls in place with `rushlight.compile`."""
        object.__setattr__(self, "forward", rushlight.compile(self.forward, *args, **kwargs))

    # Hooks

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args)` before forward; it may return changed arguments."""
        return self._forward_pre_hooks.add((hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Run `hook(module, args, output)` after forward; it may return a changed output. `always_call`: also after an
        error."""
        return self._forward_hooks.add((hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_output)` when the output's gradient is known; it may return changed gradients."""
        return self._backward_pre_hooks.add(hook, prepend)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Run `hook(module, grad_input, grad_output)` when the inputs' gradients are known; it may return changed
        ones."""
        return self._backward_hooks.add(hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, prefix, keep_vars)` before state_dict."""
        return self._state_dict_pre_hooks.add(hook)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata)` after state_dict."""
        return self._state_dict_hooks.add((hook, False))

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        return self._state_dict_hooks.add((hook, True))

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)` before
        loading."""
        return self._load_state_dict_pre_hooks.add((hook, True))

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        return self._load_state_dict_pre_hooks.add((hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Run `hook(module, incompatible_keys)` after loading."""
        return self._load_state_dict_post_hooks.add(hook)

    # Text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """The words between the parentheses when a layer prints."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"
