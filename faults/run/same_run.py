"""Compare a run with one that repeats it: what fired, what had its effect, the order of calls, and the verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from faults.judge.facts import Facts, gaps
from faults.judge.proof import firings
from faults.judge.rules import judge
from faults.ledger.record import Run


def facts(run: Run) -> Counter[str]:
    """Return what a replay has to repeat: the facts of the timeline, without the faults' numbers and without orders."""
    found: Counter[str] = Counter()
    for role, event, details in run.timeline.facts():
        told = {name: value for name, value in details if name != "fault"}
        if told.get("kind") != "Order":
            found[f"{role} {event} {' '.join(f'{name}={value}' for name, value in told.items())}"] += 1
    return found


def difference(first: Run, again: Run) -> str:
    """Say in one line which facts of the first run the other one misses, and which are new; empty if none."""
    missing, new = facts(first) - facts(again), facts(again) - facts(first)
    lines = [f"missing: {_listed(missing)}" if missing else "", f"new: {_listed(new)}" if new else ""]
    return "; ".join(filter(None, lines))


def _listed(found: Mapping[str, int]) -> str:
    return ", ".join(each if count == 1 else f"{each} ({count} times)" for each, count in found.items())


def compare(first: Run, again: Run) -> tuple[bool | None, str]:
    """Whether ``again`` repeats ``first``, and how it differs; None: a verdict is not known."""
    told = [difference(first, again), _broken_orders(again)]
    # Of the first run a fault may not have fired, which its plan then does not have any more.
    wanted, got = (judge(_comparable(each, again), without="fired").verdict for each in (first, again))
    if first.complete and wanted != got:
        told.append(f"the verdict is {got}, wanted {wanted}")
    if any(told):
        return False, "; ".join(filter(None, told))
    if not first.complete:
        return (
            None,
            f"the same facts; the first run's end is not recorded, so its verdict is not known ({got} now)",
        )
    if first.trace == "wrong" and again.trace is None:
        return None, "the same facts; the first run's results were wrong, which were not checked now (wanted --check)"
    told_same = f"the same facts, and the same verdict: {got}"
    return (None, f"{told_same}; but the stored run is not whole") if gaps(Facts(first)) else (True, told_same)


def _comparable(run: Run, again: Run) -> Run:
    """Return the run without the judgement of its results, if ``again`` has none."""
    return replace(run, trace=None, difference="") if again.trace is None else run


def _broken_orders(run: Run) -> str:
    """Say which orders of calls were not kept; empty if all were."""
    fired = {event.details["fault"] for event in firings(run)}
    sites = [str(fault.site) for n, fault in enumerate(run.plan.faults) if fault.kind == "Order" and n not in fired]
    return f"the order of calls of {', '.join(sites)} was not kept" if sites else ""
