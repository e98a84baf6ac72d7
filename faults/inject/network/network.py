"""Faults of the network: each role has a network namespace of its own, and a switch joins them.

    with Network(["ps", "trainer1"], folder, plan) as network:
        with launch(roles, before=..., options=network.options) as world:   # `before` calls `enter`, then `prepare`
            world.wait()

It needs Linux, root, and Debian's iproute2 and nftables. Processes, rendezvous and files stay as in a world without it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from faults.inject.announcer import Announcer
from faults.inject.network import controller, rules
from faults.inject.network.controller import Hosts, NetworkError, lacking_programs
from faults.inject.network.rules import INTERFACE
from faults.ledger.ledger import Ledger
from faults.plan.plan import Fault, Plan
from reference.system import network_namespace

__all__ = ["Network", "NetworkError", "enter", "missing", "missing_netem", "prepare"]

_FILE = "network.json"
_VARIABLES = ("TP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


class Network:
    """The namespaces of these roles, from ``with`` until its end, when every fault that is still in place is healed.

    It writes ``folder/network.json``: role to its namespace's path. The ledger ``+network`` there has the counters of
    hit packets. ``plan``: the plan of the roles, for which entering tries what only some kernels have; without it a
    fault that this kernel cannot make fails at its moment.

    Raises:
        NetworkError: `missing` says why, the names cannot be roles of a network, or the plan needs netem, which this
            kernel does not have.
    """

    # For `launch`. By default TensorPipe would go around the network: its channel `cma` reads a large tensor
    # straight from the sender's memory, its transport `shm` uses no sockets, and neither minds namespaces.
    options: ClassVar[Mapping[str, Any]] = {"_transports": ["uv"], "_channels": ["basic"]}

    def __init__(self, roles: Sequence[str], folder: Path, plan: Plan | None = None) -> None:
        if not 0 < len(roles) <= rules.MOST_ROLES or len(set(roles)) != len(roles):
            got = ", ".join(roles) or "none"
            raise NetworkError(f"a network needs 1 to {rules.MOST_ROLES} different roles, got {got}")
        if lacking := lacking_programs():
            raise NetworkError(lacking)
        self.roles, self.folder, self._plan = tuple(roles), Path(folder), plan or Plan()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self.hosts = undo.enter_context(closing(Hosts(self.roles)))
            if controller.needs_netem(self._plan):
                controller.try_netem(self.hosts, self.roles[0])
            undo.enter_context(closing(controller.NetworkController(self.hosts, self.folder)))
            undo.callback((self.folder / _FILE).unlink, missing_ok=True)  # then its paths are no longer valid
            (self.folder / _FILE).write_text(json.dumps(self.hosts.paths, indent=1))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()


def missing() -> str | None:
    """Say in one line what a Network with every kind of fault lacks here; None if nothing. Takes some 50 ms.

    For a `Slow` with ``latency_ms`` there is `missing_netem`.
    """
    samples = [
        Fault(kind="Partition", role="a", direction="both"),
        Fault(kind="Reset", role="a"),
        Fault(kind="Lossy", role="a", direction="both", percent=50.0),
        Fault(kind="Slow", role="a", kbit_per_second=1000),
    ]

    def put(hosts: Hosts) -> None:
        for number, fault in enumerate(samples):
            for command in rules.put(number, fault, hosts.addresses["a"], None):
                hosts.run("a", command)

    return _refusal(put)


def missing_netem() -> str | None:
    """Say in one line why packets cannot have a latency here; None if they can. Takes some 30 ms."""
    return _refusal(lambda hosts: controller.try_netem(hosts, "a"))


def _refusal(work: Callable[[Hosts], None]) -> str | None:
    """Return the line with which hosts of one role, or this work with them, are refused; None if they are not."""
    if lacking := lacking_programs():
        return lacking
    try:
        with closing(Hosts(["a"])) as hosts:
            work(hosts)
    except NetworkError as error:
        return str(error)
    return None


def enter(folder: Path, role: str) -> None:
    """Move this process into the role's network: the main thread, and every thread that it starts afterwards.

    Call it before RPC starts, because existing threads stay outside. RPC and gloo are told to listen on the network's
    interface. The process cannot return.

    Raises:
        NetworkError: the folder has no Network, or none for this role; or this is not the main thread; or it is not
            permitted.
    """
    if threading.current_thread() is not threading.main_thread():
        raise NetworkError("a role enters its network on the main thread, from which RPC's threads come")
    path = _place(_places(folder), role)
    try:
        network_namespace.enter([path])
    except OSError as error:
        raise NetworkError(f"{role} cannot enter its network {path}: {error.strerror}") from error
    os.environ.update(dict.fromkeys(_VARIABLES, INTERFACE))


def prepare(plan: Plan, role: str, folder: Path, ledger: Ledger, announcer: Announcer) -> Callable[[], None]:
    """Get ready, in a role's process, to fire the network's faults at moments of this role.

    A fault without a moment is put in place now, before RPC starts, by the role that it names. Return a function that
    makes later moments do nothing. Only the Network heals faults.

    Raises:
        NetworkError: the folder has no Network, or a fault is impossible in it, or could not be put in place.
    """
    faults = plan.at("network")
    if not faults:
        return lambda: None
    places = _places(folder)
    for name in (name for fault in faults.values() for name in (fault.role, fault.peer) if name is not None):
        _place(places, name)
    over = threading.Event()

    def fire(number: int, fault: Fault) -> None:
        if not over.is_set():
            ledger.write("fired", fault=number, kind=fault.kind, hurt=fault.role, at=fault.at)
            controller.ask(folder, number, fault)

    for number, fault in faults.items():
        moment = fault.moment
        if role == (fault.role if moment is None else moment.role):
            ledger.write("planned", fault=number, kind=fault.kind)
            if moment is None:
                fire(number, fault)
            else:
                announcer.subscribe(moment, partial(fire, number, fault))
    return over.set


def _places(folder: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((Path(folder) / _FILE).read_text())
    except FileNotFoundError:
        raise NetworkError(f"no Network in {folder}: wanted one around a world with faults of a network") from None
    return found


def _place(places: Mapping[str, str], role: str) -> str:
    if role not in places:
        raise NetworkError(f"no role {role!r} in the network, wanted one of {', '.join(places)}")
    return places[role]
