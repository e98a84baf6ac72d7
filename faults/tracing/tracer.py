"""Trace the RRefs and autograd contexts of this process, and take a snapshot of what it holds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from torch._C._distributed_rpc import _get_current_rpc_agent
from torch.distributed.rpc import api

from faults.ledger.snapshot import Entered, Held, Ident, Made, Sent, Snapshot
from faults.plan.plan import PlanError
from faults.tracing import hooks
from faults.tracing.holders import holders
from faults.tracing.hooks import Contexts
from faults.tracing.rrefs import Known, RRefs
from faults.tracing.user_frames import Line, line_of, text_of

# How long a role waits until the others have taken a snapshot, too (seconds). A role that does not trace never does.
TOGETHER_SECONDS = 20.0
# Seconds between two looks at the number of open calls.
PAUSE = 0.005


class TraceError(PlanError):
    """A torch that cannot be traced. One line."""


class Tracer:
    """The trace of this process, from `start` until `stop`. There is one in a process at most."""

    current: Tracer | None = None

    def __init__(self) -> None:
        self.rrefs = RRefs()
        self.contexts = Contexts(self.rrefs.count)
        self._undo = ExitStack()

    @classmethod
    def start(cls) -> Tracer:
        """Begin to trace, unless that has happened. Raises TraceError: this torch cannot be traced."""
        if cls.current is None:
            if reason := hooks.missing():
                raise TraceError(f"RRefs cannot be traced: {reason}")
            tracer = cls()
            tracer._undo = hooks.hook(tracer.rrefs, tracer.contexts)
            cls.current = tracer
        return cls.current

    @classmethod
    def stop(cls) -> None:
        """Put torch's functions back, and forget what was seen."""
        if cls.current is not None:
            cls.current._undo.close()
            cls.current = None

    def snapshot(self, since: int = 0) -> Snapshot:
        """Take a snapshot of what this process holds. RPC is up. It first collects garbage.

        ``since``: leave out what this process had got when it had seen so many events (`Snapshot.events`). Raises
        TraceError: this torch does not tell the ids of RRefs.
        """
        if self.rrefs.unreadable:
            raise TraceError(f"RRefs cannot be traced: this torch tells no id in {self.rrefs.unreadable!r}")
        gc.collect()
        own = _get_current_rpc_agent().get_worker_info()
        rrefs = self.rrefs
        return Snapshot(
            own.name,
            own.id,
            rrefs.events,
            rrefs.pickled,
            rrefs.unpickled,
            held=self._held(own.name, since),
            made=self._made(),
            contexts=self._entered(since),
            sent=self._sent(),
        )

    def snapshot_at_end(self, record: Callable[[Snapshot], object], limit: float | None = None) -> None:
        """Take a snapshot when all roles have ended their work, and record it. Return when all have done so, because a
        role that goes on frees what others hold; or after ``limit`` seconds. The program has to shut down even then.

        ``limit``: None in torch's own shutdown, where calls may be open that nobody has waited for.
        """
        seconds = TOGETHER_SECONDS
        if limit is None:
            with suppress(Exception):
                _await_open_calls(seconds)
                api._all_gather(None, timeout=seconds)
        else:
            seconds = max(min(limit / 2, seconds), 0.001)  # RPC takes 0 for no limit
        try:
            record(self.snapshot())
        finally:
            with suppress(Exception):  # a role is gone, or does not trace
                api._all_gather(None, timeout=seconds)  # which the first role may wait twice

    def _held(self, role: str, since: int) -> tuple[Held, ...]:
        known = self.rrefs.living(since)
        files = {line[0].co_filename for each in known.values() for line in each.lines}
        found = holders(known, self.rrefs.values(), role, files)
        groups: dict[tuple[Any, ...], list[Known]] = {}
        for number, each in known.items():
            if each.lives():
                key = each.owner, each.how, self._lines(each), found[number], self.rrefs.is_idle(each)
                groups.setdefault(key, []).append(each)
        return tuple(_group(key, members) for key, members in groups.items())

    def _lines(self, known: Known) -> tuple[Line, ...]:
        """Return where this role got an RRef; for a method that got it by a proxy's call, its first line."""
        if known.method is None:
            return known.lines
        ident, name = known.method
        return line_of(getattr(self.rrefs.type_of(ident), name, None))

    def _made(self) -> tuple[Made, ...]:
        groups: dict[tuple[Line, ...], list[int]] = {}
        for ident, lines in list(self.rrefs.made.items()):
            groups.setdefault(lines, []).append(ident[1])
        return tuple(Made(_first(lines), tuple(numbers), _texts(lines)) for lines, numbers in groups.items())

    def _sent(self) -> tuple[Sent, ...]:
        groups: dict[tuple[str, Line | None], list[Ident]] = {}
        for (ident, to), line in list(self.rrefs.sent.items()):
            groups.setdefault((to, line), []).append(ident)
        return tuple(Sent(to, _first((line,) if line else ()), tuple(rrefs)) for (to, line), rrefs in groups.items())

    def _entered(self, since: int) -> tuple[Entered, ...]:
        found = self.contexts.living(since)
        return tuple(Entered(number, _first(lines), abandoned, _texts(lines)) for number, lines, abandoned in found)


def _await_open_calls(seconds: float) -> None:
    """Wait until this process has no open call, or until the seconds have passed."""
    due = time.monotonic() + seconds
    while _get_current_rpc_agent().get_debug_info()["agent.client_active_calls"] != "0" and time.monotonic() < due:
        time.sleep(PAUSE)


def _group(key: tuple[Any, ...], members: list[Known]) -> Held:
    owner, how, lines, holder, idle = key
    rrefs = tuple(each.ident for each in members)
    return Held(rrefs, owner, how, _first(lines), holder.by, holder.root, holder.of, idle, _texts(lines))


def _first(lines: tuple[Line, ...]) -> str:
    return text_of(lines[0]) if lines else ""


def _texts(lines: tuple[Line, ...]) -> tuple[str, ...]:
    return tuple(map(text_of, lines))


def snapshot_here(since: int = 0) -> Snapshot | None:
    """`Tracer.snapshot` of this process; None if it does not trace."""
    return None if Tracer.current is None else Tracer.current.snapshot(since)
