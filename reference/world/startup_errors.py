"""Report errors of a role's process before its role begins, so that the launcher has more than an exit status.

In each role multiprocessing first imports the launching script again. A script without `if __name__ == '__main__':`
would launch there, and fails.
"""

from __future__ import annotations

import multiprocessing.forkserver
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from reference.world.frames import first_frame
from reference.world.link import raised

_begun: list[bool] = []


def watch() -> None:
    """Report errors of the processes that this forkserver forks: it calls `sys.excepthook` if an error ends one."""
    sys.excepthook = partial(_report, sys.excepthook)


def begin() -> None:
    """From now on the role reports its own end."""
    _begun.append(True)


def _report(
    hook: Callable[..., object], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    server: Any = multiprocessing.forkserver._forkserver
    inherited = getattr(server, "_inherited_fds", None)
    # The one descriptor that a role is sent is its end of the pipe to the launcher.
    if inherited and len(inherited) == 1 and not _begun:
        with suppress(Exception):
            pipe = Connection(inherited[0])
            pipe.send_bytes(first_frame("ended", raised(error)))
    hook(kind, error, trace)
