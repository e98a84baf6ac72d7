"""Write judgements as text, JSON, JUnit's XML or HTML, with printable characters only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from xml.sax.saxutils import quoteattr

from reference.conform.expected_verdicts import Compared, Expected
from reference.conform.judge import RIGHT, Judged
from reference.conform.suite import PROTOCOL
from reference.system.text import one_line

# What each verdict says of the requirements of a case, and of single ones of them.
_STATES = {"equal": "met", "within bound": "met", "differs": "missed"}
_SINGLE = {
    "within bound": {"BITS": "missed"},
    "differs": {"TENSORS": "met"},
    "unknown": {"TENSORS": "met"},
    "malformed": {"TENSORS": "missed"},
}


@dataclass(frozen=True)
class Report:
    """All that a report tells. ``suite``: its version; ``requirements``: the ids that each case shows, by its id."""

    suite: str
    judged: Sequence[Judged]
    compared: Compared
    requirements: Mapping[str, Sequence[str]]

    def expected(self, judged: Judged) -> Expected:
        return self.compared.cases[judged.id]

    def met(self, judged: Judged) -> dict[str, str]:
        """Whether the case meets each of its requirements: met, missed, or not judged."""
        state, single = _STATES.get(judged.verdict, "not judged"), _SINGLE.get(judged.verdict, {})
        return {name: single.get(name, state) for name in self.requirements[judged.id]}


def as_text(report: Report) -> str:
    """One line per case, further lines below it, and the counts."""
    width = max((len(each.id) for each in report.judged), default=0)
    lines = []
    for each in report.judged:
        lines.append(one_line(f"{each.id:<{width}}  {each.verdict:<12}  {each.text}").rstrip())
        lines += [one_line(f"{'':<{width}}  {line}") for line in (*each.details, *_as_expected(report, each))]
    return "\n".join([*lines, summary(report)]) + "\n"


def _as_expected(report: Report, judged: Judged) -> list[str]:
    """A line that says why a case may have this verdict; none for a case that passes, or is not as expected."""
    expected = report.expected(judged)
    return [f"as expected: {expected.reason}"] if expected.holds and expected.verdict else []


def summary(report: Report) -> str:
    """How many cases have which verdict."""
    counts = Counter(each.verdict for each in report.judged)
    return f"{len(report.judged)} cases: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}"


def as_json(report: Report) -> str:
    """An object per case, and the entries of the expectations that are stale."""
    cases = [
        {
            "id": each.id,
            "verdict": each.verdict,
            "text": one_line(each.text),
            "details": [one_line(line) for line in each.details],
            "seconds": each.seconds,
            "requirements": report.met(each),
            "expected": report.expected(each).verdict or "pass",
            "as_expected": report.expected(each).holds,
        }
        for each in report.judged
    ]
    content = {
        "protocol": PROTOCOL,
        "suite": report.suite,
        "cases": cases,
        "stale": [one_line(line) for line in report.compared.stale],
    }
    return json.dumps(content, indent=1) + "\n"


def as_junit(report: Report) -> str:
    """JUnit's XML. Its failures are what makes the exit status 1; a case that fails as expected is skipped."""
    elements = [*(_element(report, each) for each in report.judged), *map(_stale_element, report.compared.stale)]
    failed = sum("<failure" in each for each in elements)
    skipped = sum("<skipped" in each for each in elements)
    head = f'<testsuite name="conform" tests="{len(elements)}" failures="{failed}" skipped="{skipped}">'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *elements, "</testsuite>"]) + "\n"


def _element(report: Report, judged: Judged) -> str:
    expected = report.expected(judged)
    head = f"<testcase classname={quoteattr(judged.id.rpartition('-')[0])} name={quoteattr(judged.id)}"
    inside = ""
    if not expected.holds:
        message = one_line(f"{judged.verdict}, {expected}: {judged.text}")
        body = escape("\n".join(one_line(line) for line in (judged.text, *judged.details)))
        inside = f"<failure type={quoteattr(judged.verdict)} message={quoteattr(message)}>{body}</failure>"
    elif judged.verdict not in RIGHT:
        inside = f"<skipped message={quoteattr(one_line(f'{judged.verdict}, {expected}'))}/>"
    return f'{head} time="{judged.seconds:.3f}">{inside}</testcase>'


def _stale_element(line: str) -> str:
    name = quoteattr(one_line(line.partition(": ")[0]))
    failure = f"<failure type='stale' message={quoteattr(one_line(line))}></failure>"
    return f'<testcase classname="expectations" name={name} time="0.000">{failure}</testcase>'


def as_html(report: Report) -> str:
    """One page without references to others."""
    rows = [_row(report, each) for each in report.judged]
    stale = "".join(f"<p class=bad>stale expectation: {escape(one_line(line))}</p>" for line in report.compared.stale)
    style = (
        "td,th{vertical-align:top;text-align:left;padding:2px 8px}.right{color:#070}.bad{color:#a00}.known{color:#666}"
    )
    head = f"<!doctype html><meta charset=utf-8><title>Conformance</title><style>{style}</style>"
    titles = "".join(f"<th>{each}</th>" for each in ("case", "verdict", "expected", "requirements", "why"))
    body = f"<p>Suite {escape(one_line(report.suite))}. {escape(summary(report))}</p>{stale}"
    return f"{head}<h1>Conformance</h1>{body}<table><tr>{titles}</tr>{''.join(rows)}</table>\n"


def _row(report: Report, judged: Judged) -> str:
    expected = report.expected(judged)
    color = "bad" if not expected.holds else "right" if judged.verdict in RIGHT else "known"
    details = "".join(f"<div>{escape(one_line(line))}</div>" for line in judged.details)
    requirements = "".join(f"<div>{name}: {state}</div>" for name, state in report.met(judged).items())
    cells = f"<td>{escape(judged.id)}</td><td class={color}>{escape(judged.verdict)}</td>"
    cells += f"<td>{escape(one_line(str(expected).removeprefix('expected ')))}</td><td>{requirements}</td>"
    return f"<tr>{cells}<td>{escape(one_line(judged.text))}{details}</td></tr>"


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "html": as_html,
}
