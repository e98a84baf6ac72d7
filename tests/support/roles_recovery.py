"""Roles that go on from checkpoints, and end in their own ways."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.distributed.rpc as rpc

from faults.run.leftovers import is_running
from faults.run.runs import Subject
from reference.outcome import Outcome, Returned
from reference.trace.checkpoint import Checkpoints, resume, save
from tests.support.roles_plain import Unlucky, await_true, kill_oneself


def full_disk(of: str, role: str) -> None:
    """``launch(before=)``: the role ``of`` can write no checkpoint."""

    def full(fd: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if role == of:
        os.fsync = full


def steps(until: int = 3) -> int:
    """Save steps. Returns the step from which this life went on."""
    value = torch.zeros(1)
    start = resume(value=value)
    for step in range(start, until):
        value += 1
        save(step + 1, value=value)
    assert value.item() == until
    return start


def saved(folder: Path, step: int) -> None:
    """Wait until a step is valid."""
    await_true((folder / f"{step:08d}.json").exists, 20.0)


def killed_after(folder: Path, *at: int) -> int | None:
    """End by SIGKILL once each of these steps, in turn, is valid: one in each life."""
    last = [step for step in at if not (folder / f"{step:08d}.json").exists()][:1]
    if not last:
        return steps()
    steps(last[0])
    saved(folder, last[0])
    return kill_oneself()  # type: ignore[func-returns-value]


def unlucky_after(folder: Path, step: int) -> None:
    """Raise the same error in each life, after one step."""
    steps(step)
    saved(folder, step)
    raise Unlucky("as ever")


def unlucky_each_time(folder: Path) -> None:
    """Raise the same error, but after one more step in each life."""
    value = torch.zeros(1)
    step = resume(value=value) + 1
    save(step, value=value)
    saved(folder, step)
    raise Unlucky("as ever")


def waits(folder: Path) -> None:
    """Be killed after two seconds, and never end in another life."""
    if (folder / "waited").exists():
        threading.Event().wait()
    (folder / "waited").touch()
    threading.Event().wait(2)
    kill_oneself()


def leaves_processes(folder: Path, lives: int) -> list[int]:
    """Start a process, and be killed in all lives but the last. Returns the processes of earlier lives that run."""
    known = [int(each) for path in folder.glob("*.pid") for each in path.read_text().split()]
    mine = [os.getpid(), subprocess.Popen(["sleep", "1000"]).pid, rpc.rpc_sync("a", os.getpid)]
    (folder / f"{os.getpid()}.pid").write_text(" ".join(map(str, mine)))
    if len(known) < len(mine) * (lives - 1):
        kill_oneself()
    return [pid for pid in known if is_running(pid)]


def _judged(outcomes: Mapping[str, Outcome]) -> tuple[str, str] | None:
    returned = [each.value for each in outcomes.values() if isinstance(each, Returned)]
    return ("equal", str(returned)) if len(returned) == 2 else None


def subject(play: Callable[[], object]) -> Subject:
    roles = {"a": steps, "b": play}
    return Subject("steps", roles, 5.0, _judged, checkpoints=lambda folder: Checkpoints(folder, [*roles], resume=True))
