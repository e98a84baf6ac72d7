"""Compare verdicts with what a file of expectations says, and make that file anew from verdicts."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from reference.conform.judge import RIGHT, Expectation, Judged


@dataclass(frozen=True)
class Expected:
    """What is expected of one case. ``verdict``: empty, if it is expected to pass; ``holds``: it is as expected."""

    holds: bool
    verdict: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"expected {self.verdict} ({self.reason})" if self.verdict else "expected to pass"


@dataclass(frozen=True)
class Compared:
    """Verdicts beside expectations. ``cases``: by id; ``unexpected``: a line per case; ``stale``: a line per entry."""

    cases: Mapping[str, Expected]
    unexpected: Sequence[str]
    stale: Sequence[str]

    @property
    def holds(self) -> bool:
        return not self.unexpected and not self.stale


def compare_expectations(
    judged: Sequence[Judged], expected: Sequence[Expectation], known: Sequence[str], today: datetime.date
) -> Compared:
    """Compare verdicts with expectations. A pass is unexpected where another verdict is expected.

    An entry is stale if it has expired, or matches none of the ``known`` ids: those of all cases, also of cases that
    were not judged now.
    """
    stale = [line for entry in expected for line in _stale(entry, known, today)]
    cases = {}
    for each in judged:
        entries = [entry for entry in expected if entry.matches(each.id)]
        verdicts = sorted({entry.verdict for entry in entries})
        if len(verdicts) > 1:
            stale.append(f"{each.id}: several entries expect {' and '.join(verdicts)}")
        if entries:
            cases[each.id] = Expected(each.verdict in verdicts, entries[0].verdict, entries[0].reason)
        else:
            cases[each.id] = Expected(each.verdict in RIGHT)
    unexpected = [f"{each.id}: {each.verdict}, {cases[each.id]}" for each in judged if not cases[each.id].holds]
    return Compared(cases, unexpected, stale)


def _stale(entry: Expectation, known: Sequence[str], today: datetime.date) -> list[str]:
    if not any(map(entry.matches, known)):
        return [f"{entry.cases}: no case matches"]
    if entry.expires is not None and entry.expires < today:
        return [f"{entry.cases}: expired on {entry.expires} ({entry.reason})"]
    return []


def updated(
    judged: Sequence[Judged], expected: Sequence[Expectation], known: Sequence[str], today: datetime.date
) -> list[Expectation]:
    """Return one entry for each case that did not pass, and for each that was not judged and had one.

    The reason and the link of an entry that fits stay, and its day unless that is over.
    """
    verdicts = {each.id: each for each in judged}
    found = []
    for name in sorted({*known, *verdicts}):
        old = next((entry for entry in expected if entry.matches(name)), None)
        new = verdicts.get(name)
        if new is None:
            found += [replace(old, cases=name)] if old else []
        elif new.verdict not in RIGHT:
            found.append(_entry_of(new, next((e for e in expected if _fits(e, new)), None), today))
    return found


def _fits(entry: Expectation, judged: Judged) -> bool:
    return entry.verdict == judged.verdict and entry.matches(judged.id)


def _entry_of(judged: Judged, old: Expectation | None, today: datetime.date) -> Expectation:
    if old is None:
        return Expectation(judged.id, judged.verdict, judged.text or judged.verdict)
    over = old.expires is not None and old.expires < today
    return replace(old, cases=judged.id, expires=None if over else old.expires)
