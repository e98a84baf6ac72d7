"""Commands in stages: how each ended, what it said, and that none of them is left."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import children_of, left_after
from tests.tiers.stages import NICER, End, Job, ended_well, report, run


def python(name: str, code: str, **more: object) -> Job:
    return Job(name, f"python -c {shlex.quote(code)}", **more)  # type: ignore[arg-type]


OK, FAILS = python("ok", "print('it is done')"), python("fails", "import sys; print('no'); sys.exit(3)")


def statuses(ends: dict[str, End]) -> dict[str, int | None]:
    return {name: end.status for name, end in ends.items()}


def test_each_prints_and_tells_how_it_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ends = run([(OK,), (FAILS,)], tmp_path, go_on=False, known={})
    assert [(end.status, end.last_line) for end in ends.values()] == [(0, "it is done"), (3, "no")]
    assert capfd.readouterr().out == "--- ok\nit is done\n--- fails\nno\n"
    assert (tmp_path / "fails.log").read_text() == "no\n"


@pytest.mark.parametrize("go_on", [False, True])
def test_after_a_failure_the_next_stage_runs_only_if_it_is_asked_for(go_on: bool, tmp_path: Path) -> None:
    stages = [(FAILS, OK), (python("last", "pass"),)]
    ends = run(stages, tmp_path, go_on=go_on, known={})
    assert statuses(ends) == {"fails": 3, "ok": 0, **({"last": 0} if go_on else {})}
    assert not report("all", stages, ends)


def test_what_ended_well_is_not_run_again(tmp_path: Path) -> None:
    run([(OK, FAILS)], tmp_path, go_on=True, known={})
    known = ended_well(tmp_path)
    assert statuses(known) == {"ok": 0}
    mended = python("fails", "print('now')")
    ends = run([(OK, mended)], tmp_path, go_on=True, known=known)
    assert ends["ok"] == known["ok"]
    assert ends["fails"].last_line == "now"
    assert report("all", [(OK, mended)], ends)


def test_commands_of_a_stage_run_at_once_and_leave_the_first_its_time(tmp_path: Path) -> None:
    """Each waits for the other."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    nice = "import os; print(os.nice(0)); "
    first, second = python("first", f"{nice}open({pipe!r}, 'w')"), python("second", f"{nice}open({pipe!r})")
    ends = run([(first, second)], tmp_path, go_on=False, known={})
    own = os.nice(0)
    assert [end.last_line for end in ends.values()] == [str(own), str(min(19, own + NICER))]


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    job = python("endless", "import time; print('begun', flush=True); time.sleep(1000)", limit=1.0)
    (end,) = run([(job,)], tmp_path, go_on=False, known={}).values()
    assert end.status is None
    assert not report("all", [(job,)], {"endless": end})


def test_the_table_names_what_did_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert not report("a title", [(OK, FAILS)], {"ok": End(0, 61.0, "12 passed [1]")})
    said = capsys.readouterr().out
    assert "a title" in said
    assert "12 passed [1]" in said
    assert "not run" in said


MAIN = """
import sys
from pathlib import Path
from tests.tiers.stages import Interrupted, Job, run
endless = "python -c 'import time; print(1, flush=True); time.sleep(1000)'"
try:
    run([(Job("a", endless), Job("b", endless))], Path(sys.argv[1]), go_on=True, known={})
except Interrupted:
    sys.exit(130)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ending_it_ends_all_commands(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-c", MAIN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["--- a, b\n", "1\n"]
        others = children_of(process.pid)
        assert len(others) == 2
        process.send_signal(number)
        assert process.wait(10) == 130
    assert left_after(others, 10) == set()
