"""Compare verdicts with what a file of expectations says, and make that file anew from verdicts."""

from __future__ import annotations

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


def compare_expectations(judged: Sequence[Judged], expected: Sequence[Expectation], known: Sequence[str]) -> Compared:
    """Compare verdicts with expectations. A pass is unexpected where another verdict is expected.

    An entry is stale if it matches none of the ``known`` ids: those of all cases, also of cases that were not judged
    now.
    """
    stale = [f"{entry.cases}: no case matches" for entry in expected if not any(map(entry.matches, known))]
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


def updated(judged: Sequence[Judged], expected: Sequence[Expectation], known: Sequence[str]) -> list[Expectation]:
    """Return one entry for each case that did not pass, and for each that was not judged and had one.

    The reason and the link of an entry that fits stay.
    """
    verdicts = {each.id: each for each in judged}
    found = []
    for name in sorted({*known, *verdicts}):
        old = next((entry for entry in expected if entry.matches(name)), None)
        new = verdicts.get(name)
        if new is None:
            found += [replace(old, cases=name)] if old else []
        elif new.verdict not in RIGHT:
            found.append(next((replace(e, cases=name) for e in expected if _fits(e, new)), _entry_of(new)))
    return found


def _fits(entry: Expectation, judged: Judged) -> bool:
    return entry.verdict == judged.verdict and entry.matches(judged.id)


def _entry_of(judged: Judged) -> Expectation:
    return Expectation(judged.id, judged.verdict, judged.text or judged.verdict)
