"""The tests run in a background command, under `nohup` and in a session of their own as they do at a terminal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Processes that a test starts do not ignore the signals, and SIGHUP does not end pytest itself.
TEST = """
import signal, subprocess
def test():
    signal.raise_signal(signal.SIGHUP)
    status = subprocess.check_output(["cat", "/proc/self/status"], text=True)
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert [each.name for each in (signal.SIGHUP, signal.SIGINT) if ignored >> each - 1 & 1] == []
"""


def _ignore() -> None:
    for each in (signal.SIGHUP, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)


def test_what_tests_start_ignores_no_signal_that_pytest_was_told_to_ignore(tmp_path: Path) -> None:
    (tmp_path / "test_started.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        preexec_fn=_ignore,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=100,
        input="",
    )
    assert done.returncode == 0, done.stdout + done.stderr
