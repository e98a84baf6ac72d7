"""The commands for ip, nft, tc and ss, as text: which packets each fault hits, in which direction, and what the
counters prove; and what tc-netem(8) makes of the words for a `Slow`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from faults.inject.network import rules
from faults.inject.network.controller import Hosts, NetworkError
from faults.inject.network.rules import Command
from faults.plan import Fault
from tests.support.networks import require

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


def test_each_role_knows_the_hardware_of_the_others() -> None:
    text = rules.plug(rules.address(7), [rules.address(1), rules.address(250)]).text
    assert "link set eth0 addrgenmode none address 02:00:0a:4d:00:07\n" in text
    assert "neigh add 10.77.0.1 lladdr 02:00:0a:4d:00:01 dev eth0 nud permanent\n" in text
    assert "neigh add 10.77.0.250 lladdr 02:00:0a:4d:00:fa dev eth0 nud permanent\n" in text


SLOW = [
    "latency_ms=50",
    "latency_ms=0.001",
    "latency_ms=100000 kbit_per_second=1",
    "latency_ms=2000 jitter_ms=2000",
    "latency_ms=2000 jitter_ms=2000 reorder_percent=50",
    "latency_ms=12.5 jitter_ms=0.25 kbit_per_second=8000",
    "latency_ms=12.5 reorder_percent=0.0001",
    "latency_ms=0.5 jitter_ms=0.5 reorder_percent=2.5 kbit_per_second=100000000",
]


def slow(fields: str) -> Fault:
    return Fault.parse(f"Slow role=a {fields}")


def netem_of(words: tuple[str, ...]) -> dict[str, float]:
    """Read netem's options by the grammar of tc-netem(8), in microseconds and per cent:

    LIMIT := limit PACKETS; DELAY := delay TIME [ JITTER ]; REORDERING := reorder PERCENT
    """
    found: dict[str, float] = {}
    rest = list(words[words.index("netem") + 1 :])
    while rest:
        option = rest.pop(0)
        assert option in ("limit", "delay", "reorder"), option
        found[option] = number(rest.pop(0), {"limit": "", "delay": "us", "reorder": "%"}[option])
        if option == "delay" and rest and rest[0][0].isdigit():
            found["jitter"] = number(rest.pop(0), "us")
    return found


def number(text: str, unit: str) -> float:
    assert text.endswith(unit)
    return float(text.removesuffix(unit))


@pytest.mark.parametrize("fields", SLOW)
def test_netem_is_told_what_the_plan_says(fields: str) -> None:
    wanted = dict(each.split("=") for each in fields.split())
    told = netem_of(rules.shape(slow(fields))[0].words)
    assert told.pop("limit") > 10**6
    asked = {"delay": ("latency_ms", 1000), "jitter": ("jitter_ms", 1000), "reorder": ("reorder_percent", 1)}
    assert told == {option: float(wanted[field]) * unit for option, (field, unit) in asked.items() if field in wanted}


@pytest.mark.parametrize(
    ("fields", "option", "least"),
    [
        ("latency_ms=1e-9", "delay", 1),
        ("latency_ms=5 jitter_ms=1e-9", "jitter", 1),
        ("latency_ms=5 reorder_percent=1e-9", "reorder", 0.0001),
    ],
)
def test_a_number_that_is_too_small_for_tc_is_never_nothing(fields: str, option: str, least: float) -> None:
    assert netem_of(rules.shape(slow(fields))[0].words)[option] == least


def test_a_rate_is_within_the_latency() -> None:
    """netem is the root, and hands each packet to the bucket when its latency has passed."""
    both = [each.words for each in rules.shape(slow("latency_ms=5 kbit_per_second=9"))]
    assert [words[:5] for words in both] == [("tc", "qdisc", "add", "dev", "eth0")] * 2
    assert [words[5:9] for words in both] == [("root", "handle", "1:", "netem"), ("parent", "1:1", "handle", "2:")]
    alone = rules.shape(slow("kbit_per_second=9"))[0].words
    assert alone[5:7] == ("root", "tbf")
    assert both[1][9:] == alone[6:]
    assert len(rules.shape(slow("latency_ms=5"))) == 1


def netem(**counters: int) -> dict[str, Any]:
    return {"kind": "netem", "packets": 0, "bytes": 0, "drops": 0, "requeues": 0, "qlen": 0, **counters}


def tbf(**counters: int) -> dict[str, Any]:
    return {"kind": "tbf", "packets": 0, "bytes": 0, "drops": 0, "overlimits": 0, **counters}


LATE, MIXED, BOTH = "latency_ms=5", "latency_ms=5 reorder_percent=5", "latency_ms=5 kbit_per_second=5"
LEFT = {"packets": 7, "bytes": 700}


@pytest.mark.parametrize(
    ("fields", "shapers", "wanted"),
    [
        (LATE, [netem(**LEFT)], {**LEFT, "delayed": 7}),
        (LATE, [netem(**LEFT, qlen=2, drops=1)], {**LEFT, "delayed": 9, "drops": 1}),
        (LATE, [netem(qlen=1)], {"packets": 0, "bytes": 0, "delayed": 1}),
        (LATE, [netem()], {}),
        (LATE, [netem(**LEFT, requeues=7)], {**LEFT, "delayed": 7}),  # without reordering it means another thing
        (MIXED, [netem(**LEFT, requeues=3)], {**LEFT, "delayed": 4, "at_once": 3}),
        (MIXED, [netem(**LEFT)], {}),
        (MIXED, [netem(**LEFT, requeues=7)], {}),
        (MIXED, [netem(**LEFT, requeues=9)], {}),
        (BOTH, [netem(**LEFT), tbf(**LEFT, overlimits=2)], {**LEFT, "overlimits": 2, "delayed": 7}),
        (BOTH, [netem(**LEFT), tbf(**LEFT)], {}),
        (BOTH, [netem(), tbf(overlimits=2)], {}),
        ("kbit_per_second=5", [tbf(**LEFT, overlimits=2, drops=4)], {**LEFT, "overlimits": 2, "drops": 4}),
        ("kbit_per_second=5", [tbf(**LEFT, drops=4)], {}),
    ],
)
def test_each_part_of_a_slow_line_has_to_meet_a_packet(
    fields: str, shapers: list[dict[str, Any]], wanted: dict[str, int]
) -> None:
    assert rules.receipt(slow(fields), json.dumps([{"kind": "noqueue"}, *shapers])) == wanted


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    require()
    made = Hosts(["a"])
    yield made
    made.close()


def refusal(hosts: Hosts, command: Command) -> str:
    """Return the words with which tc or the kernel refuses a command; empty if they take it."""
    try:
        hosts.run("a", command)
    except NetworkError as error:
        return str(error).rpartition(": ")[2]
    return ""


@pytest.mark.long
def test_tc_can_read_every_command(hosts: Hosts) -> None:
    """tc reads the words before it asks the kernel, which may have no netem."""
    for fields in SLOW:
        for command in rules.shape(slow(fields)):
            if "netem" in command.words:
                assert refusal(hosts, command) in ("", "Specified qdisc kind is unknown."), command
        refusal(hosts, rules.LIFT)
    good = rules.shape(slow("latency_ms=5 reorder_percent=5"))[0]
    for word in ("5000us", "5.0000%"):
        wrong = Command(tuple(each.replace(word, f"x{word}") for each in good.words))
        assert wrong != good
        assert refusal(hosts, wrong) not in ("", "Specified qdisc kind is unknown."), wrong
