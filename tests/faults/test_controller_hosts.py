"""Namespaces that only this process keeps alive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.inject.network.controller import Hosts, NetworkError
from faults.inject.network.rules import Command
from tests.support.networks import require


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    require()
    before = descriptors()
    made = Hosts(["a", "b"])
    yield made
    made.close()
    assert descriptors() == before


def interfaces(hosts: Hosts, role: str) -> dict[str, list[str]]:
    found = json.loads(hosts.run(role, Command(("ip", "-j", "addr"))))
    return {each["ifname"]: [entry["local"] for entry in each["addr_info"]] for each in found}


def test_each_role_has_a_namespace_and_address_of_its_own(hosts: Hosts) -> None:
    """Only the loopback has an IPv6 address, so the kernel sends no packet by itself."""
    assert interfaces(hosts, "a") == {"lo": ["127.0.0.1", "::1"], "eth0": ["10.77.0.1"]}
    assert interfaces(hosts, "b") == {"lo": ["127.0.0.1", "::1"], "eth0": ["10.77.0.2"]}
    here = Path("/proc/self/ns/net").readlink()
    assert len({here, *(Path(path).readlink() for path in hosts.paths.values())}) == 3


def test_the_kernel_sends_nothing_by_itself(hosts: Hosts) -> None:
    table = "table inet t { chain c { type filter hook output priority 0; counter; }; }"
    hosts.run("a", Command(("nft", "-f", "-"), table))
    hosts.run("b", Command(("nft", "-f", "-"), table))
    assert "packets 0 " in hosts.run("a", Command(("nft", "list", "table", "inet", "t")))


def test_a_programs_error_is_one_line(hosts: Hosts) -> None:
    with pytest.raises(NetworkError, match=r'^tc qdisc del dev eth9 root: Cannot find device "eth9"$'):
        hosts.run("a", Command(("tc", "qdisc", "del", "dev", "eth9", "root")))
    with pytest.raises(NetworkError, match=r"^sh -c exit 3: ended with 3$"):
        hosts.run("a", Command(("sh", "-c", "exit 3")))


def test_a_set_up_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    require()
    before = descriptors()
    monkeypatch.setattr(
        "faults.inject.network.controller.plug", lambda own, others: Command(("ip", "link", "set", "eth9", "up"))
    )
    with pytest.raises(NetworkError, match="eth9"):
        Hosts(["a", "b"])
    assert descriptors() == before
