"""Waiting for everybody who takes part: a failing or silent participant ends the wait, and is named."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch


class ParticipantFailed(RuntimeError):
    """A participant failed, or was silent for too long. Says who, and why."""


def cause_of(error: Exception) -> str:
    """What an error that came over RPC says, in one line: its first one may only say from where it came."""
    # A KeyError quotes its text: line ends and quotes are escaped in it.
    text = str(error).replace("\\n", "\n").replace("\\'", "'")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "On WorkerInfo(" not in line), type(error).__name__)


class Attendance:
    """Runs where calls arrive: `heard` in RPC threads, `collect` in the one that waits."""

    def __init__(self, names: Collection[str], timeout: float, excused: Callable[[], Collection[str]] = tuple) -> None:
        """``timeout``: seconds of silence; ``excused``: who waits for an answer just now, so has to be silent."""
        self.timeout = timeout
        self.excused = excused
        self.last = dict.fromkeys(names, time.monotonic())

    def heard(self, name: str) -> None:
        """A participant has called."""
        self.last[name] = time.monotonic()

    def collect(self, futures: Mapping[str, torch.futures.Future[Any]]) -> dict[str, Any]:
        """Everybody's result, in the order of ``futures``.

        Raises:
            ParticipantFailed: at once when one fails, and when one was silent for ``timeout`` seconds.
        """
        ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        for name, future in futures.items():
            self.heard(name)
            future.add_done_callback(partial(_put, ended, name))
        running, results = set(futures), {}
        while running:
            name = self._next(ended, running)
            running.remove(name)
            try:
                results[name] = futures[name].value()
            except Exception as error:
                raise ParticipantFailed(f"{name} failed: {cause_of(error)}") from error
        return {name: results[name] for name in futures}

    def _next(self, ended: queue.SimpleQueue[str], running: Collection[str]) -> str:
        while True:
            expected = [name for name in running if name not in self.excused()]
            oldest = min((self.last[name] for name in expected), default=time.monotonic())
            try:
                return ended.get(timeout=max(0.001, oldest + self.timeout - time.monotonic()))
            except queue.Empty:
                silent = self.silent(running, time.monotonic())
                if silent:
                    raise ParticipantFailed(f"nothing for {self.timeout} s from {', '.join(silent)}") from None

    def silent(self, running: Collection[str], now: float) -> list[str]:
        """Who of ``running`` should have called by ``now`` (`time.monotonic`)."""
        late = [name for name, last in self.last.items() if name in running and last <= now - self.timeout]
        excused = self.excused()
        return [name for name in late if name not in excused]


def _put(ended: queue.SimpleQueue[str], name: str, future: torch.futures.Future[Any]) -> None:
    ended.put(name)
