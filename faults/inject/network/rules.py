"""Write the commands for ip, nft, tc and ss as plain text, and read their counters. Run nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faults.plan.plan import Fault

# The one interface of each role's namespace.
INTERFACE = "eth0"


@dataclass(frozen=True)
class Command:
    """The words of a command, and the text for its standard input."""

    words: tuple[str, ...]
    text: str = ""


# How many packets netem holds before it drops further ones: as many as TCP sends. Its default of 1,000 is too few for a
# fast line.
_MOST_HELD = 10**9

ASK = Command(("tc", "-s", "-j", "qdisc", "show", "dev", INTERFACE))
LIFT = Command(("tc", "qdisc", "del", "dev", INTERFACE, "root"))


def shape(fault: Fault) -> list[Command]:
    """Shape what the fault's role sends."""
    commands = []
    if fault.latency_ms is not None:
        commands.append(_added("root", "handle", "1:", *_netem(fault, fault.latency_ms)))
    if fault.kbit_per_second is not None:
        place = ("parent", "1:1", "handle", "2:") if commands else ("root",)
        commands.append(_added(*place, *_bucket(fault.kbit_per_second)))
    return commands


def receipt_of_slow(fault: Fault, said: str) -> dict[str, int]:
    """Read the counters in the output of `ASK`. {}: the rate, the latency or the reordering met no packet.

    ``packets`` and ``bytes``: those that have left. ``overlimits``: how often one had to wait for the rate.
    ``delayed``: the packets that had to wait for the latency, or still wait. ``at_once``: those that did not, because
    of ``reorder_percent``. ``drops``: the packets that were lost because too many waited; absent if none was.
    """
    shapers = {each["kind"]: each for each in json.loads(said)}
    proof = {}
    if fault.kbit_per_second is not None:
        proof["overlimits"] = shapers["tbf"]["overlimits"]
    if fault.latency_ms is not None:
        proof |= _latency(fault, shapers["netem"])
    root = shapers["tbf" if fault.latency_ms is None else "netem"]
    lost = {"drops": root["drops"]} if root["drops"] else {}
    return {"packets": root["packets"], "bytes": root["bytes"], **proof, **lost} if all(proof.values()) else {}


def _latency(fault: Fault, netem: dict[str, Any]) -> dict[str, int]:
    """Count what netem has delayed, and what it has not. It counts as requeued what it sends at once."""
    waited = netem["packets"] + netem["qlen"]
    if fault.reorder_percent is None:
        return {"delayed": waited}
    return {"delayed": max(0, waited - netem["requeues"]), "at_once": netem["requeues"]}


def _netem(fault: Fault, latency_ms: float) -> list[str]:
    """Write the words of tc-netem(8): times in whole microseconds, the share in millionths."""
    words = ["netem", "limit", str(_MOST_HELD), "delay", _time(latency_ms)]
    if fault.jitter_ms is not None:
        words.append(_time(fault.jitter_ms))
    if fault.reorder_percent is not None:
        words += ["reorder", f"{max(1, round(fault.reorder_percent * 10_000)) / 10_000:.4f}%"]
    return words


def _time(milliseconds: float) -> str:
    return f"{max(1, round(milliseconds * 1000))}us"


def _bucket(kbit_per_second: int) -> list[str]:
    """Write the words of tc-tbf(8). The bucket holds 10 ms of the rate, at least two packets; 1 s of the rate may wait,
    at least 64 KiB."""
    rate = kbit_per_second * 1000 // 8
    burst, limit = max(4096, rate // 100), max(1 << 16, min(rate, 1 << 30))
    return ["tbf", "rate", f"{kbit_per_second}kbit", "burst", str(burst), "limit", str(limit)]


def _added(*words: str) -> Command:
    return Command(("tc", "qdisc", "add", "dev", INTERFACE, *words))


# A private range (RFC 1918), which is not visible outside the namespaces.
_NETWORK = "10.77.0"
MOST_ROLES = 250

# The range from which numgen draws a number per packet (a millionth is the finest `percent`).
_DRAWS = 1_000_000


def address(number: int) -> str:
    """Return the address of the role with this number, from 1."""
    return f"{_NETWORK}.{number}"


def cables(namespaces: Sequence[str]) -> Command:
    """Make, in the switch, a bridge, and a cable (veth pair) to ``eth0`` in each of these namespaces.

    Neither here nor in `plug` are there IPv6 addresses: the kernel would send packets of its own, which would be
    counted.
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


def plug(own: str, others: Sequence[str]) -> Command:
    """Give, in a role's namespace, the interface its addresses, start both interfaces, and name the others' hardware.

    So no role asks for hardware addresses (ARP). The kernel gives up after 3 s, and a slow line may take longer.
    """
    lines = ["link set lo up", f"link set {INTERFACE} addrgenmode none address {_hardware(own)}"]
    lines += [f"addr add {own}/24 dev {INTERFACE}", f"link set {INTERFACE} up"]
    lines += [f"neigh add {each} lladdr {_hardware(each)} dev {INTERFACE} nud permanent" for each in others]
    return Command(("ip", "-batch", "-"), _text(lines))


def _hardware(own: str) -> str:
    """Return the hardware address of an address: its four bytes after 02:00, which marks a local one."""
    return ":".join(["02", "00", *(f"{int(byte):02x}" for byte in own.split("."))])


def put(number: int, fault: Fault, own: str, peer: str | None) -> list[Command]:
    """Put a fault into the namespace of its role. ``own``: the role's address; ``peer``: its peer's address."""
    if fault.kind == "Slow":
        return shape(fault)
    commands = [Command(("nft", "-f", "-"), _table(number, fault, peer))]
    if fault.kind == "Reset":
        commands.append(_broken(own, peer))
    return commands


def lift(number: int, fault: Fault) -> Command:
    """Remove a fault again."""
    if fault.kind == "Slow":
        return LIFT
    return Command(("nft", "delete", "table", "inet", f"fault_{number}"))


def ask(number: int, fault: Fault) -> Command:
    """Print a fault's counters, for `receipt`."""
    if fault.kind == "Slow":
        return ASK
    return Command(("nft", "-j", "list", "table", "inet", f"fault_{number}"))


def receipt(fault: Fault, said: str) -> dict[str, int]:
    """Read the counters in the output of `ask`: packets, bytes, and for Slow those of `receipt_of_slow`. {}: no hit."""
    if fault.kind == "Slow":
        return receipt_of_slow(fault, said)
    expressions = [each for item in json.loads(said)["nftables"] if "rule" in item for each in item["rule"]["expr"]]
    counters = [each["counter"] for each in expressions if "counter" in each]
    found = {name: sum(counter[name] for counter in counters) for name in ("packets", "bytes")}
    return found if found["packets"] else {}


def _table(number: int, fault: Fault, peer: str | None) -> str:
    """Write a fault's own table, so that each fault has its own counters and is removed as a whole."""
    lines = [f"table inet fault_{number} {{"]
    for hook, interface, end, _ in _sides(fault):
        match = f'{interface} "{INTERFACE}"' + (f" ip {end} {peer}" if peer else "")
        lines += [f"chain {hook} {{", f"type filter hook {hook} priority 0"]
        lines += [f"{match} {action}" for action in _actions(fault, hook)]
        lines.append("}")
    return _text([*lines, "}"])


def _sides(fault: Fault) -> list[tuple[str, str, str, str]]:
    """Return (hook, the name of the interface's match, that of the peer's address, direction). The loopback is never
    matched."""
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
    # Every sender gets a reset. Resets themselves pass: those of the input rule leave through this chain, and so do
    # those of `_broken`.
    reject = "tcp flags & rst == 0 counter reject with tcp reset"
    return ["tcp flags & rst != 0 counter accept", reject] if hook == "output" else [reject]


def _broken(own: str, peer: str | None) -> Command:
    """Break idle connections at both ends, too.

    A kernel without CONFIG_INET_DIAG_DESTROY breaks none; then each end gets the reset when it sends.
    """
    ends = ["dst", peer] if peer else ["dst", f"{_NETWORK}.0/24", "and", "not", "dst", own]
    return Command(("ss", "-K", "-H", "-t", "-n", *ends))


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
