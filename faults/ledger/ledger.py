"""The ledger of one role: what really happened, one JSON line per event, in ``ROLE.jsonl`` of the run's folder.

A line is one ``write`` to a file opened for appending. So the lines of a killed role remain; at worst the last one is
torn. Each line names the ``process`` that wrote it, because several may play one role, even at the same time.
docs/verdicts.md says of each event who writes it, and when.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from faults.ledger import error_links
from faults.ledger.error_links import first_line
from faults.plan.places import INTERNAL
from reference.system import json_objects
from reference.system.files import content_of
from reference.system.text import OneLine, one_line, shown

SUFFIX = ".jsonl"
# The form of ledgers and of ``run.json``. A run of another one is refused.
SCHEMA = 2
# `JSONEncoder.encode` makes an encoder for each value, which is a tenth of what recording a call costs. This one
# does not look for circles: no line has any.
_encoded = c_make_encoder(None, str, encode_basestring_ascii, None, ": ", ", ", False, False, True)
# The longest ledger in bytes.
LONGEST = 2**30


def _links(value: Any) -> bool:
    """Whether it can be the result of `error_links.to_json`."""
    try:
        return bool(error_links.from_json(value))
    except ValueError:
        return False


# The fields that every line has.
_OWN = {"event", "time", "process"}
# The types of a line's fields. Other fields may have any value.
_FORMS = json_objects.by_name(
    (json_objects.text, "event site caller to via kind why"),
    (json_objects.text, "side how dtype old new digest instead_of torch python"),
    (json_objects.integer, "process pid fault nth nth_to number"),
    (json_objects.integer, "tensor bit changed"),
    (json_objects.many(json_objects.integer), "shape element"),
    (json_objects.finite, "time wall"),
    (json_objects.number, "rpc_timeout timeout seconds"),
    (json_objects.truth, "graceful"),
    (json_objects.many(json_objects.integer), "faults"),
    (json_objects.maybe(json_objects.many(json_objects.text)), "workers"),
    (json_objects.maybe(json_objects.integer), "status"),
    (json_objects.maybe(json_objects.text), "world"),
    (_links, "links"),
)


# Those of this process. A child that is forked from it has them, too.
_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


class LedgerError(OneLine, OSError):
    """A ledger that cannot be written or read. One line."""


class Ledger:
    """The ledger of one role, open for writing. Thread-safe. Raises LedgerError: the folder cannot be written.

    ``world``: the place where the role meets the others of its world, if it is known.
    """

    def __init__(self, folder: Path, role: str, world: str | None = None) -> None:
        self.role, self.process, self.world = role, os.getpid(), world
        self.path = folder / f"{role}{SUFFIX}"
        try:
            self._open()
        except OSError as error:
            wanted = f"wanted a folder in which role {role!r} can write"
            raise LedgerError(f"cannot write a ledger at {self.path}: {error.strerror}; {wanted}") from error
        self._broken = 0
        self._whole = 0  # the size of the file after the last line that this process wrote
        # Reentrant, because a finalizer or a signal's handler that runs in the middle of `write` may write, too. Who
        # writes within a lock takes this one, because such a handler may want that lock as well.
        self.lock = threading.RLock()
        _ledgers.add(self)
        self.write("start", schema=SCHEMA, pid=self.process, wall=time.time(), boot=boot_id(), world=world)

    def write(self, event: str, **details: Any) -> None:
        """Append one line, unless the ledger is closed. A value that JSON does not know is written as its `str`."""
        assert _OWN.isdisjoint(details), details
        # The id is read each time, in a tenth of a microsecond, because a forked child writes to its parent's ledger.
        values = {"event": event, "time": time.monotonic(), "process": os.getpid(), **details}
        line = "".join((*_encoded(values, 0), "\n")).encode()
        with self.lock:
            if self._file is None:
                return
            if not self._is_open():
                self._open()
            size = os.lseek(self._file, 0, os.SEEK_END)
            # The last line has no end if a process of this role was killed within it, or if the disk was full.
            torn = size not in (0, self._whole) and os.pread(self._file, 1, size - 1) != b"\n"
            data = b"\n" + line if torn else line
            if os.write(self._file, data) == len(data):
                self._whole = size + len(data)

    @contextmanager
    def own_errors(self) -> Iterator[None]:
        """Record an error of `faults` itself, which must not be taken for the program's."""
        try:
            yield
        except Exception as error:
            self.broken(error)
            raise

    def broken(self, error: Exception) -> None:
        """Record an error of `faults` itself, once. One that a signal's handler has raised is not."""
        if id(error) == self._broken or error_links.of_a_handler(error):
            return
        self._broken = id(error)
        self.write("broken", error=first_line(error), stack="".join(traceback.format_exception(error)))

    def _open(self) -> None:
        self._file: int | None = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
        self._known = os.fstat(self._file)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_SH)  # `run_files.reserved` asks for it
        # Close the file when the ledger is garbage, as Python's own files do.
        self._release = weakref.finalize(self, os.close, self._file)
        self._release.atexit = False

    def _is_open(self) -> bool:
        """Whether the descriptor still refers to this file: a program may close all files, and then open its own."""
        assert self._file is not None
        with suppress(OSError):
            # After a line of this process the position is the line's end. `fstat`, which is always right, takes longer.
            if os.lseek(self._file, 0, os.SEEK_CUR) == self._whole:
                return True
            if os.path.samestat(os.fstat(self._file), self._known):
                return True
        self._release.detach()
        return False

    def close(self) -> None:
        """Close the ledger. Later events, of calls that are still in flight, are not written."""
        with self.lock:
            if self._file is not None and self._is_open():
                self._release()
            self._file = None


def _unlock() -> None:
    """Run in a forked child, where the threads do not exist that had locks."""
    for each in _ledgers:
        each.lock = threading.RLock()


os.register_at_fork(after_in_child=_unlock)


def boot_id() -> str:
    """Identify this machine's boot: monotonic clocks with the same boot id are the same clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def value_text(value: object) -> str:
    """``str`` of a value, or `shown` if ``str`` fails, as for a list that is nested too deeply."""
    try:
        return str(value)
    except Exception:
        return shown(value)


@dataclass(frozen=True)
class Event:
    """One line of a ledger. ``time``: seconds, on the clock of the timeline's first role; ``process``: its writer, 0 if
    the line does not say; ``life``: how often that had started RPC in this role."""

    role: str
    event: str
    time: float
    details: Mapping[str, Any] = field(default_factory=dict)
    process: int = 0
    life: int = 0

    @property
    def call(self) -> tuple[object, object]:
        """The call that it is about: the site, and its number among the caller's calls of the site."""
        return self.details.get("site"), self.details.get("nth")

    @property
    def is_internal(self) -> bool:
        """Whether it is about a call that torch or this project makes, and not the program."""
        return str(self.details.get("site")).startswith(INTERNAL)

    @property
    def made(self) -> tuple[object, ...]:
        """The one call that its caller's line is about: who made it, in which process and life, and `call`."""
        return self.role, self.process, self.life, *self.call

    def __str__(self) -> str:
        details = " ".join(
            f"{name}={value_text(value)}" for name, value in self.details.items() if name not in ("links", "stack")
        )
        return one_line(f"{self.time:10.4f}  {self.role}  {self.event}  {details}".rstrip())


@dataclass(frozen=True)
class Timeline:
    """All roles' events by time. ``torn``: the number of unreadable lines per role; ``roles``: the roles with a ledger;
    ``zero``: the beginning of the timeline, on the monotonic clock of the first role's machine."""

    events: tuple[Event, ...]
    torn: Mapping[str, int]
    roles: tuple[str, ...]
    zero: float = 0.0

    def of(self, *events: str) -> list[Event]:
        """Return the events of these kinds, by time."""
        if events not in self._found:
            self._found[events] = [each for each in self.events if each.event in events]
        return self._found[events].copy()

    @cached_property
    def _found(self) -> dict[tuple[str, ...], list[Event]]:
        """Cache the results of `of`, because a check may ask once for each event."""
        return {}

    def by(self, role: str) -> list[Event]:
        """Return one role's events, by time."""
        return self._by_role.get(role, []).copy()

    @cached_property
    def _by_role(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for event in self.events:
            found.setdefault(event.role, []).append(event)
        return found

    def facts(self) -> list[tuple[str, str, tuple[tuple[str, Any], ...]]]:
        """Return what the same plan gives in every run: fired and effective faults by role, without measurements."""
        kept = ("fault", "kind", "site", "caller", "nth", "at")
        found = [
            (each.role, each.event, tuple((name, each.details[name]) for name in kept if name in each.details))
            for each in self.of("fired", "effective")
        ]
        return sorted(found, key=repr)

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))


def read(folder: str | os.PathLike[str]) -> Timeline:
    """Read and merge every role's ledger in ``folder``. Raises LedgerError: no such folder, or an unreadable ledger."""
    if not Path(folder).is_dir():
        raise LedgerError(f"no folder {os.fspath(folder)!r}, wanted the folder of a run")
    lines, torn = {}, {}
    for path in sorted(Path(folder).glob(f"*{SUFFIX}")):
        lines[path.stem], torn[path.stem] = _lines(path)
    starts = _starts(lines)
    zero = float(starts[0][1]["time"]) if starts else 0.0
    torn = {role: count for role, count in torn.items() if count}
    return Timeline(tuple(_merged(lines, starts)), torn, tuple(lines), zero)


def _lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the readable lines, and the number of the others."""
    found, torn = [], 0
    try:
        content = content_of(path, LONGEST)
    except OSError as error:
        raise LedgerError(f"cannot read the ledger {path}: {error.strerror}") from error
    for line in filter(None, content.split(b"\n")):
        try:
            found.append(_checked(json.loads(line)))
        except (ValueError, RecursionError):
            torn += 1
    strange = [each.get("schema") for each in found if each["event"] == "start" and each.get("schema") != SCHEMA]
    if strange:
        raise LedgerError(f"the ledger {path} is of schema {shown(strange[0] or 1)}: wanted {SCHEMA}")
    return found, torn


def _checked(value: Any) -> dict[str, Any]:
    """Check a line's value. Raises ValueError: `Ledger` does not write such a line."""
    if not isinstance(value, dict) or not {"event", "time"} <= value.keys():
        raise ValueError("no event")
    if value["event"] == "start" and "wall" not in value:
        raise ValueError("no wall clock")
    json_objects.check(value, _FORMS)
    return value


Starts = list[tuple[str, dict[str, Any]]]


def _starts(lines: Mapping[str, list[dict[str, Any]]]) -> Starts:
    """Return roles and their starts, the earliest first, of one clock by it. A role that began again has several.

    Of two starts within a moment, the one with the earlier monotonic time may have the later wall time.
    """
    starts = [(role, line) for role, each in lines.items() for line in each if line["event"] == "start"]
    first: dict[str, float] = {}
    for role, line in sorted(starts, key=lambda item: float(item[1]["wall"])):
        first.setdefault(_clock(role, line), float(line["wall"]))
    return sorted(starts, key=lambda item: (first[_clock(*item)], float(item[1]["time"])))


def _merged(lines: Mapping[str, list[dict[str, Any]]], starts: Starts) -> Iterable[Event]:
    """Merge events by time. Roles on one machine share its monotonic clock; machines are aligned by the wall clock at a
    start."""
    shifts: dict[str, float] = {}
    for role, start in starts:
        shifts.setdefault(_clock(role, start), start["wall"] - starts[0][1]["wall"] - start["time"])
    events = []
    for role, each in lines.items():
        shift = next(iter(shifts.values()), 0.0)  # used if the role's start is torn
        of_process: dict[int, float] = {}
        lives: Counter[int] = Counter()
        for line in each:
            process = line.get("process", 0)
            if line["event"] == "start":
                shift = of_process[process] = shifts[_clock(role, line)]
                lives[process] += 1
            details = {name: value for name, value in line.items() if name not in _OWN}
            at = line["time"] + of_process.get(process, shift)
            events.append(Event(role, line["event"], at, details, process, lives[process]))
    return sorted(events, key=lambda event: event.time)


def _clock(role: str, start: Mapping[str, Any]) -> str:
    """Identify the monotonic clock of a start: the machine's since its boot, or the role's own if that is unknown."""
    return str(start.get("boot") or role)
