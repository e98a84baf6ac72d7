"""Combine the cells of a sweep to pairs of faults, the most telling pairs first.

What a program survives hides what comes after it: its retry, its next request, its next step. So the cells that it has
survived alone are combined with each other, and first with the calls that only its recovery makes. A cell that ends the
program hides nothing, because nothing comes after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations

from faults.ledger.moments_seen import Calls
from faults.plan.places import INTERNAL
from faults.plan.plan import Fault
from faults.run.sweep import Call, Cell, Pair, Result, of_retry

# Why two cells are not combined.
FAILS = "one of the two faults makes the program fail alone"
UNKNOWN = "of one of the two faults alone it is not known what it does: it did not fire, or its run is unknown"
SAME_CALL = "both faults hit one call, which a sweep does not combine"
NOT_MADE = "after one of the two faults the call that the other one hits is not made, or ends otherwise"

# The kinds after which a program has to make up for something, or end. A `Drop` comes first: it leaves its caller in
# doubt.
_LOSING = ("Drop", "Raise", "Crash")
# How a call ends that has come back from its callee: an error is an answer, too.
_ANSWERED = ("ok", "fail")


@dataclass(frozen=True)
class Pairs:
    """``todo``: the pairs, the most telling first; ``left_out``: how many were not combined, by the reason."""

    todo: tuple[Pair, ...]
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class _Candidate:
    """A cell's run, and a cell to combine with it. ``alone``: that cell's run; of a retry: those of its kind there."""

    first: Result
    second: Cell
    alone: Sequence[Result]

    @property
    def cells(self) -> tuple[Cell, Cell]:
        return self.first.cell.cells[0], self.second

    @property
    def is_retry(self) -> bool:
        return self.second.occurrence == "retry"


def combine(
    results: Sequence[Result],
    healthy: Mapping[Call, str],
    sites: Mapping[str, Calls],
    wanted: Callable[[Cell], bool] = lambda cell: True,
) -> Pairs:
    """Combine the cells of ``results``.

    ``healthy``: how the calls of the healthy run ended; ``sites``: its sites; ``wanted``: whether a cell is asked for.
    """
    places = {call: place for place, call in enumerate(healthy)}
    ranked: list[tuple[tuple[int, ...], Pair]] = []
    left_out: Counter[str] = Counter()
    seen: set[frozenset[Fault]] = set()
    every = chain(_with_retries(results, healthy, sites, wanted), _with_each_other(results))
    for number, each in enumerate(every):
        faults = frozenset(cell.fault for cell in each.cells)
        if faults in seen:
            continue
        seen.add(faults)
        reason = _reason(each, healthy)
        if reason is None:
            ranked.append(((*_rank(each), number), _pair(each, places)))
        else:
            left_out[reason] += 1
    return Pairs(tuple(pair for _, pair in sorted(ranked, key=lambda item: item[0])), left_out)


def _with_each_other(results: Sequence[Result]) -> Iterator[_Candidate]:
    for first, second in combinations(results, 2):
        yield _Candidate(first, second.cell.cells[0], (second,))


def _with_retries(
    results: Sequence[Result],
    healthy: Mapping[Call, str],
    sites: Mapping[str, Calls],
    wanted: Callable[[Cell], bool],
) -> Iterator[_Candidate]:
    """Yield each cell that the program survived by further calls, with each fault of the first of these calls."""
    for first in results:
        for call in _retries(first, healthy) if first.judgement.succeeded else ():
            known = sites.get(call[1])
            for cell in of_retry(call, known is None or known.remote):
                same = [each for each in results if _kind(each.cell.cells[0]) == _kind(cell)]
                if wanted(cell):
                    yield _Candidate(first, cell, same)


def _retries(result: Result, healthy: Mapping[Call, str]) -> list[Call]:
    """Return, for each caller and site that has more calls than in the healthy run, the first call after the fault."""
    counts, made = (Counter(call[:2] for call in calls) for calls in (healthy, result.calls))
    calls = list(result.calls)
    hit = [calls.index(call) for call in result.cell.cells[0].hit if call in result.calls]
    after = calls[min(hit) + 1 :] if hit else []
    found: dict[tuple[str, str], Call] = {}
    for call in after:
        if made[call[:2]] > counts[call[:2]] and not call[1].startswith(INTERNAL):
            found.setdefault(call[:2], call)
    return list(found.values())


def _kind(cell: Cell) -> tuple[str, str]:
    return cell.site, cell.injection


def _reason(each: _Candidate, healthy: Mapping[Call, str]) -> str | None:
    """Say why the two are not combined; None if they are."""
    known = [result.passed for result in each.alone]
    if False in (each.first.passed, *known):
        return FAILS
    if each.first.passed is None or (known and set(known) == {None}):
        return UNKNOWN
    first, second = each.cells
    if not first.hit.isdisjoint(second.hit):
        return SAME_CALL
    return None if _can_fire(each, healthy) else NOT_MADE


def _can_fire(each: _Candidate, healthy: Mapping[Call, str]) -> bool:
    """Whether the call of each fault is made and answered under the other one, as the runs so far tell."""
    first, second = each.cells
    if each.is_retry:
        return all(each.first.calls.get(call) in _ANSWERED for call in second.hit)
    runs = ((each.first, second), (each.alone[0], first))
    return all(_ends(run.calls, call, healthy) for run, cell in runs for call in cell.hit)


def _ends(calls: Mapping[Call, str], call: Call, healthy: Mapping[Call, str]) -> bool:
    return call in calls and calls[call] == healthy.get(call)


def _rank(each: _Candidate) -> tuple[int, ...]:
    """Return how telling a pair is, the most telling the lowest: its class, whether one of the two ends the program,
    how many of the two lose nothing, and the kinds of those that do."""
    ends = any(not result.judgement.succeeded for result in (each.first, *each.alone))
    kinds = [cell.fault.kind for cell in each.cells]
    losses = [_LOSING.index(kind) for kind in kinds if kind in _LOSING]
    return _class(each, ends), int(ends), len(kinds) - len(losses), sum(losses)


def _class(each: _Candidate, ends: bool) -> int:
    """Sort into: a recovery, two callers of one site, one caller of one site, two sites, one that ends the program."""
    if each.is_retry:
        return 0
    if ends:
        return 4
    first, second = each.cells
    if first.site != second.site:
        return 3
    return 1 if {call[0] for call in first.hit} != {call[0] for call in second.hit} else 2


def _pair(each: _Candidate, places: Mapping[Call, int]) -> Pair:
    """Make the pair, with the earlier call first. ``places``: the order of the healthy run's calls."""
    first, second = each.cells
    if not each.is_retry and min(places[call] for call in second.hit) < min(places[call] for call in first.hit):
        first, second = second, first
    return Pair(first, second)
