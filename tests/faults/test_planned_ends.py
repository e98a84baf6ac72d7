"""Which ends of a role a crash excuses, by the way in which it ends a process."""

from __future__ import annotations

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import End, Run
from faults.plan import Plan
from faults.verdict.planned_ends import is_planned_end

UNSEEN = ("Killed", "was killed by a signal")
ENDS = {
    "kill": ("Killed", "was killed by SIGKILL"),
    "segv": ("Killed", "was killed by SIGSEGV"),
    "abort": ("Killed", "was killed by SIGABRT"),
    "term": ("Killed", "was killed by SIGTERM"),
    "exit:3": ("Exited", "exited with status 3"),
    "exit:4": ("Exited", "exited with status 4"),
    "unseen": UNSEEN,
    "left": ("Vanished", "ended without shutting RPC down"),
}


def ended(way: str, end: tuple[str, str], role: str = "b") -> bool:
    how = "" if way == "kill" else f" how={way}"
    fired = Event("b", "fired", 1.0, {"fault": 0, "kind": "Crash"})
    run = Run("shop", Plan.parse(f"Crash site=shop:pay when=after{how}"), Timeline((fired,), {}, ("a", "b")))
    return is_planned_end(run, role, End(*end, 2.0))


@pytest.mark.parametrize(
    ("way", "ends"),
    [
        ("kill", {"kill", "unseen", "left"}),
        ("segv", {"segv", "unseen", "left"}),
        ("abort", {"abort", "segv", "unseen", "left"}),
        ("exit:3", {"exit:3", "left"}),
        ("term", {"term", "unseen", "exit:3", "exit:4", "left"}),
    ],
)
def test_only_the_planned_signal_or_status_is_the_plans(way: str, ends: set[str]) -> None:
    assert {name for name, end in ENDS.items() if ended(way, end)} == ends
    assert not any(ended(way, end, role="a") for end in ENDS.values())
    assert not ended(way, ("Raised", "raised ValueError: no"))
