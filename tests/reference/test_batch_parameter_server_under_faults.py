"""A round of the batch parameter server with one trainer silent, doubled or dead: what the others get, and when.

tests/matrix has the verdicts under each kind of fault. Each trainer's calls and their ends are in its ledger, on one
clock. The limit of a round is `LIMIT` where somebody is missed, and long where nobody may wait for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Event, Timeline, ledger
from faults.plan import Plan
from faults.run.runs import scope
from reference.batch_parameter_server import RoundFailed, roles
from reference.outcome import Killed, Outcome, Raised
from reference.verify import quick
from reference.world import launch

SITE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
NAMES = ("trainer1", "trainer2", "trainer3")
OTHERS = ("trainer1", "trainer3")
FAILED = f"{RoundFailed.__module__}.RoundFailed"
CASE = quick("batch_parameter_server", trainers=3, steps=3, timeout=20.0)
# Seconds of a round whose limit runs out, and the additional seconds that a busy machine may take.
LIMIT = 1.0
SLACK = 2.0
# How the error of a call begins whose callee has ended, over uv sockets and the cma channel.
GONE = (
    "RuntimeError: EOF: end of file",
    "RuntimeError: ECONNRESET: connection reset",
    "RuntimeError: EPIPE: broken pipe",
    "RuntimeError: process_vm_readv: No such process",
)


@dataclass(frozen=True)
class Played:
    """A run's outcomes and its ledgers."""

    outcomes: dict[str, Outcome]
    timeline: Timeline

    def calls(self, trainer: str) -> list[Event]:
        """Return how this trainer's reports ended, one per round."""
        ends = self.timeline.of("ok", "fail", "info")
        return [each for each in ends if each.role == trainer and each.details["site"] == SITE]

    def call(self, trainer: str, nth: int) -> Event:
        (found,) = [each for each in self.calls(trainer) if each.details["nth"] == nth]
        return found

    def ended(self, trainer: str, nth: int) -> float:
        return self.call(trainer, nth).time

    def begun(self, nth: int) -> float:
        """Return when the last trainer sent its report of that round."""
        calls = [each for each in self.timeline.of("invoke") if each.details["site"] == SITE]
        return max(each.time for each in calls if each.details["nth"] == nth)

    def error(self, trainer: str, nth: int) -> str:
        return str(self.call(trainer, nth).details.get("error", ""))

    def fired(self) -> int:
        return len(self.timeline.of("fired"))

    def assert_failed(self, text: str) -> None:
        """``ps`` raised; ``text`` is how its message begins."""
        ps = self.outcomes["ps"]
        assert isinstance(ps, Raised)
        assert ps.type == FAILED
        assert ps.message.startswith(text), ps.message

    def assert_others_heard(self, nth: int, text: str) -> None:
        """The other trainers' reports of that round failed with this text, and earlier reports did not fail.

        A report that waits for its answer gets torch's text only (`info`); one that comes to a server that has failed
        is answered by the error (`fail`).
        """
        for name in OTHERS:
            *before, last = [each.event for each in self.calls(name)]
            assert before == ["ok"] * (nth - 1), name
            assert last in ("fail", "info"), name
            assert "RoundFailed" in self.error(name, nth)
            assert text in self.error(name, nth)


def played(folder: Path, plan: str, **changes: Any) -> Played:
    """Run the tutorial; its server ends when all trainers have their answers."""
    case: Any = replace(CASE, **changes)
    with (
        scope(Plan.parse(plan), folder, record=True) as arguments,
        launch(roles(case), deadline=60, **arguments) as world,
    ):
        outcomes = world.wait()
    return Played(outcomes, ledger.read(folder))


def test_a_lost_report_is_named_when_the_round_is_due(tmp_path: Path) -> None:
    """A round begins when the last report of the one before is sent."""
    run = played(tmp_path, f"Drop site={SITE} role=trainer2 nth=3 side=request", timeout=LIMIT)
    text = f"round 2: nothing for {LIMIT} s from trainer2"
    run.assert_failed(text)
    run.assert_others_heard(3, text)
    for name in OTHERS:
        assert run.ended(name, 3) - run.begun(2) >= LIMIT, name
        assert run.ended(name, 3) - run.ended(name, 2) < LIMIT + SLACK, name
    assert run.fired() == 1


def test_a_second_report_after_its_round_counts_for_the_next_one_and_ends_the_run(tmp_path: Path) -> None:
    """As published, a report does not say of which round it is. So the trainer's own report is one too many, in the
    next round or after the last one."""
    last = f"Order site={SITE} roles=trainer1,trainer3,trainer2 nth=1 seconds=10"
    run = played(tmp_path, f"{last}; Duplicate site={SITE} role=trainer2 nth=1")
    ps = run.outcomes["ps"]
    assert isinstance(ps, Raised)
    assert ps.type == FAILED
    assert re.search(r"trainer2 (reports twice|reports after the last of 3 rounds)", ps.message), ps.message


class TestDead:
    """A dead role is named as soon as its connection ends, long before the limit of 20 s."""

    @pytest.mark.parametrize(
        ("moment", "nth"),
        [("step:1@trainer2", 2), (f"call:{SITE}#1@trainer2", 1), (f"call:{SITE}#3@trainer2", 3)],
        ids=["after a round", "before its first report", "before its last report"],
    )
    def test_a_dead_trainer_is_named(self, tmp_path: Path, moment: str, nth: int) -> None:
        run = played(tmp_path, f"Crash role=trainer2 at={moment}")
        text = f"round {nth - 1}: trainer2 failed: "
        run.assert_failed(text)
        assert run.outcomes["trainer2"] == Killed(9)
        run.assert_others_heard(nth, text)
        (fired,) = run.timeline.of("fired")
        assert max(run.ended(name, nth) for name in OTHERS) - fired.time < SLACK

    def test_a_dead_trainer_is_named_even_if_the_servers_last_answer_is_late(self, tmp_path: Path) -> None:
        """The server's role ends by its error, but not before the others have heard it."""
        plan = f"Crash role=trainer2 at=step:1@trainer2; Delay site={SITE} role=trainer1 nth=2 side=reply seconds=0.6"
        run = played(tmp_path, plan)
        run.assert_failed("round 1: trainer2 failed: ")
        run.assert_others_heard(2, "round 1: trainer2 failed: ")
        assert run.fired() == 2

    def test_a_dead_server_is_named(self, tmp_path: Path) -> None:
        """The second report kills the server in the middle of a round; no trainer waits until the round's limit."""
        run = played(
            tmp_path,
            f"Order site={SITE} roles=trainer1,trainer3,trainer2 nth=2 seconds=10; "
            f"Crash site={SITE} role=trainer2 nth=2 when=before",
        )
        assert run.outcomes["ps"] == Killed(9)
        killed = next(each for each in run.timeline.of("fired") if each.details["kind"] == "Crash")
        for name in NAMES:
            # The launcher may end a trainer's role, too, before its call does.
            for each in run.calls(name):
                assert each.time - killed.time < SLACK
                assert each.event == "ok" or str(each.details["error"]).startswith(GONE)
            outcome = run.outcomes[name]
            assert isinstance(outcome, Raised)
            assert outcome.type.endswith(".PeerLost")
            assert "ps was killed by SIGKILL" in outcome.message
