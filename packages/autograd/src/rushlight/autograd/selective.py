"""Checkpointing with exceptions: keep the results of some operations, compute the others again."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd.duals import are_active, detached
from rushlight.autograd.recompute import CheckpointError
from rushlight.autograd.recorder import record_plan
from rushlight.core import dispatch
from rushlight.core.op import REGISTRY, Op, meta_of
from rushlight.core.tensor import Tensor, wrap

# Never kept: views cost nothing, and what is written in place is no result of its own.
SAC_IGNORED_OPS: frozenset[Op] = frozenset(op for op in REGISTRY.values() if op.kind == "view" or op.mutates)


class CheckpointPolicy(enum.Enum):
    """What selective checkpointing does with the result of an operation.

    `MUST` and `PREFER` are the same here: nothing overrides either.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_SAVES = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_OFFLOADS = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)


class SelectiveCheckpointContext:
    """What a policy function learns besides the call: `op_output`, the result. `is_recompute` is always False: policies
    are asked in the first pass only.
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


Policy = Callable[..., CheckpointPolicy]


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | Sequence[Any], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Two contexts for `checkpoint(context_fn=...)`, between which the results of some operations are kept.

    `policy(ctx, op, *operands, **params)` says for each call of an `rushlight.core.op.Op` what to do with its result;
    a list names the operations to keep, as `Op`, by name, or by the function that is called like them. Views and
    operations in place are always done again. Kept results must not be changed in place, unless
    `allow_cache_entry_mutation`: RuntimeError, in the backward pass.

    Example:
        >>> import functools, rushlight
        >>> from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
        >>> x = rushlight.ones(2, 2, requires_grad=True)
        >>> keep_products = functools.partial(create_selective_checkpoint_contexts, [rushlight.matmul])
        >>> y = checkpoint(lambda x: (x @ x).exp().sum(), x, use_reentrant=False, context_fn=keep_products)
        >>> y.backward()
        >>> x.grad.shape
        rushlight.Size([2, 2])
    """
    policy = policy_fn_or_list if callable(policy_fn_or_list) else _policy_of(policy_fn_or_list)
    results: dict[int, tuple[Op, list[_Kept], bool]] = {}
    return _Keeping(policy, results), _Using(results, allow_cache_entry_mutation)


def _policy_of(chosen: Sequence[Any]) -> Policy:
    """The policy that keeps the results of the operations in a list."""
    names = set()
    for one in chosen:
        name = one if isinstance(one, str) else getattr(one, "name", None) or getattr(one, "__name__", None)
        if name not in REGISTRY:
            raise ValueError(
                "create_selective_checkpoint_contexts: expected operations, their names, or functions of the same "
                f"name, got {one!r}"
            )
        names.add(name)

    def policy(ctx: Any, op: Op, *operands: Any, **params: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if op.name in names else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


class _Kept:
    """A result that is kept, in main memory if it is to be."""

    def __init__(self, x: Any, offload: bool) -> None:
        self.device = x.device if isinstance(x, Tensor) else None
        self.value = x if self.device is None else detached(x).cpu() if offload else detached(x)
        self.version = self.value._version if self.device is not None else 0

    def get(self, op: Op, may_change: bool) -> Any:
        """A fresh tensor over the kept memory."""
        if self.device is None:
            return self.value
        if self.value._version != self.version and not may_change:
            raise RuntimeError(
                f"selective checkpoint: the kept result of {op.name} was changed in place since; write out of place, "
                "or pass allow_cache_entry_mutation=True"
            )
        x = self.value.to(self.device)
        return wrap(x._array, x._meta, x.storage())


class _Calls:
    """A handler that counts the calls for which a policy is asked, in the first pass and in the second alike."""

    def __init__(self) -> None:
        self._pushed: list[Any] = []
        self.count = 0

    def __enter__(self) -> _Calls:
        self._pushed.append(dispatch.push(self))
        self._pushed[-1].__enter__()
        self.count = 0
        return self

    def __exit__(self, *exception: Any) -> None:
        self._pushed.pop().__exit__(*exception)

    def handle(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Run a call, or take its result from where it was kept."""
        if op.decomposition is not None and not op.kernels and op.kind == "structured":
            return op.decomposition(*operands, *params)  # in other ops, which come here themselves
        with dispatch.below():
            if op in SAC_IGNORED_OPS or op.mutates:
                return op.apply(operands, params)
            self.count += 1
            return self.counted(op, operands, params)

    def counted(self, op: Op, operands: tuple, params: tuple) -> Any:
        raise NotImplementedError


class _Keeping(_Calls):
    """Keeps results in the first pass."""

    def __init__(self, policy: Policy, results: dict) -> None:
        super().__init__()
        self.policy, self.results = policy, results

    def counted(self, op: Op, operands: tuple, params: tuple) -> Any:
        result = op.apply(operands, params)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        answer = self.policy(context, op, *operands, **dict(zip(op.params, params)))
        if answer is True or answer in _SAVES or answer in _OFFLOADS:
            several = result if isinstance(result, tuple) else (result,)
            kept = [_Kept(x, answer in _OFFLOADS) for x in several]
            self.results[self.count] = op, kept, isinstance(result, tuple)
        return result


class _Using(_Calls):
    """Takes results from where they were kept, in the second pass."""

    def __init__(self, results: dict, may_change: bool) -> None:
        super().__init__()
        self.results, self.may_change = results, may_change

    def counted(self, op: Op, operands: tuple, params: tuple) -> Any:
        if self.count not in self.results or are_active():  # levels of forward mode have to see the call
            return op.apply(operands, params)
        made_by, kept, several = self.results[self.count]
        if made_by is not op:
            raise CheckpointError(
                f"selective checkpoint: operation {self.count} was {made_by.name} in the first pass and is {op.name} "
                "in the second; the function must do the same in both"
            )
        values = tuple([one.get(op, self.may_change) for one in kept])
        return _recorded(op, operands, params, values if several else values[0])


def _recorded(op: Op, operands: tuple, params: tuple, result: Any) -> Any:
    """Record a call whose result is known."""
    metas = tuple([meta_of(x) for x in operands])
    if not any(m is not None and m.requires_grad for m in metas):
        return result
    out = op.infer(*metas, *params)
    return record_plan(op, metas, params, out, lambda *_: result)(*operands)
