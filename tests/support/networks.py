"""Worlds on a network of their own, for tests, under a plan, and the events in their ledger."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from faults.inject.network import network
from faults.inject.network.controller import enter_namespace
from faults.inject.network.network import Network
from faults.ledger import Event, ledger
from faults.plan import Plan
from reference.world import World, launch
from tests.support import required, roles_network

# From linux/rtnetlink.h.
_RTMGRP_LINK = 1
_RTM_DELLINK = 17


def require() -> None:
    """Skip if networks are not permitted, or fail (`required`)."""
    required.require(network.missing())


def require_netem() -> None:
    """Skip if the kernel has no netem, in CI as well: few kernels that are made for virtual machines have it."""
    lacking = network.missing_netem()
    if lacking:
        pytest.skip(lacking)


@contextmanager
def faulty_world(folder: Path, plan: str, roles: str = "abc", **options: Any) -> Iterator[World]:
    """Start idle roles on a network of their own, one per letter, under the plan. Receipts exist after the block."""
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(Plan.parse(plan).to_json())
    names, before = list(roles), partial(roles_network.enter_network, folder)
    with Network(names, folder) as made, launch(names, before=before, options={**made.options, **options}) as world:
        for role in roles:
            world.call(role, roles_network.name)  # RPC is up
        yield world


def events(folder: Path, *kinds: str) -> list[Event]:
    return ledger.read(folder).of(*kinds)


def told(folder: Path, *kinds: str) -> list[tuple[str, str, int]]:
    """Return (role, event, number of the fault) in the order of time."""
    wanted = kinds or ("planned", "fired", "effective", "healed")
    return [(each.role, each.event, each.details["fault"]) for each in events(folder, *wanted)]


class Watch:
    """The interfaces of a namespace, and the kernel's notice of each one's end. It keeps the namespace alive."""

    def __init__(self, namespace: str) -> None:
        # A socket stays in the network in which it was made.
        thread = threading.Thread(target=self._open, args=(namespace,))
        thread.start()
        thread.join()

    def _open(self, namespace: str) -> None:
        enter_namespace(namespace)
        self._notices = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._notices.bind((0, _RTMGRP_LINK))
        self.interfaces = {name: index for index, name in socket.if_nameindex()}

    def left_after(self, names: set[str], seconds: float) -> set[str]:
        """Return those of ``names`` that still exist after at most so many seconds without a notice."""
        left = {self.interfaces[name]: name for name in names}
        self._notices.settimeout(seconds)
        with suppress(TimeoutError):
            while left:
                for kind, index in _notices(self._notices.recv(1 << 16)):
                    if kind == _RTM_DELLINK:
                        left.pop(index, None)
        return set(left.values())

    def close(self) -> None:
        self._notices.close()


def _notices(message: bytes) -> Iterator[tuple[int, int]]:
    """Yield (what, which interface), of each struct nlmsghdr with its struct ifinfomsg, without those of the bridge
    alone."""
    while len(message) >= 32:
        size, kind = struct.unpack_from("=IH", message)
        family, index = struct.unpack_from("=B3xi", message, 16)
        if family == socket.AF_UNSPEC:
            yield kind, index
        message = message[(size + 3) // 4 * 4 :]
