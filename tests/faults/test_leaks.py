"""`faults.leaks` in programs without a plan: who holds what, and what is a leak."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch.distributed.autograd as dist_autograd
from torch._C._distributed_rpc import PyRRef
from torch.distributed.rpc import api
from torch.distributed.rpc.internal import _InternalRPCPickler

from faults import leaks
from faults.ledger.snapshot import GLOBAL
from faults.plan.places import INTERNAL, name_of
from faults.tracing.tracer import Tracer, snapshot_here
from reference.world import World, launch
from tests.support import roles_leaks as roles
from tests.support.idle import kill

pytestmark = pytest.mark.world("ps", "trainer1", "trainer2", before=roles.trace)

# How the line of a leak ends that only values hold.
LOST = ", and no variable of any role leads there"


@pytest.fixture(autouse=True)
def _released(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "world" in request.fixturenames:
        launched = request.getfixturevalue("world")
        for role in launched.pids:
            launched.call(role, roles.release)


def test_a_program_that_holds_nothing_has_no_report(world: World) -> None:
    found = world.call("trainer1", roles.report)
    assert found == leaks.Report()
    assert bool(found) is False
    assert str(found) == "no RRef is held, and no autograd context is open"


def test_the_calls_of_a_report_are_not_the_programs() -> None:
    assert name_of(snapshot_here).startswith(INTERNAL)


def test_an_rref_in_use_is_held_and_no_leak(world: World) -> None:
    found = world.call("trainer1", roles.report_beside_a_variable, "ps")
    assert found.leaks == ()
    (held,) = found.held
    where = f"fork held by trainer1 since {roles.line('in use')} in report_beside_a_variable, where trainer1 made it"
    assert where in held
    assert held.endswith("; the variable rref of the running function report_beside_a_variable holds it")
    assert not world.call("trainer1", roles.report)


def test_forks_are_named_with_their_holders_and_the_line_where_they_were_made(world: World) -> None:
    world.call("trainer1", roles.keep, "ps", "trainer2")
    found = world.call("trainer2", roles.report)
    made, shown = f"{roles.line('kept')} in keep", f"{roles.line('shown')} in show (an argument)"
    own, other = found.held
    assert f"of ps: fork held by trainer1 since {made}, where trainer1 made it; the global kept of" in own
    assert f"of ps: fork held by trainer2 since {shown}, made by trainer1 at {made}; the global shown of" in other
    assert found.leaks == ()


@pytest.mark.parametrize("hand_over", [roles.hand_over, roles.hand_over_with_an_object])
def test_a_function_among_the_arguments_has_got_the_rref_only_if_it_is_a_method_of_an_own_object(
    world: World, hand_over: Callable[[str, str], None]
) -> None:
    """An RRef with the line of a function that never got it would be idle as soon as any other came with it."""
    world.call("trainer1", hand_over, "ps", "trainer2")
    (shown,) = [each for each in world.call("trainer1", roles.report).held if "of ps: fork held by trainer2" in each]
    link = f"tests/support/roles_leaks.py:{roles.Node.link.__code__.co_firstlineno} in Node.link"
    own = f"{roles.line('shown with a function')} in show_with"
    assert f" since {own if hand_over is roles.hand_over else link} (an argument), made by trainer1 at " in shown


def test_rrefs_in_a_global_list_are_no_leak_in_the_middle_of_a_run(world: World) -> None:
    world.call("trainer1", roles.keep_three, "ps")
    found = world.call("trainer1", roles.report)
    assert found.leaks == ()
    idle, last = found.held
    assert re.match(r"2 RRefs \(\d+, \d+\) of ps: forks held by trainer1 since ", idle)
    assert re.match(r"RRef \d+ of ps: fork held by trainer1 since ", last)


@pytest.mark.parametrize(
    ("work", "how"),
    [
        ("keep_the_answer", "answered"),
        ("keep_a_part_of_the_answer", "answered in part"),
        ("keep_an_answer_with_others", "fetched"),
    ],
)
def test_an_rref_in_an_answer_is_named_by_the_line_that_asked(world: World, work: str, how: str) -> None:
    world.call("trainer1", getattr(roles, work), "ps")
    (held,) = world.call("ps", roles.report).held
    assert f"of ps: fork held by trainer1 since {roles.line(how)} in {work} (" in held
    assert f"made by ps at {roles.line('handed out')} in hand_out; the global kept of" in held


def test_an_answer_may_be_a_partial_with_an_rref(world: World) -> None:
    """torch makes it in a thread of RPC, or in the caller's if it has arrived before the caller waits."""
    world.call("trainer1", roles.call_the_answer, "ps")
    (held,) = world.call("ps", roles.report).held
    made = f"made by ps at {roles.line('handed out in a partial')} in hand_out_in_a_partial; the global shown of "
    begin, seen = "of ps: fork held by trainer1 since ", f"{roles.line('called at once')} in call_the_answer"
    places = ("a line that was not seen (in an answer)", f"{seen} (where it fetched it)")
    assert any(f"{begin}{place}, {made}" in held for place in places)


def test_values_that_hold_each_other_are_a_leak_once_no_variable_leads_there(world: World) -> None:
    tied = world.call("trainer1", roles.tie, "ps", "trainer2")
    assert tied.leaks == ()
    found = world.call("trainer1", roles.report)
    assert found.settled
    by_ps, by_trainer2 = sorted(found.leaks, key=lambda each: "held by trainer2" in each)
    place = f"tests/support/roles_leaks.py:{roles.Node.link.__code__.co_firstlineno}"
    assert f"of trainer2: fork held by ps since {place} in Node.link (an argument), made by trainer1 at" in by_ps
    assert f"made by trainer1 at {roles.line('second')} in tie; the value (Node) of RRef" in by_ps
    assert f"made by trainer1 at {roles.line('first')} in tie; the value (Node) of RRef" in by_trainer2
    assert by_ps.endswith(f" of ps holds it{LOST}")


def test_a_value_to_which_a_variable_of_another_role_leads_may_hold_rrefs(world: World) -> None:
    found = world.call("trainer1", roles.hold_by_a_value, "ps", "trainer2")
    (by_value,) = [each for each in found.held if "the value (Node) of RRef" in each]
    assert f"made by trainer1 at {roles.line('linked')} in hold_by_a_value; the value" in by_value
    assert found.leaks == ()


def test_a_value_that_holds_its_own_rref_is_a_leak_once_nothing_else_refers_to_it(world: World) -> None:
    world.call("ps", roles.drop_an_agent)
    (leak,) = world.call("trainer1", roles.report).leaks
    assert leak.endswith("; the value (Agent) of " + leak.partition(":")[0] + " holds it" + LOST)


def test_nothing_is_lost_while_rrefs_come_and_go(world: World) -> None:
    world.call("ps", roles.drop_an_agent)
    world.call("ps", roles.make_rrefs_at_collections)
    found = world.call("trainer1", roles.report)
    assert found.leaks == ()
    assert "  RRefs came or went meanwhile: no RRef can be called lost" in str(found).splitlines()


def test_rrefs_that_a_method_gets_by_a_proxy_pile_up(world: World) -> None:
    world.call("trainer1", roles.show_by_a_proxy, "ps", "trainer2")
    kept = [each for each in world.call("trainer2", snapshot_here).held if each.owner == "ps"]
    assert sorted((len(each.rrefs), each.idle) for each in kept) == [(1, False), (1, True)]


@pytest.mark.parametrize(
    ("work", "holder"),
    [
        (roles.keep_an_answer_with_two, "trainer1"),
        (roles.fetch_two, "trainer1"),
        (roles.keep_two_arguments, "trainer2"),
        (roles.make_by_one_helper, "trainer1"),
    ],
)
def test_rrefs_that_come_together_or_from_several_places_do_not_replace_each_other(
    world: World, work: Callable[[str, str], None], holder: str
) -> None:
    world.call("trainer1", work, "ps", "trainer2")
    kept = [each for each in world.call(holder, snapshot_here).held if each.owner == "ps" and each.root == GLOBAL]
    assert sum(len(each.rrefs) for each in kept) == 2
    assert not any(each.idle for each in kept)


def held(world: World) -> int:
    """Return how many RRefs a settled world without leaks holds."""
    found = world.call("trainer1", roles.report)
    assert found.leaks == ()
    assert found.settled is True
    return len(found.held)


@pytest.mark.parametrize("what", ["value", "between", "RRef"])
def test_an_rref_to_which_something_unseen_leads_is_no_leak(world: World, what: str) -> None:
    world.call("ps", roles.keep_an_agent_until_exit, what)
    assert held(world) == 1
    world.call("ps", roles.release)
    assert not world.call("trainer1", roles.report)


def test_a_value_of_which_torch_keeps_a_copy_is_not_held_by_its_rref(world: World) -> None:
    world.call("ps", roles.keep_a_copied_value_until_exit)
    assert held(world) == 2


def test_a_value_of_two_rrefs_is_in_use_if_a_variable_leads_to_one(world: World) -> None:
    world.call("ps", roles.keep_the_second_rref_of_a_value, "trainer1")
    assert held(world) == 3


def test_an_autograd_context_is_a_leak_when_nothing_can_leave_it(world: World) -> None:
    found = world.call("trainer1", roles.enter)
    (entered,) = found.held
    assert entered.endswith(f" of trainer1: entered at {roles.line('entered')} in enter, not left")
    assert found.leaks == ()
    number = world.call("trainer1", roles.enter_for_good)
    (lost,) = world.call("ps", roles.report).leaks
    place = f"entered at {roles.line('abandoned')} in enter_for_good"
    assert lost.startswith(f"autograd context {number % 2**48} of trainer1: {place}, not left, and nothing is")
    world.call("trainer1", roles.leave, number)
    assert not world.call("ps", roles.report)


def test_what_a_silent_role_may_hold_is_told_as_last_seen_and_nothing_is_lost() -> None:
    with launch(["trainer1", "untraced2", "untraced1"], deadline=100, before=roles.trace) as world:
        world.call("trainer1", roles.keep, "untraced2", "untraced1")
        world.call("trainer1", roles.release)
        found = world.call("trainer1", roles.report)
        assert found.held == found.leaks == ()
        why = "it does not trace: wanted leaks.trace() there, too, before rpc.init_rpc"
        assert [*found.silent.items()] == [("untraced1", why), ("untraced2", why)]
        (seen,) = found.last_seen
        place = f"made by trainer1 at {roles.line('kept')} in keep: last seen when trainer1 sent it to untraced1 at "
        assert seen.endswith(f"{place}{roles.line('passed on')} in keep")
        assert bool(found)
        world.call("untraced1", roles.release)


def test_a_role_that_is_gone_is_silent_with_the_error_of_its_call() -> None:
    with launch(["ps", "trainer1"], deadline=100, before=roles.trace) as world:
        assert not world.call("trainer1", roles.report)
        kill(world, "ps")
        found = world.call("trainer1", roles.report)
    assert found.silent["ps"].startswith("RuntimeError: ")


def test_a_process_that_does_not_trace_or_has_no_rpc_is_told_so() -> None:
    with pytest.raises(leaks.TraceError, match=r"^this process does not trace RRefs: wanted leaks\.trace\(\) before"):
        leaks.report()
    leaks.trace()
    try:
        with pytest.raises(leaks.TraceError, match=r"^RPC is not up in this process: wanted leaks\.report"):
            leaks.report()
    finally:
        leaks.untrace()


@pytest.mark.parametrize("timeout", [0, -1.0, float("inf")])
def test_a_timeout_that_torch_would_take_as_no_limit_is_refused(timeout: float) -> None:
    with pytest.raises(ValueError, match=rf"^a timeout is a positive number of seconds, got {timeout!r}$"):
        leaks.report(timeout)


def test_a_torch_whose_rrefs_tell_no_id_is_refused() -> None:
    """Otherwise it would seem that nothing is held."""
    tracer = Tracer()
    assert tracer.rrefs.get("RRef 7", "made", ()) is None
    with pytest.raises(leaks.TraceError, match=r"^RRefs cannot be traced: this torch tells no id in 'RRef 7'$"):
        tracer.snapshot()


def test_untrace_puts_every_function_of_torch_back() -> None:
    places = PyRRef, api, dist_autograd, dist_autograd.context, _InternalRPCPickler
    before = [dict(vars(place)) for place in places]
    leaks.trace()
    leaks.trace()
    assert all(vars(place) != old for place, old in zip(places, before, strict=True))
    leaks.untrace()
    assert [dict(vars(place)) for place in places] == before


def test_untrace_leaves_what_another_has_replaced_since(monkeypatch: pytest.MonkeyPatch) -> None:
    name, functions = "_invoke_rpc_python_udf", vars(api)
    original = functions[name]
    leaks.trace()
    plan = partial(functions[name])
    monkeypatch.setattr(api, name, plan)
    leaks.untrace()
    assert functions[name] is plan
    monkeypatch.undo()
    functions[name] = original
