"""A small process that stops another process and makes sure that it continues. `processes` runs it as a script:

    python -I -S guardian.py '{"target": FD, "firing": FD, "ledger": FD, "pid": PID, "seconds": S, "details": {...}}'

It sends SIGSTOP when it reads a byte. It sends SIGCONT after ``seconds``, or earlier if its standard input or the
process that fired ends. It ends after that, or when the stopped process ends. It imports nothing of this project, so
that it starts in milliseconds. It leads a session of its own, so that a signal to the process group of the role that
fired does not end it before it has sent SIGCONT.

If several guardians stop one process at the same time, the last one continues it. Each shares the lock of the process's
folder in /proc as long as its pause lasts.

It prints ``ready`` when it waits for the byte, and then ``stopped``, or the failure. It writes ``effective`` to the
ledger (every thread of the process is stopped, after so many seconds), and then either ``resumed`` (with the seconds
since, and the reason) or ``died`` (while it was stopped).
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import sys
import time
from typing import Any

# How long all threads of a process may take to stop (seconds).
STOP_SECONDS = 5.0
# Seconds between two looks at the threads, because the kernel tells only a process's parent when it stops.
LOOK_SECONDS = 0.001


def is_stopped(pid: int) -> bool:
    """Whether every thread of this process is stopped. False if the process has ended."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (as below)
        return bool(threads) and all(_state(f"/proc/{pid}/task/{thread}/stat") == "T" for thread in threads)
    except OSError:
        return False


def _state(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123 (pathlib would double the time this process needs to start)
        return file.read().rpartition(b")")[2].split()[0].decode()


def _readable(handles: list[int], seconds: float | None = None) -> list[int]:
    """Do what `reference.system.processes.readable` does, without its imports. Without ``seconds`` wait forever."""
    poll = select.poll()
    for each in handles:
        poll.register(each, select.POLLIN)
    return [each for each, _ in poll.poll(None if seconds is None else 1000 * seconds)]


class Guardian:
    """One pause. ``target`` and ``firing`` are pidfds, ``ledger`` is open for appending."""

    def __init__(
        self, target: int, firing: int, ledger: int, pid: int, seconds: float, details: dict[str, Any], orders: int = 0
    ) -> None:
        self.target, self.firing, self.ledger, self.orders = target, firing, ledger, orders
        self.pid, self.seconds, self.details = pid, seconds, details

    def run(self) -> None:
        self._say("ready")
        ready = _readable([self.orders, self.firing, self.target])
        if self.orders not in ready or not os.read(self.orders, 1):
            return  # the pause was cancelled, or one of the two processes has ended
        try:
            folder = os.open(f"/proc/{self.pid}", os.O_RDONLY)
            fcntl.flock(folder, fcntl.LOCK_SH)
        except OSError as error:  # the process has ended
            self._say(str(error))
            return
        begin = time.monotonic()
        try:
            self._send(signal.SIGSTOP)
            failure = self._await_stop(begin + STOP_SECONDS)
            stopped = time.monotonic()
            if failure is None:
                self._write("effective", seconds=round(stopped - begin, 6))
            self._say(failure or "stopped")
            why = self._wait(self.seconds) if failure is None else "failed"
        except OSError as error:  # the process has ended, or may not be stopped by this user
            self._say(str(error))
            return
        finally:
            still = is_stopped(self.pid)
            is_last = self._continue(folder)
        if failure is None:
            seconds = round(time.monotonic() - stopped, 6)
            if why == "died":
                self._write("died", seconds=seconds)
            else:
                why = why if is_last else "another pauses it"
                self._write("resumed", seconds=seconds, why=why if still else "another continued it")

    def _await_stop(self, due: float) -> str | None:
        """Wait until the process is stopped: None, or otherwise what happened instead."""
        while not is_stopped(self.pid):
            if _readable([self.target], LOOK_SECONDS):
                return "it ended before it stopped"
            if time.monotonic() > due:
                return f"it did not stop within {STOP_SECONDS:g} s"
        return None

    def _wait(self, seconds: float) -> str:
        """Wait until the process has to go on, and return why."""
        ready = _readable([self.target, self.firing, self.orders], seconds)
        if self.target in ready:
            return "died"
        return "left" if ready else "time"

    def _continue(self, folder: int) -> bool:
        """Continue the process, and return True, unless another guardian stops it."""
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a new pause waits until this guardian has ended
        except BlockingIOError:
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._send(signal.SIGCONT)
        return True

    def _send(self, number: int) -> None:
        """Do what `reference.system.processes.pidfd_send_signal` does, without its imports."""
        if ctypes.CDLL(None, use_errno=True).syscall(424, self.target, number, None, 0):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def _write(self, event: str, **measured: Any) -> None:
        """Append one line by one write, as `ledger.Ledger` does, so that lines of several processes do not mix."""
        line = json.dumps({"event": event, "time": time.monotonic(), **self.details, **measured})
        os.write(self.ledger, f"\n{line}\n".encode())  # the role may have been killed within its last line

    @staticmethod
    def _say(text: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the reader has ended; then the pipe of orders ends, too
            os.write(1, f"{text}\n".encode())


if __name__ == "__main__":
    Guardian(**json.loads(sys.argv[1])).run()
