"""Choose the network interface to listen on when ranks are on several machines: the one that leads to the master."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import MutableMapping
from pathlib import Path

VARIABLES = ("TP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")

_SIOCGIFADDR = 0x8915  # linux/sockios.h
_ADDRESS_AT = 20  # of the four bytes of an IPv4 address in struct ifreq


def listen_towards(master: str, environ: MutableMapping[str, str] = os.environ) -> None:
    """Tell TensorPipe and gloo the interface towards ``master``, each unless the user did.

    By default they listen on the address of the host's own name, which is often loopback. If no interface can be found,
    this leaves the default.
    """
    name = interface_towards(master)
    if name is not None:
        for variable in VARIABLES:
            environ.setdefault(variable, name)


def interface_towards(master: str) -> str | None:
    """The interface with the address from which this machine would talk to ``master``, or None.

    On the master's own machine that is the interface with the master's address. If the master's *name* means loopback
    here, the result is None, because other machines know it by another address (Debian's 127.0.1.1). Sends nothing; may
    ask the resolver.
    """
    source = source_towards(master)
    if source is None or (is_loopback(source) and master != "localhost" and not is_loopback(master)):
        return None
    return next((name for name, address in addresses() if address == source), "lo" if is_loopback(source) else None)


def source_towards(master: str) -> str | None:
    """The address from which this machine would talk to ``master``."""
    try:
        found = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)  # a datagram socket's connect sends nothing
    except (OSError, UnicodeError):  # UnicodeError: no network can have this name
        return None
    for family, kind, protocol, _, address in found:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return None


def is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def addresses() -> list[tuple[str, str]]:
    """(interface, address) pairs: of each interface the first IPv4 address, where torch listens, and all IPv6 ones."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:
                continue  # the interface has no IPv4 address
            found.append((name, socket.inet_ntoa(answer[_ADDRESS_AT : _ADDRESS_AT + 4])))
    return found + _addresses6()


def _addresses6() -> list[tuple[str, str]]:
    table = Path("/proc/self/net/if_inet6")
    if not table.exists():
        return []
    rows = [line.split() for line in table.read_text().splitlines()]
    return [(row[-1], str(ipaddress.IPv6Address(bytes.fromhex(row[0])))) for row in rows]
