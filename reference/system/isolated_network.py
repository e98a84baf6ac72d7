"""Make the network of isolated roles: one per launching process. The kernel removes it when that process ends.

`launch` has it made when the first isolated world starts, during the forkserver's imports, which take longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cache

from reference.system import network_namespace
from reference.system.processes import readable

# An environment variable: 0 leaves all roles in the launcher's network.
VARIABLE = "REFERENCE_ISOLATED"

# Seconds that making the network may take; it takes some hundredths of a second.
MAKING_SECONDS = 10.0

_lock = threading.Lock()


@dataclass(frozen=True)
class Network:
    """Descriptors of the namespaces that roles enter, in this order; if there are none, ``lacking`` says why."""

    descriptors: tuple[int, ...] = ()
    lacking: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths for `network_namespace.enter`: any process of this user can use them while this process lives."""
        return tuple(f"/proc/{os.getpid()}/fd/{descriptor}" for descriptor in self.descriptors)


def network() -> Network:
    """Return this process's network. The first call makes it; if that fails, later calls do not try again."""
    with _lock:  # `cache` lets two threads make one each
        return _make()


@cache
def _make() -> Network:
    """Let another process make the namespaces, because only a single-threaded one can make a user namespace."""
    if os.environ.get(VARIABLE) == "0":
        return Network(lacking=f"{VARIABLE} is 0")
    command = [sys.executable, "-I", "-S", network_namespace.__file__]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as maker:
            assert maker.stdout is not None
            if not readable([maker.stdout.fileno()], MAKING_SECONDS):
                maker.kill()
                raise OSError(f"nothing was made within {MAKING_SECONDS:g} s")
            answer = maker.stdout.readline().decode().split() or ["no", "the process that makes it died"]
            if answer[0] == "no":
                raise OSError(" ".join(answer[1:]))
            names = [f"/proc/{maker.pid}/ns/{name}" for name in answer]
            return Network(tuple(os.open(name, os.O_RDONLY | os.O_CLOEXEC) for name in names))
    except OSError as error:
        return Network(lacking=f"no network namespace can be made here: {error}")
