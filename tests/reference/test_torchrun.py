"""Every tutorial on two hosts under torchrun: the bits of its twin, and what listens where."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reference import TUTORIALS, load
from reference.trace import Case, Trace
from reference.verify import judge, quick
from reference.world.rpc_agent import VARIABLES
from tests.support import required
from tests.support.hosts import Host, NoHosts, two_hosts
from tests.tiers.share import one_of

SECONDS = 150

# Listening TCP sockets of the network it runs on, IPv4 and IPv6: a line each, the address only.
LISTENING = """
import ipaddress
for table in ("tcp", "tcp6"):
    for row in open("/proc/self/net/" + table).read().splitlines()[1:]:
        local, state = row.split()[1], row.split()[3]
        if state == "0A":
            raw = bytes.fromhex(local.split(":")[0])
            print(ipaddress.ip_address(b"".join(raw[i:i + 4][::-1] for i in range(0, len(raw), 4))))
"""


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    try:
        with two_hosts() as pair:
            yield pair
    except NoHosts as error:
        required.require(str(error))


def words(case: Case) -> list[str]:
    """The command line for this case."""
    found = []
    for name, value in vars(case).items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            found.append(option if value else f"--no-{option[2:]}")
        elif value != "":
            found += [option, str(value)]
    return found


def environment(**more: str) -> dict[str, str]:
    """This process's environment, without variables that choose interfaces or look like torchrun's."""
    gone = (*VARIABLES, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {**{name: value for name, value in os.environ.items() if name not in gone}, **more}


def torchrun(hosts: tuple[Host, Host], case: Case, *options: str, **variables: str) -> list[subprocess.Popen[str]]:
    """Start a torchrun on each host with half of the roles; an odd one is on the second. All output is a pipe's."""
    roles = len(load(case.tutorial()).roles(case))
    port = str(hosts[0].free_port())
    started = []
    for rank, (host, count) in enumerate(zip(hosts, (roles // 2, roles - roles // 2), strict=True)):
        place = ["--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", str(count)]
        master = ["--master-addr", hosts[0].address, "--master-port", port]
        run = ["-m", "reference", "run", case.tutorial(), *words(case), *options]
        command = [sys.executable, "-m", "tests.support.torchrun", *place, *master, *run]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        started.append(host.start(*command, env=environment(**variables), **output))
    return started


def ends(started: list[subprocess.Popen[str]], seconds: float) -> tuple[list[int], str]:
    """Return both torchruns' exit statuses (-9 for one that takes too long) and outputs."""
    due, said = time.monotonic() + seconds, []
    for process in started:
        try:
            said.append(process.communicate(timeout=max(0.1, due - time.monotonic()))[0])
        except subprocess.TimeoutExpired:
            process.kill()
            said.append("overdue")
    return [process.wait() for process in started], "\n".join(said)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=one_of("hosts", number % 3)) for number, name in enumerate(TUTORIALS)]
)
def test_tutorials_run_on_two_hosts(name: str, hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """No interface is named, and the trace has the twin's bits."""
    case, save = quick(name), tmp_path / "trace"
    statuses, said = ends(torchrun(hosts, case, "--save", str(save)), SECONDS)
    assert statuses == [0, 0], said
    trace = Trace.load(save)
    assert trace.case == case
    assert judge(trace, load(name).train_locally) == (f"bits equal in {len(trace.tensors)} tensors", "equal")


# Training that goes on until a rank is killed.
ENDLESS = quick("batch_parameter_server", trainers=3, steps=10**6, record="ends")


@contextmanager
def training(hosts: tuple[Host, Host], **variables: str) -> Iterator[list[subprocess.Popen[str]]]:
    """ps and trainer1 on the first host, trainer2 and trainer3 on the second, all of them at work."""
    started = torchrun(hosts, ENDLESS, **variables)
    try:
        for process in started:
            seen: list[str] = []
            while ": step " not in (seen or [""])[-1]:
                seen.append(process.stdout.readline())  # type: ignore[union-attr]
                assert seen[-1], "".join(seen)
        yield started
    finally:
        for host in hosts:
            for pid in ranks_on(host).values():
                os.kill(pid, signal.SIGKILL)
        ends(started, 20)


def ranks_on(host: Host) -> dict[int, int]:
    """Process ids by rank, as this process sees them."""
    network, found = Path(f"/proc/{host.pid}/ns/net").readlink(), {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0") if entry.name.isdigit() else []
            ranks = [int(each[5:]) for each in variables if each.startswith(b"RANK=")]
            if ranks and (entry / "ns/net").readlink() == network:
                found[ranks[0]] = int(entry.name)
    return found


@pytest.mark.parametrize("lost", [0, 3])
def test_a_killed_rank_ends_those_of_the_other_host(lost: int, hosts: tuple[Host, Host]) -> None:
    """Even ranks end that only wait for the common shutdown, as the server's trainers do, long before --deadline.

    And before that: each rank's RPC listens on the cable's address, and torchrun's store, on the first host, on all.
    """
    with training(hosts) as started:
        listening = [sorted(host.python(LISTENING).split()) for host in hosts]
        os.kill(ranks_on(hosts[lost // 2])[lost], signal.SIGKILL)
        statuses, said = ends(started, 30)
    assert listening == [["10.77.0.1", "10.77.0.1", "::"], ["10.77.0.2", "10.77.0.2"]]
    assert statuses == [1, 1], said
    other = [rank for rank in range(4) if rank // 2 != lost // 2]
    assert any(re.search(rf"rank {rank} failed: (PeerLost|RoundFailed): .*(ps|trainer3)", said) for rank in other), said
