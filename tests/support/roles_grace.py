"""Roles that do not answer, because they are stuck in torch's start, or stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed.rpc as rpc

from reference.system.processes import is_stopped
from tests.support import roles_plain


def _instead_of_its_agent(act: Callable[[], object]) -> None:
    """Replace the agent's constructor in this process. RPC calls it when all roles have met."""
    rpc.TensorPipeAgent = lambda *arguments, **named: act()  # type: ignore[attr-defined, assignment]


def _hold_the_lock(place: Path) -> None:
    (place / "held").touch()
    roles_plain.hold_the_gil()


def _die_when_it_is_held(place: Path) -> None:
    roles_plain.await_true((place / "held").exists, 30)
    roles_plain.kill_oneself()


def a_is_stuck(place: Path, role: str) -> None:
    """Make ``a`` hang in its agent's constructor, with Python's lock."""
    if role == "a":
        _instead_of_its_agent(partial(_hold_the_lock, place))


def a_is_stuck_and_b_dies(place: Path, role: str) -> None:
    a_is_stuck(place, role)
    if role == "b":
        _instead_of_its_agent(partial(_die_when_it_is_held, place))


def waits_in_its_start(role: str) -> None:
    """Make the role hang forever in its agent's constructor, with Python's lock free."""
    _instead_of_its_agent(wait_for_ever)


def a_waits_in_its_start(role: str) -> None:
    if role == "a":
        waits_in_its_start(role)


def a_takes_its_time(seconds: int, role: str) -> None:
    """Make ``a`` sleep before it starts RPC, with Python's lock."""
    if role == "a":
        ctypes.PyDLL(None).sleep(seconds)


def a_gets_ready_last(folder: Path, role: str) -> None:
    """Let ``a`` write to ``folder/a`` whether ``b`` began to call before ``a`` was ready; ``a`` gives it 0.5 s."""
    api: Any = rpc.api
    started, gather, called = api._init_rpc_states, api._all_gather, folder / "b calls"

    def get_ready(agent: object) -> None:
        started(agent)
        due = time.monotonic() + 0.5
        while time.monotonic() < due and not called.exists():
            time.sleep(0.01)
        if not (folder / "a").exists():  # torch calls this twice
            (folder / "a").write_text("b called" if called.exists() else "b waited")

    def call(*arguments: Any, **options: Any) -> Any:
        called.touch()
        return gather(*arguments, **options)

    if role == "a":
        api._init_rpc_states = get_ready
    else:
        api._all_gather = call


def report_no_more(role: str) -> None:
    """Close the way to the launcher, the only socket before RPC starts, and go on for ever."""
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 (a Path would open more descriptors)
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as own:
            own.shutdown(socket.SHUT_WR)
    wait_for_ever()


def stop(place: Path, *after: Path) -> None:
    """Stop this role's process, as a SIGSTOP from outside does. ``place``: the file for its process id; ``after``: wait
    for these files before, because others that still start RPC may need the store, which the first role's process has.
    """
    roles_plain.await_true(lambda: all(each.exists() for each in after), 30)
    place.with_suffix(".new").write_text(str(os.getpid()))
    place.with_suffix(".new").replace(place)
    os.kill(os.getpid(), signal.SIGSTOP)


def stop_for_good(*places: Path) -> None:
    """`stop`, and never end by oneself, even when continued."""
    stop(*places)
    wait_for_ever()


def wait_for_ever(place: Path | None = None) -> None:
    """``place``: a file that tells that this role plays."""
    if place is not None:
        place.touch()
    threading.Event().wait()


def play_and_fail(plays: Path, place: Path) -> None:
    """Tell that this role plays, and fail once the process whose id is in ``place`` is stopped: if it heard of the loss
    before, it would not stop."""
    plays.touch()
    roles_plain.await_true(lambda: place.exists() and is_stopped(int(place.read_text())), 30)
    raise roles_plain.Unlucky("today")
