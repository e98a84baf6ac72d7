"""Write tc's commands for a `Slow`, and read its counters. Run nothing.

The rate is that of a token bucket (tbf), which counts how often a packet had to wait. The latency is netem's, which not
every kernel has. Where there are both, netem holds each packet first and then hands it to the bucket; netem's own
``rate`` does not count the packets that had to wait for it.
"""

from __future__ import annotations

import json
from typing import Any

from faults.inject.network.command import INTERFACE, Command
from faults.plan.plan import Fault

# How many packets netem holds before it drops further ones: as many as TCP sends. Its default of 1,000 is too few for a
# fast line.
_MOST_HELD = 10**9

ASK = Command(("tc", "-s", "-j", "qdisc", "show", "dev", INTERFACE))
LIFT = Command(("tc", "qdisc", "del", "dev", INTERFACE, "root"))


def put(fault: Fault) -> list[Command]:
    """Shape what the fault's role sends."""
    commands = []
    if fault.latency_ms is not None:
        commands.append(_added("root", "handle", "1:", *_netem(fault, fault.latency_ms)))
    if fault.kbit_per_second is not None:
        place = ("parent", "1:1", "handle", "2:") if commands else ("root",)
        commands.append(_added(*place, *_bucket(fault.kbit_per_second)))
    return commands


def receipt(fault: Fault, said: str) -> dict[str, int]:
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
