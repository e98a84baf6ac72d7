"""What travels with a call that the plan concerns, or whose execution is recorded, from its caller to its callee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from faults.plan.plan import Fault


@dataclass(frozen=True)
class Envelope:
    """The faults that travel with a call. ``asynchronous``: the function answers with a future of its own.

    ``counts``: the call's number at each of its sites; ``flight``: the key of a call in flight, otherwise empty;
    ``watched``: the faults that do not hit this call, but will exchange a tensor of a later call for one of this;
    ``seed``: the plan's; ``ordered``: the callee records when each call executes, also if no fault hits it.
    """

    faults: Mapping[int, Fault]
    caller: str
    site: str
    nth: int
    asynchronous: bool
    counts: Mapping[str, int] = field(default_factory=dict)
    watched: Mapping[int, Fault] = field(default_factory=dict)
    seed: int = 0
    flight: str = ""
    ordered: bool = False

    @property
    def answers_later(self) -> bool:
        """Whether the answer must be a future, so that no RPC thread waits for it, perhaps forever."""
        held = (f.kind == "Drop" or (f.kind == "Delay" and f.side == "reply") for f in self.faults.values())
        return self.asynchronous or any(held)
