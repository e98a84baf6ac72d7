"""Functions of roles in the tests. They stand at the top of a module, because they are sent to processes by name."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _get_current_rpc_agent, _is_current_rpc_agent_set

from reference.system.processes import is_stopped
from reference.trace.progress import log_step
from reference.world import link

_before: list[str] = []


def nothing() -> None:
    pass


def name() -> str:
    return str(rpc.get_worker_info().name)


def rank() -> int:
    return int(rpc.get_worker_info().id)


def name_of(peer: str) -> str:
    return str(rpc.rpc_sync(peer, name))


def next_one() -> str:
    """Call the role after this one, and the first after the last."""
    info = rpc.get_worker_info()
    everybody = sorted(_get_current_rpc_agent().get_worker_infos(), key=lambda each: each.id)
    return name_of(everybody[(info.id + 1) % len(everybody)].name)


def await_true(condition: Callable[[], object], seconds: float = 10.0, otherwise: object = "") -> None:
    """Ask again and again until it is true; fail if it is not within so many seconds."""
    due = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < due, otherwise
        time.sleep(0.001)


def add(a: int, b: int) -> int:
    return a + b


class Unlucky(Exception):
    pass


def stop_or_fail_at_length(folder: str, role: str) -> None:
    """`b` stops itself; then the first role raises an error whose text is longer than a pipe has room."""
    file = Path(folder, "b")
    if role == "b":
        file.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
    await_true(lambda: file.exists() and file.read_text() and is_stopped(int(file.read_text())))
    raise Unlucky("x" * (1 << 20))


def unlucky() -> None:
    raise Unlucky("today")


def unlucky_with_a_hook_that_fails() -> None:
    sys.excepthook = lambda *error: 1 / 0
    unlucky()


class Holding:
    """What work holds."""

    every: ClassVar[weakref.WeakSet[Holding]] = weakref.WeakSet()

    def __init__(self) -> None:
        self.every.add(self)


def fail_by_two_futures() -> None:
    """Raise an error of another cause than the error during which it is raised. Both keep this frame, by a future."""
    _holding = Holding()
    first, second = torch.futures.Future[Any](), torch.futures.Future[Any]()
    first.set_exception(Unlucky("first"))
    second.set_exception(Unlucky("second"))
    try:
        first.wait()
    except Unlucky as error:
        cause = error
    try:
        second.wait()
    except Unlucky:
        raise Unlucky("both") from cause


def fail_by_itself() -> None:
    try:
        unlucky()
    except Unlucky as error:
        raise error from error


def held() -> int:
    """How many objects the work of this role still holds."""
    return len(Holding.every)


def be_deaf() -> None:
    """Hang, even when the launcher asks for stacks."""
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    threading.Event().wait()


def end_when_asked(stacks: Path, written: str) -> None:
    """Hang, and end in the middle of its stacks when the launcher asks for them. ``stacks``: their file."""

    def end(*_: object) -> None:
        stacks.write_text(written)
        os._exit(0)

    signal.signal(signal.SIGUSR2, end)
    threading.Event().wait()


def print_to_a_full_disk() -> None:
    sys.stdout = Path("/dev/full").open("w")  # noqa: SIM115
    print("said, and never written")


_done = threading.Event()


def be_done() -> None:
    """Note that this role is done. It is the last thing before the common shutdown."""
    _done.set()


def be_done_when_the_shutdown_fails() -> None:
    """Let the shutdown fail as at a lost peer, and be done then: that peer may die only now."""

    def fail() -> None:
        be_done()
        raise RuntimeError("eof")

    rpc.shutdown = fail  # type: ignore[assignment]
    link.PEER_DEATH_SECONDS = 20.0


def await_done() -> bool:
    """Wait for `be_done`. Executed on a role that runs it."""
    return _done.wait(30)


def kill_oneself_when_b_is_done() -> None:
    assert rpc.rpc_sync("b", await_done)
    kill_oneself()


def kill_oneself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def crash() -> None:
    ctypes.string_at(0)


class Made(Exception):
    """Cannot be made again from its one argument: it is pickled here, but cannot be unpickled there."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a}{b}")


def unreadable() -> Made:
    return Made(1, 2)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def mute() -> None:
    raise Mute


def stop_in_mid_send() -> bytes:
    """Return a large value, and stop the sender when it has sent the beginning."""
    send = Connection._send  # type: ignore[attr-defined]

    def only_the_beginning(self: Connection, data: Any) -> None:
        if len(data) < 1_000_000:
            send(self, data)
            return
        send(self, data[:1000])
        os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait()

    Connection._send = only_the_beginning  # type: ignore[attr-defined]
    return bytes(2_000_000)


unsendable = threading.Lock


def wait_for_ever() -> None:
    threading.Thread(target=_second_thread, daemon=True).start()
    threading.Event().wait()


def announce_and_wait() -> None:
    """Tell the launcher's ``on_progress`` that every role is up, then never end."""
    log_step(1, 1, 0.0)
    wait_for_ever()


def _second_thread() -> None:
    threading.Event().wait()


def hold_the_gil() -> None:
    """Sleep in C without letting any other Python thread run."""
    ctypes.PyDLL(None).sleep(1000)


def never_finish() -> None:
    """Return at once, and leave a thread that Python waits for at its end."""
    threading.Thread(target=_second_thread, daemon=False).start()


def return_and_end_later(place: Path, seconds: float) -> int:
    """Return. The process ends so many seconds after it has reported its end."""

    def stay() -> None:
        await_true(lambda: not threading.main_thread().is_alive())
        (place / "reported").touch()
        time.sleep(seconds)  # nothing happens here meanwhile: the world's grace passes

    threading.Thread(target=stay).start()
    return 7


def return_and_be_killed_later(place: Path) -> None:
    """Return. The process is killed when the other one has reported its end."""

    def stay() -> None:
        await_true((place / "reported").exists)
        kill_oneself()

    threading.Thread(target=stay).start()


def speak() -> None:
    print("said to stdout")
    print("said to stderr", file=sys.stderr)
    os.write(1, b"said by the process\n")
    warnings.warn("said as a warning", stacklevel=1)


def say_to_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def descriptors() -> tuple[int, int]:
    return sys.stdout.fileno(), sys.stderr.fileno()


def speak_without_streams() -> None:
    sys.stdout.close()
    sys.stderr.close()
    for descriptor in (1, 2):
        os.write(descriptor, f"said to {descriptor}\n".encode())


def speak_at_length() -> None:
    print("x" * 200_000 + "end")


def start_a_child() -> int:
    return subprocess.Popen(["sleep", "1000"]).pid


def remember(role: str) -> None:
    """Note that this ran, before RPC starts. To be used as a ``before``."""
    _before.append(f"{role} {_is_current_rpc_agent_set()}")


def remembered() -> list[str]:
    return _before


def refuse_b(role: str) -> None:
    if role == "b":
        raise Unlucky("before")


def backend_in_use() -> str:
    return type(_get_current_rpc_agent()).__name__


def draw() -> tuple[float, float, int]:
    import random

    import numpy

    return torch.rand(1).item(), random.random(), int(numpy.random.randint(2**31))


def threads() -> tuple[int, list[str | None]]:
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return torch.get_num_threads(), [os.environ.get(name) for name in names]


def sockets(seen_by: int | str = "self") -> Iterator[tuple[str, str, int]]:
    """Yield each socket that listens, its inode, address and port, as the kernel tells the network of ``seen_by``."""
    for table, family, width in (("tcp", socket.AF_INET, 4), ("tcp6", socket.AF_INET6, 16)):
        for line in Path(f"/proc/{seen_by}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                address, port = fields[1].split(":")
                words = [bytes.fromhex(address)[at : at + 4][::-1] for at in range(0, width, 4)]
                yield fields[9], socket.inet_ntop(family, b"".join(words)), int(port, 16)


def listening(pid: int | str = "self", seen_by: int | str = "self") -> Iterator[tuple[str, int]]:
    """Yield the addresses and ports on which a process listens, as `sockets` tells them."""
    links = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # the listing's own, or closed meanwhile
            links.add(str(descriptor.readlink()))
    for inode, address, port in sockets(seen_by):
        if f"socket:[{inode}]" in links:
            yield address, port


def listening_addresses() -> list[str]:
    return [address for address, _ in listening()]


class Unopened:
    """Sent as a call of ``function``, which the process that unpickles it executes."""

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self.call = function, args

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.call
