"""Say what the record of a run lacks: a gap makes its verdict `unknown`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from faults.judge.facts import GONE, RUNNING, Facts
from faults.ledger.record import COMMAND, Run

# Nothing was recorded. The program may not use RPC, or FAULTS_RUN may not have reached it.
NO_RPC = (
    "no RPC seen: in no process rpc.init_rpc returned, or FAULTS_RUN did not reach the process in which it did "
    "(python -I, -E or -S, sudo, another interpreter, a process started with another environment, "
    "without this one's FAULTS_RUN and PYTHONPATH, or, after `prepare`, a Python without faults.pth: "
    "this package is not installed there, or is editable)"
)

ELSEWHERE = "; if it ran on another host, its FAULTS_RUN has to name this same folder"


def gaps(facts: Facts) -> list[str]:
    """Return one line for each gap; none if the record is whole."""
    run = facts.run
    failed = (
        f"{event.role}: faults itself failed: {event.details.get('error')}" for event in run.timeline.of("broken")
    )
    return [*failed, *([NO_RPC] if _unseen(run) else []), *run.gaps, *_of_ledgers(facts), *_of_other_runs(run)]


def _unseen(run: Run) -> bool:
    """Whether ledgers were wanted, but none tells of a role that started RPC."""
    wanted = run.recorded or run.has_faults
    return wanted and not run.timeline.of("up") and not run.timeline.of("fired")


def _of_ledgers(facts: Facts) -> Iterator[str]:
    run = facts.run
    cut = Counter(life.role for life in facts.lives if life.end.kind in ("Killed", "Overdue", GONE, RUNNING))
    for role, lines in run.timeline.torn.items():
        if lines > cut[role]:  # who is killed may leave half of its last line
            yield f"{role}: torn lines: {lines}"
    wanted = run.recorded or run.has_faults
    played = [role for role in run.ends if wanted and role != COMMAND]
    peers = [role for event in run.timeline.of("up") for role in event.details.get("workers") or ()]
    for role in dict.fromkeys([*played, *peers]):
        if role not in run.timeline.roles:
            yield f"{role}: no ledger{ELSEWHERE if run.is_script else ''}"
    known = {life.process for life in facts.lives}
    yield from (f"process {end.process}, which {end.text}: no ledger" for end in run.lost if end.process not in known)
    if not run.is_script and wanted:
        for life in facts.lives:
            began = life.number > 1 or life.of("start") is not None
            if life.end.returned and began and life.of("shutdown") is None:
                yield f"{life.role}: it returned, and its ledger ends before its shutdown"


def _of_other_runs(run: Run) -> Iterator[str]:
    """Name the ledgers into which a later run has written, too. In one run, a program may start a role several times,
    in any processes."""
    later = [event.role for event in run.timeline.of("start") if run.complete and event.time > run.seconds]
    yield from (f"{role}: one ledger of 2 runs" for role in dict.fromkeys(later))
