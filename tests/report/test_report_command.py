"""`report DIR`: the page of a stored run, from its folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.cli.check_command import as_runs_write
from faults.cli.main import main
from faults.ledger.run_files import PAGE
from tests.judge.by_hand import script
from tests.support.stored_runs import stored_run

ROW = "matrix/rref_dataflow-Delay-reply"


def test_a_page_is_written_into_the_folder_or_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(ROW, tmp_path)
    for arguments, path in (([], folder / PAGE), (["--out", str(tmp_path / "p.html")], tmp_path / "p.html")):
        assert main(["report", str(folder), *arguments]) == 0
        assert capsys.readouterr().out == f"equal: {path}\n"
        assert '<strong class="pass">✓ equal.</strong>' in path.read_text()
    assert main(["check", str(folder)]) == 0, "a page leaves the run as it was"


def test_a_full_disk_is_not_blamed_on_the_run() -> None:
    with pytest.raises(OSError, match=r"^No space left on device$"), as_runs_write(script()):
        raise OSError("No space left on device")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing is not a run's folder"),
        (["RUN", "--expect-error", "1"], "wanted names of exceptions"),
        (["RUN", "--out", "RUN/run.json"], "the run has a file of this name, wanted another one"),
        (["RUN", "--out", "x", "--perfetto", "./x"], "for several reports: wanted a file for each"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(ROW, tmp_path)
    assert main(["report", *(each.replace("RUN", str(folder)) for each in arguments)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
