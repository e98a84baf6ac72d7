"""Waiting for participants: the failures that end it. tests/properties/test_waiting_machine.py has all else."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

from reference.rpc.waiting import Liveness, ParticipantFailed, ParticipantSilent

Future = torch.futures.Future


def futures(*names: str) -> dict[str, Future[Any]]:
    return {name: Future() for name in names}


def test_a_closed_watch_does_not_fail() -> None:
    liveness = Liveness("a", 0.1)
    liveness.close()
    threading.Event().wait(0.2)
    assert liveness.reason is None


def test_gather_tells_of_the_first_failure_and_raises_it() -> None:
    given, liveness = futures("a", "b", "c"), Liveness("abc", 60)
    given["b"].set_exception(ValueError("no more"))
    with pytest.raises(ParticipantFailed, match=r"^b failed: no more$") as caught:
        liveness.gather(given)
    assert liveness.reason == "b failed: no more"
    assert isinstance(caught.value.__cause__, ValueError)


def test_gather_does_not_stay_for_silent_participants() -> None:
    start = time.monotonic()
    with pytest.raises(ParticipantSilent, match=r"^nothing for 0\.1 s from a$"):
        Liveness("a", 0.1).gather(futures("a"), stay=4)
    assert time.monotonic() - start < 2


def test_two_failures_at_once_are_both_named() -> None:
    """The second is told between the moment when `gather` sees the first one's call fail and its own telling."""

    class Late(Liveness):
        def fail(self, reason: str) -> None:
            super().fail("b is gone")
            super().fail(reason)

    given = futures("a", "b")
    given["a"].set_exception(ValueError("no more"))
    with pytest.raises(ParticipantFailed, match=r"^b is gone; a failed: no more$"):
        Late("ab", 60).gather(given)
