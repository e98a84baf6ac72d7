"""Long waits: they end with what is waited for, with a time limit, and soon after a signal."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager

import pytest

from reference.system import processes
from reference.system.processes import result_of, wait_until
from reference.world.bounded_shutdown import WorkThread
from reference.world.supervisor import Supervisor


@pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-3])
def test_a_wait_ends_with_its_time_limit(seconds: float) -> None:
    """It asks at least once, and never waits longer than it may."""
    asked: list[float] = []
    begun = time.monotonic()
    assert not wait_until(asked.append, seconds)
    assert time.monotonic() >= begun + seconds
    assert asked
    assert all(0 <= each <= max(0.0, seconds) for each in asked)
    assert wait_until(lambda step: True, seconds)


def test_nobody_waits_for_a_future_that_was_cancelled() -> None:
    future = Future[None]()
    future.cancel()
    with pytest.raises(CancelledError):
        result_of(future)


@contextmanager
def interrupt(begun: threading.Event, release: Callable[[], object]) -> Iterator[None]:
    """Take Ctrl-C in another thread when a wait has begun. A wait that goes on all the same is ended after 5 s."""
    ended, late = threading.Event(), list[str]()

    def take() -> None:
        begun.wait(2)
        signal.raise_signal(signal.SIGINT)
        if not ended.wait(5):
            late.append("the wait went on")
            release()

    thread = threading.Thread(target=take)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        ended.set()
        thread.join(20)
    assert not late


def test_a_wait_for_a_future_ends_with_a_signal_that_another_thread_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    future, begun = Future[None](), threading.Event()

    def told(futures: list[Future[None]], timeout: float) -> object:
        begun.set()
        return wait(futures, timeout)

    monkeypatch.setattr(processes, "wait", told)
    with interrupt(begun, lambda: future.set_result(None)):
        result_of(future)


def test_a_wait_for_a_world_ends_with_a_signal_that_another_thread_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor, begun = Supervisor({}, None, 1.0), threading.Event()

    def told(is_done: Callable[[float], bool]) -> object:
        begun.set()
        return wait_until(is_done)

    monkeypatch.setattr("reference.world.supervisor.wait_until", told)
    with interrupt(begun, supervisor.start):
        supervisor.wait()


def test_work_goes_on_after_a_wait_for_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, release = threading.Event(), threading.Event()

    def told(is_done: Callable[[float], object], seconds: float) -> bool:
        begun.set()
        return wait_until(is_done, seconds)

    thread = WorkThread(lambda: release.wait(20))
    try:
        with monkeypatch.context() as patched:
            patched.setattr("reference.world.bounded_shutdown.wait_until", told)
            with interrupt(begun, release.set):
                thread.ends_within(20)
        assert not thread.ends_within(0)
    finally:
        release.set()
    assert thread.ends_within(20)


def test_a_process_that_has_ended_and_waits_to_be_reaped_is_ending() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert not processes.is_ending(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert processes.is_ending(process.pid)
    assert processes.is_ending(process.pid)
