"""What a hypothesis sees: both sides at the stage of one step where they differ first, and nothing later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from reference.explain.causal_order import own_name, place_of
from reference.explain.closeness import close, same_bits
from reference.explain.scene import Part, Scene
from reference.trace.trace import Named, Trace

# The value that a mistake gives a tensor of this name; None if the mistake says nothing about that tensor.
Candidate = Callable[[str], torch.Tensor | None]


@dataclass
class View:
    """``first``: the first tensor that differs. ``yours`` and ``twin`` agree on everything before its stage."""

    yours: Named
    twin: Trace
    first: str
    scene: Scene | None

    @property
    def case(self) -> Any:
        return self.twin.case

    @property
    def reference(self) -> Named:
        return self.twin.tensors

    @property
    def step(self) -> int:
        return place_of(self.first)[0]

    @property
    def stage(self) -> str:
        return place_of(self.first)[1]

    @cached_property
    def names(self) -> list[str]:
        """All tensors of that stage that both sides have in one shape, those that do not differ included."""
        return [
            name
            for name, tensor in self.reference.items()
            if place_of(name) == (self.step, self.stage)
            and name in self.yours
            and self.yours[name].numel() == tensor.numel()
        ]

    def holds(self, candidate: Candidate, terms: float = 0.0) -> str:
        """``bits`` or ``rounding`` if the candidate gives yours for every tensor it speaks of, and empty otherwise.

        It must speak of the first difference, and not give the reference's value there. ``terms``: as for `close`.
        """
        wanted = candidate(self.first)
        right = self.reference[self.first]
        if wanted is None or same_bits(wanted, right) or close(wanted, right, terms=terms):
            return ""
        found = "bits"
        for name in self.names:
            value = wanted if name == self.first else candidate(name)
            if value is None:
                continue
            mine = self.yours[name]
            if same_bits(value, mine):
                continue
            if not close(value, mine, terms=terms):
                return ""
            found = "rounding"
        return found

    def before(self, own: str, step: int) -> torch.Tensor | None:
        """The reference's parameter of this name before a step."""
        return self.reference.get(f"{step - 1:04d}/parameter/{own}" if step else f"initial/{own}")

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts of this step, at the parameters that they are taken at."""
        assert self.scene is not None
        return {name: part for name in self.scene.names(self.step) if (part := self.part(name)) is not None}

    def part(self, name: str, *, batch: Any = None, parameters: int | None = None) -> Part | None:
        """One part, of another batch or at the parameters before another step; None if there are none."""
        assert self.scene is not None
        found = self.scene.batch(name, self.step) if batch is None else batch
        step = self.scene.taken_at(self.step) if parameters is None else parameters
        at = self.scene.parameters(step, name)
        return None if found is None or not at else self.scene.part(name, at, found, self.step)

    def from_parts(
        self, combine: Callable[[list[torch.Tensor]], torch.Tensor | None], parts: dict[str, Part]
    ) -> Candidate:
        """The candidate whose losses are the parts' own, and whose gradients ``combine`` makes of the parts'."""

        def candidate(name: str) -> torch.Tensor | None:
            assert self.scene is not None
            own = own_name(name)
            if self.stage == "loss":
                return parts[own][0] if own in parts else None
            if self.stage != "gradient":
                return None
            only, key = self.scene.model_name(own)
            if only is not None:
                return parts[only][1].get(key) if only in parts else None
            found = [gradients[key] for _, gradients in parts.values() if key in gradients]
            return combine(found) if found else None

        return candidate

    def usual(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Combine the parts of a gradient as the reference does."""
        assert self.scene is not None
        found = total(tensors)
        return found / self.scene.divisor if self.scene.divisor > 1 else found


def total(tensors: list[torch.Tensor]) -> torch.Tensor:
    """Add tensors in their order."""
    return sum(tensors[1:], start=tensors[0])
