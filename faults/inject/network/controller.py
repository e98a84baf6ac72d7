"""Put, heal and count the faults of the network, in a thread of the launching process.

A role at whose moment a fault fires asks this thread through a socket in the folder, and goes on when the fault is in
place. So a fault heals in time even if the role that fired it has died, and only one thread puts, reads and lifts it.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from faults.inject.network import rules
from faults.inject.network.rules import Command, address, cables, plug
from faults.ledger.ledger import Ledger
from faults.plan.plan import Fault, Plan, PlanError
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
        """Map each role to its namespace's path, for `network_namespace.enter` and ``nsenter --net=``. The paths are
        valid as long as this process holds the namespaces."""
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
        except subprocess.TimeoutExpired as error:
            raise NetworkError(f"{command.words[0]} took more than {PROGRAM_SECONDS} s") from error
        except OSError as error:
            raise NetworkError(f"{words[0]} cannot be started: {error.strerror}") from error
        if done.returncode != 0:
            said = (done.stderr.strip() or f"ended with {done.returncode}").splitlines()[0]
            raise NetworkError(f"{' '.join(command.words)}: {said}")
        return done.stdout


def _new_namespaces(count: int) -> list[int]:
    """Make namespaces, and return their descriptors. A thread that makes one is in it, so another thread makes them."""
    made: list[int] = []

    def make() -> None:
        for _ in range(count):
            system("unshare", NEWNET)
            made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC))

    try:
        with ThreadPoolExecutor(1, "network namespaces") as thread:
            thread.submit(make).result()
    except OSError as error:
        for descriptor in made:
            os.close(descriptor)
        raise NetworkError(f"no network namespace can be made here: {error.strerror} (root can)") from error
    return made


def _path(descriptor: int) -> str:
    return str(Path("/proc", str(os.getpid()), "fd", str(descriptor)))


def needs_netem(plan: Plan) -> bool:
    """Whether a fault of this plan delays packets."""
    return any(fault.latency_ms is not None for fault in plan.faults)


def try_netem(hosts: Hosts, role: str) -> None:
    """Delay the packets of a role that sends none yet, and stop that again.

    Raises:
        NetworkError: this kernel has no netem, or tc cannot use it; with tc's own words.
    """
    try:
        for command in rules.shape(Fault(kind="Slow", role=role, latency_ms=1.0)):
            hosts.run(role, command)
    except NetworkError as error:
        raise NetworkError(f"'latency_ms' needs netem, the kernel's module sch_netem, got {error}") from error
    hosts.run(role, rules.LIFT)


# The name of the ledger with the counters of hit packets; no role can have it.
NAME = "+network"

# How long a role waits for its fault to be in place (seconds).
ASK_SECONDS = 30.0

_SOCKET = "network.socket"


class NetworkController:
    """The thread that serves the faults of one network. ``close`` heals those that are still in place."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        if (folder / _SOCKET).exists() and not (folder / _SOCKET).is_socket():
            raise NetworkError(f"{folder / _SOCKET} is no socket, so no run has made it: wanted a folder without it")
        self._hosts = hosts
        # Faults that are in place, since when, and until when, in seconds of the monotonic clock.
        self._standing: dict[int, tuple[Fault, float, float]] = {}
        self._error: Exception | None = None
        self._folder = folder
        self._ledger = Ledger(folder, NAME)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _short(folder) as path:
            (folder / _SOCKET).unlink(missing_ok=True)  # left by an earlier launcher that was killed
            self._door.bind(path)
        self._door.listen(64)
        self._ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Heal all faults, and end the thread. Raises NetworkError: a fault could not be healed or read."""
        self._ours.close()
        self._thread.join()
        (self._folder / _SOCKET).unlink(missing_ok=True)
        self._ledger.close()
        if self._error is not None:
            raise NetworkError(f"the network's faults could not be healed: {self._error}") from self._error

    def _work(self) -> None:
        try:
            self._serve()
            for number in list(self._standing):
                self._heal(number)
        except Exception as error:
            self._error = error
        finally:
            self._door.close()
            self._theirs.close()

    def _serve(self) -> None:
        """Until `close`, wait for the next question of a role, or for the next fault that is due."""
        with selectors.DefaultSelector() as selector, ExitStack() as askers:
            selector.register(self._door, selectors.EVENT_READ)
            selector.register(self._theirs, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(self._seconds_to_next())]
                for number in [each for each, (*_, due) in self._standing.items() if due <= time.monotonic()]:
                    self._heal(number)
                if self._theirs in ready:
                    return
                if self._door in ready:
                    selector.register(askers.enter_context(self._door.accept()[0]), selectors.EVENT_READ)
                for asker in ready:
                    if isinstance(asker, socket.socket) and asker is not self._door:
                        selector.unregister(asker)
                        self._answer(asker)

    def _seconds_to_next(self) -> float | None:
        due = min((due for *_, due in self._standing.values()), default=float("inf"))
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def _answer(self, asker: socket.socket) -> None:
        """Put the fault in place, and answer: an empty text, or why it failed. The asking role may have died."""
        with asker, suppress(OSError):
            if question := asker.recv(1 << 16):
                asker.send(json.dumps(self._put(question)).encode())

    def _put(self, question: bytes) -> str:
        try:
            asked = json.loads(question)
            number, fault = int(asked["number"]), Fault.from_dict(asked["fault"])
            role, peer = str(fault.role), None if fault.peer is None else self._hosts.addresses[fault.peer]
            commands = rules.put(number, fault, self._hosts.addresses[role], peer)
        except (PlanError, KeyError, TypeError, ValueError) as error:
            return f"{type(error).__name__}: {error}"
        if number in self._standing:
            return "it is there already"
        try:
            for command in commands:
                self._hosts.run(role, command)
        except NetworkError as error:
            with suppress(NetworkError):
                self._hosts.run(role, rules.lift(number, fault))
            return str(error)
        now = time.monotonic()
        due = float("inf") if fault.seconds is None else now + fault.seconds
        self._standing[number] = fault, now, due
        return ""

    def _heal(self, number: int) -> None:
        fault, since, _ = self._standing.pop(number)
        role = fault.role or ""
        found = rules.receipt(fault, self._hosts.run(role, rules.ask(number, fault)))
        self._hosts.run(role, rules.lift(number, fault))
        if found:
            self._ledger.write("effective", fault=number, kind=fault.kind, **found)
        self._ledger.write("healed", fault=number, kind=fault.kind, seconds=time.monotonic() - since)


def ask(folder: Path, number: int, fault: Fault) -> None:
    """Ask, from a role's process in any network, for the fault to be put in place.

    Raises:
        NetworkError: there is no controller, it failed, or it took longer than `ASK_SECONDS`.
    """
    question = json.dumps({"number": number, "fault": fault.to_dict()}).encode()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, _short(folder) as path:
            asking.settimeout(ASK_SECONDS)
            asking.connect(path)
            asking.send(question)
            answer = asking.recv(1 << 16)
    except OSError as error:
        raise NetworkError(f"fault {number}: the Network in {folder} does not answer ({error})") from error
    said = json.loads(answer) if answer else "the Network was closed"
    if said:
        raise NetworkError(f"fault {number}: {said}")


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """Yield a path of the socket that fits into the 107 bytes of an address, even if the folder's own path does not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)
