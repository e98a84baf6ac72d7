"""Latency, jitter and reordering: refused in one line where the kernel has no netem, and what they do where it has."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.inject.network import controller, network, rules
from faults.inject.network.controller import Hosts, NetworkError, ask
from faults.inject.network.network import Network
from faults.plan import Fault, Plan
from tests.support import roles_network as plays
from tests.support.answers import Answer
from tests.support.networks import ONCE, events, faulty_world, require, require_netem, told


def slow(fields: str) -> Fault:
    return Fault.parse(f"Slow role=a {fields}")


@pytest.mark.parametrize(
    ("plan", "needs"),
    [
        ("Slow role=a latency_ms=1", True),
        ("Slow role=a kbit_per_second=1; Slow role=b latency_ms=1 kbit_per_second=1", True),
        (
            "Slow role=a kbit_per_second=1; Delay site=s:f side=reply seconds=1; Lossy role=a direction=in percent=1",
            False,
        ),
        ("seed=1", False),
    ],
)
def test_a_plan_needs_netem_if_a_fault_has_a_latency(plan: str, needs: bool) -> None:
    assert controller.needs_netem(Plan.parse(plan)) is needs


@pytest.mark.long
class TestWithout:
    """On a kernel without netem."""

    LINE = (
        "'latency_ms' needs netem, the kernel's module sch_netem, got tc qdisc add dev eth0 root handle 1: netem limit "
        "1000000000 delay 1000us: Error: Specified qdisc kind is unknown."
    )

    @pytest.fixture(autouse=True)
    def _without(self) -> None:
        require()
        if network.missing_netem() is None:
            pytest.skip("this kernel has netem")

    def test_a_run_is_refused_before_a_role_starts(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = tmp_path / "run"
        words = ["run", "rpc_basics", "--plan", "Slow role=caller latency_ms=5", "--dir", str(folder)]
        assert main(words) == 2
        assert capsys.readouterr() == ("", f"error: {self.LINE}\n")
        assert not folder.exists()

    def test_a_network_without_the_plan_fails_at_the_moment(self, tmp_path: Path) -> None:
        wanted = r"^fault 0: tc .* 5000us: Error: Specified qdisc kind is unknown\.$"
        with Network("ab", tmp_path), pytest.raises(NetworkError, match=wanted):
            ask(tmp_path, 0, slow("latency_ms=5"))


@pytest.mark.long
def test_the_kernel_takes_the_numbers_of_the_plan() -> None:
    """On a kernel with netem."""
    require_netem()
    with closing(Hosts(["a"])) as hosts:
        for command in rules.shape(slow("latency_ms=12.5 jitter_ms=0.25 reorder_percent=2.5 kbit_per_second=800")):
            hosts.run("a", command)
        shapers: dict[str, Any] = {each["kind"]: each for each in json.loads(hosts.run("a", rules.ASK))}
        hosts.run("a", rules.LIFT)
        assert {each["kind"] for each in json.loads(hosts.run("a", rules.ASK))} == {"noqueue"}
    options = shapers["netem"]["options"]
    shown = 1.1e-6  # tc counts time in 64 ns, and shows whole microseconds
    assert options["delay"]["delay"] == pytest.approx(0.0125, abs=shown)
    assert options["delay"]["jitter"] == pytest.approx(0.00025, abs=shown)
    assert options["reorder"]["reorder"] == pytest.approx(0.025, abs=1e-6)
    assert options["limit"] >= 10**6
    assert shapers["tbf"]["options"]["rate"] == 100_000
    assert shapers["tbf"]["parent"] == "1:1"


@pytest.mark.long
class TestWorld:
    """On a kernel with netem: what calls meet."""

    @pytest.fixture(autouse=True)
    def _with(self) -> None:
        require_netem()

    def test_a_latency_is_in_every_answer_once(self, tmp_path: Path) -> None:
        with faulty_world(tmp_path, "Slow role=a latency_ms=1500 at=step:1@b seconds=6", "ab") as world:
            healthy: Answer = world.call("a", plays.call, "b", 20.0)
            world.call("b", plays.announce, 1)
            late: list[Answer] = [world.call("a", plays.call, "b", 20.0), world.call("b", plays.call, "a", 20.0)]
            world.call("b", plays.await_line, tmp_path / "+network.jsonl", '"healed"')
            again: Answer = world.call("a", plays.call, "b", 20.0)
        assert [each.value for each in (healthy, *late, again)] == ["b", "b", "a", "b"]
        assert healthy.seconds < 1.5
        assert all(1.5 <= each.seconds < 3 for each in late), late
        assert told(tmp_path) == ONCE
        assert events(tmp_path, "effective")[0].details["delayed"] > 1

    def test_a_packet_that_still_waits_counts_as_delayed(self, tmp_path: Path) -> None:
        with faulty_world(tmp_path, "Slow role=a latency_ms=60000 at=step:1@b", "ab") as world:
            world.call("b", plays.announce, 1)
            answer: Answer = world.call("a", plays.call, "b", 0.5)
            assert answer.text.startswith("RPCErr:1:RPC ran for more than set timeout")
        assert told(tmp_path) == ONCE
        receipt = events(tmp_path, "effective")[0].details
        assert receipt["packets"] == 0
        assert receipt["delayed"] > 0
