"""In which lives of a role that is started again a fault acts, by what the role's ledger tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faults.inject.lives import in_this_life
from faults.ledger import Ledger
from faults.plan import Plan

CALL = "Drop site=shop:pay role=a nth=1 side=reply"
CRASH = "Crash role=a at=up@a"
HIT = ("invoke", {"faults": [0]})
FIRED = ("fired", {"fault": 0})


@pytest.mark.parametrize(
    ("plan", "lives", "awake"),
    [
        (CALL, [], True),
        (CALL, [[]], True),  # it has not hit a call yet
        (CALL, [[HIT]], False),
        (CALL, [[HIT], []], False),
        (CALL.replace("nth=1", "nth=1-3"), [[HIT]], False),  # several calls are those of the life that it hits first
        (CALL, [[("gradient", {"faults": [0]})]], False),
        (CALL, [[("invoke", {"faults": [1]})]], True),
        (CRASH, [[]], True),
        (CRASH, [[FIRED]], False),
        (CALL, [[FIRED]], True),  # at the callee: another role's call
        ("Drop site=shop:pay every=true side=reply", [[HIT]], True),
        ("Drop site=shop:pay chance_percent=50 side=reply", [[HIT]], True),
        (f"{CALL} lives=every", [[HIT]], True),
        ("Slow role=a latency_ms=1", [[FIRED]], False),  # the network outlives the role
        (f"{CRASH} lives=every", [[FIRED], [FIRED]], True),
        (f"{CALL} lives=2", [], False),
        (f"{CALL} lives=2", [[HIT]], True),
        (f"{CALL} lives=2", [[], []], False),
    ],
)
def test_a_fault_acts_once_in_all_lives_unless_it_says_in_which(
    plan: str, lives: list[list[tuple[str, dict[str, Any]]]], awake: bool, tmp_path: Path
) -> None:
    for events in lives:
        ledger = Ledger(tmp_path, "a")
        for name, details in events:
            ledger.write(name, **details)
        ledger.close()
    whole = Plan.parse(f"{plan}; Crash role=b at=up@b")
    found = in_this_life(whole, tmp_path, "a")
    assert (0 in {**found.at("call"), **found.at("process"), **found.at("network")}) is awake
    assert found.faults == whole.faults
    assert found.seed == whole.seed
    assert in_this_life(Plan.parse(plan), tmp_path, "b").asleep == (
        frozenset({0}) if "lives=2" in plan else frozenset()
    )


def test_half_a_line_of_a_life_that_was_killed_tells_nothing(tmp_path: Path) -> None:
    Ledger(tmp_path, "a").close()
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write('{"event": "invoke", "faults": [0]')
    assert in_this_life(Plan.parse(CALL), tmp_path, "a").asleep == frozenset()
