"""End this process in the way that a `Crash` names."""

from __future__ import annotations

import os
import resource
import signal

from faults.plan.crash_ways import signal_of, status_of


def end_now(how: str | None) -> None:
    """End this process. It returns only after a signal that the program handles or ignores.

    SIGTERM goes to the process, so that a handler of the program's runs in its main thread. A crash leaves no core
    file.
    """
    status, number = status_of(how), signal_of(how)
    if status is not None:
        os._exit(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number == signal.SIGABRT:
        os.abort()
    elif number == signal.SIGSEGV:
        signal.raise_signal(number)
    elif number is not None:
        os.kill(os.getpid(), number)
