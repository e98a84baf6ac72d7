"""What an implementer expects: which cases do not pass yet, why, and until when. Strict, because stale lists hide bugs.

[[expect]]
cases = "rnn-*"
verdict = "skipped"
reason = "no LSTM yet"
link = "https://example.org/issue/7"
expires = 2027-03-01
"""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reference.conform.judge import RIGHT, VERDICTS, Judged
from reference.system.plain_file import content_of
from reference.system.printable import OneLine, one_line, shown

LONGEST = 2**20


class BadExpectations(OneLine, ValueError):
    """A file of expectations cannot be read, or an entry of it is not valid."""


@dataclass(frozen=True)
class Expectation:
    """One entry of the file: the cases that match the glob ``cases`` have this verdict."""

    cases: str
    verdict: str
    reason: str
    link: str = ""
    expires: datetime.date | None = None


@dataclass(frozen=True)
class Compared:
    """Verdicts beside expectations. ``unexpected``: one line per case; ``stale``: one line per entry."""

    unexpected: Sequence[str]
    stale: Sequence[str]

    @property
    def holds(self) -> bool:
        return not self.unexpected and not self.stale


def read_expectations(path: Path) -> list[Expectation]:
    """Read a file of expectations.

    Raises:
        BadExpectations: it is not TOML, or an entry has an unknown key, a wrong type, no reason or no such verdict.
    """
    try:
        content = tomllib.loads(content_of(path, LONGEST).decode())
    except (OSError, ValueError) as error:
        raise BadExpectations(one_line(f"{path}: {error}")) from error
    entries = content.get("expect", [])
    if set(content) - {"expect"} or not isinstance(entries, list):
        raise BadExpectations(f"{path}: wanted entries [[expect]] only, got {shown(sorted(content))}")
    return [_entry(path, number, entry) for number, entry in enumerate(entries, start=1)]


def _entry(path: Path, number: int, entry: Any) -> Expectation:
    kinds = {"cases": str, "verdict": str, "reason": str, "link": str, "expires": datetime.date}
    if not isinstance(entry, dict) or not set(entry) <= set(kinds) or not {"cases", "verdict", "reason"} <= set(entry):
        raise BadExpectations(f"{path}, entry {number}: wanted cases, verdict, reason, and perhaps link and expires")
    for key, value in entry.items():
        if type(value) is not kinds[key] or value == "":
            raise BadExpectations(f"{path}, entry {number}: {key} must be a {kinds[key].__name__}, got {shown(value)}")
    if entry["verdict"] not in VERDICTS or entry["verdict"] in RIGHT:
        wanted = ", ".join(verdict for verdict in VERDICTS if verdict not in RIGHT)
        raise BadExpectations(f"{path}, entry {number}: verdict {shown(entry['verdict'])}, wanted one of {wanted}")
    return Expectation(**entry)


def compare_expectations(judged: Sequence[Judged], expected: Sequence[Expectation], today: datetime.date) -> Compared:
    """Compare verdicts with expectations. An entry that has expired or matches no case is stale; a pass is unexpected
    where another verdict is expected."""
    unexpected, stale = [], []
    for entry in expected:
        if not any(fnmatchcase(each.id, entry.cases) for each in judged):
            stale.append(f"{entry.cases}: no case matches")
        elif entry.expires is not None and entry.expires < today:
            stale.append(f"{entry.cases}: expired on {entry.expires} ({entry.reason})")
    for each in judged:
        wanted = [entry for entry in expected if fnmatchcase(each.id, entry.cases)]
        verdicts = sorted({entry.verdict for entry in wanted})
        if len(verdicts) > 1:
            stale.append(f"{each.id}: several entries expect {' and '.join(verdicts)}")
        elif verdicts and each.verdict != verdicts[0]:
            unexpected.append(f"{each.id}: {each.verdict}, expected {verdicts[0]} ({wanted[0].reason})")
        elif not verdicts and each.verdict not in RIGHT:
            unexpected.append(f"{each.id}: {each.verdict}, expected to pass")
    return Compared(unexpected, stale)


def updated(judged: Sequence[Judged], expected: Sequence[Expectation]) -> str:
    """Return the text of a file that expects exactly these verdicts; reasons and links of entries that fit stay."""
    lines = []
    for each in judged:
        if each.verdict in RIGHT:
            continue
        kept = next((e for e in expected if e.verdict == each.verdict and fnmatchcase(each.id, e.cases)), None)
        lines += ["[[expect]]", f"cases = {_toml(each.id)}", f"verdict = {_toml(each.verdict)}"]
        lines.append(f"reason = {_toml(kept.reason if kept else each.text or each.verdict)}")
        if kept and kept.link:
            lines.append(f"link = {_toml(kept.link)}")
        if kept and kept.expires:
            lines.append(f"expires = {kept.expires}")
        lines.append("")
    return "\n".join(lines)


def _toml(text: str) -> str:
    """A TOML string. Of what TOML refuses, a printable line has only these two."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
