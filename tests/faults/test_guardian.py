"""The guardian alone: the process that it stops always goes on, whichever process ends first."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from faults.inject.process import guardian


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that lives as long as the test."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            yield process
        finally:
            process.kill()


class Watched:
    """A guardian of ``target``, fired by ``firing``."""

    def __init__(self, target: int, firing: int, ledger: Path, seconds: float) -> None:
        opened = os.open(ledger, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        handles = {"target": os.pidfd_open(target), "firing": os.pidfd_open(firing), "ledger": opened}
        told = json.dumps({**handles, "pid": target, "seconds": seconds, "details": {"fault": 3}})
        self.ledger = ledger
        # As with a Python that was built for an old system, such as conda's.
        program = f"import runpy, signal as s; del s.pidfd_send_signal; runpy.run_path({guardian.__file__!r}, {{}}, "
        command = [sys.executable, "-I", "-S", "-c", f"{program}'__main__')", told]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, bufsize=0, stdin=pipe, stdout=pipe, pass_fds=[*handles.values()], start_new_session=True
        )
        for handle in handles.values():
            os.close(handle)

    def said(self) -> str:
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], 20)[0]
        return self.process.stdout.readline().decode().strip()

    def order(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"!")

    def events(self) -> list[dict[str, Any]]:
        """Wait for its end, and return what it has written."""
        assert self.said() == ""  # the end of its output
        assert self.process.wait(10) == 0
        return [json.loads(line) for line in self.ledger.read_text().splitlines() if line]

    def leave(self) -> None:
        """End its orders."""
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def watching(target: int, firing: int, folder: Path, seconds: float, role: str = "a") -> Iterator[Watched]:
    watched = Watched(target, firing, folder / f"{role}.jsonl", seconds)
    with watched.process:
        try:
            assert watched.said() == "ready"
            yield watched
        finally:
            watched.process.kill()


def stop(watched: Watched, pid: int) -> None:
    assert not guardian.is_stopped(pid)
    watched.order()
    assert watched.said() == "stopped"
    assert guardian.is_stopped(pid)


def test_the_guardian_continues_the_process_when_the_firing_one_ends(tmp_path: Path) -> None:
    with sleeper() as target, sleeper() as firing, watching(target.pid, firing.pid, tmp_path, 600) as watched:
        stop(watched, target.pid)
        firing.kill()
        assert watched.events()[-1]["why"] == "left"
        assert not guardian.is_stopped(target.pid)


def test_the_guardian_ends_with_the_stopped_process(tmp_path: Path) -> None:
    with sleeper() as target, watching(target.pid, os.getpid(), tmp_path, 600) as watched:
        stop(watched, target.pid)
        target.kill()
        assert watched.events()[-1]["event"] == "died"
    assert guardian.is_stopped(target.pid) is False  # there is no such process any more


def test_the_guardian_reports_that_another_continued_the_process(tmp_path: Path) -> None:
    with sleeper() as target, watching(target.pid, os.getpid(), tmp_path, 0.3) as watched:
        stop(watched, target.pid)
        os.kill(target.pid, signal.SIGCONT)
        assert watched.events()[-1]["why"] == "another continued it"


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_pauses_at_once_the_last_one_continues_the_process(first: int, tmp_path: Path) -> None:
    with (
        sleeper() as target,
        watching(target.pid, os.getpid(), tmp_path, 600) as one,
        watching(target.pid, os.getpid(), tmp_path, 600, "b") as other,
    ):
        stop(one, target.pid)
        other.order()
        assert other.said() == "stopped"
        order = (one, other) if first == 0 else (other, one)
        for watched, why in zip(order, ("another pauses it", "left"), strict=True):
            assert guardian.is_stopped(target.pid)
            watched.leave()
            told = [(each["event"], each.get("why")) for each in watched.events()]
            assert told == [("effective", None), ("resumed", why)]
        assert not guardian.is_stopped(target.pid)


@pytest.mark.parametrize("who", ["orders", "firing", "target"])
def test_the_guardian_ends_if_it_is_cancelled_before_its_order(tmp_path: Path, who: str) -> None:
    with sleeper() as target, sleeper() as firing, watching(target.pid, firing.pid, tmp_path, 600) as watched:
        {"orders": watched.leave, "firing": firing.kill, "target": target.kill}[who]()
        assert watched.events() == []
        assert target.poll() is None or who == "target"
        assert not guardian.is_stopped(target.pid)
