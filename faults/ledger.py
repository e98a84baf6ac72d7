"""The ledger: what really happened, one JSON line an event and role, in ``ROLE.jsonl`` of the run's folder.

A line is one ``write`` to a file opened for appending, so what a role wrote stays when it is killed; at worst its last
line is torn. Events:

- ``start``: the first line; the clocks and the process id.
- ``up``, ``shutdown``, ``left``: RPC's start, the way into its shutdown, and what it then had left behind.
- ``planned``: a fault of the plan that this role may fire. ``fired``: it did. ``effective``: its effect was seen.
- ``invoke``, then ``ok``, ``fail`` (it certainly did not succeed) or ``info`` (it may have executed): calls, at the
  caller.
- ``executing``, ``executed``: calls that a fault has hit, at the callee.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SUFFIX = ".jsonl"


class Ledger:
    """One role's, open for writing. Thread-safe."""

    def __init__(self, folder: Path, role: str) -> None:
        self.role = role
        self.path = folder / f"{role}{SUFFIX}"
        self._file = os.open(self.path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        self._lock = threading.Lock()
        self.write("start", pid=os.getpid(), wall=time.time(), boot=_boot())

    def write(self, event: str, **details: Any) -> None:
        """Append one line; nothing once the ledger is closed."""
        line = json.dumps({"event": event, "time": time.monotonic(), **details}, default=str) + "\n"
        with self._lock:
            if self._file is not None:
                os.write(self._file, line.encode())

    def close(self) -> None:
        """Later events, of calls that are still under way, go nowhere."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
            self._file = None  # type: ignore[assignment]


def _boot() -> str:
    """Which machine, since when: monotonic clocks with the same one are the same clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Event:
    """One line. ``time``: seconds, on the clock of the timeline's first role."""

    role: str
    event: str
    time: float
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        details = " ".join(f"{name}={value}" for name, value in self.details.items())
        return f"{self.time:10.4f}  {self.role}  {self.event}  {details}".rstrip()


@dataclass(frozen=True)
class Timeline:
    """All roles' events by time. ``torn``: per role how many lines could not be read; ``roles``: who has a ledger;
    ``zero``: where the timeline begins, on the monotonic clock of the first role's machine."""

    events: tuple[Event, ...]
    torn: Mapping[str, int]
    roles: tuple[str, ...]
    zero: float = 0.0

    def of(self, *events: str) -> list[Event]:
        """Those of these kinds, by time."""
        return [each for each in self.events if each.event in events]

    def facts(self) -> list[tuple[str, str, tuple[tuple[str, Any], ...]]]:
        """What the same plan gives again: fired and effective faults by role, without times and measured numbers."""
        kept = ("fault", "kind", "site", "caller", "nth", "at")
        found = [
            (each.role, each.event, tuple((name, each.details[name]) for name in kept if name in each.details))
            for each in self.of("fired", "effective")
        ]
        return sorted(found, key=repr)

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))


def read(folder: str | os.PathLike[str]) -> Timeline:
    """Every role's ledger in ``folder``, merged."""
    lines, torn = {}, {}
    for path in sorted(Path(folder).glob(f"*{SUFFIX}")):
        lines[path.stem], torn[path.stem] = _lines(path)
    first = _first(lines)
    zero = 0.0 if first is None else float(first["time"])
    torn = {role: count for role, count in torn.items() if count}
    return Timeline(tuple(_merged(lines, first)), torn, tuple(lines), zero)


def _first(lines: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
    """The line of the start that came first."""
    starts = [each[0] for each in lines.values() if each and each[0]["event"] == "start"]
    return min(starts, key=lambda start: float(start["wall"]), default=None)


def _lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines that can be read, and how many cannot."""
    found, torn = [], 0
    for line in path.read_bytes().splitlines():
        try:
            value = json.loads(line)
            if not isinstance(value, dict) or not {"event", "time"} <= value.keys():
                raise ValueError(value)
            found.append(value)
        except ValueError:
            torn += 1
    return found, torn


def _merged(lines: Mapping[str, list[dict[str, Any]]], first: dict[str, Any] | None) -> Iterable[Event]:
    """By time. Roles on one machine share its monotonic clock; others are aligned by the wall clock at their start."""
    starts = {role: each[0] for role, each in lines.items() if each and each[0]["event"] == "start"}
    events = []
    for role, each in lines.items():
        shift = 0.0 if first is None else _shift(starts.get(role, first), first)
        for line in each:
            details = {name: value for name, value in line.items() if name not in ("event", "time")}
            events.append(Event(role, line["event"], line["time"] + shift, details))
    return sorted(events, key=lambda event: event.time)


def _shift(start: Mapping[str, Any], first: Mapping[str, Any]) -> float:
    """What brings a role's times to the first role's clock, with that one's start at 0."""
    if start["boot"] == first["boot"]:
        return -float(first["time"])
    return float(start["wall"]) - float(first["wall"]) - float(start["time"])
