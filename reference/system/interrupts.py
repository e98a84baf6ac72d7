"""Let Ctrl-C, SIGTERM and SIGHUP end a command once, with its cleanup, and never while it starts a process.

A command calls `leave_at_once` before it imports more, then `listen`, works, and calls `over` when it has its status.
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

# Signals within this many seconds count as one: a terminal, a time limit and an impatient user send several.
TOGETHER = 3.0

_answered: tuple[signal.Signals, ...] = SIGNALS
_depth = 0  # how many blocks of `held` are running, in all threads
_waiting: list[int] = []  # the signals that came during such a block
_last = -TOGETHER  # when the command was last interrupted
_came = False  # whether it was


def under_torchrun() -> bool:
    """Whether torchrun has started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def leave_to_torchrun() -> None:
    """Make the functions below do nothing, because torchrun ends its ranks itself.

    It passes on the signal that it got. That must end a rank at once, even while the rank waits in C++, where no Python
    handler runs, such as the one that Python has for SIGINT.
    """
    global _answered
    _answered = ()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def leave_at_once() -> None:
    """From now on a signal ends this process with one line of output: it has started and made nothing so far."""
    _handle(_leave)


def listen() -> None:
    """From now on a signal raises KeyboardInterrupt in the main thread."""
    global _last, _came
    _last, _came = -TOGETHER, False
    _handle(_interrupt)


def came() -> bool:
    """Whether the command was interrupted while it listened."""
    return _came


def over() -> None:
    """The command has its status and only cleans up: from `TOGETHER` seconds after now, a signal ends the process."""
    global _last
    _last = time.monotonic()
    _handle(_leave_late)


@contextmanager
def held() -> Iterator[None]:
    """Delay signals until the block has ended. A process that the block starts has them blocked.

    Raises:
        KeyboardInterrupt: a signal came during the block.
    """
    global _depth
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    _depth += 1  # while signals are blocked, no handler may raise: they would stay so
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        yield
    finally:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        finally:
            _depth -= 1
        if _waiting and not _depth:
            number = _waiting[0]
            _waiting.clear()
            signal.raise_signal(number)


def _handle(how: Callable[[int, FrameType | None], None]) -> None:
    for number in _answered:
        # Keep an ignored signal ignored: `nohup` ignores SIGHUP, and a shell ignores Ctrl-C for a background command.
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, how)


def _leave(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"interrupted\n")  # nobody may read it any more
    finally:
        os._exit(STATUS)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _last, _came
    if _depth:  # a thread of torch or numpy may receive a signal that this thread has blocked
        _waiting.append(number)
    elif time.monotonic() - _last >= TOGETHER:
        _last, _came = time.monotonic(), True
        raise KeyboardInterrupt


def _leave_late(number: int, frame: FrameType | None) -> None:
    if time.monotonic() - _last >= TOGETHER:
        _leave(number, frame)
