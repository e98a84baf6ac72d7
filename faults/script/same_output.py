"""Compare the standard output of two runs: the same lines, in any order, because processes print when they can."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from faults.plan.errors import shown


def difference(wanted: Path, got: Path, ignored: Sequence[re.Pattern[str]] = ()) -> str | None:
    """Return one line about what differs, None if nothing does. What ``ignored`` matches is taken out beforehand."""
    before, after = _lines(wanted, ignored), _lines(got, ignored)
    missing, new = before - after, after - before
    told = [f"{text} {shown(next(iter(lines)))}{_more(lines)}" for text, lines in _named(missing, new) if lines]
    return ", ".join(told) or None


def _named(missing: Counter[str], new: Counter[str]) -> list[tuple[str, Counter[str]]]:
    return [("no line", missing), ("the line", new)]


def _more(lines: Counter[str]) -> str:
    more = lines.total() - 1
    return f" and {more} more" if more else ""


def _lines(path: Path, ignored: Sequence[re.Pattern[str]]) -> Counter[str]:
    """Count the lines of a file. A line of which nothing remains does not count."""
    found: Counter[str] = Counter()
    for line in path.read_bytes().decode(errors="surrogateescape").splitlines():
        left = line
        for pattern in ignored:
            left = pattern.sub("", left)
        if left or not line:
            found[left] += 1
    return found
