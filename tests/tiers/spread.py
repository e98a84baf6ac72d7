"""Spread the tests over the workers of ``pytest -n 4``: the longest begin first, and a worker imports what it runs.

xdist itself lets every worker collect all tests, which takes each some ten seconds of a processor. Here a worker offers
*parts*: a file of tests, or a share of a file whose tests take long together. It collects a file when a part of it is
its turn. The times of the tests stand in seconds.txt; ``pytest -n 4 -m '' --record-seconds`` records them.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
# "seconds test", for each test that takes a second or more, in the order of the file; then "seconds file", for all its
# others together.
SECONDS = Path(__file__).with_name("seconds.txt")
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
        return self.file if self.last and not self.tests else f"{self.file} (part {self.number})"

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


def in_order(files: Iterable[str]) -> list[Part]:
    """Return all parts, those that take longest first, so that no worker waits long for others at the end."""
    return sorted((part for file in files for part in parts(file)), key=lambda part: (-part.seconds, part.name))


def files_of(config: pytest.Config) -> list[str] | None:
    """Return the files that the command line names; None if it chooses in a way that needs all tests at once."""
    random = any(not config.getoption(name, "default:").startswith("default:") for name in RANDOM)
    if random or any(config.getoption(name, None) for name in WHOLE):
        return None
    found: dict[str, None] = {}
    for argument in config.args:
        path = Path(config.invocation_params.dir, argument)
        if not path.exists() or not path.resolve().is_relative_to(config.rootpath):
            return None
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path]
        found.update(dict.fromkeys(str(file.resolve().relative_to(config.rootpath)) for file in files))
    return list(found)


class _Turn(pytest.Item):
    """A part as xdist sees it: one item of a worker. Where it stands in the session, its tests stand as they run."""

    part: Part
    index: int

    def runtest(self) -> None:
        raise NotImplementedError  # `run` runs the tests of the part instead

    def run(self, nextitem: pytest.Item | None) -> None:
        offered = self.session.items
        tests = [test for test in _collected(self.session, self.part.file) if self.part.has(test.nodeid)]
        try:
            for number, test in enumerate(tests, 1):
                following = tests[number] if number < len(tests) else nextitem
                offered[self.index] = test  # xdist compares a report with the item that it has asked for
                self.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if self.session.shouldfail or self.session.shouldstop:
                    break
        finally:
            offered[self.index] = self


_COLLECTED = pytest.StashKey[dict[str, Sequence[pytest.Item]]]()


def _collected(session: pytest.Session, file: str) -> Sequence[pytest.Item]:
    """Collect a file, once. What it imports stays, so that garbage collections need not look at it."""
    known = session.stash.setdefault(_COLLECTED, {})
    if file not in known:
        offered = session.items
        gc.disable()
        try:
            known[file] = session.perform_collect([str(session.config.rootpath / file)])
        finally:
            session.items = offered
            gc.freeze()
            gc.enable()
    return known[file]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Let a worker of xdist offer parts instead of tests."""
    files = files_of(session.config) if hasattr(session.config, "workerinput") else None
    if files is None:
        return
    plugins = session.config.pluginmanager.get_plugins()
    (worker,) = (each for each in plugins if type(each).__name__ == "WorkerInteractor")
    collect, send = session.perform_collect, worker.sendevent

    def offer() -> Sequence[pytest.Item]:
        turns = []
        for index, part in enumerate(in_order(files)):
            turn = _Turn.from_parent(session, name=part.name, nodeid=part.name)
            turn.part, turn.index = part, index
            turn.add_marker(pytest.mark.timeout(0))  # each of its tests has its own
            turns.append(turn)
        session.items, session.testscollected = list(turns), len(turns)
        session.perform_collect = collect  # type: ignore[method-assign]
        session.config.hook.pytest_collection_finish(session=session)
        # It is said once what this worker offers; what it collects later is its own matter.
        worker.sendevent = lambda name, **more: None if name == "collectionfinish" else send(name, **more)
        return session.items

    session.perform_collect = offer  # type: ignore[method-assign, assignment]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, _Turn):
        return None
    item.run(nextitem)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each part, or each file of tests, to one worker, in the order in which they are offered."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling  # without xdist there need be no such module

    class Spreading(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return nodeid.partition("::")[0]

    config.option.loadscopereorder = False
    return Spreading(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "record in tests/tiers/seconds.txt what each test takes"
    parser.addoption("--record-seconds", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder())


class Recorder:
    """Adds up what each test takes, with its set-up and its end, and writes it down when all have ended."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.taken[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        SECONDS.write_text(listed(self.taken))


def listed(taken: Counter[str]) -> str:
    """Write seconds by test down as seconds.txt has them."""
    rest: Counter[str] = Counter()
    lines: dict[str, list[str]] = defaultdict(list)
    for test, seconds in taken.items():
        file = test.partition("::")[0]
        if seconds >= 1:
            lines[file].append(f"{seconds:.1f} {test}\n")
        else:
            rest[file] += seconds
    for file, seconds in rest.items():
        if seconds >= 1:
            lines[file].append(f"{seconds:.1f} {file}\n")
    return "".join(line for file in sorted(lines) for line in lines[file])
