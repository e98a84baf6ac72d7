"""One role as its launcher sees it: its process, its pipe, its phase, and in the end its outcome."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from concurrent.futures import Future
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from reference.outcome import Exited, Killed, Outcome, Overdue, Returned, WorldError
from reference.system.processes import state_of
from reference.trace.progress import Report
from reference.world import link
from reference.world.link import Messages, Phase, raised
from reference.world.role import STACKS_SIGNAL

# Seconds that an overdue role has to write its stacks; then it is killed without them.
STACKS_SECONDS = 2.0

# Said of a role that ended without any message. An exception would have been reported (`role.watch_startup`).
BEFORE_ITS_ROLE = (
    "while it imported the launching script, as every role does: launch below `if __name__ == '__main__':`"
)

# Seconds that the end waits for a thread that sends. If a process that the role left has the pipe, it is left open.
CLOSE_SECONDS = 1.0

# The most bytes to read from a role at once.
CHUNK = 1 << 20


class RoleHandle:
    """One role as its launcher sees it."""

    def __init__(self, name: str, process: BaseProcess, pipe: connection.Connection, stacks: Path) -> None:
        self.name = name
        self.process = process
        self.pid: int = process.pid or 0
        self.pipe = pipe
        self.phase = Phase.STARTING
        self.heard = time.monotonic()
        self.news = ""
        self.outcome: Outcome | None = None
        self.ended: float | None = None
        self.dropped = ""  # why it is ended, if that is the loss of another role
        self.due: float | None = None
        self.calls: dict[int, tuple[Future[Outcome], float | None]] = {}
        self._stacks = stacks
        self._has_begun = False
        self.report: Outcome | None = None  # how the role says that it ended
        self._value: Outcome = Returned()
        self._messages = Messages()
        self.asked: float | None = None  # when it was asked for its stacks
        self._why = ""
        self._kernel_state = ""
        self._sending = threading.Lock()

    def send(self, *message: object, wait: bool = True) -> bool:
        """Send the role a message. If the role is gone, nothing happens: its end will be noticed.

        ``wait=False``: send nothing, and return False, if that would have to wait for the role, which may never read.
        """
        content = link.dumps(message)
        if not self._sending.acquire(blocking=wait):  # another thread waits for it
            return False
        try:
            if not wait and not self._is_writable():
                return False
            with contextlib.suppress(OSError):
                self.pipe.send_bytes(content)
        finally:
            self._sending.release()
        return True

    def _is_writable(self) -> bool:
        poll = select.poll()
        poll.register(self.pipe.fileno(), select.POLLOUT)
        return bool(poll.poll(0))

    def deadline(self) -> float | None:
        """When this handle must next be looked at (monotonic seconds)."""
        if self.asked is not None:
            return self.asked + STACKS_SECONDS
        times = [self.due, *(due for _, due in self.calls.values())]
        return min((due for due in times if due is not None), default=None)

    def receive(self, on_progress: Report | None) -> bool:
        """Read what has arrived, without waiting for the rest of a message. False if nothing more will come."""
        try:
            chunk = os.read(self.pipe.fileno(), CHUNK)
        except OSError:
            return False
        self.heard, self._has_begun = time.monotonic(), self._has_begun or bool(chunk)
        for content, attached in self._messages.add(chunk):
            self._take(on_progress, *content, attached=attached)
        return bool(chunk)

    def _take(self, on_progress: Report | None, kind: str, *content: Any, attached: list[bytearray]) -> None:
        if kind == "progress":
            if on_progress is not None:
                on_progress(self.name, content[0])
        elif kind == "answer":
            self.calls.pop(content[0])[0].set_result(_opened(attached))
        elif kind == "value":
            self._value = _opened(attached)
        elif kind == "ended":
            self.report = self._value if isinstance(content[0], Returned) else content[0]
        elif kind != "here":
            self.phase = Phase(kind)

    def overdue(self) -> None:
        """Ask the role for its stacks once; when called again, kill it.

        A killed role may stay for a while, because of a debugger or a disk that does not answer. Then its next deadline
        is some seconds later, not now, so that waiting for its end does not keep a core busy.
        """
        asked, self.asked = self.asked, time.monotonic()
        if asked is not None:
            self._kernel_state = self._kernel_state or state_of(self.pid)  # the state before the kill
            self.kill()
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, STACKS_SIGNAL)
            os.kill(self.pid, signal.SIGCONT)  # a stopped process handles no other signal before this one

    def give_up(self, why: str) -> None:
        """End the role before its deadline; ``why`` becomes part of its outcome."""
        self.phase, self._why = Phase.GIVEN_UP, why
        if self.asked is None:
            self.overdue()

    def kill(self) -> None:
        """End the role's whole process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # the role may not have made its process group yet

    def end(self) -> None:
        """Set the outcome, after the process has ended."""
        self.process.join()
        self.ended = time.monotonic()
        code = self.process.exitcode or 0
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # the processes that the role had started
        if self.asked is not None:
            self.outcome = Overdue(self._read_stacks(complete=code == -STACKS_SIGNAL), self._why)
        elif code < 0:
            self.outcome = Killed(-code, self.dropped if -code == signal.SIGKILL else "")
        elif self.report is None or (code and isinstance(self.report, Returned)):
            # of itself, in the middle, or because its very end failed
            self.outcome = Exited(code, "" if self._has_begun else BEFORE_ITS_ROLE)
        else:
            self.outcome = self.report
        self.phase = Phase.ENDED
        for future, _ in self.calls.values():
            if isinstance(self.outcome, Returned):
                future.set_exception(WorldError(f"{self.name} has shut down"))
            else:
                future.set_result(self.outcome)
        self.calls.clear()
        # A thread that still sends fails now, and must not find another file under the pipe's number.
        if self._sending.acquire(timeout=CLOSE_SECONDS):
            self.pipe.close()
            self._sending.release()
        self.process.close()

    def _read_stacks(self, complete: bool) -> str:
        """``complete``: the signal ended the process, as it does after the last stack. Else it ended meanwhile."""
        stacks = self._stacks.read_text(errors="replace") if self._stacks.exists() else ""
        if not (complete and stacks):
            stacks += f"(no complete stacks; kernel state: {self._kernel_state or 'ended at once'})\n"
        return stacks


def _opened(value: list[bytearray]) -> Outcome:
    """Unpickle an outcome; if that fails here, the outcome is the exception."""
    try:
        outcome: Outcome = link.loads(value[0], buffers=value[1:])  # large arrays are the parts' memory
    except Exception as error:  # its class cannot be imported here, or cannot be made from its arguments
        return raised(error)
    return outcome
