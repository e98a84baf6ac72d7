"""Spread the tests over the workers of ``pytest -n 4``: the longest begin first, and those of a file stay together.

A worker takes a *part*: a file of tests, or a share of a file whose tests take long together. The times of the tests
stand in seconds.txt; ``pytest -n 4 -m '' --record-seconds`` records them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# "seconds test", for each test that takes `SLOW` seconds or more, in the order of the file; then "seconds file", for
# its others together.
SECONDS = Path(__file__).with_name("seconds.txt")
SLOW = 0.5
# A file whose tests take longer is divided into parts of about as many seconds.
PART = 25.0


@cache
def recorded() -> dict[str, dict[str, float]]:
    """Return the recorded seconds by file, and in it by test or, for the rest of the file, by the file's own name."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in SECONDS.read_text().splitlines():
        seconds, _, name = line.partition(" ")
        found[name.partition("::")[0]][name] = float(seconds)
    return dict(found)


def parts() -> tuple[dict[str, str], defaultdict[str, float]]:
    """Divide the long files. Return each recorded test's part, which has the name of its first test, or of the file for
    what is not divided or not recorded; and the seconds of each part."""
    names: dict[str, str] = {}
    sums: defaultdict[str, float] = defaultdict(float)
    for file, times in recorded().items():
        part, divided = file, sum(times.values()) > PART
        for test, seconds in times.items():
            if test == file or not divided:
                part = file
            elif part == file or sums[part] + seconds > PART:
                part = test
            names[test] = part
            sums[part] += seconds
    return names, sums


@pytest.hookimpl(tryfirst=True)  # so that other options may choose and order the tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests, the parts that take longest first, so that no worker waits long for others at the end."""
    if hasattr(config, "workerinput"):
        names, seconds = parts()
        part = {item: names.get(item.nodeid, item.nodeid.partition("::")[0]) for item in items}
        items.sort(key=lambda item: (-seconds[part[item]], part[item]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each part to one worker, in the order in which these are offered."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # need not be installed

    names, _ = parts()

    class Spreading(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return names.get(nodeid) or nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return Spreading(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "record in tests/tiers/seconds.txt what each test takes; all have to run: -m ''"
    parser.addoption("--record-seconds", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        if named or any(config.getoption(name, None) for name in ("markexpr", "keyword", "share", "deselect")):
            raise pytest.UsageError("--record-seconds forgets what does not run: wanted all tests, -m ''")
        config.pluginmanager.register(Recorder())


class Recorder:
    """Adds up what each test takes, with its set-up and its end, and writes it down when all have ended."""

    def __init__(self) -> None:
        self.taken: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.taken[report.nodeid] += report.duration

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):  # otherwise some have not run
            SECONDS.write_text(listed(self.taken))


def listed(taken: Mapping[str, float]) -> str:
    """Write seconds by test down as seconds.txt has them."""
    rest: defaultdict[str, float] = defaultdict(float)
    lines: dict[str, list[str]] = defaultdict(list)
    for test, seconds in taken.items():
        file = test.partition("::")[0]
        if seconds >= SLOW:
            lines[file].append(f"{seconds:.1f} {test}\n")
        else:
            rest[file] += seconds
    for file, seconds in rest.items():
        if seconds >= SLOW:
            lines[file].append(f"{seconds:.1f} {file}\n")
    return "".join(line for file in sorted(lines) for line in lines[file])
