"""A round of the batch parameter server whose participant is late, silent, doubled or dead: what the others get, and when.

Each trainer's calls and their ends are in its ledger. The limit of a round is `LIMIT` where somebody is missed, and
long where nobody may wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from faults import ledger
from faults.ledger import Event, Timeline
from faults.plan import Plan
from faults.scope import scope
from reference.batch_parameter_server import Case, RoundFailed, roles
from reference.outcome import Killed, Outcome, Raised, Returned
from reference.quick import quick
from reference.trace import Trace
from reference.world import launch
from tests.runs import against_twin

SITE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
NAMES = ("trainer1", "trainer2", "trainer3")
OTHERS = ("trainer1", "trainer3")
FAILED = f"{RoundFailed.__module__}.RoundFailed"
CASE = quick("batch_parameter_server", trainers=3, steps=3, timeout=20.0)
# Of a round, seconds: short where it runs out, and what may come on top on a busy machine.
LIMIT = 0.6
SLACK = 2.0
assert isinstance(CASE, Case)


@dataclass(frozen=True)
class Played:
    """A run's outcomes and its ledgers."""

    outcomes: dict[str, Outcome]
    timeline: Timeline

    def calls(self, trainer: str) -> list[Event]:
        """How this trainer's reports ended, one a round."""
        ends = self.timeline.of("ok", "fail", "info")
        return [each for each in ends if each.role == trainer and each.details["site"] == SITE]

    def call(self, trainer: str, nth: int) -> Event:
        (found,) = [each for each in self.calls(trainer) if each.details["nth"] == nth]
        return found

    def seconds(self, trainer: str, nth: int) -> float:
        return float(self.call(trainer, nth).details["seconds"])

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

    def assert_others_heard(self, nth: int, text: str, least: float, most: float) -> None:
        """Both other trainers' reports of that round failed with this text, after so many seconds; earlier ones not."""
        for name in OTHERS:
            assert [each.event for each in self.calls(name)] == ["ok"] * (nth - 1) + ["fail"], name
            assert f"RoundFailed: {text}" in self.error(name, nth)
            assert least <= self.seconds(name, nth) < most, name


def played(folder: Path, plan: str, **changes: Any) -> Played:
    case = replace(CASE, **changes)
    with (
        scope(Plan.parse(plan), folder, record=True) as arguments,
        launch(roles(case), deadline=60, **arguments) as world,
    ):
        outcomes = world.wait()
    return Played(outcomes, ledger.read(folder))


def test_healthy(tmp_path: Path) -> None:
    """The control: nobody waits for half a second."""
    run = played(tmp_path, "seed=0")
    run.assert_equal()
    assert run.fired() == 0
    assert max(run.seconds(name, nth) for name in NAMES for nth in (1, 2, 3)) < 0.5


class TestLate:
    def test_within_the_limit_the_others_wait_for_it_and_the_bits_are_the_twins(self, tmp_path: Path) -> None:
        run = played(tmp_path, f"Delay site={SITE} role=trainer2 nth=2 side=request seconds=0.6", timeout=10.0)
        run.assert_equal()
        assert run.fired() == 1
        for name in NAMES:
            assert 0.5 < run.seconds(name, 2) < 0.6 + SLACK
            assert run.seconds(name, 1) < 0.5

    def test_its_reply_holds_up_only_the_next_round(self, tmp_path: Path) -> None:
        run = played(tmp_path, f"Delay site={SITE} role=trainer2 nth=2 side=reply seconds=0.6", timeout=10.0)
        run.assert_equal()
        assert run.fired() == 1
        assert 0.6 <= run.seconds("trainer2", 2)
        assert run.seconds("trainer2", 3) < 0.5
        for name in OTHERS:
            assert run.seconds(name, 2) < 0.5 < run.seconds(name, 3) + 0.05

    def test_beyond_the_limit_it_is_named_to_the_others_and_is_itself_refused(self, tmp_path: Path) -> None:
        plan = f"Delay site={SITE} role=trainer2 nth=2 side=request seconds={2 * LIMIT}"
        run = played(tmp_path, plan, timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(2, text, LIMIT - 0.1, LIMIT + SLACK)
        assert run.fired() == 1

    def test_a_pause_within_the_limit_changes_no_bit(self, tmp_path: Path) -> None:
        run = played(tmp_path, "Pause role=trainer2 at=step:1@trainer2 seconds=0.5", timeout=10.0)
        run.assert_equal()
        assert run.fired() == 1
        for name in OTHERS:
            assert 0.3 < run.seconds(name, 2) < 0.5 + SLACK

    def test_a_pause_beyond_the_limit(self, tmp_path: Path) -> None:
        run = played(tmp_path, "Pause role=trainer2 at=step:1@trainer2 seconds=600", timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(2, text, LIMIT - 0.1, LIMIT + SLACK)


class TestSilent:
    @pytest.mark.parametrize("nth", [1, 3])
    def test_a_lost_report_is_named_when_the_round_is_due(self, tmp_path: Path, nth: int) -> None:
        run = played(tmp_path, f"Drop site={SITE} role=trainer2 nth={nth} side=request", timeout=LIMIT)
        text = f"round {nth - 1}: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(nth, text, LIMIT - 0.1, LIMIT + SLACK)
        assert run.fired() == 1

    def test_a_lost_reply_is_named_in_the_next_round(self, tmp_path: Path) -> None:
        """Its report counted: the round in which it was made is complete for the others."""
        run = played(tmp_path, f"Drop site={SITE} role=trainer2 nth=1 side=reply", timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2"
        run.assert_failed(text)
        run.assert_others_heard(2, text, LIMIT - 0.1, LIMIT + SLACK)

    def test_two_lost_reports_are_both_named(self, tmp_path: Path) -> None:
        plan = "; ".join(f"Drop site={SITE} role={name} nth=2 side=request" for name in ("trainer2", "trainer3"))
        run = played(tmp_path, plan, timeout=LIMIT)
        text = f"round 1: nothing for {LIMIT} s from trainer2, trainer3"
        run.assert_failed(text)
        assert f"RoundFailed: {text}" in run.error("trainer1", 2)
        assert run.fired() == 2


class TestDoubled:
    def doubled(self, folder: Path, order: str, nth: int, **changes: Any) -> Played:
        plan = f"Order site={SITE} roles={order} nth={nth} seconds=10; Duplicate site={SITE} role=trainer2 nth={nth}"
        return played(folder, plan, **changes)

    @pytest.mark.parametrize("nth", [1, 2, 3])
    def test_within_its_round_the_second_is_refused_and_the_bits_are_the_twins(self, tmp_path: Path, nth: int) -> None:
        run = self.doubled(tmp_path, "trainer2,trainer1,trainer3", nth)
        run.assert_equal()
        (refused,) = run.timeline.of("refused")
        assert refused.details["error"] == f"RoundFailed: round {nth - 1}: trainer2 reports twice"

    def test_as_the_last_of_a_round_it_counts_for_the_next_and_that_run_never_returns_a_trace(
        self, tmp_path: Path
    ) -> None:
        """A report carries no round: the second one is taken for the next. Then trainer2's own is one too many, or one
        too late, and either way the run ends with an error that names it."""
        run = self.doubled(tmp_path, "trainer1,trainer3,trainer2", 1, timeout=1.0)
        assert run.timeline.of("refused") == []
        ps = run.outcomes["ps"]
        assert isinstance(ps, Raised)
        assert ps.type == FAILED
        assert "trainer2" in ps.message
        assert run.fired() == 2

    def test_as_the_last_of_the_last_round_it_changes_nothing(self, tmp_path: Path) -> None:
        run = self.doubled(tmp_path, "trainer1,trainer3,trainer2", 3)
        run.assert_equal()
        assert run.fired() == 2


class TestDead:
    """Named as soon as its connection ends, long before the limit of 20 s."""

    @pytest.mark.parametrize(
        ("moment", "nth"),
        [("step:1@trainer2", 2), (f"call:{SITE}#1@trainer2", 1), (f"call:{SITE}#3@trainer2", 3)],
        ids=["after a round", "before its first report", "before its last report"],
    )
    def test_a_trainer(self, tmp_path: Path, moment: str, nth: int) -> None:
        run = played(tmp_path, f"Crash role=trainer2 at={moment}")
        text = f"round {nth - 1}: trainer2 failed: "
        run.assert_failed(text)
        assert run.outcomes["trainer2"] == Killed(9)
        run.assert_others_heard(nth, text, 0.0, SLACK)
        assert run.fired() == 1

    def test_the_server(self, tmp_path: Path) -> None:
        """Killed by the second report, in the middle of a round: every trainer that waits hears of it at once."""
        run = played(
            tmp_path,
            f"Order site={SITE} roles=trainer1,trainer3,trainer2 nth=2 seconds=10; "
            f"Crash site={SITE} role=trainer2 nth=2 when=before",
        )
        assert run.outcomes["ps"] == Killed(9)
        for name in NAMES:
            assert [each.event for each in run.calls(name)] == ["ok", "info"], name
            assert run.error(name, 2).startswith(("RuntimeError: eof", "RuntimeError: EOF", "RuntimeError: ECONNRESET"))
            assert run.seconds(name, 2) < SLACK
