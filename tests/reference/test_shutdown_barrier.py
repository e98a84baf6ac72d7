"""The wait for all ranks before the common shutdown, and the death of a rank during it."""

from __future__ import annotations

import os
import re
import signal
import threading
from dataclasses import dataclass

import pytest
import torch.distributed.rpc as rpc

from reference.outcome import Killed, Outcome, PeerLost, Raised, Returned
from reference.system.interrupts import TimeLimit
from reference.world import World, launch, shutdown_barrier

NAMES = ("first", "second", "third")


@dataclass(frozen=True)
class Play:
    """A rank's whole role: nothing at all, or its own end, or an error."""

    name: str
    act: str = "nothing"
    deadline: float = 20

    def __call__(self) -> str:
        with shutdown_barrier.losses_named():
            if self.act == "die":
                os.kill(os.getpid(), signal.SIGKILL)
                threading.Event().wait()
            elif self.act == "fail":
                raise ValueError("on purpose")
            elif self.act.startswith("call "):
                rpc.rpc_sync(self.act.removeprefix("call "), wait_long)
        shutdown_barrier.wait_for_all_ranks(TimeLimit(self.deadline, self.deadline / 4))
        return f"{self.name} is done"


def wait_long() -> None:
    threading.Event().wait(20)


def outcomes(world: World, deadline: float = 20, **acts: str) -> dict[str, Outcome]:
    return world.run({name: Play(name, acts.get(name, "nothing"), deadline) for name in NAMES}, deadline=15)


def test_all_ranks_finish_together() -> None:
    with launch(NAMES) as world:
        assert outcomes(world) == {name: Returned(f"{name} is done") for name in NAMES}


@pytest.mark.parametrize(("caller", "lost"), [("first", "third"), ("second", "third"), ("second", "first")])
def test_a_call_that_a_death_cut_off_says_who_died(caller: str, lost: str) -> None:
    """The call's own error is the transport's, and names nobody."""
    with launch(NAMES) as world:
        ends = outcomes(world, **{caller: f"call {lost}", lost: "die"})
    assert isinstance(ends.pop(lost), Killed)
    for end in ends.values():
        assert isinstance(end, Raised)
        assert end.type.endswith(PeerLost.__name__)
        assert re.match(rf"{lost} is gone\b", end.message), end.message


@pytest.mark.parametrize("lost", NAMES)
def test_a_death_ends_everybodys_wait(lost: str) -> None:
    """All waits end at once, with the name of the dead rank."""
    with launch(NAMES) as world:
        ends = outcomes(world, **{lost: "die"})
    assert isinstance(ends.pop(lost), Killed)
    for end in ends.values():
        assert isinstance(end, Raised)
        assert end.type.endswith(PeerLost.__name__)
        assert re.match(rf"{lost} is gone\b", end.message), end.message


def test_a_rank_that_has_not_finished_is_waited_for_until_the_deadline() -> None:
    """That rank lives on after its error, so only the deadline ends the wait."""
    with launch(NAMES) as world:
        ends = outcomes(world, deadline=1, third="fail")
    assert [end.type for end in ends.values() if isinstance(end, Raised)] == [
        *[f"{PeerLost.__module__}.{PeerLost.__name__}"] * 2,
        "ValueError",
    ]


class Ended(shutdown_barrier.ShutdownBarrier):
    """A barrier that waits for its third rank."""

    def __init__(self) -> None:
        super().__init__(NAMES)
        for name in NAMES[:2]:
            self.finished(name)


def test_a_loss_after_the_last_rank_has_finished_does_not_count() -> None:
    done = Ended()
    done.finished("third")
    done.lose("third is gone: eof")
    assert done.ended.wait() is None
