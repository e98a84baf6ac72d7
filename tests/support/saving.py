"""Roles whose state after each step a formula tells, and a process that dies while they save it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from reference.rpc_basics import Case
from reference.trace import checkpoint
from reference.trace.checkpoint import Checkpoints, resume, save
from reference.trace.recorder import Recorder

ROLES = ("a", "b", "c")
STEPS = 3
RUN = {"rows": 2}


class Kept:
    """Any state."""

    def __init__(self, content: Any = None) -> None:
        self.content = content

    def state_dict(self) -> Any:
        return self.content

    def load_state_dict(self, state_dict: Any) -> None:
        self.content = state_dict


class Growing(Kept):
    grows = True


class Role:
    """One role of three. What it has depends on all of its steps."""

    def __init__(self, shared: Checkpoints, name: str) -> None:
        shared(name)
        self.name, self.rank = name, ROLES.index(name)
        self.value, self.notes, self.trace = torch.zeros(4), Kept({}), Recorder(Case(), {})
        self.owners: dict[str, Any] = {"value": self.value, "notes": self.notes, "trace": self.trace}
        self.step = resume(**self.owners)

    def go_on(self) -> None:
        self.value.mul_(3).add_(self.rank + 1)
        self.notes.content = {"step": self.step, "before": [self.notes.content.get("step")]}
        self.trace.step(self.step, {self.name: self.value.sum()}, {})
        self.step += 1
        save(self.step, **self.owners)

    def state(self) -> tuple[list[float], Mapping[str, Any], dict[str, float]]:
        return self.value.tolist(), self.notes.content, {k: each.item() for k, each in self.trace.tensors.items()}


def state_after(name: str, steps: int) -> tuple[list[float], Mapping[str, Any], dict[str, float]]:
    """The formula."""
    values = [(ROLES.index(name) + 1) * (3**step - 1) / 2 for step in range(steps + 1)]
    notes = {"step": steps - 1, "before": [steps - 2 if steps > 1 else None]} if steps else {}
    return [values[-1]] * 4, notes, {f"{step:04d}/loss/{name}": 4 * values[step + 1] for step in range(steps)}


def play(shared: Checkpoints, until: int = STEPS, said: Path | None = None) -> None:
    """Play all roles, one after the other. ``said``: gets one byte with each step that is done for all."""
    for name in ROLES:
        role = Role(shared, name)
        assert role.state() == state_after(name, shared.start)
        while role.step < until:
            role.go_on()
            if said is not None and name == ROLES[-1]:
                with said.open("a") as file:
                    file.write(".")
        assert role.state() == state_after(name, role.step)


def die_while_saving(folder: Path, said: Path, call: int, size: int) -> None:
    """Play all roles, but die before the ``call``-th change of a file, or once a file has ``size`` bytes."""
    calls, os_open = 0, os.open

    def counted(module: Any, name: str, *, done: bool = True) -> None:
        function = getattr(module, name)

        def wrapper(*args: Any, **keywords: Any) -> Any:
            nonlocal calls
            calls += function is not os_open or bool(args[1] & os.O_CREAT)
            if calls == call > 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **keywords) if done else None

        setattr(module, name, wrapper)

    for module, name in (
        (os, "open"),
        (os, "replace"),
        (os, "unlink"),
        (Path, "write_text"),
        (checkpoint, "save_file"),
    ):
        counted(module, name)
    counted(os, "fsync", done=False)  # a kill does not lose what the disk does not have yet
    shared = Checkpoints(folder, ROLES, RUN).chosen()  # which looks for room
    if size:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    play(shared, said=said)
