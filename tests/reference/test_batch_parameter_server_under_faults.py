"""A round of the batch parameter server with one trainer late, silent, doubled or dead: what the others get, and when.

Each trainer's calls and their ends are in its ledger, on one clock. The limit of a round is `LIMIT` where somebody is
missed, and long where nobody may wait for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from faults.ledger import Event, Timeline, ledger
from faults.plan import Plan
from faults.run.runs import scope
from reference.batch_parameter_server import RoundFailed, roles
from reference.outcome import Killed, Outcome, Raised, Returned
from reference.trace import Trace
from reference.verify import quick
from reference.world import launch
from tests.support.runs import against_twin

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

    def effective(self) -> float:
        """Return when the one fault took effect: a delay at its end, a pause at its beginning."""
        (found,) = self.timeline.of("effective")
        return found.time

    def error(self, trainer: str, nth: int) -> str:
        return str(self.call(trainer, nth).details.get("error", ""))

    def fired(self) -> int:
        return len(self.timeline.of("fired"))

    def assert_equal(self) -> None:
        """All three rounds, and the twin's bits."""
        ps = self.outcomes["ps"]
        assert isinstance(ps, Returned)
        assert isinstance(ps.value, Trace)
        assert against_twin(ps.value).equal
        assert [[each.event for each in self.calls(name)] for name in NAMES] == [["ok"] * 3] * 3

    def assert_failed(self, text: str) -> None:
        """``ps`` raised; ``text`` is how its message begins."""
        ps = self.outcomes["ps"]
        assert isinstance(ps, Raised)
        assert ps.type == FAILED
        assert ps.message.startswith(text), ps.message

    def assert_others_heard(self, nth: int, text: str, others: Sequence[str] = OTHERS) -> None:
        """The other trainers' reports of that round failed with this text, and earlier reports did not fail.

        A report that waits for its answer gets torch's text only (`info`); one that comes to a server that has failed
        is answered by the error (`fail`).
        """
        for name in others:
            *before, last = [each.event for each in self.calls(name)]
            assert before == ["ok"] * (nth - 1), name
            assert last in ("fail", "info"), name
            assert "RoundFailed" in self.error(name, nth)
            assert text in self.error(name, nth)

    def assert_when_due(self, nth: int, others: Sequence[str] = OTHERS) -> None:
        """The trainers heard `LIMIT` after the round had begun, when the last report of the round before was sent."""
        for name in others:
            if nth > 1:
                assert self.ended(name, nth) - self.begun(nth - 1) >= LIMIT, name
                assert self.ended(name, nth) - self.ended(name, nth - 1) < LIMIT + SLACK, name


def played(folder: Path, plan: str, **changes: Any) -> Played:
    """Run the tutorial; its server ends when all trainers have their answers."""
    case: Any = replace(CASE, **changes)
    with (
        scope(Plan.parse(plan), folder, record=True) as arguments,
        launch(roles(case), deadline=60, **arguments) as world,
    ):
        outcomes = world.wait()
    return Played(outcomes, ledger.read(folder))


def test_a_healthy_run_equals_its_twin(tmp_path: Path) -> None:
    """The control."""
    run = played(tmp_path, "seed=0")
    run.assert_equal()
    assert run.fired() == 0


class TestLate:
    def test_a_report_late_within_the_timeout_changes_no_bit(self, tmp_path: Path) -> None:
        run = played(tmp_path, f"Delay site={SITE} role=trainer2 nth=2 side=request seconds=0.4")
        run.assert_equal()
        assert run.fired() == 1
        for name in NAMES:
            assert run.ended(name, 1) < run.effective() < run.ended(name, 2)

    def test_a_late_reply_holds_up_only_the_next_round(self, tmp_path: Path) -> None:
        run = played(tmp_path, f"Delay site={SITE} role=trainer2 nth=2 side=reply seconds=0.6")
        run.assert_equal()
        assert run.fired() == 1
        for name in OTHERS:
            assert run.ended(name, 2) < run.effective() < run.ended(name, 3)

    def test_a_trainer_late_beyond_the_timeout_is_named_to_the_others(self, tmp_path: Path) -> None:
        plan = f"Delay site={SITE} role=trainer2 nth=2 side=request seconds={1.5 * LIMIT}"
        run = played(tmp_path, plan, timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(2, text)
        run.assert_when_due(2)
        assert run.fired() == 1

    def test_a_pause_within_the_timeout_changes_no_bit(self, tmp_path: Path) -> None:
        run = played(tmp_path, "Pause role=trainer2 at=step:1@trainer2 seconds=0.4")
        run.assert_equal()
        assert run.fired() == 1
        assert len(run.timeline.of("resumed")) == 1  # written a moment after it goes on
        for name in OTHERS:
            assert run.ended(name, 1) < run.effective() + 0.4 <= run.ended(name, 2)

    def test_a_pause_beyond_the_timeout_is_named(self, tmp_path: Path) -> None:
        run = played(tmp_path, f"Pause role=trainer2 at=step:1@trainer2 seconds={2 * LIMIT}", timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(2, text)
        run.assert_when_due(2)


class TestSilent:
    @pytest.mark.parametrize("nth", [1, 3])
    def test_a_lost_report_is_named_when_the_round_is_due(self, tmp_path: Path, nth: int) -> None:
        run = played(tmp_path, f"Drop site={SITE} role=trainer2 nth={nth} side=request", timeout=LIMIT)
        text = f"round {nth - 1}: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(nth, text)
        run.assert_when_due(nth)
        assert run.fired() == 1

    def test_a_lost_reply_is_named_in_the_next_round(self, tmp_path: Path) -> None:
        """Its report counted, so the round in which it was made is complete for the other trainers."""
        run = played(tmp_path, f"Drop site={SITE} role=trainer2 nth=1 side=reply", timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(2, text)
        run.assert_when_due(2)

    def test_two_lost_reports_are_both_named(self, tmp_path: Path) -> None:
        plan = "; ".join(f"Drop site={SITE} role={name} nth=2 side=request" for name in ("trainer2", "trainer3"))
        run = played(tmp_path, plan, timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2, trainer3"
        run.assert_failed(text)
        run.assert_others_heard(2, text, ["trainer1"])
        run.assert_when_due(2, ["trainer1"])
        assert run.fired() == 2


class TestDoubled:
    def doubled(self, folder: Path, order: str, nth: int, **changes: Any) -> Played:
        plan = f"Order site={SITE} roles={order} nth={nth} seconds=10; Duplicate site={SITE} role=trainer2 nth={nth}"
        return played(folder, plan, **changes)

    @pytest.mark.parametrize("nth", [1, 3])
    def test_a_second_report_in_its_round_is_refused_and_changes_no_bit(self, tmp_path: Path, nth: int) -> None:
        run = self.doubled(tmp_path, "trainer2,trainer1,trainer3", nth)
        run.assert_equal()
        (refused,) = run.timeline.of("refused")
        assert refused.details["error"] == f"RoundFailed: round {nth - 1}: trainer2 reports twice"

    def test_a_second_report_after_its_round_counts_for_the_next_one_and_ends_the_run(self, tmp_path: Path) -> None:
        """As published, a report does not say of which round it is. So the trainer's own report is one too many, in the
        next round or after the last one."""
        run = self.doubled(tmp_path, "trainer1,trainer3,trainer2", 1)
        ps = run.outcomes["ps"]
        assert isinstance(ps, Raised)
        assert ps.type == FAILED
        assert re.search(r"trainer2 (reports twice|reports after the last of 3 rounds)", ps.message), ps.message

    def test_a_second_report_after_the_last_round_is_refused_and_changes_no_bit(self, tmp_path: Path) -> None:
        run = self.doubled(tmp_path, "trainer1,trainer3,trainer2", 3)
        run.assert_equal()
        (refused,) = run.timeline.of("refused")
        assert refused.details["error"] == "RoundFailed: trainer2 reports after the last of 3 rounds"


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
