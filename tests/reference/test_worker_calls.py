"""Calls of asynchronous workers: each counts once, in the order of arrival; the silent are named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
import torch.distributed.rpc as rpc

from reference.outcome import Raised
from reference.rpc.waiting import ParticipantFailed
from reference.rpc.worker_calls import MissingWorker, WorkerCalls
from reference.training.worker_order import PULL, PUSH
from reference.world import launch
from tests.support import roles_plain


@pytest.fixture
def calls() -> Iterator[WorkerCalls]:
    with closing(WorkerCalls(["worker1", "worker2"], 2, 60)) as made:
        yield made


def test_a_call_that_arrives_twice_is_counted_once(calls: WorkerCalls) -> None:
    events = [(PULL, "worker2", 1), (PULL, "worker2", 1), (PULL, "worker1", 1), (PUSH, "worker2", 1)]
    assert [calls.count(*event) for event in events] == [True, False, True, True]
    assert calls.order == [(PULL, 1), (PULL, 0), (PUSH, 1)]
    assert calls.pushed == {"worker1": 0, "worker2": 1}


def test_an_unknown_worker_is_refused(calls: WorkerCalls) -> None:
    with pytest.raises(ValueError, match=r"^unknown worker 'worker3', wanted one of worker1, worker2$"):
        calls.count(PUSH, "worker3", 1)
    assert calls.order == []


def test_the_wait_ends_with_the_last_push(calls: WorkerCalls) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(calls.wait_for_all)
        for worker in ("worker1", "worker2"):
            assert not waiting.done()
            for number in (1, 2):
                calls.count(PULL, worker, number)
                calls.count(PUSH, worker, number)
        waiting.result(20)


def test_only_the_silent_are_named() -> None:
    calls = WorkerCalls(["worker1", "worker2", "worker3"], 2, 1.0)
    for worker in ("worker1", "worker2"):
        calls.count(PUSH, worker, 1)
    calls.count(PUSH, "worker2", 2)  # has sent everything, so it may be silent
    calling = threading.Timer(0.5, calls.heartbeat, ["worker1"])
    calling.start()
    with pytest.raises(MissingWorker) as caught:
        calls.wait_for_all()
    calling.join()
    assert str(caught.value) == "nothing for 1.0 s from worker3 (sent 0 of 2)"


def test_a_meeting_whose_work_fails_ends_for_all_who_met_or_meet_later(calls: WorkerCalls) -> None:
    met, last = calls.meet("worker1", 1)
    calls.fail("OSError: the disk is full")
    with pytest.raises(ParticipantFailed, match=r"^OSError: the disk is full$"):
        calls.wait_for_all()
    with pytest.raises(RuntimeError, match="ParticipantFailed: OSError: the disk is full"):
        met.wait()
    with pytest.raises(ParticipantFailed, match=r"^OSError: the disk is full$"):
        calls.meet("worker2", 1)
    assert not last


_CALLS: list[WorkerCalls] = []


@rpc.functions.async_execution  # type: ignore[untyped-decorator]
def meet_here(worker: str) -> Any:
    """Runs on the server."""
    return _CALLS[0].meet(worker, 1)[0]


def serve_a_failure() -> None:
    """Runs on the server: it fails when the first of two workers has met."""
    with closing(WorkerCalls(["worker1", "worker2"], 1, 20.0)) as calls:
        _CALLS[:] = [calls]
        met = rpc.rpc_async("worker1", rpc.rpc_sync, args=("ps", meet_here, ("worker1",)))
        roles_plain.await_true(lambda: "worker1" not in calls.expected(), 20)
        calls.fail("OSError: the disk is full")
        met.wait()


def test_who_waits_in_a_meeting_over_rpc_has_the_failure_as_an_error() -> None:
    with launch({"ps": serve_a_failure, "worker1": roles_plain.nothing}) as world:
        ps = world.wait()["ps"]
    assert isinstance(ps, Raised)
    assert "ParticipantFailed: OSError: the disk is full" in ps.message


def test_who_comes_twice_to_a_meeting_counts_once(calls: WorkerCalls) -> None:
    """A call that is executed again, before the others have come, and after all have left."""
    first, _ = calls.meet("worker1", 1)
    again, last = calls.meet("worker1", 1)
    assert again is first
    assert not last
    assert calls.meet("worker2", 1)[1]
    calls.part(1)
    assert first.done()
    late, last = calls.meet("worker2", 1)
    assert late.done()
    assert not last
    assert not calls.meet("worker1", 2)[1]


def test_a_meeting_after_the_last_push_hears_of_a_failure(calls: WorkerCalls) -> None:
    calls.close()
    met, _ = calls.meet("worker1", 1)
    calls.fail("OSError: the disk is full")
    assert met.done()
    with pytest.raises(RuntimeError, match="ParticipantFailed: OSError: the disk is full"):
        met.wait()
