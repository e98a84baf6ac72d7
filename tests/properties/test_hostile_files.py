"""Files that a command is given and another program may have written: what is none ends it in one line, and soon."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import faults.cli.main
import reference.cli.main
from faults.ledger import Ledger, record
from faults.ledger.record import End
from faults.ledger.run_files import renewed
from faults.plan import Plan
from reference.conform.export import export
from reference.conform.run_suite import Settings, run_suite
from reference.conform.suite import chosen, open_suite
from tests.properties.hostile import is_one_line
from tests.support.hostile_files import HOSTILE_FILES

CASE = "rpc_basics-001"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with a suite, a program's results, a file of expectations, a run under faults and a plan."""
    place = tmp_path_factory.mktemp("made")
    export(place / "suite", chosen("core", CASE))
    suite = open_suite(place / "suite")
    run_suite(suite, [suite.cases[CASE]], place / "results", Settings(("false",)), lambda _: None)
    (place / "expect").write_text(f'[[expect]]\ncases = "{CASE}"\nverdict = "errored"\nreason = "x"\n')
    with renewed(Plan(), place / "run"), contextlib.closing(Ledger(place / "run", "a")) as own:
        own.write("up", rpc_timeout=1.0, workers=["a"])
    times = {"bound": 12.0, "timeout": 1.0, "seconds": 1.0, "start": 0.0}
    record.write(place / "run", name="shop", ends={"a": End("Returned", "returned", 1.0)}, **times)
    (place / "plan").write_text("Crash role=a at=up@a")
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "made")
    monkeypatch.chdir(tmp_path / "made")
    return tmp_path / "made"


JUDGE = ("reference", "conform", "judge", "suite", "results", "--expect", "expect")
CHECK = ("faults", "check", "run")
# Each file, a command that reads it, and the command's status if it is right, and if it is no file.
READ = {
    "results/run.json": (JUDGE, 0, 2),
    f"results/{CASE}/1/stderr.txt": (JUDGE, 0, 2),
    "expect": (JUDGE, 0, 2),
    "suite/suite.json": (JUDGE, 0, 3),
    "suite/commitments.json": (JUDGE, 0, 3),
    f"suite/cases/{CASE}/case.json": (JUDGE, 0, 3),
    "run/plan.json": (CHECK, 0, 2),
    "run/run.json": (CHECK, 0, 2),
    "run/a.jsonl": (CHECK, 0, 2),
    "plan": (("faults", "prepare", "new", "--plan", "plan"), 0, 2),
}


def done(command: tuple[str, ...]) -> int:
    package, *words = command
    return {"reference": reference.cli.main.main, "faults": faults.cli.main.main}[package](words)


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("file", READ)
def test_each_command_reads_its_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    command, status, _ = READ[file]
    assert done(command) == status, capsys.readouterr()


# Where nothing is a file that is left out; a plan may come from a pipe, and then from anything that does not end.
ABSENT = ("link to nothing", "link to itself")


def _refused(command: tuple[str, ...], status: int, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert done(command) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert is_one_line(err.removesuffix("\n")), err
    assert name in err


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE_FILES if kind not in ABSENT])
@pytest.mark.parametrize("file", [file for file in READ if file != "plan"])
def test_what_is_no_file_is_refused_in_one_line(
    file: str, kind: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, status = READ[file]
    (place / file).unlink()
    HOSTILE_FILES[kind][0](place / file)
    _refused(command, status, Path(file).name, capsys)


CONTENTS = {
    "a word": b"x",
    "null": b"null",
    "NUL": b"\0",
    "bytes": b"\xff",
    "deep": b"[" * 10**5,
    "a deep table": b"a = " + b"[" * 10**5,
    "digits": b"1" * 5000,
    "twice": b'{"a": 1, "a": 1}',
    "control": b'{"\\u001b[2J": "\\u0000"}',
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("file", ["results/run.json", "expect", "suite/suite.json", "run/plan.json", "run/run.json"])
def test_any_content_is_refused_in_one_line(
    file: str, content: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, status = READ[file]
    (place / file).write_bytes(CONTENTS[content])
    _refused(command, status, Path(file).name, capsys)


def _give(file: Path, name: str, value: Any) -> None:
    """Give a field of an object in a file another value."""
    file.write_text(json.dumps({**json.loads(file.read_text()), name: value}))


def runs(**values: Any) -> dict[str, Any]:
    return {CASE: [{"status": 1, "seconds": 1.0, **values}]}


# A field of a run's ``run.json``, and a value that it cannot have.
WRONG_RESULTS: list[tuple[str, Any]] = [
    *(("cases", None), ("cases", [1]), ("cases", "a"), ("cases", {}), ("cases", {CASE: []}), ("cases", {CASE: 1})),
    *(("cases", {CASE: [None]}), ("cases", {CASE: [1]}), ("cases", runs(more=1))),
    *(("cases", runs(seconds="1")), ("cases", runs(seconds=float("nan"))), ("cases", runs(seconds=float("inf")))),
    *(("cases", runs(seconds=10**400)), ("cases", runs(seconds=None))),
    *(("cases", runs(status="1")), ("cases", runs(status=[])), ("cases", runs(status=True))),
    *(("cases", {name: runs()[CASE]}) for name in ("a\0b", "../..", "\x1b[2J")),
    *(("suite", 1), ("suite", [1]), ("suite", "x" * 10**6), ("more", 1)),
]


@pytest.mark.parametrize(("name", "value"), WRONG_RESULTS, ids=range(len(WRONG_RESULTS)))
def test_results_of_other_types_are_refused_in_one_line(
    name: str, value: Any, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _give(place / "results" / "run.json", name, value)
    _refused(JUDGE, 2, "results", capsys)


WRONG_SUITES: list[tuple[str, Any]] = [
    *(("cases", None), ("cases", 5), ("cases", [1]), ("cases", [[]]), ("cases", {CASE: 1})),
    *(("cases", ["a\0b"]), ("cases", ["../x"])),
    *(("files", None), ("files", ["a"]), ("files", {"commitments.json": 1}), ("files", {"a\0b": "x"})),
    *(("suite", 1), ("protocol", True), ("protocol", 1.0), ("more", 1)),
]


@pytest.mark.parametrize(("name", "value"), WRONG_SUITES, ids=range(len(WRONG_SUITES)))
def test_a_suite_of_other_types_is_refused_in_one_line(
    name: str, value: Any, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _give(place / "suite" / "suite.json", name, value)
    _refused(JUDGE, 3, "suite", capsys)


def test_an_empty_name_of_expectations_is_not_left_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _refused((*JUDGE[:-1], ""), 2, "Is a directory", capsys)


# The commands that write, without the place; the file that they write first.
WRITE = {
    "export": (("reference", "conform", "export", "--cases", CASE), ""),
    "run": (("reference", "conform", "run", "suite", "--out"), ""),
    "update": (("reference", "conform", "judge", "suite", "results", "--update", "--expect"), "new"),
    "save": (("reference", "run", "rpc_basics", "--save"), "new"),
    "prepare": (("faults", "prepare", "--healthy"), ""),
    "json": (("faults", "check", "run", "--json"), "new"),
}


def _file(place: Path) -> Path:
    (place / "file").touch()
    return place / "file"


PLACES: dict[str, Callable[[Path], Path]] = {
    "below a file": lambda place: _file(place) / "new",
    "of the kernel": lambda _: Path("/proc/new"),
}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", WRITE)
def test_a_place_that_cannot_be_written_is_refused_in_one_line(
    name: str, where: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, below = WRITE[name]
    target = PLACES[where](place) / below
    end = ("--", "touch", str(place / "ran")) if name == "run" else ()
    _refused((*command, str(target), *end), 2, "", capsys)
    assert not (place / "ran").exists()
