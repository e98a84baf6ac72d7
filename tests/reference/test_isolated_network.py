"""Isolated worlds: a process outside their network reaches none of their roles."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import faults.run.runs
from faults.plan import Plan
from faults.run.tutorial import of_tutorial
from reference.cli import table_command
from reference.outcome import Raised
from reference.rpc.traffic import traffic
from reference.system import network_namespace
from reference.system.isolated_network import Network, network
from reference.verify import quick
from reference.world import World, launch
from tests.support import required
from tests.support import roles_isolation as plays
from tests.support.intruder import pid_from_within, ports_of, reaches
from tests.support.processes import children_of, left_after, stop
from tests.support.roles_plain import name_of
from tests.support.suite_runs import suites

ROOT = Path(__file__).parents[2]
CANNOT_ENTER = (
    "a cannot enter its world's network (Invalid argument): "
    "wanted isolated=False, or a script that starts no thread when it is imported"
)
LARGE = 1 << 22  # float32: 16 MiB

pytestmark = pytest.mark.usefixtures("forkserver")


def require() -> None:
    """Skip where the kernel does not allow it, or fail (`required`)."""
    required.require(network().lacking)


def test_a_stranger_who_finds_a_roles_port_runs_code_in_it() -> None:
    """This world is not isolated: isolated ones are protected from this."""
    with launch(["a", "b"]) as world:
        assert not world.isolated
        assert world.call("a", name_of, "b") == "b"
        for pid in world.pids.values():
            assert pid in map(pid_from_within, ports_of(pid))  # the first role's store has a port, too


def test_nobody_outside_reaches_a_role_of_an_isolated_world() -> None:
    """The machine's table does not show its port, and a process that knows the port reaches nothing there."""
    require()
    tried = 0
    with launch(["a", "b", "c"], isolated=True) as world:
        assert world.isolated
        assert world.call("a", name_of, "b") == "b"
        assert world.log("b") == ""  # no server of names was asked: torch would have said that none answers
        for pid in world.pids.values():
            assert ports_of(pid) == []
            for port in ports_of(pid, seen_by=pid):
                with socket.socket() as ours:  # bound, not listening: no process of the machine can listen there
                    try:
                        ours.bind(("127.0.0.1", port))
                    except OSError:
                        continue  # a process of the machine has the same number in its own network
                    assert not reaches(port)
                    assert "connection refused" in str(pid_from_within(port))
                    tried += 1
    assert tried


def test_an_isolated_role_reaches_nobody_outside() -> None:
    require()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        for isolated in (True, False):
            with launch(["a"], isolated=isolated) as world:
                assert world.call("a", reaches, port) is not isolated


def test_an_isolated_role_reaches_a_socket_that_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require()
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("outside")
        listening.listen()
        with launch(["a"], isolated=True) as world:
            assert world.call("a", plays.reaches_file, f"/proc/{os.getpid()}/cwd/outside")


def test_isolated_worlds_of_one_process_share_a_network() -> None:
    require()
    with launch(["a"], isolated=True) as first, launch(["a"], isolated=True) as second, launch(["a"]) as third:
        one, other, outside = (world.call("a", plays.network) for world in (first, second, third))
    assert one == other != outside == plays.network()


def test_large_tensors_go_the_same_way_between_isolated_roles() -> None:
    """They go from memory to memory, if the kernel allows that."""
    require()
    sent = {}
    for isolated in (True, False):
        with launch(["a", "b"], isolated=isolated) as world:
            assert world.call("a", plays.sum_at, "b", LARGE) == LARGE  # the channels are up
            before = world.call("a", traffic)
            world.call("a", plays.sum_at, "b", LARGE)
            sent[isolated] = (world.call("a", traffic) - before).sent > 4 * LARGE
    assert sent[True] == sent[False]


def test_where_isolation_is_not_allowed_the_world_is_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """`World.isolated` is False."""
    monkeypatch.setattr("reference.world.launcher.network", lambda: Network(lacking="not allowed"))
    with launch(["a", "b"], isolated=True) as world:
        assert not world.isolated
        assert world.call("a", name_of, "b") == "b"
        assert reaches(ports_of(world.pids["a"])[0])


def said(*command: str, **variables: str) -> str:
    """Return what a command prints, which has no error to tell."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100, check=True)
    assert done.stderr == ""
    return done.stdout


def test_a_variable_turns_isolation_off() -> None:
    """`Network.lacking` has the reason."""
    program = "from reference.system.isolated_network import network; print(network())"
    told = said(sys.executable, "-c", program, REFERENCE_ISOLATED="0")
    assert told == "Network(descriptors=(), lacking='REFERENCE_ISOLATED is 0')\n"


def test_a_role_that_cannot_enter_its_network_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails instead of playing outside."""
    with Path("/dev/null").open() as no_namespace:
        monkeypatch.setattr("reference.world.launcher.network", lambda: Network((no_namespace.fileno(),)))
        with launch({"a": plays.network}, isolated=True) as world:
            outcome = world.wait()["a"]
    assert isinstance(outcome, Raised)
    assert outcome.message == CANNOT_ENTER


# Runs a command without CAP_SYS_ADMIN, as ordinary users, and root in most containers, run it.
UNPRIVILEGED = [] if os.geteuid() else ["setpriv", "--bounding-set", "-sys_admin"]


def test_a_user_without_privileges_makes_a_network_and_keeps_its_user_id() -> None:
    require()
    program = """
import os
from reference.system import network_namespace
ids = os.getuid(), os.getgid()
print(network_namespace.make(), ids == (os.getuid(), os.getgid()))
"""
    assert said(*UNPRIVILEGED, sys.executable, "-c", program) == "user net True\n"


def test_a_network_is_there_when_its_maker_has_ended() -> None:
    """Otherwise a zombie is left where no init process waits for orphans, as in many containers."""
    command = [sys.executable, "-I", "-S", network_namespace.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert children_of(process.pid) == set()


def test_a_network_that_cannot_be_entered_is_none() -> None:
    """Its maker can open one more file than the process that tries it, which needs two."""
    require()
    command = [sys.executable, "-I", "-S", network_namespace.__file__]
    limited = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (7, 7))
    assert subprocess.check_output(command, input=b"", preexec_fn=limited, timeout=30) == b"no Too many open files\n"


def test_a_kernel_that_forbids_isolation_says_why() -> None:
    """The administrator allows no namespaces."""
    require()
    none_allowed = 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$@"'
    within = ["unshare", "--user", "--map-root-user", "sh", "-c", none_allowed, "sh"]
    program = "from reference.system.isolated_network import network; print(network().lacking)"
    told = said(*within, sys.executable, "-c", program)
    assert told == "no network namespace can be made here: No space left on device\n"


@pytest.mark.long
def test_roles_in_a_user_namespace_are_their_user_and_die_with_their_launcher() -> None:
    """The parent-death signal, even for a stopped role, and the launcher's own signals reach them."""
    require()
    command = [*UNPRIVILEGED, sys.executable, "-m", "tests.support.isolated_launcher"]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            found = json.loads(process.stdout.readline())
            namespace, *ids = found["user"][:3]
            assert found["user"][3:] != [namespace, *ids]
            assert found["user"][4:] == ids
            assert found["isolated"] is True
            assert found["sum"] == LARGE
            for pid in found["pids"]:
                assert ports_of(pid) == []
                assert not any(map(reaches, ports_of(pid, seen_by=pid)))
            stop(found["pids"][0])
        finally:
            process.kill()
        assert left_after(set(found["pids"]), 10) == set()


@pytest.mark.long
def test_a_script_with_threads_cannot_be_isolated_without_privileges() -> None:
    require()
    told = said(*UNPRIVILEGED, sys.executable, "tests/scripts/threaded.py")
    assert told == f"True raised reference.outcome.WorldError: {CANNOT_ENTER}\n"


def test_the_worlds_of_tutorials_are_isolated_in_tables_and_under_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """test_cli.py shows it of `run` and `verify`."""
    require()
    isolated: list[bool] = []

    def launched(*args: Any, **arguments: Any) -> World:
        world = launch(*args, **arguments)
        isolated.append(world.isolated)
        return world

    for module in (table_command, faults.run.runs):
        monkeypatch.setattr(module, "launch", launched)
    table_command.warm_up()
    table_command.timed(quick("rpc_basics"), 60)
    faults.run.runs.run(of_tutorial(quick("rpc_basics")), Plan(), tmp_path)
    assert isolated == [True] * 3


@pytest.mark.long
def test_the_plugin_isolates_the_worlds_of_its_fixtures_where_the_ini_says_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    require()
    result = suites(pytester, monkeypatch)("isolated", "-o", "faults_isolated=true", "--faults-leaks=all")
    result.assert_outcomes(passed=4)
