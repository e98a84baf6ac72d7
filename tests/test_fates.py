"""How roles of a script ended, by their ledgers: in order, lost, or ended by their own program."""

from __future__ import annotations

from typing import Any

import pytest

from faults.fates import fates, lives
from faults.ledger import Event, Timeline


def life(role: str, *events: str, pid: int = 1, at: float = 0.0, **details: Any) -> list[Event]:
    """One start of RPC and what followed, each a second later; ``details`` by event."""
    names = ["start", *events]
    return [
        Event(
            role,
            name,
            at + n,
            {"pid": pid, **details.get(name, {})} if name in ("start", "exit") else details.get(name, {}),
        )
        for n, name in enumerate(names)
    ]


WHOLE = ("up", "shutdown", "left", "exit")
RUDE = {"shutdown": {"graceful": False}}
OTHER = life("shop", *WHOLE, pid=9)


def end(*events: list[Event], **known: Any) -> tuple[str, str]:
    every = [event for each in events for event in each]
    roles = tuple(dict.fromkeys(event.role for event in every))
    found = fates(Timeline(tuple(sorted(every, key=lambda e: e.time)), {}, roles, 100.0), **known)
    return found["till"].kind, found["till"].text


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        (life("till", *WHOLE), "Returned"),
        (life("till", "up", "shutdown", "left"), "Killed"),
        (life("till", "up"), "Killed"),
        (life("till"), "Killed"),
        (life("till", "up", "exit"), "Vanished"),
        (life("till", "exit"), "Returned"),
        (life("till", *WHOLE, exit={"status": 3}), "Exited"),
        (life("till", *WHOLE, exit={"status": 0}), "Returned"),
        (
            life("till", "up", "raised", "exit", raised={"bases": ["RuntimeError"], "error": "RuntimeError: eof"}),
            "Raised",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(event.event for event in value),
)
def test_a_role_beside_another_that_shut_rpc_down_for_all(events: list[Event], kind: str) -> None:
    assert end(events, OTHER)[0] == kind


@pytest.mark.parametrize("other", [life("shop", "up", "exit", pid=9), life("shop", *WHOLE, pid=9, **RUDE)])
def test_where_nobody_shuts_down_for_all_an_end_in_order_is_enough(other: list[Event]) -> None:
    assert end(life("till", "up", "exit"), other)[0] == "Returned"
    assert end(life("till", "up"), other)[0] == "Killed"
    assert end(life("till", "up"), other, asked={1})[0] == "Returned"


def test_who_is_ended_by_its_own_program_has_not_ended_by_itself() -> None:
    assert end(life("till", "up"), OTHER, asked={1}) == ("Ended", "was ended by its own program")
    assert end(life("till", "up", "shutdown"), OTHER, asked={1})[0] == "Ended"
    assert end(life("till", "up", "shutdown", "left"), OTHER, asked={1})[0] == "Returned"
    assert end(life("till", "up"), OTHER, running={1})[0] == "Running"


def test_a_role_of_two_worlds_needs_both() -> None:
    """One process, or two; the worse end counts, and each world is asked for itself."""
    first, again = life("till", "up", "shutdown", "left"), life("till", *WHOLE, at=20)
    assert end(first, again)[0] == "Returned"
    assert end(first, life("till", *WHOLE, at=20, pid=2))[0] == "Killed"
    assert end(life("till", *WHOLE), life("till", "up", at=20, pid=2))[0] == "Killed"
    assert end(life("till", "up"), again, OTHER)[0] == "Vanished"
    assert end(first, life("baker", *WHOLE, at=20))[0] == "Returned"  # the same process, under another name
    later = life("shop", *WHOLE, pid=9, at=20)
    assert end(life("till", "up", "exit"), life("till", *WHOLE, at=20, pid=2), later)[0] == "Returned"


def test_processes_without_a_role_have_no_life() -> None:
    events = tuple(life("+command", "raised"))
    assert lives(Timeline(events, {}, ("+command",))) == []


@pytest.mark.parametrize(("said", "status", "kind"), [(None, 3, "Exited"), (2, 0, "Returned"), (0, 1, "Exited")])
def test_the_status_of_the_process_counts_more_than_what_python_said(said: int | None, status: int, kind: str) -> None:
    """`SystemExit` is raised without `sys.exit`, and what `sys.exit` raises is caught."""
    assert end(life("till", *WHOLE, pid=4, exit={"status": said}), OTHER, statuses={4: status})[0] == kind
