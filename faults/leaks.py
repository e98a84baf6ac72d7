"""Name the RRefs and autograd contexts that are held in a program of `torch.distributed.rpc`, with who holds them.

from faults import leaks

leaks.trace()  # in every process, before `rpc.init_rpc`
...
print(leaks.report())  # in any process while RPC is up
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _get_current_rpc_agent, _is_current_rpc_agent_set

from faults.judge import holdings
from faults.ledger.error_links import first_line
from faults.ledger.snapshot import Snapshot
from faults.tracing.tracer import TraceError, Tracer, snapshot_here

__all__ = ["Report", "TraceError", "report", "trace", "untrace"]


@dataclass(frozen=True)
class Report:
    """What the roles held when they were asked, in lines of text. True if there is anything to say.

    ``leaks``: what is certainly lost; ``held``: all RRefs that are held and all contexts that are open, with those of
    ``leaks``; ``silent``: the roles that did not answer, with the reason; ``last_seen``: the RRefs that were sent to
    them, which they may hold; ``settled``: whether nothing happened to any RRef while the roles were asked. If it is
    False, no RRef can be called lost.
    """

    leaks: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    last_seen: tuple[str, ...] = ()
    silent: dict[str, str] = field(default_factory=dict)
    settled: bool = True

    def __bool__(self) -> bool:
        return bool(self.held or self.silent)

    def __str__(self) -> str:
        silent = [f"{role} did not answer: {why}" for role, why in self.silent.items()]
        note = [] if self.settled or self.silent else ["RRefs came or went meanwhile: no RRef can be called lost"]
        others = [each for each in self.held if not any(leak.startswith(each) for leak in self.leaks)]
        parts = {"leaks": self.leaks, "held": others, "not certain": [*silent, *self.last_seen, *note]}
        lines = [line for title, each in parts.items() if each for line in (f"{title}:", *(f"  {one}" for one in each))]
        return "\n".join(lines) or "no RRef is held, and no autograd context is open"


def trace() -> None:
    """Remember from now on who makes, gets and uses each RRef of this process, and where it enters autograd contexts.

    Call it in every process before `rpc.init_rpc`: what existed before is not seen. A second call does nothing.

    Raises:
        TraceError: this torch lacks a function that is replaced.
    """
    Tracer.start()


def untrace() -> None:
    """Undo `trace`: put torch's functions back, and forget what was seen."""
    Tracer.stop()


def report(timeout: float = 10.0) -> Report:
    """Ask every role what it holds, by RPC. RPC is up.

    Each role first collects garbage. ``timeout``: seconds until a role counts as silent.

    Raises:
        TraceError: this process does not trace, or RPC is not up here.
        ValueError: ``timeout`` is not positive, or not finite.
    """
    if not 0 < timeout < math.inf:  # torch takes 0 as no limit
        raise ValueError(f"a timeout is a positive number of seconds, got {timeout!r}")
    tracer = Tracer.current
    if tracer is None:
        raise TraceError("this process does not trace RRefs: wanted leaks.trace() before rpc.init_rpc")
    if not _is_current_rpc_agent_set():
        raise TraceError("RPC is not up in this process: wanted leaks.report() between rpc.init_rpc and rpc.shutdown")
    first, silent = _ask_all(tracer, timeout)
    again, gone = _ask_all(tracer, timeout, list(first))
    silent.update(gone)
    snapshots = {role: snapshot for role, snapshot in again.items() if role not in silent}
    # Whether no role saw an event between its two answers, and no RRef was under way from one role to another.
    same = {role: each.events for role, each in first.items()} == {role: each.events for role, each in again.items()}
    settled = same and holdings.are_settled(again)
    seen = [line for role in silent for line in holdings.last_seen(snapshots, role)]
    lost = holdings.leaks(snapshots, ended=False, every=settled and not silent)
    return Report(tuple(lost), tuple(holdings.everything(snapshots)), tuple(seen), silent, settled)


def _ask_all(
    tracer: Tracer, timeout: float, roles: list[str] | None = None
) -> tuple[dict[str, Snapshot], dict[str, str]]:
    """Return the snapshots of the roles that answer, and why the others do not. ``tracer``: this process's."""
    own = _get_current_rpc_agent().get_worker_info().name
    names = sorted(each.name for each in _get_current_rpc_agent().get_worker_infos()) if roles is None else roles
    futures = {name: rpc.rpc_async(name, snapshot_here, timeout=timeout) for name in names if name != own}
    snapshots, silent = {own: tracer.snapshot()}, {}
    for name, future in futures.items():
        try:
            if (snapshot := future.wait()) is None:
                silent[name] = "it does not trace: wanted leaks.trace() there, too, before rpc.init_rpc"
            else:
                snapshots[name] = snapshot
        except Exception as error:  # a role that is gone, or that has no such function
            silent[name] = first_line(error)
    return dict(sorted(snapshots.items())), silent
