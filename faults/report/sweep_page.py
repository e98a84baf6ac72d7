"""Write the page of a sweep: a table of sites and kinds, of which each verdict leads to the page of its run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from faults.judge.facts import Facts
from faults.judge.rules import Judgement
from faults.ledger import record
from faults.report.page import WORDS, line, page, template
from reference.system.files import whole

# What follows the name of the page in the name of the folder with the pages of its runs.
RUNS = "-runs"
# A run as a report tells it.
Told = Mapping[str, Any]


def write_sweep_page(
    path: Path, report: Told, kinds: Sequence[str], runs: Mapping[str, tuple[Path, Judgement]]
) -> None:
    """Write the page at ``path``, and the pages of runs into a folder beside it.

    ``kinds``: the columns; ``runs``: the folder and the judgement of each run that has a page, by its plan.
    """
    place = path.with_name(f"{path.stem}{RUNS}")
    pages = {plan: f"{place.name}/{number:04d}.html" for number, plan in enumerate(runs)}
    if runs:
        place.mkdir(exist_ok=True)
    for plan, (folder, judgement) in runs.items():
        with whole(path.parent / pages[plan]) as scratch:
            scratch.write_text(page(Facts(record.read(folder)), judgement, folder), encoding="utf-8")
    with whole(path) as scratch:
        scratch.write_text(sweep_page(report, kinds, pages), encoding="utf-8")


def sweep_page(report: Told, kinds: Sequence[str], pages: Mapping[str, str]) -> str:
    """Return the page of a sweep. ``pages``: the page of each run that has one, seen from this page, by its plan."""
    alone = [each for each in report["runs"] if "cell" in each]
    sites = dict.fromkeys(each["cell"]["site"] for each in alone)
    text: str = template("sweep.html").render(
        name=line(report["program"]),
        sentence=sentence(report),
        kinds=kinds,
        rows=[{"site": line(site), "cells": [list(_at(alone, site, kind, pages)) for kind in kinds]} for site in sites],
        pairs=[_shown(each, pages) for each in report["runs"] if "pair" in each],
        unhurt=[line(f"{each['site']}, {each['kind']}: {each['reason']}") for each in report["not_hurt"]],
    )
    return text


def sentence(report: Told) -> str:
    """Say how many runs passed, failed and are unknown, and how many were not made."""
    passed = [each["passed"] for each in report["runs"]]
    words = {True: "passed", False: "failed", None: "is unknown" if passed.count(None) == 1 else "are unknown"}
    told = [f"{passed.count(each)} {word}" for each, word in words.items() if each in passed]
    left = f" {report['not_run']} were not run: nothing is known of them." if report["not_run"] else ""
    missing = ", ".join(map(line, report.get("missing", ())))
    lacking = f" Nothing is known of the missing parts {missing}." if missing else ""
    return f"Of {len(passed)} runs {', '.join(told) or 'none was made'}.{left}{lacking}"


def _at(runs: list[Told], site: str, kind: str, pages: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for each in runs:
        if (each["cell"]["site"], each["cell"]["kind"]) == (site, kind):
            yield _shown(each, pages)


def _shown(run: Told, pages: Mapping[str, str]) -> dict[str, Any]:
    return {
        "verdict": line(run["verdict"]),
        "class": WORDS[run["passed"]],
        "page": quote(pages.get(run["plan"], "")),
        "title": line(run["plan"]),
    }
