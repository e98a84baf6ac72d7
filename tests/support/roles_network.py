"""Functions of roles in the tests of a network's faults: they enter the network, and return what they see of it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import torch.distributed.rpc as rpc

from faults.inject.announcer import Announcer
from faults.inject.network import network
from faults.ledger import Ledger
from faults.plan import Plan
from tests.support.answers import Answer, answer
from tests.support.roles_plain import await_true, name

_announcers: list[Announcer] = []
_undo: list[Callable[[], object]] = []


def enter_network(folder: Path, role: str) -> None:
    """Enter the network, with the plan of the folder: ``launch(before=partial(enter_network, folder))``."""
    network.enter(folder, role)
    plan = Plan.from_json((folder / "plan.json").read_text())
    announcer = Announcer(role)
    _announcers.append(announcer)
    _undo.append(network.prepare(plan, role, folder, Ledger(folder, role), announcer))


def announce(step: int) -> float:
    """Announce that this role is at this step. Return how long its actions took (seconds)."""
    start = time.monotonic()
    _announcers[0].announce("step", step)
    return time.monotonic() - start


def undo() -> None:
    _undo[0]()


def call(peer: str, timeout: float, size: int = 0) -> Answer:
    """Ask a peer for its name, or for how many bytes it was sent."""
    asked, given = (length, (torch.zeros(size, dtype=torch.uint8),)) if size else (name, ())
    return answer(lambda: rpc.rpc_sync(peer, asked, given, timeout=timeout))


def length(tensor: torch.Tensor) -> int:
    return tensor.numel()


def calls_until_late(peer: str, most: int, late: float) -> list[Answer]:
    """Call until three calls took longer than ``late`` seconds."""
    answers: list[Answer] = []
    while len(answers) < most and sum(each.seconds > late for each in answers) < 3:
        answers.append(call(peer, 60.0))
    return answers


_counted: list[str] = []


def count(caller: str) -> int:
    _counted.append(caller)
    return len(_counted)


def count_at(peer: str, timeout: float) -> Answer:
    """Call something that the peer counts."""
    return answer(lambda: rpc.rpc_sync(peer, count, (name(),), timeout=timeout))


def counted() -> int:
    """Return how often `count` executed here."""
    return len(_counted)


_go = threading.Event()
_entered = threading.Event()
_pending: list[torch.futures.Future[None]] = []


def stay() -> None:
    """Go on until `let_go`."""
    _entered.set()
    _go.wait(30)


def let_go() -> None:
    _go.set()


def await_entered() -> bool:
    return _entered.wait(10)


def start_stay(peer: str) -> None:
    _pending.append(rpc.rpc_async(peer, stay, timeout=20))


def end_of_stay() -> Answer:
    """Return how the call that `start_stay` began ended, and how long that took from now."""
    return answer(_pending.pop().wait)


def await_line(path: Path, text: str) -> None:
    """Wait until a file that others append to has this text, at most 20 s."""
    await_true(lambda: text in path.read_text(), 20, f"no {text} in {path}")


def networks_of_threads() -> dict[str, set[str]]:
    """Map each network namespace to the names of this process's threads that are in it."""
    found: dict[str, set[str]] = {}
    for task in Path("/proc/self/task").iterdir():
        found.setdefault(str((task / "ns/net").readlink()), set()).add(f"{(task / 'comm').read_text().strip()}")
    return found


def sockets_of_new_thread() -> list[str]:
    """Return the interfaces that a socket sees in a thread that is started now."""

    def look() -> list[str]:
        with socket.socket() as each:
            each.bind(("0.0.0.0", 0))
            return sorted(name for _, name in socket.if_nameindex())

    with ThreadPoolExecutor() as pool:
        return pool.submit(look).result()


def interfaces_told() -> list[str | None]:
    return [os.environ.get(name) for name in ("TP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")]


def bytes_sent() -> int:
    """Return the bytes that the interface has sent, by its own counter."""
    rows = Path("/proc/thread-self/net/dev").read_text().splitlines()
    row = next(each for each in rows if each.strip().startswith("eth0:"))
    return int(row.split()[9])
