"""Every tutorial on two hosts under torchrun: the bits of its twin, what listens where, and how it goes on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from reference import TUTORIALS, load, parameter_server
from reference.trace import Case, Trace
from reference.trace.checkpoint import Checkpoints
from reference.verify import judge, quick
from reference.world.rpc_agent import VARIABLES
from tests.support import required
from tests.support.hosts import ROOT, Host, NoHosts, two_hosts
from tests.support.roles_plain import sockets

SECONDS = 150

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


@pytest.mark.parametrize("name", TUTORIALS)
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
        listening = [sorted(address for _, address, _ in sockets(host.pid)) for host in hosts]
        os.kill(ranks_on(hosts[lost // 2])[lost], signal.SIGKILL)
        statuses, said = ends(started, 30)
    assert listening == [["10.77.0.1", "10.77.0.1", "::"], ["10.77.0.2", "10.77.0.2"]]
    assert statuses == [1, 1], said
    other = [rank for rank in range(4) if rank // 2 != lost // 2]
    assert any(re.search(rf"rank {rank} failed: (PeerLost|RoundFailed): .*(ps|trainer3)", said) for rank in other), said


# Checkpoints. The workers' calls arrive in any order, so a trace that begins with the order of a checkpoint goes on
# from it.
ASYNCHRONOUS = parameter_server.Case(workers=2, steps=100)


def wait_for_step(number: int, folder: Path, process: subprocess.Popen[str]) -> None:
    """Return when a checkpoint of at least so many steps is valid."""
    due = time.monotonic() + 60
    while max(Checkpoints(folder, ()).steps(), default=0) < number:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < due
        time.sleep(0.01)


def last_checkpoint(folder: Path) -> tuple[str, torch.Tensor]:
    """The life that has made the last checkpoint, and the order of the workers' calls until then."""
    checkpoints = Checkpoints(folder, ())
    step = checkpoints.steps()[0]
    life = json.loads((folder / f"{step:08d}.json").read_text())["life"]
    with safe_open(checkpoints.part(step, life, "ps"), framework="pt") as part:
        return life, part.get_tensor("calls/events")


def users_of(folder: Path) -> dict[Path, int]:
    """The places in /proc of all processes whose command names this folder, and their ranks; -1 is none."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                variables = (entry / "environ").read_bytes().split(b"\0")
                found[entry] = next((int(each[5:]) for each in variables if each.startswith(b"RANK=")), -1)
    return found


@contextmanager
def none_left(folder: Path) -> Iterator[None]:
    """Kill at the end of the block all processes that use the folder."""
    try:
        yield
    finally:
        for entry in users_of(folder):
            with suppress(ProcessLookupError):
                os.kill(int(entry.name), signal.SIGKILL)


def check_that_it_went_on(
    file: Path, case: parameter_server.Case, folder: Path, before: tuple[str, torch.Tensor]
) -> None:
    """Whether a trace has all steps, the bits of its twin, and goes on from a checkpoint of another life."""
    trace, (life, order) = Trace.load(file), before
    assert trace.case == case
    assert len(trace.losses()) == case.steps * case.workers
    assert judge(trace, load(case.tutorial()).train_locally) == (f"bits equal in {len(trace.tensors)} tensors", "equal")
    assert torch.equal(trace.tensors["order/events"][: len(order)], order)
    assert last_checkpoint(folder)[0] != life


@pytest.mark.parametrize("lost", [0, 2])
def test_torchrun_starts_all_ranks_again_and_they_go_on(lost: int, tmp_path: Path) -> None:
    """The server is killed, or a worker."""
    folder, file = tmp_path / "steps", tmp_path / "trace"
    place = ["--standalone", "--nproc-per-node", "3", "--max-restarts", "2"]
    run = ["-m", "reference", "run", "parameter_server", *words(ASYNCHRONOUS), "--resume", str(folder)]
    command = [sys.executable, "-m", "tests.support.torchrun", *place, *run, "--save", str(file)]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with none_left(folder):
        process = subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, **output)  # type: ignore[call-overload]
        wait_for_step(10, folder, process)
        process.send_signal(signal.SIGSTOP)  # torchrun, so that it starts no rank again while the folder is read
        (pid,) = (int(entry.name) for entry, rank in users_of(folder).items() if rank == lost)
        os.kill(pid, signal.SIGKILL)
        before = last_checkpoint(folder)
        process.send_signal(signal.SIGCONT)
        statuses, said = ends([process], SECONDS)
    assert statuses == [0], said
    check_that_it_went_on(file, ASYNCHRONOUS, folder, before)


@pytest.mark.parametrize("lost", [0, 3])
def test_both_torchruns_start_all_ranks_again_and_they_go_on(
    lost: int, hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    """The server is killed, on the first host, or a worker on the second; both hosts have the folder."""
    folder, file = tmp_path / "steps", tmp_path / "trace"
    case = replace(ASYNCHRONOUS, workers=3, timeout=10.0)  # in which the server gives up a worker of the other host
    with none_left(folder):
        started = torchrun(hosts, case, "--resume", str(folder), "--save", str(file), PET_MAX_RESTARTS="2")
        wait_for_step(10, folder, started[0])
        for process in started:  # so that none starts a rank again while the folder is read
            process.send_signal(signal.SIGSTOP)
        (pid,) = (int(entry.name) for entry, rank in users_of(folder).items() if rank == lost)
        os.kill(pid, signal.SIGKILL)
        before = last_checkpoint(folder)
        for process in started:
            process.send_signal(signal.SIGCONT)
        statuses, said = ends(started, SECONDS)
    assert statuses == [0, 0], said
    check_that_it_went_on(file, case, folder, before)


def test_a_new_start_goes_on_when_the_servers_machine_was_lost(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """All processes of one host are killed, torchrun's among them; both hosts have the folder."""
    folder, file, case = tmp_path / "steps", tmp_path / "trace", replace(ASYNCHRONOUS, workers=3)
    network = Path(f"/proc/{hosts[0].pid}/ns/net").readlink()
    options = ("--resume", str(folder), "--save", str(file))
    with none_left(folder):
        started = torchrun(hosts, case, *options)
        wait_for_step(10, folder, started[0])
        for entry in users_of(folder):
            with suppress(OSError):
                if (entry / "ns/net").readlink() == network:
                    os.kill(int(entry.name), signal.SIGKILL)
        statuses, said = ends(started, 60)
        assert statuses == [-signal.SIGKILL, 1], said
        before = last_checkpoint(folder)
        statuses, said = ends(torchrun(hosts, case, *options), SECONDS)
    assert statuses == [0, 0], said
    check_that_it_went_on(file, case, folder, before)
