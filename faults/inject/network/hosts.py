"""Make unnamed network namespaces: one for each role, and one for the switch that joins them.

Only descriptors of this process, and the processes inside a namespace, keep it alive. So the namespaces end with this
process, for whatever reason it ends, and the kernel removes their interfaces, rules and counters. No other process
holds them, nothing outside is touched, and a next start has nothing to clean. (A connection of a role that died behind
a partition may keep its namespace, without any interface, until the kernel gives the connection up some 100 s later.)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from faults.inject.network.command import Command
from faults.inject.network.rules import address, cables, plug
from reference.system.network_namespace import NEWNET, system

# The folders in which Debian has ip, tc and nft are not in every user's PATH.
PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "nft": "nftables", "nsenter": "util-linux"}

# How long one of these programs may take (seconds); they take milliseconds.
PROGRAM_SECONDS = 30


class NetworkError(RuntimeError):
    """An impossible network, or a fault that cannot be put in it. One line that says what is missing or wrong."""


def lacking_programs() -> str | None:
    """Name in one line the programs that are not installed; None if none is missing."""
    if sys.platform != "linux":
        return f"network namespaces need Linux, got {sys.platform}"
    absent = [program for program in PACKAGES if shutil.which(program, path=PATH) is None]
    packages = dict.fromkeys(PACKAGES[program] for program in absent)
    return f"{', '.join(absent)} not installed (Debian: {', '.join(packages)})" if absent else None


class Hosts:
    """The namespaces of some roles, joined by a switch, with their interfaces up. ``close`` releases them.

    Raises:
        NetworkError: it is not permitted here, or this kernel lacks something.
    """

    def __init__(self, roles: Sequence[str]) -> None:
        self.addresses = {role: address(number) for number, role in enumerate(roles, start=1)}
        self._switch, *others = _new_namespaces(1 + len(roles))
        self._descriptors = dict(zip(roles, others, strict=True))
        try:
            self._run(self._switch, cables([_path(each) for each in others]))
            for role in roles:
                peers = [self.addresses[name] for name in roles if name != role]
                self.run(role, plug(self.addresses[role], peers))
        except BaseException:
            self.close()
            raise

    @property
    def paths(self) -> dict[str, str]:
        """Map each role to its namespace's path, for `enter_namespace` and ``nsenter --net=``. The paths are valid as
        long as this process holds the namespaces."""
        return {role: _path(descriptor) for role, descriptor in self._descriptors.items()}

    def run(self, role: str, command: Command) -> str:
        """Run a command in this role's namespace, and return its output. Raises NetworkError."""
        return self._run(self._descriptors[role], command)

    def close(self) -> None:
        for descriptor in (self._switch, *self._descriptors.values()):
            os.close(descriptor)
        self._descriptors = {}

    @staticmethod
    def _run(descriptor: int, command: Command) -> str:
        words = ["nsenter", f"--net={_path(descriptor)}", *command.words]
        try:
            done = subprocess.run(
                words,
                input=command.text,
                capture_output=True,
                text=True,
                timeout=PROGRAM_SECONDS,
                check=False,
                env={**os.environ, "PATH": PATH},
            )
        except FileNotFoundError as error:
            raise NetworkError("nsenter not installed (Debian: util-linux)") from error
        except subprocess.TimeoutExpired as error:
            raise NetworkError(f"{command.words[0]} took more than {PROGRAM_SECONDS} s") from error
        if done.returncode != 0:
            said = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[0]
            raise NetworkError(f"{' '.join(command.words)}: {said}")
        return done.stdout


def enter_namespace(path: str) -> None:
    """Move the calling thread, and every thread that it starts from now on, into this network.

    Raises:
        OSError: there is no such namespace, or entering it is not permitted.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        system("setns", descriptor, NEWNET)
    finally:
        os.close(descriptor)


def _new_namespaces(count: int) -> list[int]:
    """Make namespaces, and return their descriptors. A thread that makes one is in it, so another thread makes them."""
    made: list[int] = []
    errors: list[OSError] = []

    def make() -> None:
        try:
            for _ in range(count):
                system("unshare", NEWNET)
                made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=make, name="network namespaces")
    thread.start()
    thread.join()
    if errors:
        _close(made)
        raise NetworkError(f"no network namespace can be made here: {errors[0].strerror} (root can)") from errors[0]
    return made


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _path(descriptor: int) -> str:
    return str(Path("/proc", str(os.getpid()), "fd", str(descriptor)))
