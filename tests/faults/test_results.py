"""The results of a program: checked by a command, by its output, by its files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.ledger.run_files import RESULTS
from faults.script import results
from faults.script.results import ERRORS, OUTPUT, CheckMissing, Results, StaleResult

pytestmark = pytest.mark.usefixtures("own_folder")


def run(folder: Path, found: Results, output: str = "", returned: bool = True, **files: str) -> Any:
    """Do what a run does: begin, print, write files, end."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with found.printed_into(folder) as streams:
        streams["stdout"].write(output.encode())
    for name, text in files.items():
        Path(name).write_text(text)
    return found.end(folder, returned)


def test_output_and_files_are_those_of_the_healthy_run(tmp_path: Path) -> None:
    wanted = Results(output=True, files=[Path("loss")])
    healthy, again = tmp_path / "healthy", tmp_path / "again"
    same = ("equal", "output and files are those of the healthy run")
    assert run(healthy, wanted, "a\n", loss="1") == ("equal", "all files are written")
    assert run(again, wanted.of(healthy), "a\n", loss="1") == same
    assert not Path("loss").exists()
    assert (again / RESULTS / "0-loss").read_text() == "1"
    for output, files, said in (
        ("b\n", {"loss": "1"}, "output: no line 'a', the line 'b'"),
        ("a\n", {"loss": "2"}, "loss: byte 0 of 1 differs, wanted 1 bytes"),
        ("a\n", {}, f"{Path('loss').absolute()} was not written"),
    ):
        judged = ("wrong", f"{said}; wanted what the healthy run wrote")
        assert run(again, wanted.of(healthy), output, True, **files) == judged


def test_an_interrupted_run_leaves_no_file_that_the_next_one_would_refuse(tmp_path: Path) -> None:
    def interrupted() -> None:
        Path("loss").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Results(files=[Path("loss")]).printed_into(tmp_path):
        interrupted()
    assert not Path("loss").exists()


def test_only_the_end_of_a_very_long_output_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reference.system.files.LONGEST", 30)
    with Results().printed_into(tmp_path) as streams:
        streams["stdout"].write("".join(f"epoch {number}\n" for number in range(10)).encode())
    assert [*results.printed(tmp_path)] == [("stdout", ["och 6", "epoch 7", "epoch 8", "epoch 9"])]


def test_a_program_that_failed_has_no_results(tmp_path: Path) -> None:
    """Its files are moved away all the same, so that the next run does not find them."""
    wanted = Results(command="false", files=[Path("loss")])
    assert run(tmp_path / "run", wanted, returned=False, loss="1") is None
    assert not Path("loss").exists()


@pytest.mark.parametrize(
    ("command", "verdict", "said"),
    [
        ("true", "equal", "ended with status 0"),
        ("echo no loss; exit 3", "wrong", "ended with status 3: no loss; wanted 0"),
        ("echo left; sleep 1000 & exit 1", "wrong", "ended with status 1: left; wanted 0"),
        ('test "$(cat "$FAULTS_OUTPUT")" = a', "equal", "ended with status 0"),
        ('test -f "$FAULTS_ERRORS" && test ! -s "$FAULTS_ERRORS"', "equal", "ended with status 0"),
        ('grep -q a "$FAULTS_OUTPUT" && grep -qx 1 loss', "equal", "ended with status 0"),
        ('grep -q a "$FAULTS_OUTPUT" && grep -qx 2 loss', "wrong", "ended with status 1: it printed nothing; wanted 0"),
    ],
)
def test_a_shells_command_line_judges_by_its_status(command: str, verdict: str, said: str, tmp_path: Path) -> None:
    judged = run(tmp_path / "run", Results(command=command), "a\n", loss="1")
    assert judged == (verdict, f"`{command}` {said}")


def test_a_link_is_no_file(tmp_path: Path) -> None:
    """The file to which it leads may be an earlier run's."""
    wanted = Results(files=[Path("loss")])
    with wanted.printed_into(tmp_path):
        Path("kept").write_text("1")
        Path("loss").symlink_to("kept")
    said = f"loss leads to {Path('kept').resolve()}: wanted a file, such as that one"
    assert wanted.end(tmp_path, True) == ("wrong", said)
    assert not Path("loss").is_symlink()
    assert Path("kept").exists()


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    wanted = Results(files=[Path("loss")])
    with wanted.printed_into(tmp_path):
        Path("loss").mkdir()
    assert wanted.end(tmp_path, True) == ("wrong", "loss is a folder: wanted a file")


@pytest.mark.parametrize("command", ["nosuchcheck --all", "./loss"])
def test_a_command_that_cannot_be_started_is_refused(command: str, tmp_path: Path) -> None:
    """It convicts nobody."""
    with pytest.raises(CheckMissing, match=rf"^the check `{re.escape(command)}` cannot be started: "):
        run(tmp_path / "run", Results(command=command), loss="1")


def test_a_command_that_ran_in_the_healthy_run_convicts_by_whatever_status(tmp_path: Path) -> None:
    assert run(tmp_path / "run", Results(command="./loss").of(tmp_path / "healthy"), loss="1")[0] == "wrong"


def test_a_command_that_does_not_end_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "CHECK_SECONDS", 0.2)
    judged = ("unknown", "`sleep 1000` did not end within 0.2 s")
    assert run(tmp_path / "run", Results(command="sleep 1000")) == judged


def test_wrong_files_are_wrong_though_the_command_is_content(tmp_path: Path) -> None:
    wanted = Results(command="true", files=[Path("loss")])
    run(tmp_path / "healthy", wanted, loss="1")
    assert run(tmp_path / "run", wanted.of(tmp_path / "healthy"), loss="2")[0] == "wrong"


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("nowhere")], ids=["file", "link"])
def test_a_file_of_an_earlier_run_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    """Otherwise a program that writes nothing would have the results of another run."""
    make(Path("loss"))
    with pytest.raises(StaleResult, match=r"^loss is there before the run that has to write it: wanted no such"):
        run(tmp_path / "run", Results(files=[Path("loss")]))


def test_files_of_the_same_name_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    wanted = Results(files=[Path("loss"), Path("a/loss")])
    run(tmp_path / "run", wanted, "", True, **{"loss": "1", "a/loss": "2"})
    kept = {each.name: each.read_text() for each in (tmp_path / "run" / RESULTS).iterdir()}
    assert kept == {"0-loss": "1", "1-loss": "2", ERRORS: "", OUTPUT: ""}
