"""Commands for ip, nft, tc and ss as plain text, and readers of their counters. Runs nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from faults.plan.plan import Fault

# The one interface of each role's namespace.
INTERFACE = "eth0"

# A private range (RFC 1918); nobody outside the namespaces ever hears of it.
_NETWORK = "10.77.0"
MOST_ROLES = 250

# Of these many packets, numgen draws one (a millionth is the finest `percent`).
_DRAWS = 1_000_000


@dataclass(frozen=True)
class Command:
    """A program's words, and what it reads from its standard input."""

    words: tuple[str, ...]
    text: str = ""


def address(number: int) -> str:
    """Of the role of this number, from 1."""
    return f"{_NETWORK}.{number}"


def cables(namespaces: Sequence[str]) -> Command:
    """In the switch: a bridge, and a cable (veth pair) to ``eth0`` in each of these namespaces' paths.

    No addresses of IPv6, here and in `plug`: the kernel would send packets of its own, which counters would count.
    """
    lines = ["link add br0 type bridge", "link set br0 addrgenmode none", "link set br0 up"]
    for number, path in enumerate(namespaces, start=1):
        port = f"port{number}"
        lines += [
            f"link add {port} type veth peer name {INTERFACE} netns {path}",
            f"link set {port} addrgenmode none",
            f"link set {port} master br0 up",
        ]
    return Command(("ip", "-batch", "-"), _text(lines))


def plug(own: str) -> Command:
    """In a role's namespace: its address, and both interfaces up."""
    lines = ["link set lo up", f"link set {INTERFACE} addrgenmode none", f"addr add {own}/24 dev {INTERFACE}"]
    return Command(("ip", "-batch", "-"), _text([*lines, f"link set {INTERFACE} up"]))


def put(number: int, fault: Fault, own: str, peer: str | None) -> list[Command]:
    """What puts a fault in the namespace of its role, whose address is ``own``; ``peer``: the address of its peer."""
    if fault.kind == "Slow":
        assert fault.kbit_per_second is not None
        return [_shaped(fault.kbit_per_second)]
    commands = [Command(("nft", "-f", "-"), _table(number, fault, peer))]
    if fault.kind == "Reset":
        commands.append(_broken(own, peer))
    return commands


def lift(number: int, fault: Fault) -> Command:
    """What takes it away again."""
    if fault.kind == "Slow":
        return Command(("tc", "qdisc", "del", "dev", INTERFACE, "root"))
    return Command(("nft", "delete", "table", "inet", f"fault_{number}"))


def ask(number: int, fault: Fault) -> Command:
    """What prints its counters, for `receipt`."""
    if fault.kind == "Slow":
        return Command(("tc", "-s", "-j", "qdisc", "show", "dev", INTERFACE))
    return Command(("nft", "-j", "list", "table", "inet", f"fault_{number}"))


def receipt(fault: Fault, said: str) -> dict[str, int]:
    """The counters in what `ask` printed: packets, bytes, and for Slow how often one had to wait. {} if it hit none."""
    values = json.loads(said)
    if fault.kind == "Slow":
        shaper = next(each for each in values if each["kind"] == "tbf")
        return {name: shaper[name] for name in ("packets", "bytes", "overlimits")} if shaper["overlimits"] else {}
    expressions = [each for item in values["nftables"] if "rule" in item for each in item["rule"]["expr"]]
    counters = [each["counter"] for each in expressions if "counter" in each]
    found = {name: sum(counter[name] for counter in counters) for name in ("packets", "bytes")}
    return found if found["packets"] else {}


def _table(number: int, fault: Fault, peer: str | None) -> str:
    """A table of its own for each fault, so that each has its own counters and goes as one."""
    lines = [f"table inet fault_{number} {{"]
    for hook, interface, end, _ in _sides(fault):
        match = f'{interface} "{INTERFACE}"' + (f" ip {end} {peer}" if peer else "")
        lines += [f"chain {hook} {{", f"type filter hook {hook} priority 0"]
        lines += [f"{match} {action}" for action in _actions(fault, hook)]
        lines.append("}")
    return _text([*lines, "}"])


def _sides(fault: Fault) -> list[tuple[str, str, str, str]]:
    """(hook, which interface it is matched by, which address the peer's is, direction). Never the loopback."""
    sides = [("output", "oifname", "daddr", "out"), ("input", "iifname", "saddr", "in")]
    return [side for side in sides if fault.direction in (None, "both", side[3])]


def _actions(fault: Fault, hook: str) -> list[str]:
    if fault.kind == "Partition":
        return ["counter drop"]
    if fault.kind == "Lossy":
        assert fault.percent is not None
        lost = max(1, round(fault.percent / 100 * _DRAWS))
        return [f"numgen random mod {_DRAWS} < {lost} counter drop" if lost < _DRAWS else "counter drop"]
    assert fault.kind == "Reset", fault
    # Whoever sends is answered with a reset. Resets themselves pass: those that the rule on the way in makes go out
    # here, and so do those of `_broken`.
    reject = "tcp flags & rst == 0 counter reject with tcp reset"
    return ["tcp flags & rst != 0 counter accept", reject] if hook == "output" else [reject]


def _broken(own: str, peer: str | None) -> Command:
    """Break, at both ends, also those connections on which nobody happens to send.

    A kernel without CONFIG_INET_DIAG_DESTROY breaks none here: then each end hears of it when it sends.
    """
    ends = ["dst", peer] if peer else ["dst", f"{_NETWORK}.0/24", "and", "not", "dst", own]
    return Command(("ss", "-K", "-H", "-t", "-n", *ends))


def _shaped(kbit_per_second: int) -> Command:
    """A token bucket. It holds 10 ms of the rate, at least two packets; 1 s of it may wait, at least 64 KiB."""
    rate = kbit_per_second * 1000 // 8
    burst, limit = max(4096, rate // 100), max(1 << 16, min(rate, 1 << 30))
    size = ("rate", f"{kbit_per_second}kbit", "burst", str(burst), "limit", str(limit))
    return Command(("tc", "qdisc", "add", "dev", INTERFACE, "root", "tbf", *size))


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
