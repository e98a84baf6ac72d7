"""Handle Ctrl-C, SIGTERM and SIGHUP of a command: each ends it once, in order, and none while it starts a process.

A command calls `leave_at_once`, imports what it needs, calls `listen`, works, and calls `over` when it has its status.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# The exit status of a command that was interrupted.
STATUS = 130

# A terminal, a time limit and an impatient user send several signals: so long they count as one (seconds).
TOGETHER = 3.0

_answered: tuple[signal.Signals, ...] = SIGNALS
_depth = 0  # of `held`, in all threads
_waiting: list[int] = []  # signals that came meanwhile
_last = -TOGETHER  # when the command was interrupted


def leave_to_torchrun() -> None:
    """What follows changes nothing: a rank of torchrun is torchrun's to end, by SIGTERM at once, even while it waits in
    C++, where Python answers nothing."""
    global _answered
    _answered = ()


def leave_at_once() -> None:
    """From now on a signal ends this process in one line: it has started nothing, and has nothing to remove."""
    _handle(_leave)


def listen() -> None:
    """From now on a signal raises KeyboardInterrupt in the main thread."""
    global _last
    _last = -TOGETHER
    _handle(_interrupt)


def over() -> None:
    """The command has its status, and only cleans up. A signal interrupts that after `TOGETHER` seconds at most."""
    global _last
    _last = time.monotonic()
    _handle(_leave_late)


@contextmanager
def held() -> Iterator[None]:
    """Let signals wait until the block has ended. A process that the block starts has them blocked.

    Raises:
        KeyboardInterrupt: one has come.
    """
    global _depth
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if _waiting and not _depth:
            number = _waiting[0]
            _waiting.clear()
            signal.raise_signal(number)


def _handle(how: Callable[[int, FrameType | None], None]) -> None:
    for number in _answered:
        # `nohup` has a command ignore SIGHUP, and a shell has its background ignore Ctrl-C: that is to stay so.
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, how)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(STATUS)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last
    if _depth:  # a thread of torch's or numpy's may take a signal that this one has blocked
        _waiting.append(number)
    elif time.monotonic() - _last >= TOGETHER:
        _last = time.monotonic()
        raise KeyboardInterrupt


def _leave_late(number: int, frame: FrameType | None) -> None:
    if time.monotonic() - _last >= TOGETHER:
        _leave(number, frame)
