"""The ways in which a `Crash` ends a process: by a signal, or by an exit status."""

from __future__ import annotations

import signal

# Values of the field ``how`` and their signals. Without ``how`` it is SIGKILL.
_SIGNALS = {"segv": signal.SIGSEGV, "abort": signal.SIGABRT, "term": signal.SIGTERM}
FORM = r"segv|abort|term|exit:(?:0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
# Those that property tests draw, the plain kill first.
DRAWN = (None, "term", "abort", "segv", "exit:0", "exit:1")
WANTED = "'segv', 'abort', 'term' or 'exit:N' with N from 0 to 255"


def signal_of(how: str | None) -> signal.Signals | None:
    """Return the signal by which this crash ends a process; None if it exits."""
    return None if status_of(how) is not None else _SIGNALS.get(how or "", signal.SIGKILL)


def signals_of_end(how: str | None) -> frozenset[signal.Signals]:
    """Return the signals by which a process may end after this crash.

    `faulthandler`, which roles use, reports SIGABRT with the frames of threads that run, and may crash by that.
    """
    sent = signal_of(how)
    if sent is None:
        return frozenset()
    return frozenset({sent, signal.SIGSEGV} if sent == signal.SIGABRT else {sent})


def status_of(how: str | None) -> int | None:
    """Return the status with which this crash makes a process exit; None if a signal ends it."""
    return int(how.partition(":")[2]) if how is not None and how.startswith("exit:") else None
