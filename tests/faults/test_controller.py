"""Namespaces that only this process keeps alive, and the thread that puts, heals and reads faults there: which
questions it answers, and when it heals."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.inject.network.controller import PATH, Hosts, NetworkController, NetworkError, ask
from faults.inject.network.rules import Command
from faults.plan import Fault
from tests.support import roles_network
from tests.support.networks import require, told

CUT = Fault.parse("Partition role=a direction=out")


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


def tables(hosts: Hosts) -> list[str]:
    return hosts.run("a", Command(("nft", "list", "tables"))).splitlines()


def test_a_fault_is_healed_when_it_is_due(hosts: Hosts, tmp_path: Path) -> None:
    """Faults heal in the order in which they are due, while others stay until the end."""
    controller = NetworkController(hosts, tmp_path)
    for number, seconds in enumerate((1.5, 0.1, 100.0)):
        ask(tmp_path, number, Fault(kind="Partition", role="a", direction="out", seconds=seconds))
    roles_network.await_line(tmp_path / "+network.jsonl", '"healed", "time"')
    roles_network.await_line(tmp_path / "+network.jsonl", '"fault": 0')
    assert tables(hosts) == ["table inet fault_2"]
    controller.close()
    assert tables(hosts) == []
    assert [number for _, _, number in told(tmp_path, "healed")] == [1, 0, 2]


def test_a_refused_fault_changes_nothing(hosts: Hosts, tmp_path: Path) -> None:
    controller = NetworkController(hosts, tmp_path)
    try:
        with pytest.raises(NetworkError, match=r"^fault 0: KeyError: 'z'$"):
            ask(tmp_path, 0, Fault.parse("Reset role=z"))
        ask(tmp_path, 1, Fault.parse("Slow role=a kbit_per_second=5"))
        with pytest.raises(NetworkError, match=r"^fault 1: it is there already$"):
            ask(tmp_path, 1, CUT)
        assert tables(hosts) == []
        assert "tbf" in hosts.run("a", Command(("tc", "qdisc")))
    finally:
        controller.close()
    assert "tbf" not in hosts.run("a", Command(("tc", "qdisc")))


@pytest.mark.parametrize(
    "question",
    [b"nonsense", b"{}", b'{"number": 1, "fault": {"kind": "Crash"}}', b""],
    ids=["text", "empty", "crash", "none"],
)
def test_nonsense_is_answered_and_forgotten(
    question: bytes, hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks and ends, and one that never asks, change nothing."""
    controller = NetworkController(hosts, tmp_path)
    monkeypatch.chdir(tmp_path)  # the absolute path may be longer than a socket's address
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        try:
            silent.connect("network.socket")
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
                asking.settimeout(10)
                asking.connect("network.socket")
                if question:
                    asking.send(question)
                    assert json.loads(asking.recv(1 << 16))
            ask(tmp_path, 0, CUT)
        finally:
            controller.close()
        assert silent.recv(1) == b""


def test_a_program_that_does_not_end_is_an_error(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.inject.network.controller.PROGRAM_SECONDS", 0.1)
    with pytest.raises(NetworkError, match=r"^sleep took more than 0\.1 s$"):
        hosts.run("a", Command(("sleep", "1000")))


def test_a_program_that_cannot_be_started_is_an_error(hosts: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faults.inject.network.controller.PATH", "/nowhere")
    with pytest.raises(NetworkError, match=r"^nsenter cannot be started: No such file or directory$"):
        hosts.run("a", Command(("ip", "addr")))


def test_a_rule_that_cannot_be_is_taken_back(hosts: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of packets is there before the program that breaks idle connections fails."""
    (tmp_path / "ss").write_text("#!/bin/sh\necho no >&2; exit 1\n")
    (tmp_path / "ss").chmod(0o755)
    monkeypatch.setattr("faults.inject.network.controller.PATH", f"{tmp_path}:{PATH}")
    controller = NetworkController(hosts, tmp_path)
    with pytest.raises(NetworkError, match=r"^fault 0: ss -K .*: no$"):
        ask(tmp_path, 0, Fault.parse("Reset role=a"))
    assert tables(hosts) == []
    controller.close()
    assert told(tmp_path) == []


def test_a_fault_that_was_removed_from_outside_is_an_error(hosts: Hosts, tmp_path: Path) -> None:
    controller = NetworkController(hosts, tmp_path)
    ask(tmp_path, 0, CUT)
    hosts.run("a", Command(("nft", "flush", "ruleset")))
    with pytest.raises(NetworkError, match=r"^the network's faults could not be healed: nft .*No such file"):
        controller.close()


def test_after_close_a_question_fails(hosts: Hosts, tmp_path: Path) -> None:
    NetworkController(hosts, tmp_path).close()
    with pytest.raises(NetworkError, match=r"^fault 0: the Network in .* does not answer \(\[Errno 2\]"):
        ask(tmp_path, 0, CUT)
    assert [thread.name for thread in threading.enumerate() if thread.name == "network"] == []


def test_a_file_of_the_users_own_is_never_removed(hosts: Hosts, tmp_path: Path) -> None:
    (tmp_path / "network.socket").write_text("mine")
    with pytest.raises(NetworkError, match=r"is no socket, so no run has made it: wanted a folder without it$"):
        NetworkController(hosts, tmp_path)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("network.socket", "mine")]


def test_a_folder_may_have_a_name_longer_than_a_sockets_address(hosts: Hosts, tmp_path: Path) -> None:
    """A socket that a killed launcher left there does not matter."""
    folder = tmp_path / ("long" * 50)
    folder.mkdir()
    os.mknod(folder / "network.socket", stat.S_IFSOCK | 0o600)
    controller = NetworkController(hosts, folder)
    ask(folder, 0, CUT)
    controller.close()
    assert told(folder) == [("+network", "healed", 0)]


def interfaces(hosts: Hosts, role: str) -> dict[str, list[str]]:
    found = json.loads(hosts.run(role, Command(("ip", "-j", "addr"))))
    return {each["ifname"]: [entry["local"] for entry in each["addr_info"]] for each in found}


def test_each_role_has_a_namespace_and_address_of_its_own(hosts: Hosts) -> None:
    """Only the loopback has an IPv6 address, so the kernel sends no packet by itself."""
    assert interfaces(hosts, "a") == {"lo": ["127.0.0.1", "::1"], "eth0": ["10.77.0.1"]}
    assert interfaces(hosts, "b") == {"lo": ["127.0.0.1", "::1"], "eth0": ["10.77.0.2"]}
    here = Path("/proc/self/ns/net").readlink()
    assert len({here, *(Path(path).readlink() for path in hosts.paths.values())}) == 3


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
