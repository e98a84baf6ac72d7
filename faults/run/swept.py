"""What a sweep has found so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faults.run.cells import Unhurt
from faults.run.sweep import Result


@dataclass
class Swept:
    """The results of a sweep. ``cells``, ``pairs``: how many it wanted to run; ``unhurt``: what no cell hurts;
    ``left_out``: how many pairs were not combined, by the reason; None if no pairs were asked for; ``interrupted``: an
    error or the user ended it."""

    results: list[Result] = field(default_factory=list)
    cells: int = 0
    pairs: int = 0
    unhurt: Sequence[Unhurt] = ()
    left_out: Mapping[str, int] | None = None
    interrupted: bool = False

    @property
    def wanted(self) -> int:
        return self.cells + self.pairs

    @property
    def not_run(self) -> int:
        """The number of cells and pairs that were left when the budget or the sweep ended."""
        return self.wanted - len(self.results)
