"""Roles of the tests of crashes in all ways: a shop that may handle SIGTERM, and a till."""

from __future__ import annotations

import signal
import sys
import threading
from functools import partial
from types import FrameType
from typing import Any

import torch.distributed.rpc as rpc

from faults.run.runs import Subject

# Set by the handler for SIGTERM.
_asked = threading.Event()


def sell() -> str:
    return "sold"


def _ask(number: int, frame: FrameType | None) -> None:
    _asked.set()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(3)


def _fail(number: int, frame: FrameType | None) -> None:
    raise RuntimeError("asked to end")


HANDLERS: dict[str, Any] = {"": signal.SIG_DFL, "ignore": signal.SIG_IGN, "ask": _ask, "leave": _leave, "fail": _fail}

# Set when the shop has said what it does with SIGTERM.
_open = threading.Event()


def shop(handler: str) -> bool:
    """Keep the shop open until it is asked to end, if it handles that. Whether it was asked.

    It makes no call: torch would hide a handler's SystemExit in a RuntimeError while it reads the answer.
    """
    signal.signal(signal.SIGTERM, HANDLERS[handler])
    _open.set()
    # In short waits: one that begins just after a signal has come does not end by it.
    return handler in ("ask", "leave", "fail") and any(_asked.wait(0.1) for _ in range(200))


def await_open() -> bool:
    return _open.wait(8)


def till() -> list[str]:
    """Buy twice, after the shop has said what it does with SIGTERM."""
    assert rpc.rpc_sync("shop", await_open, timeout=10)
    return [rpc.rpc_sync("shop", sell) for _ in range(2)]


def subject(handler: str = "") -> Subject:
    roles: dict[str, Any] = {"shop": partial(shop, handler), "till": till}
    return Subject("shop", roles, timeout=3.0, judge=lambda outcomes: None)
