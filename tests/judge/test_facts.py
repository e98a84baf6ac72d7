"""How each life of a role ended, from the ledgers, exit statuses and what was seen of processes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.judge.facts import GONE, Facts, Failure, how_all_ended
from faults.ledger import Event
from faults.ledger.record import COMMAND, End
from tests.judge.by_hand import CRASH, PROCESSES, command, crashed, event, raised, script, started, world


def exited(role: str = "b", status: int | None = 0, time: float = 9.0, **details: Any) -> Event:
    return event(role, "exit", time, status=status, **details)


@pytest.mark.parametrize(
    ("events", "known", "kind", "text"),
    [
        ([exited()], {}, "Returned", "returned"),
        ([exited(status=None)], {}, "Returned", "returned"),
        ([exited(status=None)], {"gone": {2: 109.5}}, "Gone", "is gone without a word"),
        ([exited(status=3)], {}, "Exited", "exited with status 3"),
        ([exited(status=3)], {"statuses": {2: 0}}, "Returned", "returned"),  # C wrote it last
        ([exited()], {"statuses": {2: 3}}, "Exited", "exited with status 3"),
        ([], {"statuses": {2: 0}}, "Returned", "returned"),
        ([raised("b", "Lost"), exited(status=1)], {}, "Raised", "raised Lost: no"),
        ([raised("b", "Lost"), exited(status=1)], {"gone": {2: 109.5}}, "Raised", "raised Lost: no"),  # os._exit(1)
        ([raised("b", "Lost")], {"gone": {2: 103.0}}, "Raised", "raised Lost: no, and then a signal ended it"),
        ([], {"running": [2]}, "Running", "still ran when the command had ended"),
        ([], {"gone": {2: 103.0}}, "Gone", "is gone without a word"),
        ([], {}, "Gone", "is gone without a word"),
        ([event("b", "interrupted", 3.0)], {}, "Gone", "was interrupted"),
        ([crashed()], {}, "Killed", "was killed by the plan, by SIGKILL"),
        ([crashed(how="term")], {}, "Killed", "was killed by the plan, by SIGTERM"),
        ([crashed(how="exit:0")], {"gone": {2: 102.0}}, "Killed", "was ended by the plan, with status 0"),
        ([crashed(), exited(status=3)], {}, "Exited", "exited with status 3"),  # its handler of the signal
        (
            [event("a", "fired", 2.0, fault=0, kind="Crash", role="b", pid=2)],
            {},
            "Killed",
            "was killed by the plan, by SIGKILL",
        ),  # `a` fired it
        ([crashed(pid=7)], {}, "Gone", "is gone without a word"),
    ],
)
def test_a_script_s_role_ends_in_one_way(events: list[Event], known: dict[str, Any], kind: str, text: str) -> None:
    run = script(CRASH, *events, cut="b", **known)
    found = Facts(run).last["b"].end
    assert found.kind == kind
    assert found.text == text
    assert how_all_ended(Facts(run)) == {"a": "returned", "b": text, COMMAND: "returned"}


class TestLives:
    def ends(self, *events: Event, **known: Any) -> list[tuple[int, int, str]]:
        lives = Facts(script(CRASH, *events, cut="b", **known)).lives
        assert all(each.end.process == each.process for each in lives)
        return [(each.number, each.process, each.end.kind) for each in lives if each.role == "b"]

    def test_a_role_that_is_started_again_has_another_life(self) -> None:
        again = [*started("b", 4.0, 22), exited(process=22)]
        assert self.ends(crashed(), *again) == [(1, 2, "Killed"), (2, 22, "Returned")]
        assert Facts(script(CRASH, crashed(), *again, cut="b")).restarted
        assert not Facts(script(CRASH, exited(time=3.0), *again)).restarted  # its first life had returned

    def test_a_process_that_starts_rpc_again_has_ended_no_life_before(self) -> None:
        again = [*started("b", 4.0), event("b", "raised", 5.0, error="Lost")]
        assert self.ends(*again) == [(1, 2, "Returned"), (2, 2, "Raised")]
        other = [*started("c", 4.0, 2), event("c", "exit", 5.0, status=3, process=2)]  # under another name
        assert self.ends(*other) == [(1, 2, "Returned")]

    def test_one_that_raised_has_ended_although_a_later_process_has_its_id(self) -> None:
        """As in a container that is started again."""
        again = [*started("b", 4.0), exited(time=9.0)]
        assert self.ends(raised("b", "Lost"), *again) == [(1, 2, "Raised"), (2, 2, "Returned")]
        assert self.ends(exited(status=3, time=3.0), *again) == [(1, 2, "Exited"), (2, 2, "Returned")]
        gone = [exited(status=None, time=3.0), *started("b", 4.0)]
        assert self.ends(*gone, gone={2: 109.0}) == [(1, 2, "Returned"), (2, 2, GONE)]
        assert self.ends(raised("b", "Lost"), *again, statuses={2: 3}) == [(1, 2, "Raised"), (2, 2, "Exited")]

    def test_a_life_that_opened_no_ledger_hides_none_before(self) -> None:
        lost = End("Raised", "raised Lost: no", 103.0, process=2)
        run = world(ends={"b": End(GONE, "was ended with its world", 106.0)}, lost=[lost])
        lives = [life for life in Facts(run).lives if life.role == "b"]
        assert [(each.number, each.end.text) for each in lives] == [
            (1, "raised Lost: no"),
            (2, "was ended with its world"),
        ]

    def test_processes_of_two_machines_may_have_one_id(self) -> None:
        """As in containers. Of the status that one of them left nobody knows whose it is."""
        other = [*started("c", 4.0, 2), event("c", "exit", 5.0, status=3, process=2)]
        assert self.ends(*other, raised("b", "Lost", 6.0), statuses={2: 0}) == [(1, 2, "Raised")]
        assert self.ends(*other, exited(time=6.0), statuses={2: 3}) == [(1, 2, "Returned")]

    def test_a_process_of_another_machine_was_not_killed_by_the_plan(self) -> None:
        lives = Facts(script(CRASH, crashed(), *started("c", 0.5, 2), cut="b")).lives
        assert {each.role: each.end.kind for each in lives if each.process == 2} == {"b": "Killed", "c": GONE}

    def test_two_processes_that_play_a_role_at_once_have_their_own_ends(self) -> None:
        other = [*started("b", 0.5, 22), event("b", "raised", 3.0, error="Lost", process=22)]
        assert self.ends(*other, exited()) == [(1, 2, "Returned"), (2, 22, "Raised")]

    def test_an_event_without_a_process_belongs_to_the_latest_start(self) -> None:
        again = [*started("b", 4.0, 22), exited(status=3, process=0)]
        assert self.ends(*again, statuses={2: 0}) == [(1, 2, "Returned"), (2, 22, "Exited")]

    def test_an_event_of_a_forked_child_belongs_to_no_life(self) -> None:
        assert self.ends(event("b", "raised", 3.0, error="Lost", process=77), exited()) == [(1, 2, "Returned")]

    def test_processes_without_a_role_have_no_life(self) -> None:
        assert self.ends(*started(COMMAND, 4.0, 2), exited(status=3)) == [(1, 2, "Exited")]
        assert set(Facts(script("seed=0", *started(COMMAND), *started("+network", 0.0, 5))).last) == {"a", "b"}


class TestFailures:
    def types(self, failure: Failure) -> set[str]:
        return {name for link in failure.itself for name in link.types}

    def test_they_come_by_time_and_the_commands_last(self) -> None:
        run = script("seed=0", raised("b", "KeyError", 2.0), raised("a", "Lost", 3.0), raised(COMMAND, "OSError", 9.5))
        found = Facts(replace(run, ends={COMMAND: command(1)})).failures
        assert [(each.role, each.time, self.types(each)) for each in found] == [
            ("b", 2.0, {"KeyError", "LookupError", "Exception"}),
            ("a", 3.0, {"Lost", "RuntimeError", "Exception"}),
            (COMMAND, 10.0, {"OSError", "Exception"}),
        ]

    def test_only_the_error_and_that_of_its_callee_have_ended_a_role(self) -> None:
        run = script("seed=0", raised("a", "OSError", callee="KeyError", cause="Lost"), status=1)
        assert self.types(Facts(run).failures[0]) == {"OSError", "Exception", "KeyError", "LookupError"}
        assert self.types(Facts(run).failures[1]) == set()  # the command's

    def test_of_a_group_every_member_has_ended_it(self) -> None:
        ways = [("ExceptionGroup", "", 0), ("Lost", "cause", 0), ("ExceptionGroup", "member", 0), ("Odd", "callee", 1)]
        ways += [("KeyError", "member", 2), ("OSError", "callee", 2)]
        links = [{"types": [name], "way": way, "of": of} for name, way, of in ways]
        failed = event("a", "raised", 3.0, error="ExceptionGroup: all", links=links)
        assert self.types(Facts(script("seed=0", failed)).failures[0]) == {"ExceptionGroup", "KeyError", "OSError"}

    def test_who_exited_may_have_logged_why(self) -> None:
        logged = event("b", "logged", 3.0, text="x", links=raised("b", "Lost").details["links"])
        assert [str(each.links[0]) for each in Facts(script("seed=0", logged, exited(status=1))).failures] == [
            "Lost: no"
        ]
        assert Facts(script("seed=0", logged, crashed(), cut="b")).failures[0].links == []
        last = event("b", "logged", 3.5, text="giving up")
        assert Facts(script("seed=0", logged, last, exited(status=1))).failures[0].links[0].name == "Lost"

    @pytest.mark.parametrize("make", [world, script])
    def test_success_is_what_the_command_says_or_every_role_of_a_world(self, make: Any) -> None:
        failed = Facts(make("seed=0", raised("a", "Lost")))
        assert failed.success == (make is script)
        assert failed.every_role_returned is False
        assert Facts(make()).every_role_returned

    def test_the_launcher_knows_how_a_role_of_a_world_ended(self) -> None:
        """The ledger has the chain of its error."""
        ends = {"a": End("Raised", "raised x.Lost: no", 104.0, ("Lost",)), "b": End("Killed", "was killed", 103.0)}
        child = event("a", "logged", -1.0, text="x", process=7)
        found = Facts(world("seed=0", child, raised("a", "Lost", cause="KeyError"), ends=ends))
        assert [(each.role, each.end.text, each.time) for each in found.failures] == [
            ("b", "was killed", 3.0),
            ("a", "raised x.Lost: no", 4.0),
        ]
        assert [each.name for each in found.failures[1].links] == ["Lost", "KeyError"]
        assert found.last["a"].process == PROCESSES["a"]
        assert found.last["a"].end.types == ("Lost", "RuntimeError", "Exception")
        untold = Facts(world(ends=ends)).failures[1]
        assert [(each.name, each.text) for each in untold.links] == [("Lost", "raised x.Lost: no")]


def test_a_life_that_was_ended_with_its_world_ends_after_what_ended_it() -> None:
    killed = [End("Killed", "was killed by SIGKILL", time, process=2) for time in (107.0, 109.5, 110.0)]
    facts = Facts(world("seed=0", *started("a", 10.0, 11), *started("b", 10.0, 12), lost=killed))
    first = next(life for life in facts.lives if (life.role, life.number) == ("a", 1))
    assert first.of("shutdown") is not None
    assert first.events[-1].time == 8.0
    assert first.end.time == 109.5
