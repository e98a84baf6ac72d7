"""Commands in stages: how each ended, what it said, and that none of them is left."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tests.tiers.__main__ as tiers
from tests.support.processes import descendants_of, left_after
from tests.support.roles_plain import await_true
from tests.tiers.stages import NICER, End, Job, report, run


def python(name: str, code: str, **more: Any) -> Job:
    return Job(name, f"python -c {shlex.quote(code)}", **more)


OK, FAILS = python("ok", "print('it is done [1]')"), python("fails", "import sys; print('no'); sys.exit(3)")


def statuses(ends: dict[str, End]) -> dict[str, int | None]:
    return {name: end.status for name, end in ends.items()}


def test_each_prints_and_tells_how_it_ended(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ends = run([(OK,), (FAILS,)], tmp_path, go_on=False, known={})
    assert [(end.status, end.last_line) for end in ends.values()] == [(0, "it is done [1]"), (3, "no")]
    assert capfd.readouterr().out == "--- ok\nit is done [1]\n--- fails\nno\n"
    assert (tmp_path / "fails.log").read_text() == "no\n"


@pytest.mark.parametrize("go_on", [False, True])
def test_after_a_failure_the_next_stage_runs_only_if_it_is_asked_for(
    go_on: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [(FAILS, OK), (python("last", "pass"),)]
    ends = run(stages, tmp_path, go_on=go_on, known={})
    assert statuses(ends) == {"fails": 3, "ok": 0, **({"last": 0} if go_on else {})}
    capsys.readouterr()
    assert not report("all", stages, ends)
    said = capsys.readouterr().out
    assert "it is done [1]" in said
    assert ("not run" in said) is not go_on


def test_commands_of_a_stage_run_at_once_and_leave_the_first_its_time(tmp_path: Path) -> None:
    """Each waits for the other."""
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    nice = "import os; print(os.nice(0)); "
    first, second = python("first", f"{nice}open({pipe!r}, 'w')"), python("second", f"{nice}open({pipe!r})")
    ends = run([(first, second)], tmp_path, go_on=False, known={})
    own = os.nice(0)
    said = {name: end.last_line for name, end in ends.items()}  # the second may end first
    assert said == {"first": str(own), "second": str(min(19, own + NICER))}


def test_what_the_first_one_prints_is_shown_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Although another one, which ends before it, has printed more."""
    wait = f"while 'second' not in open({str(tmp_path / 'ends.json')!r}).read(): pass"
    first = python("first", f"print('one', flush=True)\n{wait}\nprint('two')")
    run([(first, python("second", "print('a longer line')"))], tmp_path, go_on=False, known={})
    said = capfd.readouterr().out.splitlines()
    assert sorted(said) == ["--- first, second", "a longer line", "one", "two"]


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    job = python("endless", "import time; print('begun', flush=True); time.sleep(1000)", limit=1.0)
    (end,) = run([(job,)], tmp_path, go_on=False, known={}).values()
    assert end.status is None
    assert not report("all", [(job,)], {"endless": end})


@pytest.fixture
def nightly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A nightly of two jobs, of which the second passes once ``mended`` is there. Return its folder."""
    last = f"import os, sys; sys.exit(not os.path.exists({str(tmp_path / 'mended')!r}))"
    first = f"open({str(tmp_path / 'ran')!r}, 'a').write('.')"
    monkeypatch.setattr(tiers, "nightly", lambda seed, kept: [(python("first", first),), (python("last", last),)])
    monkeypatch.setattr("reference.system.interrupts.listen", lambda: None)
    monkeypatch.setattr(tiers, "KEPT", tmp_path)
    monkeypatch.setattr(tiers, "NIGHTLY", tmp_path / "nightly.json")
    monkeypatch.setattr(tiers, "ROOT", tmp_path)
    monkeypatch.setattr(tiers, "git", lambda *words: {"rev-parse": "c1", "status": ""}[words[0]])
    return tmp_path


class TestNightly:
    def test_it_goes_on_where_it_failed_and_names_the_commit_that_passed(self, nightly: Path) -> None:
        assert tiers.main(["nightly"]) == 1
        assert not (nightly / "nightly.json").exists()
        (nightly / "mended").touch()
        assert tiers.main(["nightly", "--continue"]) == 0
        assert (nightly / "ran").read_text() == ".", "what has passed ran again"
        assert json.loads((nightly / "nightly.json").read_text()) == {"commit": "c1"}
        assert tiers.main(["nightly"]) == 0
        assert (nightly / "ran").read_text() == ".."

    def test_the_commit_that_passes_has_all_changes(
        self, nightly: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(tiers, "git", lambda *words: {"rev-parse": "c1", "status": " M a.py"}[words[0]])
        with pytest.raises(SystemExit):
            tiers.main(["nightly"])
        assert "there are uncommitted changes" in capsys.readouterr().err
        assert not (nightly / "ran").exists()

    def test_a_checkout_that_changes_meanwhile_has_not_passed(
        self, nightly: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (nightly / "mended").touch()
        commits = iter(("c1", "c2"))
        monkeypatch.setattr(tiers, "git", lambda *words: next(commits) if words[0] == "rev-parse" else "")
        assert tiers.main(["nightly"]) == 1
        assert not (nightly / "nightly.json").exists()
        assert "the checkout was changed meanwhile" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("differ", "small"),
        [
            (None, False),
            ({"reference/pipeline.py", "README.md"}, False),
            ({"reference/training/vision.py"}, False),
            ({"constraints.txt"}, False),
            ({"reference/verify/verify.py"}, False),
            ({"reference/cli/main.py"}, True),
        ],
    )
    def test_ci_trains_resnet50_where_its_files_changed(
        self, differ: set[str] | None, small: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tiers, "changed", lambda: differ)
        commands = {job.name: job.command for stage in tiers.ci() for job in stage}
        assert commands["verify"].endswith(" --small") is small


MAIN = """
import sys
from pathlib import Path
from reference.system import interrupts
from tests.tiers.stages import Job, run
endless = "python -c 'import time; print(1, flush=True); time.sleep(1000)'"
interrupts.listen()
try:
    run([(Job("a", endless), Job("b", f'sh -c "{endless} & wait"'))], Path(sys.argv[1]), go_on=True, known={})
except KeyboardInterrupt:
    sys.exit(interrupts.STATUS)
"""


def test_ending_it_ends_all_commands(tmp_path: Path) -> None:
    command = [sys.executable, "-u", "-c", MAIN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["--- a, b\n", "1\n"]
        await_true(lambda: len(descendants_of(process.pid)) == 3)
        others = descendants_of(process.pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 130
    assert left_after(others, 10) == set()
