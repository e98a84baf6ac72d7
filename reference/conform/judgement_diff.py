"""Compare two reports of judgements, as `conform judge --format json` writes them: which verdicts have changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from reference.conform.judge import VERDICTS
from reference.system.plain_file import content_of
from reference.system.printable import OneLine, one_line, shown
from reference.system.strict_json import once

LONGEST = 2**26


class BadReport(OneLine, ValueError):
    """A file is no report of judgements."""


@dataclass(frozen=True)
class Reported:
    """What a report says of one case."""

    verdict: str
    text: str


def read_report(path: Path) -> dict[str, Reported]:
    """Read a report, by id of the case.

    Raises:
        BadReport: the file cannot be read, or is no report in JSON.
    """
    try:
        content = json.loads(content_of(path, LONGEST), object_pairs_hook=once)
        found = {each["id"]: Reported(each["verdict"], each["text"]) for each in content["cases"]}
        strange = [name for name, each in found.items() if each.verdict not in VERDICTS or type(name) is not str]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadReport(one_line(f"{path}: no report of `conform judge --format json` ({error})")) from error
    if strange:
        raise BadReport(f"{path}: {shown(strange[0])} has no verdict of the judge")
    return found


def report_changes(before: Mapping[str, Reported], after: Mapping[str, Reported]) -> list[str]:
    """One line for each case whose verdict has changed, or that only one report has."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            left = old or new
            assert left is not None
            lines.append(f"{name}: {left.verdict}, only in the {'first' if new is None else 'second'} report")
        elif old.verdict != new.verdict:
            lines.append(one_line(f"{name}: {old.verdict} -> {new.verdict}: {new.text or old.text}"))
    return lines
