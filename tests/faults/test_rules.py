"""The commands for ip, nft, tc and ss, as text: which packets each fault hits, and in which direction."""

from __future__ import annotations

import json

import pytest

from faults.inject.network import rules
from faults.inject.network.rules import Command
from faults.plan import Fault

OWN, PEER = "10.77.0.1", "10.77.0.2"


def put(text: str, peer: str | None = None) -> list[Command]:
    return rules.put(3, Fault.parse(text), OWN, peer)


def lines(text: str, peer: str | None = None) -> list[str]:
    """Return the rules without their frame."""
    return [line for line in put(text, peer)[0].text.splitlines() if "counter" in line]


@pytest.mark.parametrize(
    ("direction", "wanted"),
    [
        ("out", ['oifname "eth0" counter drop']),
        ("in", ['iifname "eth0" counter drop']),
        ("both", ['oifname "eth0" counter drop', 'iifname "eth0" counter drop']),
    ],
)
def test_a_partition_drops_packets_by_direction(direction: str, wanted: list[str]) -> None:
    text = f"Partition role=a direction={direction}"
    assert lines(text) == wanted
    hooks = [line for line in put(text)[0].text.splitlines() if line.startswith("type")]
    assert [line.split()[3] for line in hooks] == [{"o": "output", "i": "input"}[line[0]] for line in wanted]
    limited = [each.replace('"eth0"', f'"eth0" ip {"daddr" if each[0] == "o" else "saddr"} {PEER}') for each in wanted]
    assert lines(text, PEER) == limited


@pytest.mark.parametrize(
    ("percent", "wanted"),
    [
        (0.0001, "numgen random mod 1000000 < 1 counter drop"),
        (0.00000001, "numgen random mod 1000000 < 1 counter drop"),
        (12.5, "numgen random mod 1000000 < 125000 counter drop"),
        (99.9999, "numgen random mod 1000000 < 999999 counter drop"),
        (100.0, "counter drop"),
    ],
)
def test_lossy_drops_a_share_of_the_packets(percent: float, wanted: str) -> None:
    fault = Fault(kind="Lossy", role="a", direction="out", percent=percent)
    assert f'oifname "eth0" {wanted}\n' in rules.put(0, fault, OWN, None)[0].text


@pytest.mark.parametrize(
    ("rate", "burst", "limit"), [(1, 4096, 65536), (8000, 10**4, 10**6), (10**8, 125 * 10**6, 2**30)]
)
def test_a_rate_has_room_for_packets(rate: int, burst: int, limit: int) -> None:
    words = put(f"Slow role=a kbit_per_second={rate}")[0].words
    assert words[6:] == ("tbf", "rate", f"{rate}kbit", "burst", str(burst), "limit", str(limit))


def rule(packets: int, count: int) -> dict[str, object]:
    return {"rule": {"expr": [{"match": {}}, {"counter": {"packets": packets, "bytes": count}}, {"drop": None}]}}


def test_a_receipt_sums_the_counters() -> None:
    fault = Fault.parse("Partition role=a direction=both")
    said = {"nftables": [{"metainfo": {}}, {"chain": {}}, rule(2, 120), rule(0, 0), rule(1, 60)]}
    assert rules.receipt(fault, json.dumps(said)) == {"packets": 3, "bytes": 180}
    assert rules.receipt(fault, json.dumps({"nftables": [rule(0, 0), rule(0, 0)]})) == {}


def test_a_shaper_that_hindered_nobody_has_no_receipt() -> None:
    fault = Fault.parse("Slow role=a kbit_per_second=1")
    shaper = {"kind": "tbf", "packets": 5, "bytes": 500, "overlimits": 2, "drops": 0}
    other = {"kind": "noqueue"}
    assert rules.receipt(fault, json.dumps([other, shaper])) == {"packets": 5, "bytes": 500, "overlimits": 2}
    assert rules.receipt(fault, json.dumps([other, {**shaper, "overlimits": 0}])) == {}


def test_each_role_knows_the_hardware_of_the_others() -> None:
    text = rules.plug(rules.address(7), [rules.address(1), rules.address(250)]).text
    assert "link set eth0 addrgenmode none address 02:00:0a:4d:00:07\n" in text
    assert "neigh add 10.77.0.1 lladdr 02:00:0a:4d:00:01 dev eth0 nud permanent\n" in text
    assert "neigh add 10.77.0.250 lladdr 02:00:0a:4d:00:fa dev eth0 nud permanent\n" in text
