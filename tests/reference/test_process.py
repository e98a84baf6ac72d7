"""One command of an implementation: its group, its time limit, and what is kept of its output."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from reference.conform.process import KEPT, Ended, _start, run_command
from reference.system.text import BadInput
from tests.support.processes import left_after

STARTS_A_CHILD = (
    "import subprocess, time, pathlib; child = subprocess.Popen(['sleep', '600']); "
    "pathlib.Path('child').write_text(str(child.pid))"
)


def ran(program: str, folder: Path, seconds: float = 60.0) -> Ended:
    """Run a program that begins in ``folder``."""
    begin = f"import os; os.chdir({str(folder)!r})\n"
    return run_command([sys.executable, "-c", begin + program], seconds)


def test_a_command_has_its_status_and_its_output(tmp_path: Path) -> None:
    found = ran("import sys; print('a'); print('b', file=sys.stderr); sys.exit(3)", tmp_path)
    assert found.status == 3
    assert found.stdout == b"a\n"
    assert found.stderr == b"b\n"


def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    found = ran(f"{STARTS_A_CHILD}; time.sleep(600)", tmp_path, seconds=3.0)
    assert found.status is None
    assert found.seconds < 30.0
    assert left_after({int((tmp_path / "child").read_text())}, 10) == set()


def test_a_process_that_outlives_its_command_is_ended(tmp_path: Path) -> None:
    assert ran(STARTS_A_CHILD, tmp_path).status == 0
    assert left_after({int((tmp_path / "child").read_text())}, 10) == set()


def test_a_command_of_another_user_is_waited_for_and_refused_if_it_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only another user than root meets that."""
    made: list[subprocess.Popen[bytes]] = []

    def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
        made.append(_start(command))
        return made[-1]

    def killpg(group: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr("reference.conform.process._start", start)
    monkeypatch.setattr("reference.conform.process.os.killpg", killpg)
    assert run_command(["true"], 60.0).status == 0
    with pytest.raises(BadInput, match=r"^cannot end 'sleep', which runs as another user: \d+$"):
        run_command(["sleep", "60"], 0.1)
    with made[-1]:
        made[-1].kill()


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
