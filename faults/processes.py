"""Crash and Pause of a role at a moment that some role announces, by signals to its process (Linux).

The announcing role fires, in the thread that announces, and goes on when the effect has been seen. The hurt role may
be itself. It is found by the line ``start`` of its ledger, written before RPC starts, and held by a pidfd, so that no signal reaches a process that was given the same number later.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from faults import guardian
from faults.announcer import Announcer
from faults.ledger import SUFFIX, Ledger, _boot
from faults.moment import PlanError
from faults.plan import Fault, Plan

logger = logging.getLogger(__name__)

# How long an effect may take to be seen (seconds); a guardian has `guardian.STOP_SECONDS` of its own within it.
EFFECT_SECONDS = 10.0
# The kernel counts the start of a process in such steps (seconds).
_TICK = 1 / os.sysconf("SC_CLK_TCK")


class CannotFireError(RuntimeError):
    """The fault cannot be fired: one line that says why."""


def prepare(plan: Plan, role: str, folder: Path, ledger: Ledger, announcer: Announcer) -> Callable[[], None]:
    """In the role's process: get ready to fire the process faults whose moment is one of this role.

    Returns what undoes it: every process that is paused goes on at once, and nothing fires any more.

    Raises:
        PlanError: this system has no pidfds.
    """
    own = {n: fault for n, fault in plan.at("process").items() if fault.moment and fault.moment.role == role}
    if own and not hasattr(signal, "pidfd_send_signal"):
        raise PlanError(f"Crash and Pause of a process need Linux's pidfds, which {sys.platform} does not have")
    firing = Firing(folder, ledger)
    for number, fault in own.items():
        assert fault.moment is not None
        ledger.write("planned", **_named(number, fault))
        announcer.subscribe(fault.moment, partial(firing.fire, number, fault))
    return firing.undo


def _named(number: int, fault: Fault) -> dict[str, object]:
    return {"fault": number, "kind": fault.kind, "role": fault.role, "at": fault.at}


class Firing:
    """What one role fires. Thread-safe."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self._pauses: list[_Pause] = []
        self._over = False
        self._lock = threading.Lock()

    def fire(self, number: int, fault: Fault) -> None:
        """Hurt the role and wait until it shows. What fails is an event ``failed``, not an error of the program."""
        if self._over:
            return
        named = _named(number, fault)
        try:
            pid, handle = _process_of(str(fault.role), self.folder)
            try:
                (self._pause if fault.kind == "Pause" else self._crash)(fault, named, pid, handle)
            finally:
                os.close(handle)
        except (CannotFireError, OSError, ValueError) as error:  # ValueError: a pipe that `undo` has closed
            logger.error("%s: %s", fault, error)
            self.ledger.write("failed", **named, why=str(error))

    def _crash(self, fault: Fault, named: dict[str, object], pid: int, handle: int) -> None:
        self.ledger.write("fired", **named, pid=pid)
        begin = time.monotonic()
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not _ended(handle, EFFECT_SECONDS):
            raise CannotFireError(f"{fault.role} did not end within {EFFECT_SECONDS:g} s of SIGKILL")
        self.ledger.write("effective", **named, pid=pid, seconds=round(time.monotonic() - begin, 6))

    def _pause(self, fault: Fault, named: dict[str, object], pid: int, handle: int) -> None:
        assert fault.seconds is not None
        pause = _Pause(self.ledger.path, pid, handle, fault.seconds, named)
        with self._lock:
            self._pauses.append(pause)
            if self._over:
                pause.end()
                return
            self.ledger.write("fired", **named, pid=pid, guardian=pause.process.pid)
            pause.order()
        pause.await_effect()

    def undo(self) -> None:
        """Continue what is paused, and fire no more. May be called again."""
        with self._lock:
            self._over = True
            pauses, self._pauses = self._pauses, []
        for pause in pauses:
            pause.end()


class _Pause:
    """A guardian that is ready, at this side of its pipes. Raises CannotFireError: it does not get ready."""

    def __init__(self, path: Path, pid: int, handle: int, seconds: float, named: dict[str, object]) -> None:
        self.pid = pid
        self._hurt = os.dup(handle)
        own, ledger = os.pidfd_open(os.getpid()), os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            told = {"hurt": self._hurt, "firing": own, "ledger": ledger, "pid": pid, "seconds": seconds}
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, json.dumps({**told, "details": {**named, "pid": pid}})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._hurt, own, ledger),
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            os.close(self._hurt)
            raise
        finally:
            os.close(own)
            os.close(ledger)
        try:
            self._expect("ready")
        except CannotFireError:
            self.end()
            raise

    def order(self) -> None:
        """Stop it, now."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"!")

    def await_effect(self) -> None:
        """Raises CannotFireError: it did not stop."""
        self._expect("stopped")

    def _expect(self, wanted: str) -> None:
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], [], [], EFFECT_SECONDS)[0]
        said = self.process.stdout.readline().decode().strip() if ready else ""
        if said != wanted:
            raise CannotFireError(said or f"the guardian did not say {wanted!r} within {EFFECT_SECONDS:g} s")

    def end(self) -> None:
        """Continue the process, whether or not the guardian is there to do it, and wait for the guardian's end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        # Its output ends with it.
        while select.select([self.process.stdout], [], [], EFFECT_SECONDS)[0] and self.process.stdout.read(4096):
            pass
        self.process.kill()
        if self.process.wait() != 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._hurt, signal.SIGCONT)
        self.process.stdout.close()
        os.close(self._hurt)


def _process_of(role: str, folder: Path) -> tuple[int, int]:
    """The process that was the last to open the role's ledger: its id and a pidfd. Raises CannotFireError."""
    try:
        lines = (folder / f"{role}{SUFFIX}").read_bytes().split(b"\n")
        start = json.loads([line for line in lines if line.startswith(b'{"event": "start"')][-1])
        pid, written, boot = int(start["pid"]), float(start["time"]), start["boot"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CannotFireError(f"{role} has no process here: it has no ledger that says how it started") from error
    if boot != _boot():
        raise CannotFireError(f"{role} runs on another machine")
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError as error:
        raise CannotFireError(f"{role}, process {pid}, is gone already") from error
    if _ended(handle, 0) or not _is_older(pid, written):
        os.close(handle)
        raise CannotFireError(f"{role}, process {pid}, is gone already")
    return pid, handle


def _ended(handle: int, seconds: float) -> bool:
    """Whether the process of this pidfd ends within so many seconds."""
    return bool(select.select([handle], [], [], seconds)[0])


def _is_older(pid: int, written: float) -> bool:
    """Whether this process started before ``written`` (monotonic): a later one has only inherited the number."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return False
    asleep = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()  # ticks count a suspended machine's time too
    return ticks * _TICK <= written + asleep + _TICK
