"""Faults of the network: each takes effect in real worlds, by the kernel's count and by what callers see, and heals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from faults.inject.announcer import Announcer
from faults.inject.network import network
from faults.inject.network.controller import PATH
from faults.inject.network.network import Network, NetworkError
from faults.ledger import Ledger
from faults.plan import Plan
from reference.outcome import Returned
from reference.world import World, launch
from tests.support import roles_network as plays
from tests.support.answers import Answer
from tests.support.networks import ONCE, events, faulty_world, require, told
from tests.support.processes import left_after
from tests.support.roles_isolation import network as network_namespace
from tests.support.roles_plain import await_true, listening_addresses, name
from tests.support.suite_runs import ROOT

MIB = 1 << 20

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _possible() -> None:
    require()


def timed_out(answer: Answer, seconds: float) -> bool:
    return answer.text.startswith("RPCErr:1:RPC ran for more than set timeout") and answer.seconds >= seconds - 0.1


def answered(answer: Answer, value: object, within: float = 10.0) -> bool:
    return answer.value == value and answer.seconds < within


def ask(world: World, caller: str, callee: str, timeout: float = 10.0) -> Answer:
    answer: Answer = world.call(caller, plays.call, callee, timeout)
    return answer


class TestHealthy:
    def test_every_thread_of_rpc_is_in_the_network(self, tmp_path: Path) -> None:
        """But for those that existed before: one listens to the launcher, and the first role has one for the store."""
        with faulty_world(tmp_path, "seed=0", "ab") as world:
            outside = str(Path("/proc/self/ns/net").readlink())
            for role, address in (("a", "10.77.0.1"), ("b", "10.77.0.2")):
                threads = world.call(role, plays.networks_of_threads)
                own = world.call(role, network_namespace)
                assert set(threads) == {outside, own}
                assert len(threads[outside]) == (2 if role == "a" else 1)
                assert "TP_UV_loop" in threads[own]
                assert world.call(role, plays.sockets_of_new_thread) == ["eth0", "lo"]
                assert set(world.call(role, listening_addresses)) == {address}
                assert world.call(role, plays.interfaces_told) == ["eth0", "eth0"]

    def test_a_large_tensor_crosses_the_network(self, tmp_path: Path) -> None:
        """The interface's own counter shows it. Namespaces do not stop `cma`, which `Network.options` lacks."""
        with faulty_world(tmp_path, "seed=0", "ab") as world:
            world.call("a", plays.call, "b", 10.0)
            before = world.call("a", plays.bytes_sent)
            assert world.call("a", plays.call, "b", 10.0, 32 * MIB).value == 32 * MIB
            sent = world.call("a", plays.bytes_sent) - before
        assert 32 * MIB < sent < 34 * MIB


class TestPartition:
    @pytest.mark.parametrize(("direction", "executed"), [("out", 0), ("in", 1)])
    def test_a_partition_of_two_roles_loses_only_their_calls(
        self, direction: str, executed: int, tmp_path: Path
    ) -> None:
        """``a`` is cut off from ``b``: no call between them is answered, whichever way the packets are lost. A request
        that arrived was executed. One that did not is executed when the network has healed, long after its caller timed
        out: TCP has kept it."""
        plan = f"Partition role=a peer=b direction={direction} at=step:1@b seconds=2.5"
        with faulty_world(tmp_path, plan) as world:
            assert answered(ask(world, "a", "b"), "b", 5)
            assert world.call("b", plays.announce, 1) < 1
            assert timed_out(world.call("a", plays.count_at, "b", 0.5), 0.5)
            assert world.call("b", plays.counted) == executed
            assert timed_out(ask(world, "b", "a", 0.5), 0.5)
            for caller, callee in (("a", "c"), ("c", "a"), ("b", "c"), ("c", "b")):
                assert answered(ask(world, caller, callee), callee, 5)
            for caller, callee in (("a", "b"), ("b", "a")):  # each end retransmits by a timer of its own
                assert answered(ask(world, caller, callee, 20.0), callee, 20)
                assert answered(ask(world, caller, callee), callee, 5)
            assert world.call("b", plays.counted) == 1
            assert world.wait() == dict.fromkeys("abc", Returned(None))
        assert told(tmp_path) == ONCE
        receipt = events(tmp_path, "effective")[0].details
        told_of = events(tmp_path, "planned", "fired", "effective", "healed")
        assert {each.details["kind"] for each in told_of} == {"Partition"}
        assert receipt["packets"] > 1
        assert receipt["bytes"] > 100
        assert 2.5 <= events(tmp_path, "healed")[0].details["seconds"] < 10

    def test_a_partition_without_a_moment_begins_at_the_start(self, tmp_path: Path) -> None:
        """The role that the fault names puts it in place before its own RPC, which then waits."""
        start = time.monotonic()
        with faulty_world(tmp_path, "Partition role=b direction=both seconds=2", "ab") as world:
            assert time.monotonic() - start > 2
            assert answered(ask(world, "a", "b"), "b", 5)
        assert told(tmp_path) == ONCE

    @pytest.mark.parametrize(
        ("plan", "error"),
        [("Partition role=b direction=both", "RPC ran for more than set timeout"), ("Reset role=b", "ECONNREFUSED")],
    )
    def test_no_role_comes_up_under_a_fault_from_the_start(self, plan: str, error: str, tmp_path: Path) -> None:
        """``rpc_timeout`` limits the start, too. The leader hears of the other role's end."""
        (tmp_path / "plan.json").write_text(Plan.parse(plan).to_json())
        before, options = partial(plays.enter_network, tmp_path), {**Network.options, "rpc_timeout": 1}
        roles = dict.fromkeys("ab", name)
        with Network("ab", tmp_path), launch(roles, before=before, options=options, deadline=60) as world:
            outcomes = world.wait()
        assert [type(outcome).__name__ for outcome in outcomes.values()] == ["Raised", "Raised"]
        assert error in str(outcomes["b"])
        assert told(tmp_path) == ONCE

    def test_packets_to_other_roles_are_not_counted(self, tmp_path: Path) -> None:
        """No packet crosses between the two, so there is no receipt, however much both send to other roles."""
        with faulty_world(tmp_path, "Partition role=b peer=c direction=both at=step:1@a") as world:
            world.call("a", plays.announce, 1)
            for caller, callee in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")):
                assert answered(ask(world, caller, callee), callee, 5)
        assert told(tmp_path) == [("a", "planned", 0), ("a", "fired", 0), ("+network", "healed", 0)]


class TestReset:
    # TensorPipe's uv reports it at the end that is reset here, and at the one that gets the reset packet.
    BROKEN = r"ECONNABORTED: software caused connection abort|ECONNRESET: connection reset by peer"

    def test_a_reset_breaks_both_ends_at_once_and_for_good(self, tmp_path: Path) -> None:
        """This holds even if no role is sending. TensorPipe does not connect again, so healing does not help."""
        with faulty_world(tmp_path, "Reset role=a peer=b at=step:1@b seconds=0.5") as world:
            assert answered(ask(world, "a", "b"), "b")
            assert answered(ask(world, "b", "a"), "a")
            world.call("b", plays.start_stay, "a")
            assert world.call("a", plays.await_entered)
            world.call("b", plays.announce, 1)
            broken = world.call("b", plays.end_of_stay)
            assert re.match(self.BROKEN, broken.text), broken
            assert broken.seconds < 5
            world.call("a", plays.let_go)
            for _ in range(2):
                for caller, callee in (("a", "b"), ("b", "a")):
                    answer = ask(world, caller, callee)
                    assert answer.error == "RuntimeError"
                    assert re.match(self.BROKEN, answer.text), answer
                    assert answer.seconds < 5
                for caller, callee in (("a", "c"), ("c", "b")):
                    assert answered(ask(world, caller, callee), callee, 5)
                # The second connection comes after the fault has healed.
                world.call("c", plays.await_line, tmp_path / "+network.jsonl", '"healed"')
        assert told(tmp_path) == ONCE
        assert events(tmp_path, "effective")[0].details["packets"] > 0


class TestLossy:
    def test_calls_over_a_lossy_network_are_late_but_right(self, tmp_path: Path) -> None:
        """TCP sends a lost packet again, after 0.2 s, then 0.4 s, ..."""
        plan = "Lossy role=a peer=b direction=both percent=7.5 at=step:1@b"
        with faulty_world(tmp_path, plan) as world:
            healthy = world.call("a", plays.calls_until_late, "b", 50, 0.18)
            assert sum(each.seconds > 0.18 for each in healthy) < 3
            world.call("b", plays.announce, 1)
            answers = world.call("a", plays.calls_until_late, "b", 500, 0.18)
            assert {each.value for each in answers} == {"b"}
            assert sum(each.seconds > 0.18 for each in answers) == 3
            assert answered(ask(world, "a", "c"), "c", 5)
        assert told(tmp_path) == ONCE


class TestSlow:
    def test_slow_limits_what_the_role_sends(self, tmp_path: Path) -> None:
        """800 kbit/s are 100 kB/s: sending 200 kB takes two seconds, receiving them takes no time."""
        with faulty_world(tmp_path, "Slow role=a kbit_per_second=800 at=step:1@b seconds=3", "ab") as world:
            healthy: Answer = world.call("a", plays.call, "b", 20.0, 200_000)
            world.call("b", plays.announce, 1)
            quick: Answer = world.call("b", plays.call, "a", 20.0, 200_000)
            slow: Answer = world.call("a", plays.call, "b", 20.0, 200_000)
            world.call("b", plays.await_line, tmp_path / "+network.jsonl", '"healed"')
            again: Answer = world.call("a", plays.call, "b", 20.0, 200_000)
        assert [each.value for each in (healthy, quick, slow, again)] == [200_000] * 4
        assert max(healthy.seconds, quick.seconds, again.seconds) < 1.3
        assert 1.5 < slow.seconds < 10
        assert told(tmp_path) == ONCE
        receipt = events(tmp_path, "effective")[0].details
        assert 200_000 < receipt["bytes"] < 260_000
        assert receipt["overlimits"] > 10


class TestFiring:
    def test_a_fault_heals_when_the_role_that_fired_it_is_dead(self, tmp_path: Path) -> None:
        with faulty_world(tmp_path, "Partition role=a peer=c direction=both at=step:1@b seconds=2.5") as world:
            assert answered(ask(world, "a", "c"), "c", 5)
            world.call("b", plays.announce, 1)
            os.kill(world.pids["b"], signal.SIGKILL)
            assert timed_out(ask(world, "a", "c", 0.5), 0.5)
            assert answered(ask(world, "a", "c", 20.0), "c", 20)
        assert told(tmp_path) == ONCE

    def test_a_fault_fires_once_and_not_after_undo(self, tmp_path: Path) -> None:
        plan = "Lossy role=a direction=in percent=1 at=step:1@b; Lossy role=a direction=out percent=100 at=step:2@b"
        with faulty_world(tmp_path, plan, "ab") as world:
            for _ in range(2):
                world.call("b", plays.announce, 1)
            world.call("b", plays.undo)
            world.call("b", plays.announce, 2)
            assert answered(ask(world, "a", "b"), "b")
        assert told(tmp_path, "planned", "fired") == [("b", "planned", 0), ("b", "planned", 1), ("b", "fired", 0)]


def outside() -> tuple[str, str]:
    """Return the interfaces and the named namespaces of this machine."""
    found = []
    for words in (["ip", "-o", "link"], ["ip", "netns", "list"]):
        found.append(subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": PATH}).stdout)
    return found[0], found[1]


def holders(namespaces: set[str]) -> set[str]:
    """Return the processes and descriptors in /proc that are in one of these namespaces or have one open."""
    found = set()
    for pattern in ("[0-9]*/task/*/ns/net", "[0-9]*/fd/*"):
        for link in Path("/proc").glob(pattern):
            try:
                if str(link.readlink()) in namespaces:
                    found.add(str(link))
            except OSError:
                continue
    return found


class TestNothingElse:
    def test_the_machine_is_as_before_after_a_network(self, tmp_path: Path) -> None:
        before, descriptors = outside(), len(list(Path("/proc/self/fd").iterdir()))
        with Network(["a", "b"], tmp_path) as made:
            namespaces = {str(Path(path).readlink()) for path in made.hosts.paths.values()}
            assert len(holders(namespaces)) == 2
            assert outside() == before
        assert outside() == before
        assert len(list(Path("/proc/self/fd").iterdir())) == descriptors
        assert holders(namespaces) == set()
        assert [path.name for path in tmp_path.iterdir()] == ["+network.jsonl"]

    def test_a_killed_launcher_leaves_nothing(self, tmp_path: Path) -> None:
        before, folder, ledger_of_ps = outside(), tmp_path / "run", tmp_path / "run" / "ps.jsonl"
        plan = ["--plan", "Partition role=trainer1 direction=both at=up@ps", "--timeout", "100"]
        command = [sys.executable, "-m", "faults", "run", "batch_parameter_server", *plan, "--dir", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
            try:
                await_true(lambda: ledger_of_ps.exists() and '"fired"' in ledger_of_ps.read_text(), 60)
                pids = {each.process for each in events(folder, "start") if each.role != "+network"}
                namespaces = {str(Path(f"/proc/{pid}/ns/net").readlink()) for pid in pids}
                assert len(namespaces) == 3
            finally:
                process.kill()
        assert left_after(pids, 10) == set()
        assert holders(namespaces) == set()
        assert outside() == before
        with Network(["a", "b"], folder):  # files that the killed launcher left in the folder do not matter
            pass

    def test_two_networks_at_once_do_not_meet(self, tmp_path: Path) -> None:
        """Both have the same addresses and names. A partition from all lasts until its network is closed."""
        plan = "Partition role=a direction=both at=step:1@b"
        with faulty_world(tmp_path / "1", plan) as first, faulty_world(tmp_path / "2", plan) as second:
            first.call("b", plays.announce, 1)
            assert timed_out(ask(first, "a", "b", 0.5), 0.5)
            assert timed_out(ask(first, "c", "a", 0.5), 0.5)
            assert answered(ask(first, "b", "c"), "c", 5)
            assert answered(ask(second, "a", "b"), "b", 5)
            assert told(tmp_path / "1") == ONCE[:2]
            assert first.call("a", network_namespace) != second.call("a", network_namespace)
            assert first.call("a", listening_addresses) == second.call("a", listening_addresses)
        assert told(tmp_path / "1") == ONCE
        assert told(tmp_path / "2") == ONCE[:1]

    def test_a_network_that_cannot_write_its_file_leaves_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "network.json").mkdir()
        threads, made = threading.enumerate(), Network(["a"], tmp_path)
        with pytest.raises(IsADirectoryError), made:
            pass
        assert made.hosts.paths == {}
        assert threading.enumerate() == threads


class TestRefusals:
    @pytest.mark.parametrize(
        ("plan", "wanted"),
        [
            ("Partition role=z direction=in", "no role 'z' in the network, wanted one of a, b"),
            ("Reset role=a peer=z", "no role 'z' in the network, wanted one of a, b"),
        ],
    )
    def test_impossible_plans_of_a_network_are_refused(self, plan: str, wanted: str, tmp_path: Path) -> None:
        with Network(["a", "b"], tmp_path), pytest.raises(NetworkError) as caught:
            network.prepare(Plan.parse(plan), "a", tmp_path, Ledger(tmp_path, "a"), Announcer("a"))
        assert str(caught.value) == wanted

    def test_faults_of_a_network_need_a_network(self, tmp_path: Path) -> None:
        wanted = f"^no Network in {tmp_path}: wanted one around a world with faults of a network$"
        plan = Plan.parse("Partition role=a direction=in")
        with pytest.raises(NetworkError, match=wanted):
            network.prepare(plan, "a", tmp_path, Ledger(tmp_path, "a"), Announcer("a"))
        with pytest.raises(NetworkError, match=wanted):
            network.enter(tmp_path, "a")

    def test_an_empty_plan_needs_no_network(self, tmp_path: Path) -> None:
        network.prepare(Plan.parse("Crash role=a at=up@a"), "b", tmp_path, Ledger(tmp_path, "b"), Announcer("b"))()
        assert told(tmp_path) == []

    def test_a_role_cannot_enter_its_network_on_another_thread(self, tmp_path: Path) -> None:
        wanted = "^a role enters its network on the main thread, from which RPC's threads come$"
        with ThreadPoolExecutor(1) as pool, pytest.raises(NetworkError, match=wanted):
            pool.submit(network.enter, tmp_path, "a").result()

    @pytest.mark.parametrize("roles", [[], ["a", "a"], [f"role{number}" for number in range(251)]])
    def test_names_that_cannot_be_roles_of_a_network_are_refused(self, roles: list[str], tmp_path: Path) -> None:
        with pytest.raises(NetworkError, match=r"^a network needs 1 to 250 different roles, got \w"):
            Network(roles, tmp_path)

    def test_a_missing_program_is_named_with_its_package(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("faults.inject.network.controller.PATH", str(tmp_path))
        wanted = "ip, tc, ss, nft, nsenter not installed (Debian: iproute2, nftables, util-linux)"
        assert network.missing() == wanted
        with pytest.raises(NetworkError, match=rf"^{re.escape(wanted)}$"):
            Network(["a"], tmp_path)

    def test_a_network_that_is_not_permitted_is_refused(self) -> None:
        """Root without the capability for namespaces is refused."""
        program = "from faults.inject.network import network; print(network.missing())"
        words = ["setpriv", "--bounding-set=-sys_admin", sys.executable, "-c", program]
        done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout == "no network namespace can be made here: Operation not permitted (root can)\n"
