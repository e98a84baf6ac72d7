"""Run the suites by pytest in a process of its own, as a user does, and read their output."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITES = Path(__file__).parents[1] / "suites"
Run = Callable[..., pytest.RunResult]


def suites(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs one of the suites by its name."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\n")

    def start(suite: str, *arguments: str, plugin: str = "faults.pytest_plugin") -> pytest.RunResult:
        pytester.makepyfile(**{f"test_{suite}": (SUITES / f"{suite}.py").read_text()})
        plugins = ("-p", "tests.support.without_collections", "-p", plugin, "-p", "no:cacheprovider")
        options = (*plugins, f"test_{suite}.py", *arguments)
        return pytester.runpytest_subprocess(*options, timeout=100)

    return start


def installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the entry point that pyproject.toml names, as pip leaves it, last on Python's path."""
    place = pytester.path.parent / "site-of-the-package"
    folder = place / "another_name-1.0.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: another-name\nVersion: 1.0\n")
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{place}")


def part(result: pytest.RunResult, title: str, of: str = "") -> list[str]:
    """Return the lines below the first heading of this title, after that of the test ``of``, up to the next heading."""
    lines = result.stdout.lines
    heading = rf"[-_]+ {re.escape(title)} [-_]+"
    begin = next((n for n, line in enumerate(lines) if of and re.fullmatch(rf"_+ {of} _+", line)), 0)
    starts = [n for n, line in enumerate(lines) if n >= begin and re.fullmatch(heading, line)]
    assert starts, (title, result.stdout.str())
    rest = lines[starts[0] + 1 :]
    end = next(n for n, line in enumerate([*rest, "=" * 10]) if re.match(r"[-_=]{5,}|[-_=]+ .* [-_=]+$", line))
    return rest[:end]


def endings(result: pytest.RunResult) -> dict[str, str]:
    """Return how each test ended, by its name, from the summary of ``-rA``, such as ``FAILED OSError: broken``."""
    lines = [
        re.fullmatch(r"(PASSED|FAILED|ERROR|XFAIL|SKIPPED) \S*::(\S+)(?: - (.*))?", each) for each in result.outlines
    ]
    return {line[2].removeprefix("test_"): f"{line[1]} {line[3] or ''}".strip() for line in lines if line}
