"""The network interface that leads to the master, and a start with many roles."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from reference.outcome import Returned
from reference.system.files import RENDEZVOUS
from reference.system.isolated_network import network
from reference.world import launch, rpc_agent
from reference.world.rpc_agent import VARIABLES, Meeting, addresses, interface_towards, listen_towards
from tests.support import roles_grace, roles_isolation, roles_plain, roles_rrefs
from tests.support.required import require


@pytest.mark.parametrize("master", ["127.0.0.1", "localhost", "127.0.1.1"])
def test_a_loopback_master_is_on_the_loopback_interface(master: str) -> None:
    assert interface_towards(master) == "lo"


def test_a_name_that_means_loopback_here_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian's 127.0.1.1: the other machines know this one by another address."""
    answer = [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.1.1", 9))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kinds: answer)
    assert interface_towards("node0") is None


def test_a_name_that_nobody_knows_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: object, **kinds: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    environ: dict[str, str] = {}
    listen_towards("nobody", environ)
    assert environ == {}


def test_each_address_of_this_machine_is_its_own_interfaces() -> None:
    """On the master's machine the interface is the one with its address. Link-local addresses need a scope."""
    known = {address: name for name, address in addresses() if not address.startswith("fe80")}
    assert known["127.0.0.1"] == "lo"
    assert {address: interface_towards(address) for address in known} == known


def test_the_source_decides_not_the_first_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc_agent, "addresses", lambda: [("eth0", "10.1.0.5"), ("ib0", "10.2.0.5")])
    monkeypatch.setattr(rpc_agent, "source_towards", {"a": "10.2.0.5", "b": "10.1.0.5", "c": "10.3.0.5"}.get)
    assert [interface_towards(master) for master in "abcd"] == ["ib0", "eth0", None, None]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, dict.fromkeys(VARIABLES, "lo")),
        ({"TP_SOCKET_IFNAME": "eth7"}, {"TP_SOCKET_IFNAME": "eth7", "GLOO_SOCKET_IFNAME": "lo"}),
        (dict.fromkeys(VARIABLES, "eth7"), dict.fromkeys(VARIABLES, "eth7")),
    ],
)
def test_what_the_user_set_stays(given: dict[str, str], wanted: dict[str, str]) -> None:
    listen_towards("127.0.0.1", given)
    assert given == wanted


@pytest.mark.parametrize("master", ["a" * 70, "..", "a..b", "\udcff", "\x1b", "", "255.255.255.255"], ids=range(7))
def test_what_no_socket_connects_to_is_on_no_interface(master: str) -> None:
    """Neither the codec's error of a name comes through, nor the kernel's, which lets nobody talk to all machines."""
    assert interface_towards(master) is None


def test_a_roles_listener_has_room_for_all_connections_that_the_system_allows() -> None:
    """torch asks for 128, which 65 roles that start at once exceed."""
    with socket.create_server(("127.0.0.1", 0), backlog=128), launch(["a"]) as world:
        limits, most = world.call("a", roles_isolation.queue_limits)
        assert limits == {min(socket.SOMAXCONN, most)}


def test_nobody_connects_before_the_first_roles_listener_has_room(tmp_path: Path) -> None:
    roles, before = dict.fromkeys("ab", roles_plain.nothing), partial(roles_grace.a_gets_ready_last, tmp_path)
    with launch(roles, before=before) as world:
        assert world.wait() == dict.fromkeys("ab", Returned(None))
    assert (tmp_path / "a").read_text() == "b waited"


def test_many_roles_start_with_fewer_connections_than_pairs() -> None:
    """By default gloo, which compares roles' devices, connects each with each, 780, beside RPC's eight of each role."""
    require(network().lacking)
    if tuple(map(int, version("torch").split(".")[:2])) < (2, 11):
        pytest.skip("this version of torch connects each with each")
    names = [f"r{number}" for number in range(40)]
    with launch(["a"], isolated=True) as counting:
        before = counting.call("a", roles_isolation.opened)
        with launch(dict.fromkeys(names, roles_plain.nothing), isolated=True, options={"devices": []}) as world:
            assert world.wait() == dict.fromkeys(names, Returned(None))
        assert counting.call("a", roles_isolation.opened) - before < 40 * 39 / 2


def test_the_agents_of_many_roles_meet_in_a_file_of_the_first_ones_memory(tmp_path: Path) -> None:
    """Of a store in its process they ask one after the other: of 256 roles 130,000 times. No folder has to stay."""
    names = [f"r{number}" for number in range(20)]
    with launch(names, folder=tmp_path) as world:
        world.call("r0", roles_plain.nothing)
        file = Path((tmp_path / RENDEZVOUS).read_text().split()[1])
        assert file.read_bytes().count(b"/addrs/r") == 20
        assert str(file.readlink()).startswith("/memfd:")
        (tmp_path / RENDEZVOUS).unlink()
        assert world.wait() == dict.fromkeys(names, Returned(None))


def test_roles_with_device_maps_compare_them() -> None:
    with launch(["a", "b"], options={"device_maps": {"nobody": {"cuda:0": "cuda:0"}}}) as world:
        outcomes = world.wait()
    assert "has invalid target node names in its device maps" in " ".join(map(str, outcomes.values()))


def test_the_first_role_holds_the_store_until_all_others_have_left(tmp_path: Path) -> None:
    """The others find it whenever it comes. A role that still needed it would fail."""
    place = tmp_path / "rendezvous"
    with ThreadPoolExecutor() as threads:
        other = threads.submit(Meeting, place, 1, 2)
        with pytest.raises(TimeoutError):
            other.result(0.1)
        first = Meeting(place, 0, 2)
        leaving = threads.submit(first.leave)
        with pytest.raises(TimeoutError):
            leaving.result(0.1)
        other.result(10).leave()
        leaving.result(10)


def test_calls_that_nobody_waits_for_end_in_the_shutdown() -> None:
    """torch's ``join`` holds a mutex while it asks the store. With a store in Python this hangs: a thread that frees an
    RRef has Python's lock and waits for the mutex."""
    calls: Any = partial(roles_rrefs.call_back_and_forth, None, 300, "b", "a")
    with launch({"a": calls, "b": roles_plain.nothing}, deadline=60) as world:
        assert world.wait() == dict.fromkeys("ab", Returned(None))
