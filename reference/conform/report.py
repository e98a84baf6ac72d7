"""Write judgements as text, JSON, JUnit's XML or HTML, and as a badge, with printable characters only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from xml.sax.saxutils import quoteattr

from reference.conform.catalogue import PROTOCOL
from reference.conform.judge import RIGHT, Judged
from reference.conform.requirements import REQUIREMENTS
from reference.system.printable import one_line


def as_text(judged: Sequence[Judged]) -> str:
    """One line per case, further lines below it, and the counts."""
    width = max((len(each.id) for each in judged), default=0)
    lines = []
    for each in judged:
        lines.append(one_line(f"{each.id:<{width}}  {each.verdict:<12}  {each.text}").rstrip())
        lines += [one_line(f"{'':<{width}}  {line}") for line in each.details]
    return "\n".join([*lines, summary(judged)]) + "\n"


def summary(judged: Sequence[Judged]) -> str:
    """How many cases have which verdict."""
    counts = Counter(each.verdict for each in judged)
    return f"{len(judged)} cases: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}"


def as_json(judged: Sequence[Judged]) -> str:
    """An object per case, and the requirements with their grades."""
    cases = [
        {
            "id": each.id,
            "verdict": each.verdict,
            "text": one_line(each.text),
            "details": [one_line(line) for line in each.details],
            "seconds": each.seconds,
        }
        for each in judged
    ]
    grades = {name: {"grade": each.grade, "text": each.text} for name, each in REQUIREMENTS.items()}
    return json.dumps({"protocol": PROTOCOL, "cases": cases, "requirements": grades}, indent=1) + "\n"


def as_junit(judged: Sequence[Judged]) -> str:
    """JUnit's XML: a case that is not right is a failure, one that was skipped is skipped."""
    failed = sum(each.verdict not in (*RIGHT, "skipped") for each in judged)
    skipped = sum(each.verdict == "skipped" for each in judged)
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    lines.append(f'<testsuite name="conform" tests="{len(judged)}" failures="{failed}" skipped="{skipped}">')
    for each in judged:
        name = f"<testcase classname={quoteattr(each.id.rpartition('-')[0])} name={quoteattr(each.id)}"
        lines.append(f'{name} time="{each.seconds:.3f}">')
        if each.verdict == "skipped":
            lines.append(f"<skipped message={quoteattr(one_line(each.text))}/>")
        elif each.verdict not in RIGHT:
            body = escape("\n".join(one_line(line) for line in (each.text, *each.details)))
            lines.append(
                f"<failure type={quoteattr(each.verdict)} message={quoteattr(one_line(each.text))}>{body}</failure>"
            )
        lines.append("</testcase>")
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def as_html(judged: Sequence[Judged]) -> str:
    """One page without references to others."""
    rows = []
    for each in judged:
        details = "".join(f"<div>{escape(one_line(line))}</div>" for line in each.details)
        right = "right" if each.verdict in RIGHT else "skipped" if each.verdict == "skipped" else "bad"
        cells = f"<td>{escape(each.id)}</td><td class={right}>{escape(each.verdict)}</td>"
        rows.append(f"<tr>{cells}<td>{escape(one_line(each.text))}{details}</td></tr>")
    style = "td{vertical-align:top;padding:2px 8px}.right{color:#070}.bad{color:#a00}.skipped{color:#666}"
    head = f"<!doctype html><meta charset=utf-8><title>Conformance</title><style>{style}</style>"
    return f"{head}<h1>Conformance</h1><p>{escape(summary(judged))}</p><table>{''.join(rows)}</table>\n"


def badge(judged: Sequence[Judged]) -> str:
    """The badge of shields.io's endpoint, as JSON."""
    right = sum(each.verdict in RIGHT for each in judged)
    color = "brightgreen" if right == len(judged) else "red"
    content = {"schemaVersion": 1, "label": "torch-rpc-reference", "message": f"{right} of {len(judged)} cases"}
    return json.dumps({**content, "color": color}) + "\n"


FORMATS: dict[str, Callable[[Sequence[Judged]], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "html": as_html,
}
