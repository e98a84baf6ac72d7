"""Functions of roles in the tests of process and message faults, and the ``before`` that installs the faults."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch.distributed.rpc as rpc

from faults import hook
from faults.plan import Plan
from reference.trace.progress import log_step
from tests.support import roles_plain


def planned(folder: Path, text: str) -> Callable[[str], None]:
    """Make a ``before`` for this plan, in a folder that is made for it."""
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(Plan.parse(text).to_json())
    return partial(hook.install, folder)


def a_opens_many_files(role: str) -> None:
    """Let ``a`` open so many files that it has no descriptor below 1,100 left."""
    while role == "a" and os.open(os.devnull, os.O_RDONLY) < 1100:
        pass


def step(number: int = 1) -> None:
    log_step(number, number, 0.0)


def timed_step(number: int = 1) -> float:
    begin = time.monotonic()
    step(number)
    return time.monotonic() - begin


def undo() -> float:
    begin = time.monotonic()
    hook.remove()
    return time.monotonic() - begin


def call(peer: str) -> tuple[str, float]:
    """Return the name of the role that answered, and the seconds that it took."""
    begin = time.monotonic()
    return rpc.rpc_sync(peer, roles_plain.name), time.monotonic() - begin
