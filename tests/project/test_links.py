"""Every link of a page leads to a file and a heading that are there; tests that pages and planted bugs name exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.catalog import MUTANTS
from tests.support.suite_runs import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def lines(page: Path) -> Iterator[str]:
    """Yield the lines outside code blocks."""
    inside = False
    for line in page.read_text().splitlines():
        inside ^= line.startswith("```")
        if not inside:
            yield line


@cache
def anchors(page: Path) -> set[str]:
    """Return the names that hosts of Markdown give to a page's headings."""
    names = set()
    for line in lines(page):
        if heading := re.match(r"#{1,6} (.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            names.add(re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-"))
    return names


def broken(page: Path, link: str) -> bool:
    place, _, anchor = link.partition("#")
    path = (page.parent / place).resolve() if place else page
    if not path.is_relative_to(ROOT) or not path.exists():
        return True
    return bool(anchor) and (path.suffix != ".md" or anchor not in anchors(path))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for line in lines(page) for link in _LINK.findall(re.sub(r"`[^`]*`", "", line)) if ":" not in link]
    assert [link for link in links if broken(page, link)] == []


def is_there(test: str) -> bool:
    """Tell whether a test, by its file below tests/ and its names, exists."""
    file, *names = test.split("::")
    path = ROOT / "tests" / file
    text = path.read_text() if path.is_file() else ""
    return bool(text) and all(re.search(rf"^ *((def|class) {name}\b|{name} = )", text, re.MULTILINE) for name in names)


def test_the_tests_that_pages_name_exist() -> None:
    """docs/behaviours.md and others name tests as evidence."""
    named = {
        (page.name, test.removeprefix("tests/"))
        for page in PAGES
        for test in re.findall(r"(?:\w+/)*\btest_\w+\.py(?:::\w+)*", page.read_text())
    }
    named.discard(("pytest.md", "test_shop.py"))  # of the page's own example
    assert len(named) > 60
    assert sorted(each for each in named if not is_there(each[1])) == []


def test_the_killers_of_planted_bugs_exist() -> None:
    """One that pytest does not find ends all trials. A state machine of Hypothesis has `runTest`."""
    named = {test.partition("[")[0].removesuffix("::runTest") for mutant in MUTANTS for test in mutant.killers}
    assert sorted(each for each in named if not is_there(each.removeprefix("tests/"))) == []


def test_the_files_on_the_walks_of_the_design_exist() -> None:
    """docs/design.md follows one run and one fault through their files."""
    walks = re.findall(r"in `(\w+)/`:\n\n((?:\|.*\n)+)", (ROOT / "docs" / "design.md").read_text())
    named = [f"{room}/{file}" for room, rows in walks for file in re.findall(r"`([\w/]+\.py)`", rows)]
    assert len(walks) == 2
    assert [file for file in named if not (ROOT / file).is_file()] == []
