"""Op calls that were recorded, written out as a function of tensors that calls their plans one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rushlight.core.op import Op, plan_key
from rushlight.core.tensor import Tensor

_MOST = 24
_VALUE = re.compile(r"\bv\d+\b")


class Steps:
    """Calls `(op, operands, params, result, its metadata)` of a function of tensors, all of them different, and what
    the function returned."""

    def __init__(self, calls: list, tensors: tuple, result: Any) -> None:
        self.calls, self.tensors, self.result = calls, tensors, result
        self.names = {id(x): f"x{k}" for k, x in enumerate(tensors)}
        self.globals: dict[str, Any] = {}

    def function(self) -> Callable | None:
        """The function; None where the calls may not be the same each time.

        Does an intermediate result require grad? That depends on the mode, too: there is no function of several calls
        on tensors that do.
        """
        several = len(self.calls) > 1
        if not 0 < len(self.calls) <= _MOST or several and any(x._meta.requires_grad for x in self.tensors):
            return None
        lines = [self.step(k, several, *call) for k, call in enumerate(self.calls)]
        returned = self.expression(self.result)
        if None in lines or returned is None:
            return None
        arguments = ", ".join([f"x{k}" for k in range(len(self.tensors))])
        body = _freeing(lines, returned)  # type: ignore[arg-type]
        exec("\n    ".join([f"def steps({arguments}):", *body, f"return {returned}"]), self.globals)
        return self.globals["steps"]

    def step(self, k: int, several: bool, op: Op, operands: tuple, params: tuple, made: Any, meta: Any) -> str | None:
        """The line that calls an op."""
        plan = op.plans.get(plan_key(operands, params))
        inplace = bool(op.mutates)
        if plan is None or op.random and operands or inplace and made is not operands[op.mutates[0]]:
            return None
        if several and not inplace and op.infer_metas(operands, params) is None:
            return None  # sizes that data decides
        if getattr(made, "_meta", None) is not meta:
            return None  # requires_grad_() changes a result, for instance
        arguments = []
        for i, x in enumerate(operands):
            name = self.names.get(id(x)) if isinstance(x, Tensor) else f"n{k}_{i}"
            if name is None:
                return None  # a tensor that the function has from elsewhere
            if not isinstance(x, Tensor):
                self.globals[name] = x
            arguments.append(name)
        self.globals[f"plan{k}"] = plan
        call = f"plan{k}({', '.join(arguments)})"
        if inplace:
            return call
        self.names[id(made)] = f"v{k}"
        if isinstance(made, (tuple, list)):
            self.names |= {id(x): f"v{k}[{i}]" for i, x in enumerate(made)}
        return f"v{k} = {call}"

    def expression(self, result: Any) -> str | None:
        """What gives the result."""
        if id(result) in self.names:
            return self.names[id(result)]
        parts = [self.names.get(id(x)) for x in result] if isinstance(result, (tuple, list)) and result else [None]
        if None in parts:
            return None
        self.globals["kind"] = type(result)
        return f"kind(({', '.join(parts)},))" if type(result) in (tuple, list) else f"kind({', '.join(parts)})"  # type: ignore[arg-type]


def _freeing(lines: list[str], returned: str) -> list[str]:
    """The lines, with each value given free by the last one that reads it."""
    needed, freeing = set(_VALUE.findall(returned)), []
    for line in reversed(lines):
        read = set(_VALUE.findall(line.partition("plan")[2]))
        gone = ", ".join(sorted(read - needed))
        needed |= read
        freeing.append(f"{line}; del {gone}" if gone else line)
    return freeing[::-1]
