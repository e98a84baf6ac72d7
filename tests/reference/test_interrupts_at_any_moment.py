"""A command that is ended at a random moment leaves nothing. The seed of the tests decides moment and signal."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

COMMAND = (sys.executable, "-m", "reference", "run", "parameter_server", "--steps", "20")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def run(place: Path, moment: float | None = None, how: signal.Signals = signal.SIGKILL) -> float:
    """Run the command with its temporary files in ``place``, end it at a moment, and return its seconds."""
    variables = {**os.environ, "TMPDIR": str(place), "TORCHINDUCTOR_CACHE_DIR": str(place.with_name("cache"))}
    begun = time.monotonic()
    process = subprocess.Popen(COMMAND, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(moment)
        process.send_signal(how)
        process.wait(60)
    finally:
        process.kill()
        process.wait()
    return time.monotonic() - begun


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> float:
    """Return the seconds of a run that nobody ends."""
    return run(tmp_path_factory.mktemp("t"))


@pytest.mark.parametrize("number", range(12))
def test_nothing_is_left(number: int, whole: float, faults_seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The plugin's account of every test looks for processes and shared memory."""
    chance = random.Random(f"{faults_seed} {number}")
    how = chance.choice(SIGNALS)
    place = tmp_path_factory.mktemp("t")  # a socket's path is to be short
    run(place, chance.uniform(0.0, whole), how)
    if how != signal.SIGKILL:  # after that only the next launcher cleans up
        assert list(place.iterdir()) == []
