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


_STYLE = """:root{color-scheme:light dark} body{font:15px/1.5 system-ui,sans-serif;margin:1em}
td,th{vertical-align:top;text-align:left;padding:2px 12px 2px 0;border-bottom:1px solid #8886}
.right{color:light-dark(#11703a,#59c98b)}.bad{color:light-dark(#b3261e,#ff8a80)}.known{color:light-dark(#5c6370,#a2a9b4)}
summary{cursor:pointer} table{border-collapse:collapse} p,div{overflow-wrap:anywhere} main{overflow-x:auto}"""
_HEAD = f"""<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<meta http-equiv=Content-Security-Policy content="default-src 'none'; style-src 'unsafe-inline'">
<title>Conformance</title><style>{_STYLE}</style>"""


def as_html(reports: Mapping[str, Report]) -> str:
    """One page without references to others: a row for each case, a column for each implementation, by its name. The
    verdicts open: they tell what was expected, the requirements, and why."""
    shown = {name: {each.id: _cell(report, each) for each in report.judged} for name, report in reports.items()}
    titles = "".join(f"<th scope=col>{escape(one_line(name))}" for name in reports)
    rows = "".join(
        f"<tr><th scope=row>{escape(case)}{''.join(f'<td>{cells.get(case, str())}' for cells in shown.values())}</tr>"
        for case in dict.fromkeys(case for cells in shown.values() for case in cells)
    )
    told = "".join(map(_told, reports, reports.values()))
    return f"{_HEAD}<h1>Conformance</h1>{told}<main><table><tr><th>case{titles}</tr>{rows}</table></main>\n"


def _told(name: str, report: Report) -> str:
    """The counts of one implementation, and the entries of its expectations that are stale."""
    head = f"{name}: suite {report.suite}, {summary(report)}"
    lines = [f"<p class=bad>stale expectation: {escape(one_line(line))}</p>" for line in report.compared.stale]
    return f"<p>{escape(one_line(head))}</p>{''.join(lines)}"


def _cell(report: Report, judged: Judged) -> str:
    expected = report.expected(judged)
    color = "bad" if not expected.holds else "right" if judged.verdict in RIGHT else "known"
    requirements = [f"{name}: {state}" for name, state in report.met(judged).items()]
    lines = [judged.text, *judged.details, str(expected), *requirements]
    inside = "".join(f"<div>{escape(one_line(line))}</div>" for line in lines if line)
    return f"<details><summary class={color}>{escape(judged.verdict)}</summary>{inside}</details>"


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "html": lambda report: as_html({"verdict": report}),
}
