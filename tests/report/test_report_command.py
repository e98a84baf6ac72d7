"""`report DIR`: the page of a stored run, from its folder alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.cli.main import main
from tests.support.stored_runs import stored_run

ROW = "matrix/rref_dataflow-Delay-reply"


def test_a_page_is_written_into_the_folder_or_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(ROW, tmp_path)
    for arguments, path in (([], folder / "report.html"), (["--out", str(tmp_path / "p.html")], tmp_path / "p.html")):
        assert main(["report", str(folder), *arguments]) == 0
        assert capsys.readouterr().out == f"equal: {path}\n"
        assert '<strong class="pass">✓ equal.</strong>' in path.read_text()


def test_a_page_leaves_the_run_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can be judged again, and a new run can replace it."""
    folder = stored_run(ROW, tmp_path)
    assert main(["report", str(folder)]) == 0
    assert main(["check", str(folder)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "verdict: equal"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "nothing is not a run's folder"),
        (["RUN", "--out", "no/such/folder/x"], "cannot write no/such/folder/x"),
        (["RUN", "--expect-error", "1"], "wanted names of exceptions"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stored_run(ROW, tmp_path)
    assert main(["report", *(str(folder) if each == "RUN" else each for each in arguments)]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
