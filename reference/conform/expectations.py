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

from reference.conform.judge import RIGHT, VERDICTS
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

    def matches(self, case_id: str) -> bool:
        return fnmatchcase(case_id, self.cases)


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


def as_toml(expected: Sequence[Expectation]) -> str:
    """Return the text of a file that has these entries."""
    lines = []
    for each in expected:
        lines += ["[[expect]]", *(f"{key} = {_toml(getattr(each, key))}" for key in ("cases", "verdict", "reason"))]
        if each.link:
            lines.append(f"link = {_toml(each.link)}")
        if each.expires:
            lines.append(f"expires = {each.expires}")
        lines.append("")
    return "\n".join(lines)


def _toml(text: str) -> str:
    """A TOML string. Of what TOML refuses, a printable line has only these two."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
