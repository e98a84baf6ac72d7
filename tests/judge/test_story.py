"""The story of stored runs: from its sentences alone a reader knows what happened."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from faults.judge.facts import Facts
from faults.judge.rules import DEFECTS, LOUD, SUCCESSES, UNKNOWN, judge
from faults.judge.story import MEANS, did, fault_stories, sentence
from faults.ledger import Event, record
from faults.plan.kinds import KINDS
from tests.judge.by_hand import CRASH, DROP, crashed, event, fired, raised, script, started, world
from tests.support.stored_runs import stored_run

Stored = Callable[[str], Facts]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Gives the facts of a golden run by its row, such as ``matrix/rnn-Crash-at-step``."""
    place = tmp_path_factory.mktemp("stored")

    return lambda row: Facts(record.read(stored_run(row, place)))


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (
            "matrix/sharded_parameter_server-Crash-before",
            "The plan ended ps1 before it executed ParameterServerShard.push_and_fetch#3 of trainer1 0.35 s after the "
            "start. trainer2 raised PeerLost, 0.05 s later; then ps2 and trainer1 failed. All who failed had ended "
            "0.0 s after the last fault; 12.0 s are allowed. The run passed: it could not do its work, and said so in "
            "time.",
        ),
        (
            "matrix/rref_dataflow-Delay-reply",
            "The reply of add#2 of worker0 was late 0.19 s after the start. All roles returned, the last one 0.5 s "
            "after the start. The run passed: it did its work, with the right result.",
        ),
    ],
)
def test_a_run_is_told_in_sentences(stored: Stored, row: str, wanted: str) -> None:
    facts = stored(row)
    assert sentence(facts, judge(facts.run)) == wanted


def test_a_run_that_hangs_is_told_with_who_waits_for_whom(stored: Stored) -> None:
    row = "parameter_server Crash role=trainer_1 at=call:__main__:ParameterServer.push_gradients#2@trainer_1"
    facts = stored(f"programs/{row}")
    told = sentence(facts, judge(facts.run))
    waits = "parameter_server and trainer_2 wait for trainer_1 (common shutdown, 30.0 s), which was killed by the plan"
    assert f" {waits}, by SIGKILL." in told
    assert " This is a defect: the command missed the deadline while parameter_server, trainer_2 still ran; " in told


def test_of_many_roles_that_failed_five_are_named() -> None:
    lost = [raised(role, "Lost", process=number) for number, role in enumerate("cdefgh", 11)]
    run = world(DROP, fired(), *lost)
    assert " c raised Lost, 1.00 s later; then d, e, f, g and 1 more failed. " in sentence(Facts(run), judge(run))


def test_a_role_that_exited_is_told_by_its_status_and_not_by_what_it_logged() -> None:
    logged = event("b", "logged", 2.5, text="x", links=raised("b", "Lost").details["links"])
    run = script(DROP, fired(), logged, event("b", "exit", 3.0, status=3), status=1)
    assert " b exited with status 3, 1.00 s later. " in sentence(Facts(run), judge(run))


def test_of_a_fault_that_fires_again_the_last_time_before_a_failure_counts() -> None:
    """As for the verdict."""
    plan = "Drop site=shop:pay role=a every=true side=reply"
    run = script(plan, fired(), fired(time=7.0), raised("a", "Lost", 8.0), status=1)
    told = sentence(Facts(run), judge(run))
    assert " a raised Lost, 1.00 s after the last fault before that. " in told
    assert " All who failed had ended 1.0 s after the last fault; 5.0 s are allowed. The run passed: " in told


def test_of_failures_around_faults_the_one_nearest_to_its_bound_is_told() -> None:
    plan = "Drop site=shop:pay role=a every=true side=reply"
    lost = [raised("a", "Lost", 6.0), raised("b", "Lost", 10.5)]
    run = script(plan, fired(), fired(time=10.0), *lost, status=1)
    assert " a had ended 4.0 s after the last fault before that; 5.0 s are allowed. " in sentence(
        Facts(run), judge(run)
    )


def test_lives_are_told_in_their_order() -> None:
    second, third = started("b", 4.0, 12), started("b", 6.0, 22)
    ends = [crashed(), raised("b", "Lost", time=5.0, process=12), crashed(number=1, time=5.5)]
    run = script(f"{CRASH}; {CRASH} lives=2", *ends, *second, *third, status=0)
    assert sentence(Facts(run), judge(run)).startswith(
        "The plan ended b 2.00 s after the start. b raised Lost, 3.00 s later. "
        "The plan ended b 5.50 s after the start. "
        "Roles were started again twice, and the last one returned 9.0 s after the start. "
    )


def test_an_order_that_waited_in_vain_has_not_fired() -> None:
    """Its first call shows where it would have been."""
    order = "Order site=shop:pay roles=a,c nth=1 seconds=1"
    run = world(order, event("a", "invoke", 2.0, site="shop:pay", nth=1, to="b", faults=[0]))
    facts = Facts(run)
    assert not sentence(facts, judge(run)).startswith("Calls of pay")
    assert [each.verdict for each in fault_stories(facts)] == ["not fired"]


def test_a_roles_name_is_no_story() -> None:
    run = world(DROP, event("fired1", "planned", 1.0, fault=0))
    assert [each.verdict for each in fault_stories(Facts(run))] == ["not fired"]


@pytest.mark.parametrize(("count", "more"), [(4, "and 1 more fault fired"), (5, "and 2 more faults fired")])
def test_of_many_faults_three_are_told(count: int, more: str) -> None:
    plan = "; ".join(f"Drop site=shop:pay role=a nth={nth} side=reply" for nth in range(1, count + 1))
    run = world(plan, *(fired(number) for number in range(count)))
    assert f", {more}. " in sentence(Facts(run), judge(run))


def test_each_verdict_has_a_meaning() -> None:
    assert set(MEANS) == {*DEFECTS, *SUCCESSES, LOUD, UNKNOWN}


def test_each_kind_says_what_it_did() -> None:
    for kind in KINDS:
        of_one = Mock(run=Mock(plan=Mock(faults=[Mock(traits=kind)])), effects=[fired()])
        assert did(of_one, 0) != kind.did


def test_what_became_of_a_fault_is_told_in_order(stored: Stored) -> None:
    (story,) = fault_stories(stored("matrix/reinforce-Pause-at-step"))
    assert story.verdict == "effective"
    assert [what.split()[0] for _, what in story.times] == ["planned", "fired", "effective", "resumed"]


@pytest.mark.parametrize(("events", "verdict"), [([], "not fired"), ([fired()], "fired")])
def test_a_fault_whose_effect_was_not_seen_is_not_effective(events: list[Event], verdict: str) -> None:
    assert [each.verdict for each in fault_stories(Facts(world(DROP, *events)))] == [verdict]
