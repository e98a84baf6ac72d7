"""A plugin of pytest: note after each test which probes it has hit, in this process and in all that it has started.

Hits of a process that outlives a test count for the test that runs when they happen.
"""

from __future__ import annotations

import json
import os
import sys
from base64 import b85encode
from collections.abc import Generator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from mmap import mmap
from pathlib import Path
from zlib import compress

import numpy as np
import pytest

from tests.coverage.probes import NO_TEST, VARIABLE

FOLDER, NAME, SIZE, PACKAGES = json.loads(os.environ[VARIABLE])
_here = Path(FOLDER, os.environ.get("PYTEST_XDIST_WORKER", "main"))
_here.touch()
os.truncate(_here, SIZE)
# Before this process imports a file with probes, and for all processes that it starts.
os.environ[NAME] = str(_here)
with _here.open("r+b") as _file:
    _shared = np.frombuffer(mmap(_file.fileno(), SIZE), np.uint8)


class _Plain(MetaPathFinder):
    """Lets Python import what has probes. pytest compiles plugins, and what is installed with them, by itself."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, _: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path) if name.partition(".")[0] in PACKAGES else None


sys.meta_path.insert(0, _Plain())


def note(test: str) -> None:
    hit = np.flatnonzero(_shared)
    _shared[hit] = 0  # only these: a process that is still running may hit others meanwhile
    text = b85encode(compress(hit.astype(np.uint32).tobytes())).decode()
    with _here.with_suffix(".notes").open("a") as notes:
        notes.write(json.dumps([test, text]) + "\n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    note(NO_TEST)
    try:
        return (yield)
    finally:
        note(item.nodeid)


def pytest_unconfigure() -> None:
    note(NO_TEST)
