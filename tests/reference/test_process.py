"""One command of an implementation: its group, its time limit, and the bounds of what it writes."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from reference.conform import process
from reference.conform.process import KEPT, Ended, run_command

LARGEST = 2**20


def ran(program: str, folder: Path, seconds: float = 60.0) -> Ended:
    """Run a program that begins in ``folder``."""
    begin = f"import os; os.chdir({str(folder)!r})\n"
    return run_command([sys.executable, "-c", begin + program], folder, seconds, LARGEST)


def test_a_command_has_its_status_and_its_output(tmp_path: Path) -> None:
    found = ran("import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (found.status, found.stdout, found.stderr) == (3, b"a\n", b"b\n")


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
    assert (found.status, found.stdout) == (0, whole[:KEPT] + left_out + whole[-KEPT:])


def test_a_command_whose_folder_holds_too_much_is_ended(tmp_path: Path) -> None:
    found = ran(f"import time; open('x', 'wb').write(bytes({2 * LARGEST})); time.sleep(600)", tmp_path)
    assert (found.status, found.outgrown) == (None, True)
    assert found.seconds < 30.0


def test_too_much_is_seen_of_a_command_that_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOOK", 60.0)  # so nobody looks between its last byte and its end
    found = ran(f"import os; os.mkdir('a'); open('a/x', 'wb').write(bytes({LARGEST + 1}))", tmp_path)
    assert (found.status, found.outgrown) == (0, True)
    (tmp_path / "a" / "x").unlink()
    assert ran(f"open('x', 'wb').write(bytes({LARGEST}))", tmp_path).outgrown is False


def test_files_elsewhere_are_not_limited(tmp_path: Path) -> None:
    """Ray's store of objects is a file of gigabytes."""
    (tmp_path / "out").mkdir()
    found = ran(f"open('../store', 'wb').truncate({2**30})", tmp_path / "out")
    assert (found.status, found.outgrown) == (0, False)
