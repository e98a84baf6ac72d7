"""What has changed since the commit at which everything last passed.

`python -m tests.tiers nightly` writes that commit into nightly.json when all of it has passed.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
NIGHTLY = Path(__file__).with_name("nightly.json")


def passed() -> str:
    """Return the commit that nightly.json names; empty if nothing has passed yet."""
    return str(json.loads(NIGHTLY.read_text())["commit"]) if NIGHTLY.exists() else ""


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
    commit = passed()
    differ = git("diff", "--name-only", commit) if commit else None
    new = git("ls-files", "--others", "--exclude-standard")
    if differ is None or new is None:
        return None
    return frozenset(differ.splitlines()) | frozenset(new.splitlines())
