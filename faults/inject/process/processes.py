"""Crash or pause a role at a moment that some role announces, by signals (Linux), or hold a role at its own moment.

The announcing role fires the fault, in the thread that announces, and goes on when it has seen the effect. It may crash
or pause itself.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from faults.inject.announcer import Announcer
from faults.inject.process import guardian
from faults.inject.process.hold import hold
from faults.inject.process.target import (
    EFFECT_SECONDS,
    HANDLED,
    IGNORED,
    PENDING,
    CannotFireError,
    end_now,
    has_signal,
    process_of,
)
from faults.ledger.error_links import of_a_handler
from faults.ledger.ledger import Ledger
from faults.plan.crash_ways import signal_of
from faults.plan.plan import Fault, Plan
from reference.system.processes import pidfd_open, pidfd_send_signal, readable

# Between two looks at a process that may handle its signal (seconds).
_LOOK_SECONDS = 0.01


def prepare(plan: Plan, role: str, folder: Path, ledger: Ledger, announcer: Announcer) -> Callable[[], None]:
    """Get ready, in the role's process, to fire the process faults at moments of this role.

    Return a function that undoes it: every paused process goes on at once, and no further fault fires.
    """
    own = {n: fault for n, fault in plan.at("process").items() if fault.moment and fault.moment.role == role}
    firing = Firing(folder, ledger)
    for number, fault in own.items():
        assert fault.moment is not None
        ledger.write("planned", **_named(number, fault))
        announcer.subscribe(fault.moment, partial(firing.fire, number, fault))
    return firing.undo


def _named(number: int, fault: Fault) -> dict[str, object]:
    return {"fault": number, "kind": fault.kind, "role": fault.role, "at": fault.at}


def _await_effect(fault: Fault, pid: int, handle: int, number: signal.Signals, *, handled: bool) -> None:
    """Wait until the process has ended, or until it has received a SIGTERM that it handles."""
    due = time.monotonic() + EFFECT_SECONDS
    while not readable([handle], _LOOK_SECONDS):
        if handled and number == signal.SIGTERM and not has_signal(pid, PENDING, number):
            return
        if time.monotonic() > due:
            raise CannotFireError(f"{fault.role} did not end within {EFFECT_SECONDS:g} s of {number.name}")


class Pause:
    """One pause of a process, by a guardian that is ready. Raises CannotFireError: it does not get ready."""

    def __init__(self, path: Path, pid: int, handle: int, seconds: float, named: dict[str, object]) -> None:
        with ExitStack() as of_a_failure, ExitStack() as opened:
            self._target = os.dup(handle)
            of_a_failure.callback(os.close, self._target)
            own = pidfd_open(os.getpid())
            opened.callback(os.close, own)
            ledger = os.open(path, os.O_WRONLY | os.O_APPEND)
            opened.callback(os.close, ledger)
            details = {**named, "pid": pid, "process": os.getpid()}
            told = {"target": self._target, "firing": own, "ledger": ledger, "pid": pid, "seconds": seconds}
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", guardian.__file__, json.dumps({**told, "details": details})],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._target, own, ledger),
                start_new_session=True,
                bufsize=0,
            )
            of_a_failure.pop_all()
        try:
            self.expect("ready")
        except CannotFireError:
            self.end()
            raise

    def order(self) -> None:
        """Stop the process now."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"!")

    def expect(self, wanted: str) -> None:
        """Wait until the guardian says this: ``ready``, or ``stopped`` after the order. Raises CannotFireError: it says
        why not, or nothing."""
        assert self.process.stdout is not None
        ready = readable([self.process.stdout.fileno()], EFFECT_SECONDS)
        said = self.process.stdout.readline().decode().strip() if ready else ""
        if said != wanted:
            raise CannotFireError(said or f"the guardian did not say {wanted!r} within {EFFECT_SECONDS:g} s")

    def end(self) -> None:
        """Continue the process, even if the guardian cannot, and wait for the guardian's end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        # The guardian's output ends when the guardian does.
        while readable([self.process.stdout.fileno()], EFFECT_SECONDS) and self.process.stdout.read(4096):
            pass
        self.process.kill()
        if self.process.wait() != 0:
            with suppress(ProcessLookupError, PermissionError):
                pidfd_send_signal(self._target, signal.SIGCONT)
        self.process.stdout.close()
        os.close(self._target)


class Firing:
    """The process faults that one role fires. Thread-safe."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.folder = folder
        self.ledger = ledger
        self._pauses: list[Pause] = []
        self._over = False

    def fire(self, number: int, fault: Fault) -> None:
        """Fire a fault and wait until its effect shows. A failure becomes an event ``failed``, not an error of the
        program; what a signal's handler of the program's own raises meanwhile is the program's."""
        if self._over:
            return
        named = _named(number, fault)
        try:
            pid, handle = process_of(str(fault.role), self.folder, self.ledger.world)
            try:
                {"Pause": self._pause, "Hold": self._hold, "Crash": self._crash}[fault.kind](fault, named, pid, handle)
            finally:
                os.close(handle)
        except (CannotFireError, OSError, ValueError) as error:  # ValueError: a pipe that `undo` has closed
            if of_a_handler(error):
                raise
            self.ledger.write("failed", **named, why=str(error))

    def _crash(self, fault: Fault, named: dict[str, object], pid: int, handle: int) -> None:
        number = signal_of(fault.how)
        if number == signal.SIGTERM and has_signal(pid, IGNORED, number):
            raise CannotFireError(f"{fault.role} ignores SIGTERM")
        how = {"how": fault.how} if fault.how else {}
        self.ledger.write("fired", **named, pid=pid, **how)
        begin = time.monotonic()
        if number is None or pid == os.getpid():
            try:
                end_now(fault.how)
            finally:  # a handler of the program's own may raise here
                if number == signal.SIGTERM:
                    self.ledger.write("effective", **named, pid=pid)
            return
        handled = has_signal(pid, HANDLED, number)
        pidfd_send_signal(handle, number)
        _await_effect(fault, pid, handle, number, handled=handled)
        self.ledger.write("effective", **named, pid=pid, seconds=round(time.monotonic() - begin, 6))

    def _pause(self, fault: Fault, named: dict[str, object], pid: int, handle: int) -> None:
        assert fault.seconds is not None
        pause = Pause(self.ledger.path, pid, handle, fault.seconds, named)
        with self.ledger.lock:
            self._pauses.append(pause)
            if self._over:
                self.undo()
                return
            self.ledger.write("fired", **named, pid=pid, guardian=pause.process.pid)
            pause.order()
        pause.expect("stopped")

    def _hold(self, fault: Fault, named: dict[str, object], pid: int, handle: int) -> None:
        assert fault.seconds is not None
        self.ledger.write("fired", **named, pid=pid)
        hold(fault.seconds, lambda event, **seen: self.ledger.write(event, **named, pid=pid, **seen))

    def undo(self) -> None:
        """Continue the paused processes, and fire no more. May be called again."""
        with self.ledger.lock:
            self._over = True
            pauses, self._pauses = self._pauses, []
        if self.ledger.process == os.getpid():  # a forked child has its parent's
            for pause in pauses:
                pause.end()
