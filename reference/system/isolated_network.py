"""Make the network of isolated roles: one per launching process. The kernel removes it when that process ends.

`launch` has it made when the first isolated world starts, during the forkserver's imports, which take longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass

from reference.system import network_namespace
from reference.system.processes import readable

# An environment variable: 0 leaves all roles in the launcher's network.
VARIABLE = "REFERENCE_ISOLATED"

# Seconds that making the network may take; it takes some hundredths of a second.
MAKING_SECONDS = 10.0

_lock = threading.Lock()
_made: Network | None = None


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
    global _made
    with _lock:
        if _made is None:
            _made = _make()
        return _made


def _make() -> Network:
    if os.environ.get(VARIABLE) == "0":
        return Network(lacking=f"{VARIABLE} is 0")
    try:
        return _ask()
    except OSError as error:
        return Network(lacking=f"no network namespace can be made here: {error}")


def _ask() -> Network:
    """Let another process make the namespaces, because only a single-threaded one can make a user namespace."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", network_namespace.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as maker:
        assert maker.stdout is not None
        if not readable([maker.stdout.fileno()], MAKING_SECONDS):
            maker.kill()
            return Network(lacking=f"no network namespace was made within {MAKING_SECONDS:g} s")
        answer = maker.stdout.readline().decode().split()
        if not answer or answer[0] == "no":
            why = " ".join(answer[1:]) or "the process that makes it died"
            return Network(lacking=f"no network namespace can be made here: {why}")
        return Network(tuple(os.open(f"/proc/{maker.pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in answer))
