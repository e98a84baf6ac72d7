"""What is shown of each role that did not return: how, when, by which chain of errors, and which fault that meets."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import Mock

import pytest

from faults.judge import facts
from faults.judge.causes import told
from faults.judge.facts import Facts
from faults.judge.proof import LOST
from faults.ledger import Event
from faults.ledger.error_links import from_json, to_json
from faults.ledger.record import COMMAND, Run
from tests.judge.by_hand import CRASH, DROP, PAY, chain, crashed, event, raised, script, started, world

WHEN = "3.0 s after the start, 7.0 s before the command's end"
INVOKE = event("a", "invoke", 1.0, **PAY, to="b", faults=[0])
INVOKE_OF_NONE = event("a", "invoke", 1.0, **PAY, to="b")


def fail(name: str = "Lost", text: str = "no", **details: object) -> Event:
    links = raised("a", name, text=text).details["links"]
    return event("a", "fail", 2.5, **{**PAY, "to": "b", "links": links, **details})


def lines(run: Run) -> list[str]:
    return list(told(Facts(run)))


def test_who_returned_is_not_shown() -> None:
    assert lines(world()) == lines(script()) == []


MET = "met in call shop:pay#1 of a to b, which meets no fault"


@pytest.mark.parametrize(
    ("events", "met"),
    [
        ([], "meets no fault"),
        ([INVOKE, fail()], f"met in call shop:pay#1 of a to b, which fault 1 hit: {DROP}"),
        ([fail()], MET),
        ([fail(to="a")], "met in call shop:pay#1 of a to a, which meets no fault"),  # it does not lead to itself
        ([fail(links=[{"types": ["Lost"], "text": "no"}])], MET),  # another object, such as of a callee
        ([fail(links=[{"types": ["Odd"], "identity": "Lost.no"}])], MET),  # the same one
        ([event("b", "invoke", 1.0, **PAY, faults=[0]), fail()], MET),
        ([event("a", "invoke", 1.0, **{**PAY, "nth": 2}, faults=[0]), fail()], MET),
        ([fail(text="else")], "meets no fault"),
        ([fail(site="torch.distributed.rpc.api:_x")], "meets no fault"),
    ],
)
def test_a_chain_is_met_in_the_call_that_failed_by_it(events: list[Event], met: str) -> None:
    assert lines(script(DROP, *events, raised("a", "Lost"))) == [f"a raised Lost: no, {WHEN} ({met})"]


def test_a_call_is_not_met_in_one_that_had_failed_before_it_began() -> None:
    """By the same error, such as a call to itself that is made again."""
    first, second = fail(to="a"), replace(fail(to="a", nth=2), time=2.8)
    begun = [event("a", "invoke", 1.0, **PAY, to="a"), event("a", "invoke", 2.7, **{**PAY, "nth": 2}, to="a")]
    (line,) = lines(script(DROP, *begun, first, second, raised("a", "Lost")))
    assert "by call" not in line


@pytest.mark.parametrize("count", [10, 20])
def test_each_error_is_read_as_often_however_many_roles_fail(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Mock(wraps=from_json)
    monkeypatch.setattr(facts, "from_json", read)
    events = []
    for number in range(count):
        role, text = f"w{number}", f"no {number % 3}"
        events += [
            event(role, "fail", 2.5, **PAY, to="a", links=to_json(chain("Lost", text)), process=10 + number),
            raised(role, "Lost", process=10 + number, text=text),
        ]
    assert len(lines(world(DROP, *events))) == count
    assert read.call_count == 6 * count


def test_the_callee_may_have_been_ended_by_the_plan() -> None:
    found = lines(script(CRASH, crashed(), fail(), raised("a", "Lost"), cut="b"))
    assert found == [
        f"a raised Lost: no, {WHEN} (met in call shop:pay#1 of a to b, whose callee fault 1 ended)",
        "b was killed by the plan, by SIGKILL, 2.0 s after the start, 8.0 s before the command's end",
    ]
    later = lines(script(CRASH, crashed(time=2.9), fail(), raised("a", "Lost"), cut="b"))
    assert later[0].endswith("which meets no fault)")
    another = lines(script(CRASH, crashed(), fail(to="c"), raised("a", "Lost"), cut="b"))
    assert another[0].endswith("of a to c, which meets no fault)")


@pytest.mark.parametrize(
    ("cut", "time", "met"),
    [
        ("role=a peer=b", 2.2, "on whose way was fault 1"),
        ("role=b", 2.2, "on whose way was fault 1"),
        ("role=a peer=c", 2.2, "which meets no fault"),
        ("role=c", 2.2, "which meets no fault"),
        ("role=a peer=b", 2.7, "which meets no fault"),  # later
    ],
)
def test_a_call_may_have_failed_because_its_network_was_hurt(cut: str, time: float, met: str) -> None:
    fired = event("a", "fired", time, fault=0)
    [line] = lines(script(f"Partition {cut} at=up@a direction=both", fired, fail(), raised("a", "Lost")))
    assert line.endswith(f"{met})")


@pytest.mark.parametrize(
    ("plan", "time", "to", "met"),
    [
        ("Pause role=b at=up@b", 2.2, "b", "whose callee fault 1 stopped"),
        ("Hold role=b at=up@b", 2.2, "b", "whose callee fault 1 stopped"),
        ("Hold site=shop:look side=request", 2.2, "b", "whose callee fault 1 stopped"),  # by another call
        ("Pause role=b at=up@b", 0.5, "b", "whose callee fault 1 stopped"),  # it lasts until the call has begun
        ("Pause role=b at=up@b", 0.2, "b", "which meets no fault"),
        ("Pause role=b at=up@b", 2.7, "b", "which meets no fault"),  # later
        ("Pause role=b at=up@b", 2.2, "c", "which meets no fault"),
        ("Delay site=shop:look side=request", 2.2, "b", "which meets no fault"),
    ],
)
def test_a_call_may_have_failed_because_its_callee_was_stopped(plan: str, time: float, to: str, met: str) -> None:
    begun, fired = event("a", "invoke", 1.2, **PAY, to=to), event("b", "fired", time, fault=0)
    [line] = lines(script(f"{plan} seconds=0.9", fired, begun, fail(to=to), raised("a", "Lost")))
    assert line.endswith(f"{met})")


def test_a_fault_that_the_plan_does_not_have_is_on_no_way() -> None:
    [line] = lines(script(DROP, event("a", "fired", 2.2, fault=9), fail(), raised("a", "Lost")))
    assert line.endswith(f"({MET})")


def test_torch_tells_of_no_message_that_it_drops_but_its_error_does() -> None:
    call = fail(via="rpc", error=f"RuntimeError: {LOST}")
    [line] = lines(script("Drop message=PYTHON_CALL role=a times=1", INVOKE_OF_NONE, call, raised("a", "Lost")))
    assert line.endswith("which fault 1 hit: Drop message=PYTHON_CALL role=a times=1)")
    [line] = lines(script("Drop message=PYTHON_CALL role=a times=1", INVOKE_OF_NONE, fail(), raised("a", "Lost")))
    assert line.endswith("which meets no fault)")


RAISE = "Raise site=shop:pay side=reply error=KeyError text=why"


def calls(
    role: str,
    nth: int,
    *faults: int,
    ended: float,
    to: str = "b",
    text: str = "why",
    process: int = 0,
    identity: str = "",
    begun: float | None = None,
) -> list[Event]:
    """A call that failed by an error with this text, half a second after it had begun."""
    at = {"site": "shop:pay", "nth": nth, "to": to} | ({"process": process} if process else {})
    links = [{"types": ["RuntimeError"], "text": text, "identity": identity}]
    begin = event(role, "invoke", ended - 0.5 if begun is None else begun, **at, faults=list(faults))
    return [begin, event(role, "fail", ended, **at, links=links)]


@pytest.mark.parametrize(
    ("events", "met"),
    [
        ([*calls("a", 1, 0, ended=1.0), *calls("a", 2, 1, ended=3.5)], 1),  # one that failed after that has no part
        ([*calls("a", 1, 0, ended=1.0), *calls("c", 2, 1, ended=2.0)], 1),  # another role's
        ([*calls("c", 2, 1, ended=2.0)], 2),  # it heard of it from that one
        ([*calls("a", 1, 0, ended=1.0), *calls("a", 2, 1, ended=2.0, process=11)], 1),  # another process of the role
        ([*calls("a", 1, 0, ended=1.0, identity="Lost.no"), *calls("a", 2, 1, ended=2.0)], 1),  # the same object
    ],
)
def test_of_several_calls_with_such_an_error_the_one_counts_that_it_came_from(events: list[Event], met: int) -> None:
    plan = f"{RAISE} role=a nth=1; {RAISE} role=a nth=2"
    [line] = lines(script(plan, *events, raised("a", "Lost", cause="KeyError")))
    assert f"which fault {met} hit: {RAISE.partition(' ')[0]}" in line
    assert f"fault {3 - met} hit" not in line


def test_calls_that_failed_alike_cannot_be_told_from_each_other() -> None:
    two = [*calls("a", 1, 0, ended=1.0, text="timed out"), *calls("a", 2, ended=2.0, text="timed out")]
    [line] = lines(script(f"{RAISE} role=a nth=1", *two, raised("a", "Lost", text="timed out")))
    assert f"(met in call shop:pay#1 of a to b, which fault 1 hit: {RAISE.partition(' ')[0]} " in line
    assert line.endswith("; or in call shop:pay#2 of a to b, which meets no fault)")
    many = [each for nth in range(1, 9) for each in calls("a", nth, ended=1.0, text="no")]
    assert lines(script(RAISE, *many, raised("a", "Lost")))[0].count("or in call") == 2


def test_a_callee_that_failed_by_a_call_of_its_own_leads_to_that_one() -> None:
    inner, said = calls("b", 1, 0, ended=2.0, to="c", text="lost"), "RuntimeError('lost')"
    outer = [*calls("a", 1, ended=2.5, text=said, begun=1.0), raised("a", "Lost", text=said)]
    [line] = lines(script(f"{RAISE} role=b nth=1", *inner, *outer))
    assert "(met in call shop:pay#1 of a to b, by call shop:pay#1 of b to c, which fault 1 hit: Raise" in line


def waits(role: str, nth: int, *faults: int, begun: float, to: str) -> Event:
    return event(role, "invoke", begun, site="shop:pay", nth=nth, to=to, faults=list(faults))


def ended_well(role: str, nth: int, *faults: int, to: str, ended: float) -> list[Event]:
    begun = waits(role, nth, *faults, begun=1.1 if role == "b" else 1.2, to=to)
    return [begun, event(role, "ok", ended, site="shop:pay", nth=nth, to=to)]


def gave_up(seconds: float = 1.5) -> list[Event]:
    """The end of a role whose call to ``b`` began at 1.0, and had to end within 1.5 s."""
    call = {**PAY, "to": "b"}
    error = raised("a", "Lost", text="out of time")
    failed = event("a", "fail", 2.5, **call, links=error.details["links"], seconds=seconds)
    return [event("a", "invoke", 1.0, **call, timeout=1.5), failed, error]


@pytest.mark.parametrize(
    ("others", "met"),
    [
        ([waits("b", 1, 0, begun=1.1, to="c")], ", which waited for call shop:pay#1 of b to c, which fault 1 hit: "),
        (
            [waits("b", 1, begun=1.1, to="c"), waits("c", 1, 0, begun=1.2, to="d")],
            ", which waited for call shop:pay#1 of b to c, which waited for call shop:pay#1 of c to d, which fault 1",
        ),
        (calls("b", 1, 0, begun=1.1, ended=2.6, to="c"), ", which waited for call shop:pay#1 of b to c, which fault 1"),
        (  # the inner calls end well, in their order, after the first caller has given up
            [*ended_well("b", 1, to="c", ended=2.9), *ended_well("c", 1, 0, to="d", ended=2.8)],
            ", which waited for call shop:pay#1 of b to c, which waited for call shop:pay#1 of c to d, which fault 1",
        ),
        (calls("b", 1, 0, begun=1.1, ended=2.4, to="c"), ", which meets no fault"),  # it was over
        (  # it may have been made for another caller
            [waits("d", 1, begun=1.05, to="b"), waits("b", 1, 0, begun=1.1, to="c")],
            ", which meets no fault",
        ),
        ([waits("b", 1, 0, begun=0.9, to="c")], ", which meets no fault"),  # it is older
        ([waits("b", n, 0, begun=1.1, to="c") for n in (1, 2)], ", which meets no fault"),  # nobody knows for which
    ],
)
def test_a_callee_that_waited_when_its_caller_gave_up_leads_to_the_call_for_which_it_waited(
    others: list[Event], met: str
) -> None:
    for seconds in (1.5, 1.4995):  # torch's clock has milliseconds
        line = lines(script(RAISE, *others, *gave_up(seconds)))[0]
        assert f"(met in call shop:pay#1 of a to b{met}" in line


def test_a_call_that_failed_before_its_time_out_did_not_fail_because_its_callee_waited() -> None:
    waiting = waits("b", 1, 0, begun=1.1, to="c")
    assert "of a to b, which meets no fault" in lines(script(RAISE, waiting, *gave_up(seconds=1.4)))[0]


def test_two_roles_that_wait_for_each_other_lead_nowhere() -> None:
    """On two machines, of whose clocks nobody knows which is ahead."""
    boots = [event(role, "start", 0.0, pid=pid, boot=role) for role, pid in (("c", 3), ("d", 4))]
    circle = [waits("b", 1, begun=1.1, to="a"), *gave_up()]
    assert "of a to b, which meets no fault" in lines(script(RAISE, *boots, *circle))[0]


def test_a_future_made_by_then_tells_the_error_after_words_of_its_own() -> None:
    for said, met in (("the callback: RuntimeError: why", True), ("why not", False)):
        [line] = lines(script(f"{RAISE} role=a nth=1", *calls("a", 1, 0, ended=2.0), raised("a", "Lost", text=said)))
        assert ("(met in call shop:pay#1 of a to b, which fault 1 hit: Raise" in line) is met


def test_all_faults_of_a_call_are_named() -> None:
    plan = f"Delay {RAISE.split()[1]} role=a nth=1 side=request seconds=1; {RAISE} role=a nth=1"
    [line] = lines(script(plan, *calls("a", 1, 0, 1, ended=2.0), raised("a", "Lost", cause="KeyError")))
    assert "which fault 1 hit: Delay " in line
    assert ", and fault 2 hit: Raise " in line


def test_a_traceback_that_a_pool_gives_as_a_cause_is_not_shown() -> None:
    assert lines(script("seed=0", raised("a", "Lost", cause="_RemoteTraceback"))) == [
        f"a raised Lost: no, {WHEN} (meets no fault)"
    ]


def test_the_chain_shows_stated_causes_and_else_what_was_being_handled() -> None:
    def shown(*ways: str) -> str:
        links = [{"types": ["Lost"], "text": "0"}]
        links += [{"types": ["Lost"], "text": str(number), "way": way} for number, way in enumerate(ways, 1)]
        own = event("a", "raised", 3.0, error="Lost: 0", links=links)
        return lines(script("seed=0", own))[0].removeprefix(f"a raised Lost: 0, {WHEN} ")

    assert shown("cause", "context") == "<- Lost: 1 (meets no fault)"
    assert shown("context") == "<- Lost: 1 (meets no fault)"
    assert shown("callee") == "(meets no fault)"
    assert shown("member", "member") == "<- Lost: 1 <- Lost: 2 (meets no fault)"
    assert shown(*["member"] * 9).count("<-") == 6


def test_a_role_that_is_gone_is_shown_with_its_moment_and_what_it_had_logged() -> None:
    logged = event("b", "logged", 2.0, text="first"), event("b", "logged", 3.0, text="Exception in thread")
    found = lines(script("seed=0", *logged, cut="b", gone={2: 110.5}))
    moment = "10.5 s after the start, 0.5 s after the command's end"
    assert found == [f"b is gone without a word, {moment}; it had logged: Exception in thread"]
    assert "logged" not in lines(script("seed=0", *logged, raised("b", "Lost", 4.0)))[0]


def test_a_role_that_exited_is_shown_with_the_chain_of_what_it_had_logged() -> None:
    links = raised("b", "Lost", cause="Gone").details["links"]
    told = event("b", "logged", 3.0, text="giving up", links=links), event("b", "exit", 4.0, status=7)
    [line] = lines(script(DROP, *told))
    assert line.startswith("b exited with status 7, 4.0 s after the start, ")
    assert line.endswith("; it had logged: giving up: Lost: no <- Gone: why (meets no fault)")
    [line] = lines(script(DROP, event("b", "logged", 3.0, text="giving up"), event("b", "exit", 4.0, status=7)))
    assert line.endswith("; it had logged: giving up")


def test_each_life_that_did_not_return_is_shown() -> None:
    again = [*started("b", 4.0, 22), raised("b", "Lost", 5.0, process=22)]
    found = lines(script(CRASH, crashed(), *again, cut="b"))
    assert [each.partition(",")[0] for each in found] == [
        "b (life 1) was killed by the plan",
        "b (life 2) raised Lost: no",
    ]


def test_the_command_is_shown_with_its_chain() -> None:
    assert lines(script(DROP, status=1)) == ["the command exited with status 1"]
    passed_on = raised(COMMAND, "Spawned", text="1 terminated")
    after = lines(script(DROP, raised("a", "Lost", 2.0), passed_on, status=1))[-1]
    assert after == "the command exited with status 1, by Spawned: 1 terminated (after a had failed)"
    own = raised(COMMAND, "OSError", cause="Lost")
    assert lines(script(DROP, own, status=1)) == [
        "the command exited with status 1, by OSError: no <- Lost: why (meets no fault)"
    ]


def test_a_role_of_a_world_is_shown_by_the_launcher_s_words() -> None:
    assert lines(world(DROP, raised("a", "Lost"))) == ["a raised Lost: no, 3.0 s after the start (meets no fault)"]
