"""Files of expected verdicts: read one, compare verdicts with it, and make it anew from verdicts."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reference.conform.judge import RIGHT, VERDICTS, Judged
from reference.system.files import Unusable, content_of
from reference.system.text import BadInput, one_line, shown

# The longest file in bytes.
LONGEST = 2**20


@dataclass(frozen=True)
class Expectation:
    """One entry of the file: the cases that match the glob ``cases`` have this verdict."""

    cases: str
    verdict: str
    reason: str
    link: str = ""

    def matches(self, case_id: str) -> bool:
        return fnmatchcase(case_id, self.cases)


def read_expectations(path: Path) -> list[Expectation]:
    """Read a file of expectations.

    Raises:
        BadInput: it is not TOML, or an entry has an unknown key, a wrong type, no reason or no such verdict.
    """
    try:
        content = tomllib.loads(content_of(path, LONGEST).decode())
    except Unusable as error:
        raise BadInput(str(error)) from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {error}") from error
    entries = content.get("expect", [])
    if set(content) - {"expect"} or not isinstance(entries, list):
        raise BadInput(f"{path}: wanted entries [[expect]] only, got {shown(sorted(content))}")
    return [_entry(path, number, entry) for number, entry in enumerate(entries, start=1)]


def _entry(path: Path, number: int, entry: Any) -> Expectation:
    wanted = {"cases", "verdict", "reason"}
    if not isinstance(entry, dict) or not wanted <= set(entry) <= {*wanted, "link"}:
        got = shown(sorted(entry) if isinstance(entry, dict) else entry)
        raise BadInput(f"{path}, entry {number}: wanted cases, verdict, reason, and perhaps link, got {got}")
    for key, value in entry.items():
        if type(value) is not str or not value:
            raise BadInput(f"{path}, entry {number}: {key} must be a text, got {shown(value)}")
    if entry["verdict"] not in VERDICTS or entry["verdict"] in RIGHT:
        others = ", ".join(verdict for verdict in VERDICTS if verdict not in RIGHT)
        raise BadInput(f"{path}, entry {number}: verdict {shown(entry['verdict'])}, wanted one of {others}")
    return Expectation(**entry)


def as_toml(expected: Sequence[Expectation]) -> str:
    """Return the text of a file that has these entries."""
    lines = []
    for each in expected:
        lines += ["[[expect]]", *(f"{key} = {_toml(getattr(each, key))}" for key in ("cases", "verdict", "reason"))]
        if each.link:
            lines.append(f"link = {_toml(each.link)}")
        lines.append("")
    return "\n".join(lines)


def _toml(text: str) -> str:
    """A TOML string: JSON's, which leaves out one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


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
    """Return entries for the cases that did not pass, and for those that were not judged and had one.

    An entry stays as it is if its verdict is that of all its cases. Other cases keep the reason and the link of an
    entry that fits. Several cases of a tutorial get one entry if they have the same verdict, reason and link.
    """
    verdicts = {each.id: each for each in judged}
    names = sorted({*known, *verdicts})
    wanted: dict[str, Expectation] = {}  # without the cases
    for name in names:
        entries, new = [entry for entry in expected if entry.matches(name)], verdicts.get(name)
        if new is not None:
            entries = [entry for entry in entries if entry.verdict == new.verdict]
            if new.verdict not in RIGHT:
                entries.append(Expectation("", new.verdict, one_line(new.text or new.verdict)))
        if entries:
            wanted[name] = replace(entries[0], cases="")

    def shared(entry: Expectation) -> list[Expectation | None]:
        return [wanted.get(name) for name in names if entry.matches(name)]

    found = [entry for entry in expected if {each and each.verdict for each in shared(entry)} == {entry.verdict}]
    for name, entry in wanted.items():
        if not any(each.matches(name) for each in found):
            tutorial = name.rpartition("-")[0]
            made = [replace(entry, cases=glob) for glob in (f"{tutorial}-*", f"{tutorial}-0*")]  # 0*: of the core suite
            whole = (each for each in made if len(shared(each)) > 1 and set(shared(each)) == {entry})
            found.append(next(whole, replace(entry, cases=name)))
    return found
