"""Every tutorial on two hosts under torchrun: the bits of its twin, and what listens where."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reference import TUTORIALS
from reference.case import Case
from reference.interface import VARIABLES
from reference.trace import Trace
from reference.verify import judge, tutorial
from tests.hosts import Host, NoHosts, two_hosts

SECONDS = 150

# Where the defaults take long. A tutorial that is not here runs its defaults, but two steps at most.
_IMAGES = {"model": "convnet", "trainers": 2, "batch_size": 4, "image_w": 8, "image_h": 8, "steps": 2}
QUICK: dict[str, Mapping[str, Any]] = {
    "parameter_server": {"workers": 2, "steps": 5},
    "batch_parameter_server": _IMAGES,
    "sharded_parameter_server": {**_IMAGES, "servers": 2},
}

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


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Host, Host]]:
    """Skips where namespaces are not permitted, but never where REFERENCE_REQUIRE_HOSTS is set, as in CI."""
    try:
        with two_hosts() as pair:
            yield pair
    except NoHosts as error:
        if os.environ.get("REFERENCE_REQUIRE_HOSTS"):
            pytest.fail(f"no hosts: {error}")
        pytest.skip(f"needs network namespaces: {error}")


def quick(name: str) -> Case:
    kind = tutorial(name).Case
    case: Case = kind(**QUICK.get(name, {"steps": min(2, kind().steps)}))
    return case


def options(case: Case) -> list[str]:
    """The command line that gives this case."""
    words = []
    for name, value in vars(case).items():
        option = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else f"--no-{option[2:]}")
        elif value != "":
            words += [option, str(value)]
    return words


def environment(**more: str) -> dict[str, str]:
    """This one, without what would choose interfaces or be taken for torchrun."""
    gone = (*VARIABLES, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {**{name: value for name, value in os.environ.items() if name not in gone}, **more}


def torchrun(hosts: tuple[Host, Host], case: Case, save: Path, **more: str) -> list[subprocess.Popen[str]]:
    """One torchrun on each host, with half of the roles each; an odd one is on the second."""
    roles = len(tutorial(case.tutorial()).roles(case))
    port = str(hosts[0].free_port())
    started = []
    for rank, (host, count) in enumerate(zip(hosts, (roles // 2, roles - roles // 2), strict=True)):
        place = ["--nnodes", "2", "--node-rank", str(rank), "--nproc-per-node", str(count)]
        master = ["--master-addr", hosts[0].address, "--master-port", port]
        run = ["-m", "reference", "run", case.tutorial(), *options(case), "--save", str(save)]
        with Path(f"{save}.log{rank}").open("w") as log:
            command = [sys.executable, "-m", "torch.distributed.run", *place, *master, *run]
            started.append(host.start(*command, stdout=log, stderr=subprocess.STDOUT, env=environment(**more)))
    return started


def logs(save: Path) -> list[str]:
    return [Path(f"{save}.log{rank}").read_text() for rank in (0, 1)]


def ends(started: list[subprocess.Popen[str]], seconds: float = SECONDS) -> list[int]:
    """Both torchruns' exit statuses; -9 for one that takes too long."""
    due = time.monotonic() + seconds
    for process in started:
        try:
            process.wait(max(0.1, due - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    return [process.wait() for process in started]


@pytest.mark.parametrize("name", TUTORIALS)
def test_on_two_hosts(name: str, hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Nobody names an interface; the trace has the twin's bits."""
    case, save = quick(name), tmp_path / "trace"
    statuses = ends(torchrun(hosts, case, save))
    assert statuses == [0, 0], "\n".join(logs(save))
    trace = Trace.load(save)
    assert trace.case == case
    assert judge(trace, tutorial(name).train_locally) == (f"bits equal in {len(trace.tensors)} tensors", "equal")


def test_the_hosts_are_two(hosts: tuple[Host, Host]) -> None:
    """Each has its own network, and they reach each other: or the tests above would show nothing."""
    names = "import socket; print(*sorted(name for _, name in socket.if_nameindex()))"
    own = "import pathlib; print(pathlib.Path('/proc/self/ns/net').readlink())"
    reach = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)"
    assert {host.python(names) for host in hosts} == {"lo veth0"}
    assert len({str(Path("/proc/self/ns/net").readlink()), *(host.python(own) for host in hosts)}) == 3
    port = hosts[0].free_port()
    with pytest.raises(NoHosts, match="ConnectionRefused"):  # it answered: nobody listens
        hosts[1].python(reach, hosts[0].address, str(port))
