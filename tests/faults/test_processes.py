"""Crash and Pause at announced moments: fired once, seen, and always continued."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from faults.inject.announcer import Announcer
from faults.inject.process import guardian
from faults.inject.process.processes import Pause, prepare
from faults.ledger import Event, Ledger, ledger
from faults.plan import Plan
from faults.run.leftovers import is_running
from faults.testing.active_plan import call_both
from reference.outcome import Killed
from reference.world import World, launch
from tests.support import roles_processes as plays
from tests.support.processes import left_after


@contextmanager
def world(folder: Path, text: str) -> Iterator[World]:
    with launch(["a", "b"], before=plays.planned(folder, text), deadline=60) as started:
        yield started


def story(folder: Path) -> list[tuple[str, str]]:
    """The events of faults."""
    return [(each.role, each.event) for each in ledger.read(folder).events if "fault" in each.details]


def only(folder: Path, event: str) -> Event:
    (found,) = ledger.read(folder).of(event)
    return found


def guardian_of(folder: Path) -> int:
    return int(only(folder, "fired").details["guardian"])


def test_a_crash_kills_another_role_at_a_step(tmp_path: Path) -> None:
    text = "Crash role=b at=step:2@a"
    with world(tmp_path, text) as started:
        started.call("a", plays.step, 1)
        assert story(tmp_path) == [("a", "planned")]
        assert started.call("a", plays.call, "b")[0] == "b"
        started.call("a", plays.step, 2)
        assert not is_running(started.pids["b"])  # before `a` goes on
        started.call("a", plays.step, 2)
        pid = started.pids["b"]
        assert started.wait()["b"] == Killed(signal.SIGKILL)
    assert story(tmp_path) == [("a", "planned"), ("a", "fired"), ("a", "effective")]
    fired, effective = only(tmp_path, "fired").details, only(tmp_path, "effective").details
    assert fired == {"fault": 0, "kind": "Crash", "role": "b", "at": "step:2@a", "pid": pid}
    assert 0 < effective["seconds"] < 5


def test_a_pause_stops_another_role_for_its_seconds(tmp_path: Path) -> None:
    with world(tmp_path, "Pause role=b at=step:1@a seconds=0.7") as started:
        healthy = started.call("a", plays.call, "b")
        started.call("a", plays.step)
        assert guardian.is_stopped(started.pids["b"])  # before `a` goes on
        assert os.getsid(guardian_of(tmp_path)) == guardian_of(tmp_path)  # a signal to `a`'s group does not end it
        paused = started.call("a", plays.call, "b")
        assert left_after({guardian_of(tmp_path)}, 10) == set()
        assert not guardian.is_stopped(started.pids["b"])
        healed = started.call("a", plays.call, "b")
        started.wait()
    assert [who for who, _ in (healthy, paused, healed)] == ["b", "b", "b"]
    assert healthy[1] < 0.35 < paused[1]
    assert healed[1] < 0.35
    assert story(tmp_path) == [("a", "planned"), ("a", "fired"), ("a", "effective"), ("a", "resumed")]
    resumed = only(tmp_path, "resumed").details
    assert resumed["fault"] == 0
    assert resumed["why"] == "time"
    assert 0.7 <= resumed["seconds"] < 5


@pytest.mark.parametrize("fault", ["Crash role=b at=step:1@a", "Pause role=b at=step:1@a seconds=0.1"])
def test_a_role_that_has_many_files_open_fires(tmp_path: Path, fault: str) -> None:
    """Among 110 others a role has a thousand, and `select` takes no descriptor from 1,024 on."""
    before = partial(call_both, plays.a_opens_many_files, plays.planned(tmp_path, fault))
    with launch(["a", "b"], before=before, deadline=60) as started:
        started.call("a", plays.step)
    assert ("a", "effective") in story(tmp_path)


def test_a_role_can_pause_itself(tmp_path: Path) -> None:
    with world(tmp_path, "Pause role=a at=step:1@a seconds=0.4") as started:
        assert started.call("a", plays.timed_step, 1) >= 0.4
        assert started.call("a", plays.timed_step, 1) < 0.4  # once
        assert left_after({guardian_of(tmp_path)}, 10) == set()
    assert story(tmp_path) == [("a", "planned"), ("a", "fired"), ("a", "effective"), ("a", "resumed")]


def test_leaving_continues_at_once_and_fires_no_more(tmp_path: Path) -> None:
    with world(tmp_path, "Pause role=b at=step:1@a seconds=600; Crash role=b at=step:2@a") as started:
        started.call("a", plays.step, 1)
        assert guardian.is_stopped(started.pids["b"])
        assert started.call("a", plays.undo) < 5
        assert not guardian.is_stopped(started.pids["b"])
        assert not is_running(guardian_of(tmp_path))
        started.call("a", plays.step, 2)
        assert started.call("a", plays.call, "b")[0] == "b"
    assert only(tmp_path, "resumed").details["why"] == "left"
    assert [event for _, event in story(tmp_path)].count("fired") == 1


def test_leaving_ends_a_pause_that_is_over_without_continuing_another(tmp_path: Path) -> None:
    with world(tmp_path, "Pause role=b at=step:1@a seconds=0.1; Pause role=b at=step:2@a seconds=600") as started:
        started.call("a", plays.step, 1)
        assert left_after({guardian_of(tmp_path)}, 10) == set()
        started.call("a", plays.step, 2)
        started.call("a", plays.undo)
    assert [each.details["why"] for each in ledger.read(tmp_path).of("resumed")] == ["time", "left"]


def test_leaving_continues_a_role_even_if_the_guardian_was_killed(tmp_path: Path) -> None:
    with world(tmp_path, "Pause role=b at=step:1@a seconds=600") as started:
        started.call("a", plays.step, 1)
        os.kill(guardian_of(tmp_path), signal.SIGKILL)
        assert left_after({guardian_of(tmp_path)}, 10) == set()
        assert guardian.is_stopped(started.pids["b"])
        started.call("a", plays.undo)
        assert not guardian.is_stopped(started.pids["b"])


def start(folder: Path, **changes: object) -> None:
    """Write a start as if ``b`` had opened its ledger."""
    Ledger(folder, "b").close()
    line = {**json.loads((folder / "b.jsonl").read_text()), **changes}
    (folder / "b.jsonl").write_text(json.dumps(line) + "\n")


class TestCannotFire:
    """The result is an event that says so, without a signal, an error of the program, or a wait."""

    def fire(self, folder: Path, text: str = "Crash role=b at=up@a") -> str:
        announcer, own = Announcer("a"), Ledger(folder, "a")
        undo = prepare(Plan.parse(text), "a", folder, own, announcer)
        try:
            begin = time.monotonic()
            announcer.announce("up")
            assert time.monotonic() - begin < 5
        finally:
            undo()
            own.close()
        assert [event for _, event in story(folder)] == ["planned", "failed"]
        return str(only(folder, "failed").details["why"])

    def test_a_role_without_a_ledger_cannot_be_hit(self, tmp_path: Path) -> None:
        wanted = "b has no process here: it has no ledger that says how it started"
        assert self.fire(tmp_path) == wanted

    def test_a_role_with_a_torn_ledger_cannot_be_hit(self, tmp_path: Path) -> None:
        (tmp_path / "b.jsonl").write_text('{"event": "sta')
        assert self.fire(tmp_path, "Pause role=b at=up@a seconds=1").endswith("no ledger that says how it started")

    def test_a_role_on_another_machine_cannot_be_hit(self, tmp_path: Path) -> None:
        start(tmp_path, boot="another")
        assert self.fire(tmp_path) == "b runs on another machine"

    @pytest.mark.parametrize("reaped", [True, False])
    def test_a_process_that_has_ended_cannot_be_hit(self, tmp_path: Path, reaped: bool) -> None:
        with subprocess.Popen(["true"]) as ended:
            handle = os.pidfd_open(ended.pid)
            select.select([handle], [], [], 10)
            os.close(handle)
            if reaped:
                ended.wait(10)
            start(tmp_path, pid=ended.pid)
            assert self.fire(tmp_path) == f"b, process {ended.pid}, has ended already"

    def test_a_guardian_that_ends_at_once_cannot_pause(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        start(tmp_path)
        monkeypatch.setattr(sys, "executable", "true")
        assert self.fire(tmp_path, "Pause role=b at=up@a seconds=1").startswith("the guardian did not say 'ready' ")

    def test_a_process_that_reuses_an_id_is_not_hit(self, tmp_path: Path) -> None:
        """The process started after the ledger did."""
        with subprocess.Popen(["sleep", "1000"]) as innocent:
            try:
                start(tmp_path, pid=innocent.pid, time=time.monotonic() - 3600)
                assert self.fire(tmp_path) == f"b, process {innocent.pid}, has ended already"
                assert innocent.poll() is None
            finally:
                innocent.kill()


@pytest.mark.parametrize(
    ("own", "starts", "hit"),
    [(None, [None, None], 1), ("x:1", ["x:1", "x:2"], 0), ("x:2", ["x:1", "x:2"], 1)],
    ids=["restarted", "first", "second"],
)
def test_a_role_hits_the_role_of_its_own_world(
    own: str | None, starts: list[str | None], hit: int, tmp_path: Path
) -> None:
    """It hits the last process of that role. It does not matter which world started last."""
    Ledger(tmp_path, "b").close()
    plain = json.loads((tmp_path / "b.jsonl").read_text())
    with subprocess.Popen(["sleep", "1000"]) as first, subprocess.Popen(["sleep", "1000"]) as second:
        both = [first, second]
        try:
            lines = [
                {**plain, "pid": each.pid, "time": time.monotonic(), "world": world}
                for each, world in zip(both, starts, strict=True)
            ]
            (tmp_path / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
            announcer, ledger_of_a = Announcer("a"), Ledger(tmp_path, "a", own)
            undo = prepare(Plan.parse("Crash role=b at=up@a"), "a", tmp_path, ledger_of_a, announcer)
            announcer.announce("up")
            assert both.pop(hit).wait(10) == -signal.SIGKILL
            assert both[0].poll() is None
            undo()
            ledger_of_a.close()
        finally:
            first.kill()
            second.kill()


@pytest.mark.parametrize(
    "program",
    [
        "open('/proc/self/comm', 'wb').write(b'\\xff'); signal.signal(15, lambda *_: None); print(flush=True); "
        "open(0).read()",
        "signal.pthread_sigmask(signal.SIG_BLOCK, [15]); print(flush=True); signal.sigwait([15]); time.sleep(0.1)",
    ],
    ids=["handles-it", "ends-later"],
)
def test_a_sigterm_has_an_effect_however_the_process_takes_it(program: str, tmp_path: Path) -> None:
    """Its name need not be text."""
    words = [sys.executable, "-c", f"import signal, time; {program}"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as polite:
        assert polite.stdout is not None
        polite.stdout.readline()
        start(tmp_path, pid=polite.pid)
        announcer, own = Announcer("a"), Ledger(tmp_path, "a")
        prepare(Plan.parse("Crash role=b at=up@a how=term"), "a", tmp_path, own, announcer)
        announcer.announce("up")
        own.close()
    assert story(tmp_path) == [("a", "planned"), ("a", "fired"), ("a", "effective")]


def test_what_a_programs_own_handler_raises_is_the_programs(tmp_path: Path) -> None:
    """It is no failure to fire, and no error of faults."""

    def refuse(*_: object) -> None:
        raise BlockingIOError("asked to end")

    own = Ledger(tmp_path, "a")
    announcer, before = Announcer("a", own.own_errors), signal.signal(signal.SIGTERM, refuse)
    try:
        prepare(Plan.parse("Crash role=a at=up@a how=term"), "a", tmp_path, own, announcer)
        with pytest.raises(BlockingIOError, match="asked to end"):
            announcer.announce("up")
    finally:
        signal.signal(signal.SIGTERM, before)
        own.close()
    assert [each.event for each in ledger.read(tmp_path).events] == ["start", "planned", "fired", "effective"]


def test_undo_forgets_what_was_not_announced(tmp_path: Path) -> None:
    announcer, own = Announcer("a"), Ledger(tmp_path, "a")
    undo = prepare(Plan.parse("Crash role=a at=up@a"), "a", tmp_path, own, announcer)
    undo()
    undo()
    announcer.announce("up")  # otherwise this process would end
    own.close()
    assert story(tmp_path) == [("a", "planned")]


def test_a_pause_that_gets_ready_while_another_thread_leaves_is_ended_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(tmp_path)
    announcer, own, expect = Announcer("a"), Ledger(tmp_path, "a"), Pause.expect
    undo = prepare(Plan.parse("Pause role=b at=up@a seconds=1"), "a", tmp_path, own, announcer)

    def left_meanwhile(pause: Pause, wanted: str) -> None:
        expect(pause, wanted)
        undo()

    monkeypatch.setattr(Pause, "expect", left_meanwhile)
    announcer.announce("up")
    undo()
    own.close()
    assert story(tmp_path) == [("a", "planned")]
