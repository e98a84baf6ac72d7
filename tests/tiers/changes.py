"""What has changed since the commit at which everything last passed, and how near to it a file is.

`python -m tests.tiers nightly` writes that commit into nightly.json when all of it has passed.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NIGHTLY = Path(__file__).with_name("nightly.json")
# What every test depends on, without importing it.
OF_ALL = frozenset({"conftest.py", "faults/pytest_plugin.py", "pyproject.toml", "constraints.txt"})


@cache
def passed() -> dict[str, str]:
    """Return what nightly.json says: its ``commit``; empty if nothing has passed yet."""
    found: dict[str, str] = json.loads(NIGHTLY.read_text()) if NIGHTLY.exists() else {}
    return found


def git(*words: str) -> str | None:
    """Return what git says of the checkout; None if it says nothing, for instance because there is no repository."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def tree() -> str:
    """Return the name of the commit's tree: the same files have the same one. Empty if git does not tell."""
    return git("rev-parse", "HEAD^{tree}") or ""


@cache
def changed() -> frozenset[str] | None:
    """Return the files that differ from the commit that passed, committed or not; None if that cannot be told."""
    commit = passed().get("commit")
    differ = git("diff", "--name-only", commit) if commit else None
    new = git("ls-files", "--others", "--exclude-standard")
    if differ is None or new is None:
        return None
    return frozenset(differ.splitlines()) | frozenset(new.splitlines())


@cache
def imported(file: str) -> frozenset[str]:
    """Return the files of this project that a file imports or names by itself, anywhere in it.

    A text names a file by its path, by its own name such as ``polite.py``, as a module such as ``faults.hook``, or,
    beside the file that names it, without ``.py``.
    """
    found = set[str]()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            found.update(*(_module(each.name) for each in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(_module(node.module), *(_module(f"{node.module}.{each.name}") for each in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            found |= _named(node.value, file.rpartition("/")[0])
    return frozenset(found) - {file}


_NAME = re.compile(r"[\w./]{1,100}")


@cache
def _module(name: str) -> frozenset[str]:
    place = name.replace(".", "/")
    return frozenset(path for path in (f"{place}.py", f"{place}/__init__.py") if path in _files())


@cache
def _named(text: str, folder: str) -> frozenset[str]:
    beside, program = f"{folder}/{text}.py", f"{text.replace('.', '/')}/__main__.py"
    found = {path for path in (text, beside, program) if path in _files()}
    return _module(text) | found | _by_name().get(text, frozenset())


@cache
def _files() -> frozenset[str]:
    """Return all files of Python below `ROOT` that git knows or would add."""
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", "*.py") or ""
    return frozenset(path for path in listed.splitlines() if (ROOT / path).is_file())


@cache
def _by_name() -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in _files():
        found[path.rpartition("/")[2]].add(path)
    return {name: frozenset(paths) for name, paths in found.items()}


def distance(files: Sequence[str], to: frozenset[str]) -> int | None:
    """Count the steps (`imported`) from one of ``files`` to the nearest file in ``to``; None if none leads there."""
    seen, level, steps = set[str](), {file for file in files if (ROOT / file).is_file()}, 0
    while level:
        if not level.isdisjoint(to):
            return steps
        seen |= level
        further = {each for file in level if file.endswith(".py") for each in imported(file)}
        level, steps = further - seen, steps + 1
    return None
