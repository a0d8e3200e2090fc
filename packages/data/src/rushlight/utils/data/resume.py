"""What a loader has to remember so that another one can go on in the middle of a pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rushlight.utils.data import bridge


@dataclass
class Position:
    """Which tasks of a pass the program has got the batches of: all before `done`, and those in `beyond`.

    A task whose batch was an error is not among them: a loader that goes on from here tries it again.
    """

    done: int = 0
    beyond: set[int] = field(default_factory=set)

    def __contains__(self, number: int) -> bool:
        return number < self.done or number in self.beyond

    def copy(self) -> Position:
        """The position as it is now."""
        return Position(self.done, set(self.beyond))

    def take(self, number: int) -> None:
        """Note that the program has this one."""
        if number == self.done and not self.beyond:
            self.done += 1
            return
        self.beyond.add(number)
        while self.done in self.beyond:
            self.beyond.remove(self.done)
            self.done += 1


class Order:
    """The randomness that an order of tasks can depend on: the generators of a loader and its samplers, the epochs of
    samplers that have one, and the program's own generators."""

    def __init__(self, loader: Any) -> None:
        self._generators: list[Any] = []
        self._epochs: list[Any] = []
        self._collect(loader)

    def _collect(self, holder: Any) -> None:
        """Walk from a loader down its samplers; each belongs once."""
        generator = getattr(holder, "generator", None)
        if bridge.is_generator(generator) and not any(generator is known for known in self._generators):
            self._generators.append(generator)
        if callable(getattr(holder, "set_epoch", None)) and hasattr(holder, "epoch"):
            self._epochs.append(holder)
        for name in ("sampler", "batch_sampler"):
            inner = getattr(holder, name, None)
            # An attribute of a loader may be what it was made with: a list of indices.
            if inner is not None and inner is not holder:
                self._collect(inner)

    def state(self) -> dict[str, Any]:
        """A copy of it all."""
        return {
            "generators": [generator.get_state() for generator in self._generators],
            "epochs": [sampler.epoch for sampler in self._epochs],
            "program": bridge.program_state(),
        }

    @contextmanager
    def replayed(self, state: dict[str, Any]) -> Iterator[None]:
        """Put it all back inside the block. After it the program's generators go on from where they were.

        Raises:
            ValueError: when the state is that of a loader with other samplers.
        """
        if len(state["generators"]) != len(self._generators) or len(state["epochs"]) != len(self._epochs):
            raise ValueError(
                "load_state_dict: the state is of a loader with "
                f"{len(state['generators'])} generators and {len(state['epochs'])} samplers with epochs; this one has "
                f"{len(self._generators)} and {len(self._epochs)}. Give both the same kind of sampler and generator"
            )
        for generator, saved in zip(self._generators, state["generators"]):
            generator.set_state(saved)
        for sampler, epoch in zip(self._epochs, state["epochs"]):
            sampler.set_epoch(epoch)
        before = bridge.program_state()
        bridge.set_program_state(state["program"])
        try:
            yield
        finally:
            bridge.set_program_state(before)
