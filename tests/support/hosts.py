"""Two hosts on one machine: network and process-id namespaces, joined by one cable (a veth pair). Needs root.

Nothing of them has a name or is visible outside, so nothing can be left. Each lives as long as a ``cat`` that waits
until this process closes a pipe, or dies. When the ``cat`` ends, the kernel ends every process of that host, and the
cable.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

# pyroute2 instead of iproute2's `ip`, because it comes with the test dependencies, not from the distribution.
_CONNECT = """
import sys
from pyroute2 import IPRoute
with IPRoute() as ip:
    ip.link("add", ifname="veth0", kind="veth", peer={"ifname": "veth0", "net_ns_pid": int(sys.argv[1])})
"""
_UP = """
import sys
from pyroute2 import IPRoute
with IPRoute() as ip:
    for name in ("lo", "veth0"):
        ip.link("set", index=ip.link_lookup(ifname=name)[0], state="up")
    ip.addr("add", index=ip.link_lookup(ifname="veth0")[0], address=sys.argv[1], prefixlen=24)
"""
_FREE_PORT = "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"


class NoHosts(Exception):
    """Namespaces are not permitted here. One line with the system's own reason."""


@dataclass(frozen=True)
class Host:
    """A network of its own with the interfaces ``lo`` and ``veth0``, and process ids of its own."""

    pid: int
    address: str

    def on_network(self, *command: str) -> list[str]:
        """Return the command so that it runs with this host's network, but the process ids of outside."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]

    def inside(self, *command: str) -> list[str]:
        """Return the command so that it runs on this host, with which it ends."""
        return self.on_network("nsenter", f"--pid=/proc/{self.pid}/ns/pid_for_children", *command)

    def start(self, *command: str, **arguments: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(self.inside(*command), cwd=ROOT, text=True, **arguments)

    def python(self, program: str, *arguments: str) -> str:
        """Return the output of a small Python program on this host's network."""
        command = self.on_network(sys.executable, "-c", program, *arguments)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode != 0:
            raise NoHosts((done.stderr.strip().splitlines() or [f"{command[0]} ended with {done.returncode}"])[-1])
        return done.stdout.strip()

    def free_port(self) -> int:
        return int(self.python(_FREE_PORT))


@contextmanager
def _host(address: str) -> Iterator[Host]:
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "sh", "-c", "echo ready; exec cat"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    try:
        holder = subprocess.Popen(command, text=True, **pipes)  # type: ignore[call-overload]
    except FileNotFoundError as error:
        raise NoHosts(f"{error.filename} is not installed") from error
    with holder:
        if holder.stdout.readline() != "ready\n":
            raise NoHosts(holder.stderr.read().strip())
        try:
            yield Host(holder.pid, address)
        finally:
            holder.kill()  # --kill-child: the host's first process ends with it, and so all others


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """10.77.0.1 and 10.77.0.2, which reach each other and no other host.

    Raises:
        NoHosts: not permitted here.
    """
    with ExitStack() as stack:
        first, second = (stack.enter_context(_host(f"10.77.0.{number}")) for number in (1, 2))
        first.python(_CONNECT, str(second.pid))
        for host in (first, second):
            host.python(_UP, host.address)
        yield first, second
