"""Commands, plans and programs that README and the manuals show: each is accepted, and does what its page says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import faults.cli.main
import reference.cli.main
from faults.cli.reports import of_sweep
from faults.inject.messages import small_files_only
from faults.ledger.ledger import SCHEMA
from faults.plan import Plan
from faults.plan.kinds import NAMES
from faults.run.sweep import Swept
from reference import load
from reference.conform.twin import prepared

ROOT = Path(__file__).parents[2]
WORKFLOWS = tuple(f"examples/ci/{path.name}" for path in sorted((ROOT / "examples" / "ci").glob("*.yml")))
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))


def blocks(page: str, after: str = "", before: str = "\0") -> list[str]:
    """Return the fenced blocks of a page, or of the part between two texts of it."""
    _, _, text = (ROOT / page).read_text().partition(after) if after else ("", "", (ROOT / page).read_text())
    return re.findall(r"^```\w*\n(.*?)^```$", text.partition(before)[0], re.MULTILINE | re.DOTALL)


# Commands: each runs up to its first process.


class Started(BaseException):
    """Raised in place of starting something."""


def started(*arguments: object, **options: object) -> None:
    raise Started


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (package, arguments) of every command line of this project."""
    lines = blocks(page)
    if page in WORKFLOWS:
        text = (ROOT / page).read_text().replace("${{ matrix.part }}", "1")
        lines = re.findall(r"- run: (.*?)(?: > .*)?\n", text)
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        if "$" not in line and re.match(r"(python -m|torchrun .* -m) (faults|reference)\b", line):
            words = shlex.split(line, comments=True)
            place = words.index("-m") + 1
            yield words[place], words[place + 1 :]


COMMAND_LINES = [(page, *command) for page in (*PAGES, *WORKFLOWS) for command in commands(page)]


def test_command_lines_are_found() -> None:
    assert len(COMMAND_LINES) >= 20
    assert [arguments[0] for page, _, arguments in COMMAND_LINES if page in WORKFLOWS] == [
        *("conform", "conform", "sweep", "merge")
    ]
    assert {command for _, _, (command, *_) in COMMAND_LINES} >= {
        *("list", "run", "sweep", "shrink", "prepare", "check", "verify", "compare", "conform")
    }


def prepare_a_run(place: str) -> None:
    """Make the folder of a run in which one fault has fired."""
    site = "__main__:pay"
    faults.cli.main.main(["prepare", place, "--plan", f"Delay site={site} side=reply seconds=0.1"])
    call = {"fault": 0, "kind": "Delay", "site": site, "caller": "till1", "nth": 1}
    lines = [
        {"event": "start", "schema": SCHEMA, "time": 1.0, "wall": 1.0, "pid": 1},
        {"event": "fired", "time": 2.0, **call},
    ]
    Path(place, "shop.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.parametrize(
    ("page", "package", "arguments"),
    COMMAND_LINES,
    ids=[f"{page}-{' '.join(arguments)[:60]}" for page, _, arguments in COMMAND_LINES],
)
def test_a_command_line_is_accepted(
    page: str,
    package: str,
    arguments: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    for name in ("my.py", "shop.py", "greet.py", "train.py", "expected.toml"):
        (folder / name).touch()
    (folder / "plan.txt").write_text("Drop site=__main__:pay role=till nth=1 side=reply")
    for place in ("run_command.launch", "verify_command.played", "table_command.warm_up", "run_command.run_rank"):
        monkeypatch.setattr(f"reference.cli.{place}", started)
    for place in ("run_suite", "judge_suite"):
        monkeypatch.setattr(f"reference.cli.conform_command.{place}", started)
    for place in ("tutorial_target.run", "targets.run_script"):
        monkeypatch.setattr(f"faults.cli.{place}", started)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    if "--as-plan" in arguments:
        prepare_a_run(arguments[1])
    elif arguments[0] in ("check", "report"):
        faults.cli.main.main(["prepare", arguments[1], "--healthy"])
    if arguments[0] == "compare":
        trace = load("dist_autograd").train_locally(load("dist_autograd").Case())
        for name in arguments[1:]:
            trace.save(name)
    if arguments[0] == "conform" and arguments[1] != "export":
        reference.cli.main.main(["conform", "export", arguments[2], "--cases", "rpc*"])
    if arguments[0] == "merge":
        Path(arguments[1]).write_text(json.dumps(of_sweep("my.py", Swept())))
    try:
        status = {"faults": faults.cli.main.main, "reference": reference.cli.main.main}[package](arguments)
        judges = arguments[0] == "check" and "--as-plan" not in arguments
        assert status == (3 if judges else 0), capsys.readouterr().err
        prints = ("list", "prepare", "check", "report", "compare", "merge")
        assert arguments[0] in prints or arguments[:2] == ["conform", "export"]
    except Started:
        assert arguments[0] not in ("prepare", "check", "report")
    except SystemExit:
        assert arguments[-1] == "--help"


def test_plans_can_be_pasted() -> None:
    """One fault per line."""
    found = [
        (page, line.strip())
        for page in PAGES
        for line in (ROOT / page).read_text().splitlines()
        if re.match(rf" *(seed=\d+; )?({'|'.join(NAMES)}) \w+=", line)
    ]
    assert len(found) >= 14
    for page, line in found:
        if not line.endswith("\\"):
            assert Plan.parse(line).faults, (page, line)


# Programs: each runs, and prints what its page quotes.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user, who has the examples."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    return tmp_path


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TP_SOCKET_IFNAME": "lo"}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=150)


def command_says(folder: Path, command: str, quoted: str, status: int) -> None:
    """Run a command of `faults`: it prints what is quoted, but for numbers, and nothing between that has no …."""
    with small_files_only():  # no transport that spins
        done = python(folder, *shlex.split(command.replace("\\\n", ""))[1:])
    quoted = re.sub("^python examples", f"{sys.executable} examples", quoted, flags=re.MULTILINE)
    said, wanted = (re.sub(r"[\d.]+", "N", text) for text in (done.stdout, quoted))
    assert all(part in said for part in wanted.split("…\n")), done.stdout + done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    for line in done.stderr.splitlines():
        if line.startswith("stored in "):
            shutil.rmtree(line.removeprefix("stored in "))


def test_the_case_that_a_page_shows_is_what_is_exported() -> None:
    (text,) = blocks("docs/conformance/parameter_server.md")
    shown = json.loads(text)
    assert shown == prepared(shown["id"]).describe()


@pytest.mark.long
def test_the_python_of_the_readme(folder: Path) -> None:
    program = next(block for block in blocks("README.md") if 'if __name__ == "__main__":' in block)
    (said,) = re.findall(r"print\(.*\)  # (.*)", program)
    (folder / "mine.py").write_text(f"{program}    print(outcomes)\n")
    done = python(folder, "mine.py")
    assert done.returncode == 0, done.stderr
    first, outcomes = done.stdout.split("\n", 1)
    assert first == said == "bits equal in 103 tensors"
    assert re.match(r"{'ps': Returned\(.*'worker1': Returned\(", outcomes, re.DOTALL)


@pytest.mark.long
def test_the_first_steps_of_the_readme(folder: Path) -> None:
    train, trained, hurt, found = blocks("README.md", after="\n## First steps\n")[:4]
    command_says(folder, train, trained, 0)
    command_says(folder, hurt, found, 1)


@pytest.mark.long
def test_the_quick_start_of_faults(folder: Path) -> None:
    """And the same fault with the program that numbers its requests."""
    shown = blocks("docs/faults.md", before="\n## Read a verdict")
    right, wrong = (text for text in shown if "verdict: " in text)
    (lost,) = (text for text in shown if text.startswith("python -m faults run"))
    (calls,) = (text for text in shown if text.startswith("python -m faults list"))
    (plans,) = (text for text in shown if text.startswith("plans, of which"))
    command_says(folder, calls, plans, 0)
    command_says(folder, lost, right, 0)
    lost = lost.replace("side=request", "side=reply")
    command_says(folder, lost, wrong, 1)
    command_says(folder, lost.replace("naive.py", "once.py"), "verdict: equal\n", 0)


@pytest.mark.long
def test_the_example_of_corrupt(tmp_path: Path) -> None:
    """The program as it is, and repaired."""
    command, unseen, repair, seen = blocks("docs/calls.md", after="\n## Corrupt\n")[:4]
    place = "examples/corrupt/gradients.py"
    program = (ROOT / place).read_text()
    (tmp_path / place).parent.mkdir(parents=True)
    (tmp_path / place).write_text(program)
    command_says(tmp_path, command, unseen, 1)
    whole = re.findall(r"def add.*?(?=\n\n\ndef play)", program, re.DOTALL)[0]
    (tmp_path / place).write_text(program.replace(whole, repair.rstrip()))
    command_says(tmp_path, command, seen, 0)


@pytest.mark.long
def test_the_example_of_shrink(folder: Path) -> None:
    command, said = blocks("docs/commands.md", after="\n## Shrinks\n", before="\n## ")
    command_says(folder, command, said, 1)


@pytest.mark.long
def test_the_example_of_what_fired(folder: Path) -> None:
    commands, plan = blocks("docs/commands.md", after="\n## What fired, as a plan\n", before="\n## ")
    first, then = commands.replace("\\\n", "").splitlines()
    command_says(folder, first, "verdict: unchecked\n", 0)
    command_says(folder, then, plan, 0)


@pytest.mark.long
def test_the_program_of_recovery(folder: Path) -> None:
    """It prints the same although a role was killed. Of its two sites the second is enough."""
    program, command, said = blocks("docs/recovery.md", after="\n## A program of your own\n")
    assert len(program.splitlines()) <= 40
    (folder / "train.py").write_text(program)
    command_says(folder, command.replace("Crash", "Crash --sites gradient"), said, 0)
    (folder / "train.py").write_text(program.replace("self.draws.set_state(state)", "pass"))
    plan = "Crash site=__main__:Trainer.gradient nth=7 when=after"
    command_says(folder, f'python -m faults run --same-output --plan "{plan}" --script train.py', "verdict: wrong", 1)


@pytest.mark.long
def test_the_example_of_property_tests(folder: Path) -> None:
    """It passes with three of its plans, and fails if another result is right."""
    shop = blocks("docs/pytest.md")[1]
    (program,) = blocks("docs/plans.md", after="\n## Plans for property tests\n")
    program = program.replace("max_examples=20", "max_examples=3, derandomize=True, database=None")
    (folder / "shop.py").write_text(shop)
    (folder / "test_shop.py").write_text(program)
    (folder / "test_wrong.py").write_text(program.replace("(42)", "(41)"))
    assert python(folder, "-m", "pytest", "-q", "test_shop.py").returncode == 0
    assert "AssertionError: returned" in python(folder, "-m", "pytest", "-q", "test_wrong.py").stdout


@pytest.mark.long
def test_the_example_of_pairs(folder: Path) -> None:
    """And the plan that is wrong."""
    command, counts, plan = blocks("docs/commands.md", after="\n### Two faults at once\n", before="\n## ")
    command_says(folder, f"{command.rstrip()} ".replace("--pairs", "--pairs --json report.json"), counts, 1)
    runs = json.loads((folder / "report.json").read_text())["runs"]
    assert {run["plan"]: run["verdict"] for run in runs}[plan.rstrip()] == "wrong"


@pytest.mark.long
@pytest.mark.parametrize(("engine", "package"), [("RPC", "torch"), ("Monarch", "monarch"), ("Ray", "ray")])
def test_the_programs_of_migrating(engine: str, package: str, tmp_path: Path) -> None:
    """All print the same numbers."""
    pytest.importorskip(package, reason=f"{package} is not installed")
    (parts,) = blocks("docs/migrating.md", after="\n## What stays", before="\n## ")
    (program,) = blocks("docs/migrating.md", after=f"\n## {engine}\n", before="\n## ")
    (tmp_path / "parts.py").write_text(parts)
    (tmp_path / "mine.py").write_text(program)
    done = python(tmp_path, "mine.py")
    assert done.stdout.splitlines() == ["tensor([-1.5000, -1.5000, -1.5000])", "-108.0 -48.0"], done.stderr
