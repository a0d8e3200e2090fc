"""Steps of an optimizer on other parameters than its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rushlight import Tensor
from rushlight.optim.optimizer import Optimizer


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Inside the block the optimizer has other parameters, in the order of its own, and the state of a state_dict.

    Steps inside change the tensors of that state in place; entries that they add to it are lost. Afterwards the
    optimizer has its own parameters, options and state. Raises ValueError when groups or numbers of parameters differ.

    Example:
        >>> import rushlight
        >>> w, other = rushlight.nn.Parameter(rushlight.ones(1)), rushlight.nn.Parameter(rushlight.zeros(1))
        >>> optimizer = rushlight.optim.SGD([w], lr=1.0)
        >>> other.grad = rushlight.ones(1)
        >>> with rushlight.optim.swap_in_optimizer_params_and_state(optimizer, {"w": other}, optimizer.state_dict()):
        ...     optimizer.step()
        >>> w.item(), other.item()
        (1.0, -1.0)
    """
    saved, groups = swapin_optim_state["state"], swapin_optim_state["param_groups"]
    live = optimizer.param_groups
    counts, given = [len(group["params"]) for group in live], [len(group["params"]) for group in groups]
    if counts != given or sum(counts) != len(swapin_parameters):
        raise ValueError(
            f"swap_in_optimizer_params_and_state: the optimizer's groups have {counts} parameters, the state's {given} "
            f"and the dict {len(swapin_parameters)}"
        )
    before, own_groups, rest = optimizer.state, [dict(group) for group in live], iter(swapin_parameters.values())
    state: dict[Tensor, dict] = defaultdict(dict)
    try:
        for group, other in zip(live, groups):
            params = [next(rest) for _ in other["params"]]
            group.update(other, params=params)
            state.update((p, dict(saved.get(number, {}))) for p, number in zip(params, other["params"]))
        optimizer.state = state
        yield
    finally:
        for group, own in zip(live, own_groups):
            group.clear()
            group.update(own)
        optimizer.state = before
