"""What roles play in the tests of process and message faults, and the ``before`` that hurts them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed.rpc as rpc

from faults import messages, processes
from faults.announcer import Announcer, StepHandler
from faults.ledger import Ledger
from faults.plan import Plan
from reference.progress import log_step
from tests import plays

_undo: list[Callable[[], None]] = []


def before(folder: Path, role: str) -> None:
    """As the hook: the ledger, the process faults, and `init_rpc` with the messages' backend."""
    plan = Plan.from_json((folder / "plan.json").read_text())
    announcer = Announcer(role)
    logging.getLogger("reference").addHandler(StepHandler(announcer))
    ledger = Ledger(folder, role)
    _undo.append(processes.prepare(plan, role, folder, ledger, announcer))
    start = rpc.init_rpc

    def init_rpc(
        name: str, backend: Any = None, rank: int = -1, world_size: Any = None, rpc_backend_options: Any = None
    ) -> None:
        backend, rpc_backend_options = messages.backend_for(plan, role, backend, rpc_backend_options)
        start(name, backend, rank, world_size, rpc_backend_options)
        announcer.announce("up")

    rpc.init_rpc = init_rpc


def planned(folder: Path, text: str) -> Callable[[str], None]:
    """A ``before`` for this plan, in a folder that is made for it."""
    folder.mkdir(exist_ok=True)
    (folder / "plan.json").write_text(Plan.parse(text).to_json())
    return partial(before, folder)


def step(number: int = 1) -> None:
    log_step(number, number, 0.0)


def timed_step(number: int = 1) -> float:
    begin = time.monotonic()
    step(number)
    return time.monotonic() - begin


def undo() -> float:
    begin = time.monotonic()
    _undo[0]()
    return time.monotonic() - begin


def call(peer: str) -> tuple[str, float]:
    """Who answered, and the seconds that it took."""
    begin = time.monotonic()
    return rpc.rpc_sync(peer, plays.name), time.monotonic() - begin


def call_and_kill_oneself(number: int = 1) -> None:
    step(number)
    plays.kill_oneself()
