"""Spread the tests over the workers of ``pytest -n 4``: the longest begin first, and a worker imports what it runs.

xdist itself lets every worker collect all tests, which takes each some ten seconds of a processor. Here a worker offers
*parts*: a file of tests, or a share of a file whose tests take long together. It collects a file when a part of it is
its turn. The times of the tests stand in seconds.txt; ``pytest -n 4 -m '' --record-seconds`` records them.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest

# "seconds test", for each test that takes `SLOW` seconds or more, in the order of the file; then "seconds file", for
# its others together.
SECONDS = Path(__file__).with_name("seconds.txt")
SLOW = 0.5
# A file whose tests take longer is divided into parts of about as many seconds.
PART = 25.0
# Options that choose or order tests by looking at all of them; a random order is asked for by another default.
WHOLE = ("collectonly", "lf", "failedfirst", "newfirst", "stepwise", "random_order_enabled")
RANDOM = ("random_order_bucket", "random_order_seed")


@dataclass(frozen=True)
class Part:
    """Some tests of a file. ``tests``: their node ids; in the last part of a file, those of all others, that are not
    in it."""

    file: str
    number: int
    tests: frozenset[str]
    last: bool
    seconds: float

    @property
    def name(self) -> str:
        return f"(part {self.number})"

    def has(self, test: str) -> bool:
        return (test not in self.tests) if self.last else test in self.tests


@cache
def recorded() -> dict[str, dict[str, float]]:
    """Return the recorded seconds by file, and in it by test or, for the rest of the file, by the file's own name."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for line in SECONDS.read_text().splitlines():
        seconds, _, name = line.partition(" ")
        found[name.partition("::")[0]][name] = float(seconds)
    return dict(found)


def parts(file: str) -> list[Part]:
    """Divide a file of tests by its recorded seconds."""
    times = dict(recorded().get(file, {}))
    rest = times.pop(file, 0.0)
    shares: list[list[str]] = [[]]
    if sum(times.values()) + rest > PART:
        filled = 0.0
        for test, seconds in times.items():
            if shares[-1] and filled + seconds > PART:
                shares.append([])
                filled = 0.0
            shares[-1].append(test)
            filled += seconds
    else:
        rest += sum(times.values())
    divided = [
        Part(file, number, frozenset(share), False, sum(times[test] for test in share))
        for number, share in enumerate(shares, 1)
        if share
    ]
    return [*divided, Part(file, len(divided) + 1, frozenset().union(*shares), True, rest)]


def by_parts(config: pytest.Config) -> bool:
    """Whether this process is a worker that collects a file when it runs it. Some options need all tests at once."""
    random = any(not config.getoption(name, "default:").startswith("default:") for name in RANDOM)
    named = any("::" in argument for argument in config.args)
    return hasattr(config, "workerinput") and not (named or random or any(config.getoption(n, None) for n in WHOLE))


class _Divided(pytest.Module):
    """A file of tests that is not imported yet: its items are the turns of its parts."""

    def collect(self) -> Iterable[_Turn]:
        for part in parts(self.nodeid):
            turn = _Turn.from_parent(self, name=part.name)
            turn.part = part
            turn.add_marker(pytest.mark.timeout(0))  # each of its tests has its own
            yield turn

    @cached_property
    def tests(self) -> list[pytest.Item]:
        """Import the file and collect its tests. What it imports stays: garbage collections need not look at it."""
        assert self.parent is not None
        gc.disable()
        try:
            module = pytest.Module.from_parent(self.parent, path=self.path)
            found = list(self.session.genitems(module))
            self.config.hook.pytest_collection_modifyitems(session=self.session, config=self.config, items=found)
        finally:
            gc.freeze()
            gc.enable()
        return found


class _Turn(pytest.Item):
    """A part as xdist sees it: one item of a worker. Where it stands in the session, its tests stand as they run."""

    part: Part

    def runtest(self) -> None:
        raise NotImplementedError  # `run` runs the tests of the part instead

    def run(self, nextitem: pytest.Item | None) -> None:
        offered, file = self.session.items, self.parent
        assert isinstance(file, _Divided)
        place, tests = offered.index(self), [test for test in file.tests if self.part.has(test.nodeid)]
        if not tests:  # what the last test has left set up for this part
            self.session._setupstate.teardown_exact(nextitem)
        try:
            for number, test in enumerate(tests, 1):
                following = tests[number] if number < len(tests) else nextitem
                offered[place] = test  # xdist compares a report with the item that it has asked for
                self.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if self.session.shouldfail or self.session.shouldstop:
                    break
        finally:
            offered[place] = self


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    return _Divided.from_parent(parent, path=module_path) if by_parts(parent.config) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Sort the turns, those that take longest first, so that no worker waits long for others at the end. Options such
    as ``-m`` choose among the tests, when these are collected."""
    turns = sorted(
        (item for item in items if isinstance(item, _Turn)), key=lambda turn: (-turn.part.seconds, turn.nodeid)
    )
    items[:] = [item for item in items if not isinstance(item, _Turn)]
    yield
    items[:0] = turns


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, _Turn):
        return None
    item.run(nextitem)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each part, or each file of tests, to one worker, in the order in which these are offered."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # need not be installed

    class Spreading(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return nodeid if "::(part " in nodeid else nodeid.partition("::")[0]

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
