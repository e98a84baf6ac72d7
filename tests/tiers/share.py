"""The share of the tests that one commit runs with ``pytest --share``; all of them run without it, every night.

The commit's tree chooses, so one commit always runs the same tests, and the next one others.

- Tests that take less than half a second, by seconds.txt, all run, and so do those that are marked as `always`.
- Any other test runs in one of five commits, or of four times as many as its seconds.
- Of the files of tests that have changed since all passed, the shortest tests run besides, `EDITED` seconds of them.

A test that the command line names by its node id runs in any case.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import accumulate

import pytest

from tests.tiers.changes import changed, tree
from tests.tiers.spread import recorded

# Some half a minute of a run with four workers.
EDITED = 100.0


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "of slow tests run a share, chosen by the commit's tree"
    parser.addoption("--share", action="store_true", help=text)
    parser.addoption("--share-seed", metavar="SEED", help="choose by this instead")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "always: --share runs it, however long it takes")
    config.option.share_seed = config.option.share_seed or tree() or "no-tree"


def drawn(seed: str, test: str) -> bool:
    """Whether it is a test's turn. The longer a test takes, the rarer it is: most cost a commit a quarter second."""
    seconds = recorded().get(test.partition("::")[0], {}).get(test, 0.0)
    return not seconds or _number(f"{seed} {test}") % max(5, round(4 * seconds)) == 0


def edited() -> frozenset[str]:
    """Return the slow tests of changed files that run in any case: the shortest ones, `EDITED` seconds together."""
    slow = sorted(
        (seconds, test)
        for file in changed() or ()
        for test, seconds in recorded().get(file, {}).items()
        if test != file
    )
    sums = accumulate(seconds for seconds, _ in slow)
    return frozenset(test for (_, test), so_far in zip(slow, sums, strict=True) if so_far <= EDITED)


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8])


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"share: {config.option.share_seed}"] if config.option.share else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.option.share or any("::" in argument for argument in config.args):
        return
    seed, of_edited = config.option.share_seed, edited()
    chosen = {
        item
        for item in items
        if item.nodeid in of_edited or item.get_closest_marker("always") or drawn(seed, item.nodeid)
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
