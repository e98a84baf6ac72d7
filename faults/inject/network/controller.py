"""Who puts the network's faults in place, heals them, and reads their counters: a thread of the launching process.

A role whose moment it is asks it through a socket in the folder and goes on when the fault is there. So a fault heals
in its time also when the role that fired it has died, and each is put, read and lifted by one and the same hand.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from faults.inject.network import rules
from faults.inject.network.hosts import Hosts, NetworkError
from faults.ledger.ledger import Ledger
from faults.plan.plan import Fault, PlanError

# Whose ledger the receipts are in; no role can have this name.
NAME = "+network"

# How long a role waits for its fault to be in place (seconds).
ASK_SECONDS = 30.0

_SOCKET = "network.socket"


@dataclass(frozen=True)
class _Standing:
    """A fault that is in place. Times: seconds of the monotonic clock."""

    fault: Fault
    since: float
    due: float


class NetworkController:
    """Open from the start. ``close`` heals what still stands."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        if (folder / _SOCKET).exists() and not (folder / _SOCKET).is_socket():
            raise NetworkError(f"{folder / _SOCKET} is no socket, so no run has made it: wanted a folder without it")
        self._hosts = hosts
        self._standing: dict[int, _Standing] = {}
        self._error: Exception | None = None
        self._folder = folder
        self._ledger = Ledger(folder, NAME)
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with _short(folder) as path:
            (folder / _SOCKET).unlink(missing_ok=True)  # of one that was killed
            self._door.bind(path)
        self._door.listen(64)
        self._ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._work, name="network", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Raises NetworkError: a fault that could not be healed or read."""
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
        """Until `close`: wait for a role that asks or for a fault that is due, whichever comes first."""
        with selectors.DefaultSelector() as selector, ExitStack() as askers:
            selector.register(self._door, selectors.EVENT_READ)
            selector.register(self._theirs, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select(self._seconds_to_next())]
                for number in [each for each in self._standing if self._standing[each].due <= time.monotonic()]:
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
        due = min((each.due for each in self._standing.values()), default=float("inf"))
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def _answer(self, asker: socket.socket) -> None:
        """Do what was asked; the answer is empty, or says why not. The asker may be dead meanwhile."""
        with asker, suppress(OSError):
            question = asker.recv(1 << 16)
            if question:
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
        self._standing[number] = _Standing(fault, now, due)
        return ""

    def _heal(self, number: int) -> None:
        standing = self._standing.pop(number)
        fault, role = standing.fault, standing.fault.role or ""
        found = rules.receipt(fault, self._hosts.run(role, rules.ask(number, fault)))
        self._hosts.run(role, rules.lift(number, fault))
        if found:
            self._ledger.write("effective", fault=number, kind=fault.kind, **found)
        self._ledger.write("healed", fault=number, kind=fault.kind, seconds=time.monotonic() - standing.since)


def ask(folder: Path, number: int, fault: Fault) -> None:
    """In a role's process, which may be in any network: have the fault put in place.

    Raises:
        NetworkError: nobody is there to do it, it could not be done, or took longer than `ASK_SECONDS`.
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
    said = json.loads(answer) if answer else "the Network was left"
    if said:
        raise NetworkError(f"fault {number}: {said}")


@contextmanager
def _short(folder: Path) -> Iterator[str]:
    """The socket's path, within the 107 bytes that an address may have however long the folder's path is."""
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_SOCKET}"
    finally:
        os.close(descriptor)
