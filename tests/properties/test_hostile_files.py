"""Files that a command is given and another program may have written: what is none ends it in one line, and soon."""

from __future__ import annotations

import contextlib
import json
import shutil
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


def runs(**values: Any) -> dict[str, Any]:
    return {CASE: [{"status": 1, "seconds": 1.0, **values}]}


# By file and field of its object, values that it cannot have.
WRONG_VALUES: dict[tuple[str, str], list[Any]] = {
    ("results/run.json", "cases"): [
        *(None, [1], "a", {}, {CASE: []}, {CASE: 1}, {CASE: [None]}, {CASE: [1]}, runs(more=1), runs(seconds="1")),
        *(runs(seconds=float("nan")), runs(seconds=float("inf")), runs(seconds=10**400), runs(seconds=None)),
        *(runs(status="1"), runs(status=[]), runs(status=True)),
        *({name: runs()[CASE]} for name in ("a\0b", "../..", "\x1b[2J")),
    ],
    ("results/run.json", "suite"): [1, [1], "x" * 10**6],
    ("results/run.json", "more"): [1],
    ("suite/suite.json", "cases"): [None, 5, [1], [[]], {CASE: 1}, ["a\0b"], ["../x"]],
    ("suite/suite.json", "files"): [None, ["a"], {"commitments.json": 1}, {"a\0b": "x"}],
    ("suite/suite.json", "suite"): [1],
    ("suite/suite.json", "protocol"): [True, 1.0],
    ("suite/suite.json", "more"): [1],
}
WRONG_FIELDS = [(*of, value) for of, values in WRONG_VALUES.items() for value in values]


@pytest.mark.parametrize(("file", "name", "value"), WRONG_FIELDS, ids=range(len(WRONG_FIELDS)))
def test_a_field_of_another_type_is_refused_in_one_line(
    file: str, name: str, value: Any, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / file).write_text(json.dumps({**json.loads((place / file).read_text()), name: value}))
    command, _, status = READ[file]
    _refused(command, status, Path(file).parent.name, capsys)


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


@pytest.mark.parametrize("where", ["plan/new", "/proc/new"], ids=["below a file", "of the kernel"])
@pytest.mark.parametrize("name", WRITE)
def test_a_place_that_cannot_be_written_is_refused_in_one_line(
    name: str, where: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, below = WRITE[name]
    target = place / where / below
    end = ("--", "touch", str(place / "ran")) if name == "run" else ()
    _refused((*command, str(target), *end), 2, "", capsys)
    assert not (place / "ran").exists()
