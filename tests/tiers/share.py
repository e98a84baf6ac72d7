"""The share of the tests that one commit runs with ``pytest --share``; all of them run without it, every night.

The commit's tree chooses, so one commit always runs the same tests, and the next one others.

- Of the tests of a file that `one_of` gives the same key, one runs.
- A test that takes half a second or more, by seconds.txt, runs in one of five commits, or of four times as many
  as its seconds.
- Tests of what others have made, torch and the published listings, run where they may have another result than at the
  commit at which all passed: where Python, torch or these tests have changed.

A test that the command line names by its node id runs in any case.
"""

from __future__ import annotations

from collections import defaultdict
from hashlib import sha256

import pytest

from tests.tiers.changes import changed_since, tree
from tests.tiers.spread import recorded

PINNING = ("tests/torch", "tests/errata")
_LEFT_OUT = pytest.StashKey[tuple[str, ...]]()


def one_of(*key: object) -> pytest.MarkDecorator:
    """Mark a test as one of several in its file that show nearly the same."""
    return pytest.mark.one_of("-".join(map(str, key)))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "of tests that show nearly the same run one, chosen by the commit's tree (or by SEED)"
    parser.addoption("--share", nargs="?", const="", metavar="SEED", help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "one_of(key): of the tests of this file with this key, --share runs one")
    if config.option.share == "":
        config.option.share = tree() or "no-tree"
    if config.option.share:
        config.stash[_LEFT_OUT] = tuple(folder for folder in PINNING if not changed_since(folder))


def drawn(seed: str, test: str) -> bool:
    """Whether it is a test's turn. The longer a test takes, the rarer it is: most cost a commit half a second."""
    seconds = recorded().get(test.partition("::")[0], {}).get(test, 0.0)
    return not seconds or _number(f"{seed} {test}") % max(5, round(4 * seconds)) == 0


def _number(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8])


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not config.option.share:
        return []
    out = "".join(f", without {folder}, unchanged since all passed" for folder in config.stash[_LEFT_OUT])
    return [f"share: {config.option.share}{out}"]


@pytest.hookimpl(trylast=True)  # after -m, -k and --deselect, so that one of those that are left runs
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.option.share
    if not seed or any("::" in argument for argument in config.args):
        return
    left_out = tuple(f"{folder}/" for folder in config.stash[_LEFT_OUT])
    alike = defaultdict[str, list[pytest.Item]](list)
    chosen = set()
    for item in items:
        if item.nodeid.startswith(left_out):
            continue
        if mark := item.get_closest_marker("one_of"):
            alike[f"{item.nodeid.partition('::')[0]} {mark.args[0]}"].append(item)
        elif drawn(seed, item.nodeid):
            chosen.add(item)
    chosen |= {group[_number(f"{seed} {key}") % len(group)] for key, group in alike.items()}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
