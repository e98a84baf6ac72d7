"""Make and enter a network that has only its own loopback, by system calls (Linux).

This file is also a script:

    python -I -S network_namespace.py

It makes such a network and enters it as a role will. It prints the namespaces to enter, ``net`` or ``user net``, or
``no`` and the reason why it can make none. The namespaces last until its standard input ends, and longer if another
process has them open. It imports nothing of this project, so that it starts in milliseconds.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Sequence

# From linux/sched.h; os.unshare and os.setns came with Python 3.12.
NEWUSER, NEWNET = 0x10000000, 0x40000000

# linux/sockios.h and linux/if.h: `struct ifreq` is 40 bytes, its flags follow the 16 of the name.
_SIOCSIFFLAGS, _IFF_UP, _IFREQ = 0x8914, 1, "16sh22x"


def enter(paths: Sequence[str]) -> None:
    """Put the calling thread, and all that it starts from now on, into the namespaces at ``paths``, in this order, a
    user namespace first.

    For a user namespace the process must have only one thread, because no other thread can follow it there.

    Raises:
        OSError: a namespace does not exist, or entering it is not permitted.
    """
    # All are opened before one is entered, because a process inside the first may not open the others.
    opened = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]
    try:
        for descriptor in opened:
            system("setns", descriptor, 0)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def make() -> str:
    """Move this process into a new network whose loopback is up, and return the names of its new namespaces.

    Without the privilege for that, make the network in a new user namespace, in which user and group stay the same.

    Raises:
        OSError: the kernel does not permit it here.
    """
    user, group = os.geteuid(), os.getegid()
    try:
        system("unshare", NEWNET)
        made = "net"
    except PermissionError:
        system("unshare", NEWUSER | NEWNET)
        # Without the first a group cannot be mapped.
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 (pathlib takes long to import)
                file.write(text)
        made = "user net"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack(_IFREQ, b"lo", _IFF_UP))
    return made


def system(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of C that this Python may not have, such as ``setns``. Raises OSError: it failed."""
    result = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _rehearse(maker: int, names: Sequence[str]) -> None:
    """Enter another process's namespaces and make a connection there. Raises OSError."""
    enter([f"/proc/{maker}/ns/{name}" for name in names])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        socket.create_connection(listening.getsockname(), timeout=5).close()


def _make_and_wait(told: int, over: int) -> None:
    """Run in the child: report the new namespaces, and keep them until the other process has opened them."""
    try:
        answer = make()
    except OSError as error:
        answer = f"no {error.strerror or error}"
    os.write(told, answer.encode())
    os.read(over, 1)


def main() -> None:
    heard, told = os.pipe()
    over, end = os.pipe()
    maker = os.fork()
    if maker == 0:
        os.close(end)
        try:
            _make_and_wait(told, over)
        finally:
            os._exit(0)
    os.close(told)
    answer = os.read(heard, 1 << 12).decode() or "no its maker died"
    if not answer.startswith("no "):
        try:
            _rehearse(maker, answer.split())
        except OSError as error:
            answer = f"no {error.strerror or error}"
    os.close(end)
    os.waitpid(maker, 0)
    sys.stdout.write(f"{answer}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
