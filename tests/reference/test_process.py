"""One command of an implementation: its group, its time limit, and what is kept of its output."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from reference.conform.process import KEPT, Ended, run_command


def ran(program: str, folder: Path, seconds: float = 60.0) -> Ended:
    """Run a program that begins in ``folder``."""
    begin = f"import os; os.chdir({str(folder)!r})\n"
    return run_command([sys.executable, "-c", begin + program], seconds)


def test_a_command_has_its_status_and_its_output(tmp_path: Path) -> None:
    found = ran("import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)", tmp_path)
    assert found.status == 3
    assert found.stdout == b"a\n"
    assert found.stderr == b"b\n"


def test_a_command_that_a_signal_ended_has_a_negative_status(tmp_path: Path) -> None:
    assert ran("import os; os.kill(os.getpid(), 15)", tmp_path).status == -15


def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('pid').write_text(str(child.pid))\n"
        "pathlib.Path('pid').rename('child')\n"
        "time.sleep(600)\n"
    )
    found = ran(program, tmp_path, seconds=3.0)
    assert found.status is None
    assert found.seconds < 30.0
    assert _gone(int((tmp_path / "child").read_text()))


def test_a_process_that_outlives_its_command_is_ended(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "pathlib.Path('child').write_text(str(child.pid))\n"
    )
    assert ran(program, tmp_path).status == 0
    assert _gone(int((tmp_path / "child").read_text()))


def _gone(pid: int) -> bool:
    """Whether a process has ended within ten seconds. Its parent has ended, so init reaps it."""
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        with suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        if not Path(f"/proc/{pid}").exists():
            return True
        os.sched_yield()
    return False


@pytest.mark.parametrize("size", [2 * KEPT, 2 * KEPT + 1, 10**6])
def test_begin_and_end_of_long_output_are_kept(size: int, tmp_path: Path) -> None:
    """However short the pieces are that it comes in."""
    program = (
        "import sys\n"
        f"for place in range(0, {size}, 999):\n"
        f"    sys.stdout.buffer.write(bytes(each % 251 for each in range(place, min(place + 999, {size}))))\n"
        "    sys.stdout.flush()\n"
    )
    found = ran(program, tmp_path)
    whole = bytes(each % 251 for each in range(size))
    left_out = f"\n... {size - 2 * KEPT} bytes left out ...\n".encode() if size > 2 * KEPT else b""
    assert found.status == 0
    assert found.stdout == whole[:KEPT] + left_out + whole[-KEPT:]
