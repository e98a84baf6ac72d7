"""The stages of a common shutdown, and the deaths before and during it: `bounded_shutdown` against a model.

Each rank has its own copy of the module, as a process of its own would. The test delivers every message, in any order,
and ends and kills ranks meanwhile; only time passes no faster than the network delivers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reference.outcome import PeerLost
from reference.world import bounded_shutdown
from tests.properties.properties import limit, machine
from tests.support.simulated_rpc import Message, Network
from tests.support.simulated_threads import Simulation, Task

# Seconds of a rank's limit, the last of which are for questions to missing ranks.
LIMIT, RESERVE = 20.0, 5.0
NAMES = ("first", "second", "third", "fourth")
_GONE = re.compile(r"(\w+) (?:is gone|cannot take part)")
_MISSED = re.compile(r"(\w+) (?:has not called it|does not answer)")


class Model:
    """What docs/shutdown.md promises of the way to the last count of open calls.

    Nobody goes on before all have come. If all have come, and nobody is killed, all go on. A rank that was killed ends
    all waits, and so does one rank's limit. Then every rank that waits, comes later or fails by a call that was cut off
    names a rank that was killed, or one that had not come at the end of a limit: never one that has only left after
    that. If the first rank, which tells the others, is stopped, those that have left are named besides.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = set(names)
        self.came: dict[str, float] = {}
        self.killed: set[str] = set()
        self.absent: set[str] = set()  # at the end of somebody's limit
        self.lost_at: float | None = None  # when a rank was lost, or the first that gave up had to end
        self.stopped: set[str] = set()
        self.agreed = False  # all have come, and nobody was lost before

    def come(self, name: str, now: float) -> None:
        self.came[name] = now
        self.agreed = self.came.keys() == self.names and self.lost_at is None

    def kill(self, name: str, now: float) -> None:
        self.killed.add(name)
        if not self.agreed and self.lost_at is None:
            self.lost_at = now

    def pass_until(self, now: float) -> None:
        given_up = [came + LIMIT - RESERVE for came in self.came.values() if came + LIMIT - RESERVE <= now]
        if given_up and not self.agreed:
            self.absent |= self.names - self.came.keys()
            asked = RESERVE * bool(self.stopped)  # for who has not come, before it tells the others
            self.lost_at = min(given_up) + asked if self.lost_at is None else self.lost_at

    def ends_by(self, name: str) -> float:
        """Return when at the latest a rank's wait ends, on a network that delivers at once."""
        came = self.came[name]
        if self.agreed:
            return came
        if self.lost_at is None or NAMES[0] in self.stopped:  # which hears of losses, and tells the others
            return came + LIMIT
        heard = max(came, self.lost_at) + bounded_shutdown.NEWS_SECONDS * bool(self.stopped)  # for their answers
        return min(came + LIMIT, heard)

    def may_be_blamed(self, text: str, ended: set[str]) -> bool:
        gone, missed = set(_GONE.findall(text)), set(_MISSED.findall(text))
        if NAMES[0] in self.stopped:
            gone -= ended - self.killed
        return bool(gone | missed) and gone <= self.killed | self.stopped and missed <= self.absent | self.stopped


class Shutdown(RuleBasedStateMachine):
    @initialize(ranks=st.sampled_from((3, 4, 2)), one_never_comes=st.booleans(), at_once=st.booleans())
    def begin(self, ranks: int, one_never_comes: bool, at_once: bool) -> None:
        """``one_never_comes``: otherwise most examples would end well. ``at_once``: who has failed leaves at once."""
        self.one_never_comes, self.at_once = one_never_comes, at_once
        self.stack, names = ExitStack(), NAMES[:ranks]
        self.model = Model(names)
        self.simulation = Simulation()
        self.network = Network(self.simulation, list(names), bounded_shutdown)
        changed: dict[str, object] = dict.fromkeys(("release_rrefs", "count_together"), nothing)
        changed |= {"rpc": self.network.rpc(), "_get_current_rpc_agent": self.network.agent}
        changed["_is_current_rpc_agent_set"] = lambda: True
        modules = (bounded_shutdown, *self.network.modules.values())
        self.stack.enter_context(self.simulation.of(*modules, **changed))
        self.calling: set[str] = set()
        self.orders: dict[str, list[str]] = {name: [] for name in names}
        self.roles: dict[str, Task] = {}
        for name in names:
            self.roles[name] = self.simulation.run(partial(self.play, name), name)

    def teardown(self) -> None:
        self.stack.close()

    def play(self, name: str) -> None:
        """A rank's whole life: calls, then the shutdown."""
        module, orders = self.network.modules[name], self.orders[name]
        with module.losses_named():
            while True:
                self.simulation.wait(lambda: bool(orders))
                if (order := orders.pop(0)) == "come":
                    break
                self.calling.add(name)
                self.network.rpc().rpc_sync(order, nothing)
                self.calling.remove(name)
        module.end_together(module.TimeLimit(LIMIT, RESERVE))

    def working(self) -> list[str]:
        """The ranks that have not come, and do not wait for an answer."""
        busy = self.model.came.keys() | self.network.ended | self.network.stopped | self.calling
        return [name for name, role in self.roles.items() if name not in busy and not role.done]

    def may_come(self) -> bool:
        return len(self.model.names - self.model.came.keys()) > self.one_never_comes and bool(self.working())

    @precondition(may_come)
    @rule(data=st.data())
    def come(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.working()))
        self.model.come(name, self.simulation.now)
        self.order(name, "come")

    @precondition(may_come)
    @rule()
    def come_all(self) -> None:
        for name in self.working()[self.one_never_comes :]:
            self.model.come(name, self.simulation.now)
            self.order(name, "come")

    @precondition(lambda self: self.working())
    @rule(data=st.data())
    def call(self, data: st.DataObject) -> None:
        """A rank that works calls another one."""
        name = data.draw(st.sampled_from(self.working()))
        self.order(name, data.draw(st.sampled_from([each for each in self.roles if each != name])))

    def order(self, name: str, order: str) -> None:
        self.orders[name].append(order)
        self.simulation.settle()

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        alive = [name for name in self.roles if name not in self.network.ended]
        if len(alive) > 1:
            name = data.draw(st.sampled_from(alive))
            if self.roles[name].error is None:  # otherwise it has only to leave
                self.model.kill(name, self.simulation.now)
            self.network.end(name, killed=True)

    @precondition(lambda self: self.working())
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        """A rank that works is stopped for good: it answers nothing, and its connections stay open."""
        self.deliver_all(newest=False)
        if working := self.working():
            name = data.draw(st.sampled_from(working))
            self.model.stopped.add(name)
            self.network.stopped.add(name)

    def done(self) -> list[str]:
        return [name for name, role in self.roles.items() if role.done and name not in self.network.ended]

    def leave_all(self) -> None:
        for name in self.done():
            self.network.end(name, killed=False)

    @precondition(lambda self: self.done())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A rank whose role has ended ends RPC."""
        self.network.end(data.draw(st.sampled_from(self.done())), killed=False)

    @precondition(lambda self: self.network.arriving())
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        self.let_arrive(data.draw(st.sampled_from(self.network.arriving())))

    def let_arrive(self, message: Message) -> None:
        self.network.deliver(message)
        for name in self.done() if self.at_once else []:
            if self.roles[name].error is not None:
                self.network.end(name, killed=False)

    @rule(seconds=st.sampled_from((0.0, 6.0, 1.0, 15.0)), newest=st.booleans())
    def deliver_all_and_pass_time(self, seconds: float, newest: bool) -> None:
        """Deliver everything, the newest or the oldest first, whenever something has happened."""
        self.deliver_all(newest)
        end = self.simulation.now + seconds
        while self.simulation.now < end:
            self.simulation.pass_time(min(self.simulation.next_due(), end) - self.simulation.now)
            self.model.pass_until(self.simulation.now)
            self.deliver_all(newest)

    def deliver_all(self, newest: bool) -> None:
        while messages := self.network.arriving():
            self.let_arrive(messages[-1 if newest else 0])
        self.assert_nobody_waits_in_vain()

    @precondition(lambda self: self.network.arriving())
    @rule(data=st.data())
    def deliver_all_but_one(self, data: st.DataObject) -> None:
        self.deliver_all_but(data.draw(st.sampled_from(self.network.arriving())))

    def deliver_all_but(self, *late: Message) -> None:
        while messages := [each for each in self.network.arriving() if each not in late]:
            self.let_arrive(messages[0])

    def deliver_between(self, *ways: str) -> None:
        """Deliver what is under way, but not what that leads to. Each of ``ways``: a sender and a receiver."""
        for way in ways:
            for message in self.network.arriving():
                if f"{message.sender} {message.receiver}" == way:
                    self.let_arrive(message)

    def assert_nobody_waits_in_vain(self) -> None:
        waiting = {name for name in self.model.came.keys() - self.network.ended if not self.roles[name].done}
        assert not [name for name in waiting if self.model.ends_by(name) <= self.simulation.now]

    @invariant()
    def every_end_is_the_right_one(self) -> None:
        for name, role in self.roles.items():
            if name in self.model.killed or not role.done:
                continue
            if role.error is None:
                assert self.model.came.keys() == self.model.names, f"{name} did not wait for all"
            else:
                assert isinstance(role.error, PeerLost), role.error
                assert self.model.killed or self.model.absent, f"{name}: {role.error}, and nobody was lost"
                assert self.model.may_be_blamed(str(role.error), self.network.ended), f"{name}: {role.error}"


def nothing(*args: object, **given: object) -> None:
    pass


def test_a_rank_that_was_told_of_a_loss_does_not_blame_the_one_that_told_it() -> None:
    """The machine's first counterexample: the first rank gives up, tells the second, and leaves."""
    world = Shutdown()
    world.begin(ranks=2, one_never_comes=True, at_once=True)
    with world.stack:
        world.order("first", "come")
        world.deliver_all_and_pass_time(LIMIT, newest=False)
        assert world.network.ended == {"first"}
        world.order("second", "first")
        world.deliver_all(newest=False)
        assert str(world.roles["second"].error).startswith("first's shutdown timed out after 20 s: second has not")


def test_a_rank_that_comes_when_another_gives_up_is_not_missing() -> None:
    world = Shutdown()
    world.begin(ranks=2, one_never_comes=False, at_once=False)
    with world.stack:
        world.order("first", "come")
        world.deliver_all(newest=False)
        world.simulation.pass_time(LIMIT - RESERVE - 1)
        world.order("second", "come")
        world.simulation.pass_time(1)
        world.deliver_all(newest=True)  # the question where it is before its own call
        text = "first's shutdown timed out after 20 s: the last process has come too late"
        assert [str(world.roles[name].error) for name in ("first", "second")] == [text] * 2


@pytest.mark.parametrize("killed", [False, True])
def test_if_the_first_rank_is_stopped_one_that_has_left_is_named_besides(killed: bool) -> None:
    """Found by a nightly: the third rank heard of the second's death, and ended before the fourth came."""
    world = Shutdown()
    world.begin(ranks=4, one_never_comes=False, at_once=False)
    with world.stack:
        world.network.end("second", killed=True)
        world.model.kill("second", 0.0)
        world.order("third", "come")
        world.deliver_all(newest=False)
        world.model.stopped.add("first")
        world.network.stopped.add("first")
        world.order("fourth", "come")
        world.network.end("third", killed=killed)
        world.deliver_all_and_pass_time(LIMIT + 1, newest=False)
        named = "first does not answer within 1.0 s; second is gone: EOF: .*; third is gone: EOF: "
        assert re.search(named, str(world.roles["fourth"].error))
        world.every_end_is_the_right_one()


@contextmanager
def limit_is_over(of: str, other: str, apart: float) -> Iterator[Shutdown]:
    """Let two ranks of three come, so many seconds ``apart``, until the limit of the first one is over."""
    world = Shutdown()
    world.begin(ranks=3, one_never_comes=True, at_once=False)
    with world.stack:
        world.order(of, "come")
        world.deliver_all(newest=False)
        world.simulation.pass_time(apart)
        world.order(other, "come")
        world.deliver_all(newest=False)
        world.simulation.pass_time(LIMIT - RESERVE - apart)
        yield world


def test_who_is_given_up_hears_it_when_the_first_rank_knows_it() -> None:
    """Otherwise the first rank sees only that it is gone."""
    with limit_is_over("third", "first", apart=1.0) as world:
        world.deliver_between("third first", "third second", "first third", "second third")  # where all are
        world.deliver_between("third second")
        world.order("second", "come")
        world.leave_all()
        world.deliver_all(newest=False)
        assert str(world.roles["first"].error).startswith("third's shutdown timed out after 20 s: second has not")


def test_a_rank_whose_own_limit_ends_waits_for_the_news_why_another_one_has_left() -> None:
    """The first rank has told the second that it gives it up, and the second has left before the third hears it."""
    with limit_is_over("third", "first", apart=0.5) as world:
        world.deliver_between("third first", "first third")  # the third asks where all are
        world.simulation.pass_time(0.5)
        world.deliver_between("first second", "first third", "second first", "third first")  # and so does the first
        world.deliver_between("first second")
        world.order("second", "come")
        world.leave_all()
        world.deliver_between("second third", "first third")
        world.deliver_all(newest=False)
        assert str(world.roles["third"].error).startswith("first's shutdown timed out after 20 s: second has not")


def test_a_rank_that_comes_when_it_was_given_up_is_named_all_the_same() -> None:
    """The second asks where all are when nobody is missing any more, and the news why the third gave up is late."""
    with limit_is_over("third", "second", apart=0.5) as world:
        world.deliver_between("third first", "third second", "first third", "second third")  # where all are
        world.deliver_between("third first", "first third")
        world.order("first", "come")
        news = [message for message in world.network.arriving() if message.receiver == "second"]
        world.simulation.pass_time(0.5)
        world.deliver_all_but(*news)
        assert str(world.roles["second"].error).startswith("third's shutdown timed out after 20 s: first has not")


def test_a_rank_that_was_told_of_another_one_passes_it_on_before_it_leaves() -> None:
    """The second has told the third that it gives up the first, which hears it from the second too late."""
    with limit_is_over("second", "third", apart=3.0) as world:
        world.deliver_between("second first", "second third", "first second", "third second")  # where all are
        (late,) = world.network.arriving()
        world.simulation.pass_time(1.0)  # the second no longer waits for the first's answer
        world.deliver_between("second third")
        world.simulation.pass_time(2.0)
        world.deliver_all_but(late)
        world.network.end("third", killed=False)
        world.deliver_all_but(late)
        world.order("first", "come")
        world.deliver_all(newest=False)
        assert str(world.roles["first"].error).startswith("second's shutdown timed out after 20 s: first has not")


def test_a_first_rank_that_has_told_who_died_and_left_is_not_taken_for_the_dead() -> None:
    """It leaves before it can answer the question of the second, whose call to the third was cut off."""
    world = Shutdown()
    world.begin(ranks=3, one_never_comes=True, at_once=False)
    with world.stack:
        world.order("second", "third")
        world.network.end("third", killed=True)
        world.deliver_between("third second")
        question = [message for message in world.network.arriving() if message.sender == "second"]
        world.order("first", "come")
        world.deliver_all_but(*question)
        world.network.end("first", killed=False)
        world.deliver_all(newest=False)
        assert str(world.roles["second"].error).startswith("third is gone: ")


pytestmark = pytest.mark.timeout(limit())
TestShutdown = Shutdown.TestCase
TestShutdown.settings = machine(12, times=2)
