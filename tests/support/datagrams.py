"""Numbered datagrams from one network namespace to another: in which order they arrive, and how late."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from faults.inject.network.controller import Hosts
from reference.system import network_namespace


@dataclass(frozen=True)
class Arrival:
    """``seconds``: from when the sender sent it until the receiver had it."""

    number: int
    seconds: float


def arrivals(hosts: Hosts, sender: str, receiver: str, count: int, within: float) -> list[Arrival]:
    """Send so many datagrams at once, and return them as they arrive, at most ``within`` seconds apart."""
    address = hosts.addresses[receiver]
    with (
        closing(_socket_in(hosts.paths[receiver])) as heard,
        closing(_socket_in(hosts.paths[sender])) as told,
    ):
        heard.bind((address, 0))
        heard.settimeout(within)
        sent = {}
        for number in range(count):
            sent[number] = time.monotonic()
            told.sendto(number.to_bytes(4, "big"), heard.getsockname())
        found = []
        for _ in range(count):
            number = int.from_bytes(heard.recv(4), "big")
            found.append(Arrival(number, time.monotonic() - sent[number]))
        return found


def _socket_in(path: str) -> socket.socket:
    """Make a socket in a namespace: it stays in the network of the thread that made it."""

    def make() -> socket.socket:
        network_namespace.enter([path])
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    with ThreadPoolExecutor() as pool:
        return pool.submit(make).result()
