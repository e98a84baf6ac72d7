"""The share of the tests that a commit runs: slow ones in turn, and those of files that have changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiers import changes, share
from tests.tiers.changes import tree

Chosen = Callable[..., list[str]]

SUITE = """
import pytest

def test_plain():
    pass

@pytest.mark.parametrize("n", range(60))
def test_slow(n):
    pass

@pytest.mark.always
def test_precious():
    pass
"""


@pytest.fixture
def chosen(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Chosen:
    """Return a function that gives the names of the tests that a command line chooses."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest("pytest_plugins = ['tests.tiers.share']")
    (pytester.path / "test_it.py").write_text(SUITE)

    def run(*arguments: str) -> list[str]:
        result = pytester.inline_run("-p", "no:cacheprovider", *arguments)
        passed, skipped, failed = result.listoutcomes()
        assert skipped == []
        assert failed == []
        return [each.nodeid.partition("::test_")[2] for each in passed]

    return run


class TestShare:
    @pytest.fixture(autouse=True)
    def _nothing_has_changed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(share, "changed", lambda: frozenset[str]())
        slow = {f"test_it.py::test_slow[{n}]": 0.5 if n < 30 else 5.0 for n in range(60)}
        times = {**slow, "test_it.py::test_precious": 1000.0, "test_it.py": 200.0}
        monkeypatch.setattr(share, "recorded", lambda: {"test_it.py": times})

    def test_a_seed_chooses_a_slow_test_more_rarely_the_longer_it_takes(self, chosen: Chosen) -> None:
        found = {seed: chosen("--share", f"--share-seed={seed}") for seed in "abcdefgh"}
        for names in found.values():
            assert {"plain", "precious"} <= set(names)
        assert len({tuple(names) for names in found.values()}) > 4
        slow = [int(name[5:-1]) for names in found.values() for name in names if name.startswith("slow")]
        assert 30 < len([n for n in slow if n < 30]) < 70  # a fifth of 240
        assert 3 < len([n for n in slow if n >= 30]) < 24  # a twentieth of 240
        assert chosen("--share", "--share-seed=a") == found["a"]

    def test_all_run_without_it_and_those_that_are_named_in_any_case(self, chosen: Chosen) -> None:
        assert len(chosen()) == 62
        assert chosen("--share", "--share-seed=a", "test_it.py::test_slow") == [f"slow[{n}]" for n in range(60)]

    def test_the_seed_is_the_commits_tree(self, chosen: Chosen) -> None:
        assert chosen("--share") == chosen("--share", f"--share-seed={tree() or 'no-tree'}")

    def test_of_a_changed_file_the_shortest_run_besides(self, chosen: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(share, "changed", lambda: frozenset({"test_it.py", "README.md"}))
        monkeypatch.setattr(share, "EDITED", 31.0)
        assert share.edited() == {f"test_it.py::test_slow[{n}]" for n in (*range(30), 30, 31, 32)}
        assert {f"slow[{n}]" for n in range(30)} <= set(chosen("--share", "--share-seed=a"))


def test_what_differs_from_a_commit_is_what_git_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "ROOT", tmp_path)
    monkeypatch.setattr(changes, "passed", lambda: "HEAD")
    assert changes.changed.__wrapped__() is None, "there is no repository"
    for words in (["init", "-q"], ["config", "user.email", "a@b.c"], ["config", "user.name", "a"]):
        assert changes.git(*words) is not None
    for name in ("same.py", "other.py"):
        (tmp_path / name).write_text("1\n")
    assert changes.git("add", ".") is not None
    assert changes.git("commit", "-q", "-m", "first") is not None
    assert changes.changed.__wrapped__() == frozenset()
    (tmp_path / "other.py").write_text("2\n")
    (tmp_path / "new.py").write_text("3\n")
    assert changes.changed.__wrapped__() == frozenset(["other.py", "new.py"])
    monkeypatch.setattr(changes, "passed", lambda: "0" * 40)
    assert changes.changed.__wrapped__() is None, "the commit is not there"
