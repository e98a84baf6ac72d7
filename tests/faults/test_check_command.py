"""`check --as-plan`: the faults of a run that fired, each at exactly the calls at which it did. `check --ended`: the
end of programs that something else started is recorded, and the run is judged by it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from faults.cli.check_command import plan_of_fired
from faults.cli.main import main
from faults.judge.facts import Facts, how_all_ended
from faults.judge.proof import firings
from faults.ledger import Event, Timeline
from faults.ledger.ledger import SCHEMA, boot_id
from faults.ledger.record import Run, read
from faults.plan import Plan
from faults.run import runs
from faults.run.runs import prepared
from faults.script import script
from tests.support import roles_subjects as plays

SITE = "shop:pay"
PAY = f"site={plays.PAY} role=till"


def fired(number: int, caller: str, nth: int, time: float = 5.0) -> Event:
    return Event("shop", "fired", time, {"fault": number, "site": SITE, "caller": caller, "nth": nth})


def planned(plan: str, *events: Event) -> list[str]:
    """Return the faults that come of a run under ``plan`` with these events."""
    timeline = Timeline(tuple(sorted(events, key=lambda event: event.time)), {}, ("shop", "a", "b"))
    return list(map(str, plan_of_fired(Run("shop.py", Plan.parse(plan), timeline)).faults))


@pytest.mark.parametrize("which", ["every=true", "chance_percent=50.0", "nth=1", "nth=1-3"])
def test_a_fault_of_calls_comes_once_for_each_call_at_which_it_fired(which: str) -> None:
    plan = f"Drop site={SITE} {which} side=reply"
    assert planned(plan, fired(0, "b", 3), fired(0, "a", 1), fired(0, "b", 3)) == [
        f"Drop site={SITE} role=b nth=3 side=reply",
        f"Drop site={SITE} role=a nth=1 side=reply",
    ]


def test_a_fault_to_one_callee_keeps_its_own_count() -> None:
    event = Event("b", "fired", 5.0, {"fault": 0, "site": SITE, "caller": "a", "nth": 7, "nth_to": 3})
    plan = f"Drop site={SITE} to=b every=true side=reply"
    assert planned(plan, event) == [f"Drop site={SITE} role=a to=b nth=3 side=reply"]


def test_an_order_comes_once_for_each_number_of_calls_in_which_it_was_kept() -> None:
    plan = f"Order site={SITE} roles=a,b every=true seconds=1.0"
    assert planned(plan, fired(0, "b", 1), fired(0, "b", 3)) == [
        f"Order site={SITE} roles=a,b nth={nth} seconds=1.0" for nth in (1, 3)
    ]


def test_faults_elsewhere_stay_as_they_are_if_they_fired() -> None:
    """Whether a fault of a message hit any is not recorded."""
    held = "Hold role=b at=up@b seconds=0.1"
    others = ["Pause role=a at=step:2@a lives=every seconds=0.1", "Reset role=a at=up@a"]
    of_message = "Delay message=PYTHON_CALL seconds=0.1"
    events = [Event("a", "fired", 0, {"fault": number}) for number in (1, 2)]
    assert planned("; ".join([held, *others, of_message]), *events) == [*others, of_message]


@pytest.mark.parametrize(
    ("lives", "starts", "wanted"),
    [
        ("", [0.0], ["nth=2"]),
        ("", [0.0, 4.0], ["nth=2 lives=1", "nth=2 lives=2"]),
        ("lives=every", [0.0, 4.0, 6.0], ["nth=2 lives=1", "nth=2 lives=2"]),
        ("lives=every", [0.0], ["nth=2 lives=1"]),
    ],
)
def test_a_call_of_a_role_that_is_started_again_is_one_of_its_life(
    lives: str, starts: list[float], wanted: list[str]
) -> None:
    events = [Event("a", "start", time) for time in starts] + [Event("b", "start", 0.0)] * 2
    plan = f"Raise site={SITE} every=true {lives} side=request"
    found = planned(plan, *events, fired(0, "a", 2, 3.0), fired(0, "a", 2, 5.0))
    assert found == [f"Raise site={SITE} role=a {each} side=request" for each in wanted]


UNFIRED = f"Drop {PAY} nth=99 side=reply"


@pytest.mark.usefixtures("forkserver")
@pytest.mark.parametrize(
    ("till", "plan"),
    [
        (plays.careless, f"seed=2; Raise {PAY} side=request chance_percent=50.0; {UNFIRED}"),
        (plays.careful, f"{UNFIRED}; Duplicate site={plays.PAY} every=true; Delay {PAY} nth=3 side=reply seconds=0.05"),
        (plays.trusting, f"seed=5; {UNFIRED}; Corrupt site={plays.COINS} every=true side=request change=bit"),
    ],
    ids=["by chance", "every", "corrupted"],
)
def test_the_same_calls_are_hit_again(till: Any, plan: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the same bits are changed, although the faults have other numbers."""
    first, _ = runs.run(plays.subject(till), Plan.parse(plan), tmp_path / "first")
    assert main(["check", str(tmp_path / "first"), "--as-plan"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"# did not fire: {UNFIRED}\n")
    exact = Plan.parse(said)
    assert all(fault.role and fault.nth for fault in exact.faults)
    again, judged = runs.run(plays.subject(till), exact, tmp_path / "again")
    assert judged.verdict != "not fired"
    assert _hits(again) == _hits(first) != []


def _hits(run: Run) -> list[dict[str, object]]:
    """Return what fired, and which bits were changed, without the faults' numbers; a `Duplicate` fires in a thread."""
    hits = [{name: value for name, value in each.details.items() if name != "fault"} for each in firings(run)]
    return sorted(hits, key=repr)


def stored(place: Path, plan: str, *lines: dict[str, Any]) -> str:
    """Write a run in which ``shop`` has written these lines."""
    prepared(Plan.parse(plan), place)
    start = {"event": "start", "schema": SCHEMA, "time": 1.0, "wall": 1.0, "pid": 1}
    each = [json.dumps({"process": 1, **line}) for line in (start, *lines)]
    (place / "shop.jsonl").write_text("".join(f"{line}\n" for line in each))
    return str(place)


LATE = f"Delay site={SITE} side=reply seconds=0.1"
FIRED = {"event": "fired", "time": 2.0, "fault": 0, "kind": "Delay", "site": SITE, "caller": "till", "nth": 2}
UNWRITTEN = "run cannot be judged: it holds what no run writes"


def test_a_fault_comes_on_a_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two faults that do the same stay two."""
    plan = f"seed=7; {LATE} every=true; {LATE}; Raise site={SITE} side=reply text='no; never'"
    place = stored(tmp_path / "run", plan, *({**FIRED, "fault": number} for number in range(3)))
    assert main(["check", place, "--as-plan"]) == 0
    note, *said = capsys.readouterr().out.splitlines()
    assert note.startswith("# the run's record is not whole: no run.json: ")
    delay = f"Delay site={SITE} role=till nth=2 side=reply seconds=0.1"
    assert said == ["seed=7", delay, delay, f"Raise site={SITE} role=till nth=2 side=reply text='no; never'"]


@pytest.mark.parametrize(
    ("lines", "options", "why"),
    [
        ([], [], "{place}: no fault fired, so there is no plan of what fired"),
        ([FIRED], ["--ended", "0"], "--as-plan prints no verdict: wanted it without --ended"),
        ([FIRED], ["--junit", "x.xml"], "--as-plan prints no verdict: wanted it without --junit"),
        ([{**FIRED, "nth": -2}], [], f"{UNWRITTEN} (PlanError: Delay: 'nth' must be an integer from 1 to "),
        ([{name: FIRED[name] for name in FIRED if name != "caller"}], [], f"{UNWRITTEN} (KeyError: 'caller')"),
    ],
)
def test_what_gives_no_plan_is_refused_in_one_line(
    lines: list[dict[str, Any]], options: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stored(tmp_path / "run", LATE, *lines)
    assert main(["check", place, "--as-plan", *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"error: {why.format(place=place)}")


# `check --ended`


def play(place: Path, pid: int, boot: str) -> None:
    """Prepare a run, and write what a role's process has written when its RPC is up."""
    now = time.monotonic()
    assert main(["prepare", str(place), "--healthy"]) == 0
    start = {"event": "start", "schema": SCHEMA, "time": now, "process": pid, "pid": pid, "wall": 1.0, "boot": boot}
    up = {"event": "up", "time": now + 1, "process": pid, "workers": ["till"]}
    (place / "till.jsonl").write_text(f"{json.dumps(start)}\n{json.dumps(up)}\n")


def test_a_run_that_has_ended_is_no_longer_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(tmp_path / "run")
    play(Path(place), os.getpid(), "another machine's")
    assert main(["check", place]) == 3
    assert "verdict: unknown" in capsys.readouterr().out
    assert main(["check", place, "--ended", "0"]) == 0
    assert "verdict: unchecked" in capsys.readouterr().out
    assert main(["check", place]) == 0  # it is recorded
    assert main(["check", place, "--ended", "0"]) == 2
    assert "tells how its run ended: wanted one that `prepare` made" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("mine", "status", "verdict", "end"),
    [
        (True, "0", "leaked", "still ran when the command had ended"),
        (False, "0", "unchecked", "is gone without a word"),
        (False, "137", "wrong", "is gone without a word"),
        (False, "255", "wrong", "is gone without a word"),  # no signal has the number 127
        (False, "1", "wrong", "is gone without a word"),
    ],
)
def test_processes_of_this_machine_are_looked_for(
    mine: bool,
    status: str,
    verdict: str,
    end: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A role has started, and has written nothing since. Another machine may have a process of the same number."""
    monkeypatch.setattr(script, "GRACE", 0.1)
    place = tmp_path / "run"
    play(place, os.getpid(), boot_id() if mine else "another machine's")
    assert main(["check", str(place), "--ended", status]) == (verdict != "unchecked")
    assert f"verdict: {verdict}" in capsys.readouterr().out
    run = read(place)
    assert how_all_ended(Facts(run))["till"] == end
    assert run.ends["+command"].kind == {"0": "Returned", "137": "Killed", "255": "Exited", "1": "Exited"}[status]


def test_a_process_that_is_about_to_end_is_awaited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(["sleep", "1.3"]) as ending:
        play(tmp_path / "run", ending.pid, boot_id())
        assert main(["check", str(tmp_path / "run"), "--ended", "0"]) == 0
    assert "verdict: unchecked" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "-1", "256", "x", "1.5"])
def test_a_status_is_a_number_up_to_255(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), "--ended", text]) == 2
    assert "wanted an exit status from 0 to 255, got" in capsys.readouterr().err
