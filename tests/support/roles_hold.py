"""Functions of roles in the tests of a GIL that is held."""

from __future__ import annotations

import threading
import time

import torch.distributed.rpc as rpc

_looking = threading.Event()


def looking() -> None:
    _looking.set()


def longest_gap(wanted: float) -> float:
    """Look at the clock until two looks are so many seconds apart, for 20 s at most. Return the longest gap.

    The other role is told after the first look.
    """
    longest, last, due = 0.0, time.monotonic(), time.monotonic() + 20
    rpc.rpc_sync("a", looking)
    while longest < wanted and last < due:
        now = time.monotonic()
        longest, last = max(longest, now - last), now
        time.sleep(0.001)
    return longest


def visit() -> None:
    """The call at which the fault fires, at its callee."""


def visitor() -> None:
    """Call the other role once it looks at the clock."""
    assert _looking.wait(20)
    rpc.rpc_sync("b", visit)
