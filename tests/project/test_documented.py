"""Promises: each stands in its document and has tests; those that no other test covers are tried here."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import redirect_stdout, suppress
from dataclasses import fields
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import settings

import faults.cli.main
import reference.cli.main
from faults.cli.options import DEADLINE, parser_of
from faults.cli.script_options import OF_SCRIPTS
from faults.cli.tutorial_options import tutorial_of
from faults.inject.message.transports import small_files_only
from faults.inject.network import network
from faults.plan import Plan
from faults.plan.fields import KINDS
from faults.run.cells import INJECTIONS, ORDER
from faults.script import script
from reference import TUTORIALS, load
from reference.outcome import Overdue, RoleFailed
from reference.world import grace, launch
from tests.mutants.catalog import MUTANTS
from tests.project.documented import DOCUMENTED
from tests.support import networks, roles_plain
from tests.support.processes import left_after

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parents[1] / "scripts"
PAGES = ("README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))))

PROMISES = [(document, promise) for document, promises in DOCUMENTED.items() for promise in promises]
NAMED = sorted({test for promises in DOCUMENTED.values() for tests in promises.values() for test in tests})


@cache
def text_of(document: str) -> str:
    """The text of a file or of a command's help, in one line, because a promise may run over several lines."""
    if not document.startswith("python -m "):
        return " ".join((ROOT / document).read_text().split())
    package, *arguments = shlex.split(document)[2:]
    said, columns = StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "1000"  # no word is cut
    try:
        with redirect_stdout(said), suppress(SystemExit):
            {"faults": faults.cli.main.main, "reference": reference.cli.main.main}[package](arguments)
    finally:
        del os.environ["COLUMNS"]
        if columns is not None:
            os.environ["COLUMNS"] = columns
    return " ".join(said.getvalue().split())


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of all tests and of their classes, as in node ids."""
    found: set[str] = set()

    def walk(body: list[ast.stmt], within: str) -> None:
        for each in body:
            if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name.lower().startswith("test"):
                found.add(f"{within}{each.name}")
                walk(each.body, f"{within}{each.name}::")

    walk(ast.parse((ROOT / "tests" / file).read_text()).body, "")
    return frozenset(found)


@pytest.mark.parametrize("document", DOCUMENTED)
def test_every_promise_stands_in_its_document(document: str) -> None:
    text = text_of(document)
    assert [promise for promise in DOCUMENTED[document] if " ".join(promise.split()) not in text] == []


def test_every_promise_has_tests_and_they_are_there() -> None:
    assert [promise for document, promise in PROMISES if not DOCUMENTED[document][promise]] == []
    files = {test.partition("::")[0] for test in NAMED}
    assert {test for test in NAMED if test.partition("::")[2] not in names_in(test.partition("::")[0])} == set(), files


def test_every_page_is_in_the_table() -> None:
    assert set(PAGES) - set(DOCUMENTED) == set()


@pytest.mark.parametrize("document", [each for each in DOCUMENTED if each.startswith("python -m ")])
def test_every_option_is_in_the_table(document: str) -> None:
    """Except for the fields of a case, whose help `test_cli` compares with the case."""
    name = document.split()[4] if len(document.split()) > 4 else ""
    case = set[str]()
    if name in TUTORIALS:
        options_of_fields = [item.name.replace("_", "-") for item in fields(load(name).Case)]
        case = {f"--{dashes}{each}" for each in options_of_fields for dashes in ("", "no-")}
    _, _, listed = text_of(document).partition("options: ")
    options = set(re.findall(r"--[a-z0-9-]+", listed)) - case - {"--help", "--script"}
    promised = " ".join(DOCUMENTED[document])
    assert {each for each in options if each not in promised} == set()


def test_the_tests_that_pages_name_are_there() -> None:
    """Including tests that no promise of the table names: of torch's behaviours, and of errata."""
    named = {
        (page, test)
        for page in PAGES
        for test in re.findall(r"(?:\w+/)*\btest_\w+\.py(?:::\w+)*", (ROOT / page).read_text())
    }
    named = {(page, test.removeprefix("tests/")) for page, test in named}
    named.discard(("docs/pytest.md", "test_shop.py"))  # of the page's own example
    assert len(named) > 60
    missing = [
        (page, test)
        for page, test in sorted(named)
        if not (ROOT / "tests" / test.partition("::")[0]).is_file()
        or ("::" in test and test.partition("::")[2] not in names_in(test.partition("::")[0]))
    ]
    assert missing == []


# Examples on pages: each is accepted, and does what the page says.


class Started(BaseException):
    """Raised in place of starting something."""


def started(*arguments: object, **options: object) -> None:
    raise Started


def blocks(page: str) -> Iterator[str]:
    """The lines of a page's examples; lines that continue after a backslash are one."""
    text = (ROOT / page).read_text().replace("\\\n", " ")
    for block in re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield from block.splitlines()


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """(package, arguments) of every command line of this project."""
    for line in blocks(page):
        if "$" not in line and re.match(r"(python -m|torchrun .* -m) (faults|reference)\b", line):
            words = shlex.split(line, comments=True)
            place = words.index("-m") + 1
            yield words[place], words[place + 1 :]


COMMAND_LINES = [(page, *command) for page in PAGES for command in commands(page)]


def test_there_are_documented_commands() -> None:
    assert len(COMMAND_LINES) >= 20
    assert {command for _, _, (command, *_) in COMMAND_LINES} >= {
        *("list", "run", "sweep", "prepare", "check", "verify", "compare", "conform")
    }


def prepare_a_run(place: str) -> None:
    """Make the folder of a run in which one fault has fired."""
    site = "__main__:pay"
    faults.cli.main.main(["prepare", place, "--plan", f"Delay site={site} side=reply seconds=0.1"])
    call = {"fault": 0, "kind": "Delay", "site": site, "caller": "till1", "nth": 1}
    lines = [{"event": "start", "time": 1.0, "wall": 1.0, "pid": 1}, {"event": "fired", "time": 2.0, **call}]
    Path(place, "shop.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


@pytest.mark.parametrize(
    ("page", "package", "arguments"),
    COMMAND_LINES,
    ids=[f"{page}-{' '.join(arguments)[:60]}" for page, _, arguments in COMMAND_LINES],
)
def test_documented_commands_start(
    page: str,
    package: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They run up to their first process, and nothing is refused."""
    monkeypatch.chdir(tmp_path)
    for name in ("my.py", "shop.py", "greet.py", "gradients.py"):
        (tmp_path / name).touch()
    (tmp_path / "plan.txt").write_text("Drop site=__main__:pay role=till nth=1 side=reply")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for place in ("run_command.launch", "verify_command.verify", "table_command.warm_up", "run_command.run_rank"):
        monkeypatch.setattr(f"reference.cli.{place}", started)
    for place in ("run_suite", "judge_suite"):
        monkeypatch.setattr(f"reference.cli.conform_judging.{place}", started)
    for place in ("run_tutorial_command.run", "run_script_command.run_script", "sweep_tutorial_command.record"):
        monkeypatch.setattr(f"faults.cli.{place}", started)
    for place in ("list_tutorial_command.record", "list_script_command.run_script", "checked_script.run_script"):
        monkeypatch.setattr(f"faults.cli.{place}", started)
    monkeypatch.setattr("faults.cli.replay_script_command.run_script", started)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    if arguments[0] == "replay":
        prepare_a_run(arguments[1])
    if arguments[0] == "check":
        faults.cli.main.main(["prepare", arguments[1], "--healthy"])
    if arguments[0] == "compare":
        trace = load("dist_autograd").train_locally(load("dist_autograd").Case())
        for name in arguments[1:]:
            trace.save(name)
    if arguments[0] == "conform" and arguments[1] != "export":
        reference.cli.main.main(["conform", "export", arguments[2], "--cases", "rpc*"])
    try:
        status = {"faults": faults.cli.main.main, "reference": reference.cli.main.main}[package](arguments)
        assert status == (3 if arguments[0] == "check" else 0), capsys.readouterr().err
        prints = ("list", "prepare", "check", "compare", "replay")
        assert arguments[0] in prints or arguments[:2] == ["conform", "export"]
    except Started:
        assert arguments[0] not in ("prepare", "check")
    except SystemExit:
        assert arguments[-1] == "--help"


def test_documented_plans_are_plans() -> None:
    """Plans in README and the manuals can be pasted, one fault per line."""
    found = [
        (page, line.strip())
        for page in PAGES
        for line in (ROOT / page).read_text().splitlines()
        if re.match(rf" *(seed=\d+; )?({'|'.join(KINDS)}) \w+=", line)
    ]
    assert len(found) >= 14
    for page, line in found:
        if not line.endswith("\\"):
            assert Plan.parse(line).faults, (page, line)


@pytest.mark.long
def test_the_python_of_the_readme(tmp_path: Path) -> None:
    block = next(each for each in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL))
    (said,) = re.findall(r"print\(.*\)  # (.*)", block)
    (tmp_path / "mine.py").write_text(f"{block}    print(outcomes)\n")
    done = subprocess.run(
        [sys.executable, "mine.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    first, outcomes = done.stdout.split("\n", 1)
    assert first == said == "bits equal in 103 tensors"
    assert re.match(r"{'ps': Returned\(.*'worker1': Returned\(", outcomes, re.DOTALL)


@pytest.mark.long
def test_the_quick_start_of_the_faults_manual(tmp_path: Path) -> None:
    """Its program, its commands, and each line of their verdicts that it quotes, but for the numbers."""
    start, _, _ = (ROOT / "docs" / "faults.md").read_text().partition("\n## Read a verdict")
    shown = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", start, re.MULTILINE | re.DOTALL)]
    program, repair = (text for text in shown if "def pay" in text)
    passing, failing = (text for text in shown if "verdict: " in text)
    (lost,) = (text for text in shown if text.startswith("python -m faults run --plan"))
    (calls,) = (text for text in shown if text.startswith("python -m faults list"))
    (plans,) = (text for text in shown if text.startswith("plans, of which"))
    (tmp_path / "shop.py").write_text(program)
    _quick_start_says(tmp_path, calls, plans, 0)
    _quick_start_says(tmp_path, lost, passing, 0)
    _quick_start_says(tmp_path, lost.replace("side=request", "side=reply"), failing, 1)
    repaired = program.replace(re.findall(r"paid = .*?(?=\n\n\ndef play)", program, re.DOTALL)[0], repair.rstrip())
    repaired = repaired.replace("for amount in", "for number, amount in enumerate(").replace("100):", "100)):")
    (tmp_path / "shop.py").write_text(repaired.replace("args=(amount,)", "args=(number, amount)"))
    _quick_start_says(tmp_path, lost.replace("side=request", "side=reply"), "verdict: returned\n", 0)


@pytest.mark.long
def test_the_example_of_corrupt(tmp_path: Path) -> None:
    """Its program, its command, what the run says, and what it says of the repaired program."""
    _, _, section = (ROOT / "docs" / "calls.md").read_text().partition("\n## Corrupt\n")
    shown = [text for _, text in re.findall(r"^```(\w*)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)]
    program, command, unseen, repair, seen = shown[:5]
    (tmp_path / "gradients.py").write_text(program)
    _quick_start_says(tmp_path, command, unseen, 3)
    whole = re.findall(r"def add.*?(?=\n\n\ndef play)", program, re.DOTALL)[0]
    (tmp_path / "gradients.py").write_text(program.replace(whole, repair.rstrip()))
    _quick_start_says(tmp_path, command, seen, 0)


@pytest.mark.long
def test_the_example_of_shrink(tmp_path: Path) -> None:
    """Its command, and all that it prints."""
    shown = re.findall(r"^```\w*\n(.*?)^```$", (ROOT / "docs" / "shrink.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with small_files_only():  # no transport that spins
        _quick_start_says(tmp_path, shown[0].replace("\\\n", ""), shown[1], 1)


@pytest.mark.long
def test_the_example_of_pairs(tmp_path: Path) -> None:
    """Its command, what it prints in the end, and the plan that is wrong."""
    shown = re.findall(r"^```\w*\n(.*?)^```$", (ROOT / "docs" / "pairs.md").read_text(), re.MULTILINE | re.DOTALL)
    command, counts, plan = shown
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with small_files_only():
        _quick_start_says(tmp_path, f"{command.rstrip()} ".replace("--pairs", "--pairs --json report.json"), counts, 1)
    runs = json.loads((tmp_path / "report.json").read_text())["runs"]
    assert {run["plan"]: run["verdict"] for run in runs}[plan.rstrip()] == "wrong"
    assert [run["verdict"] for run in runs if "cell" in run] == ["equal", "equal"]


def _quick_start_says(folder: Path, command: str, quoted: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TP_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    said = {re.sub(r"[\d.]+", "N", line) for line in done.stdout.splitlines()}
    quoted = re.sub("^python (shop|examples)", rf"{sys.executable} \1", quoted.replace("…\n", ""), flags=re.MULTILINE)
    wanted = {re.sub(r"[\d.]+", "N", line) for line in quoted.splitlines()}
    assert (wanted - said, done.returncode) == (set(), status), done.stdout + done.stderr
    for line in done.stderr.splitlines():
        if line.startswith("stored in "):
            shutil.rmtree(line.removeprefix("stored in "))


# Promises that had no test.


def test_the_needed_python_is_the_documented_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"


def test_the_oldest_versions_are_those_that_are_allowed() -> None:
    """`2.3` means the first release that begins with that."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    allowed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    lines = (ROOT / "lowest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if "==" in line)
    assert oldest.keys() == {each.partition(">=")[0] for each in allowed}
    for each in allowed:
        name, _, bound = each.partition(">=")
        assert f"{oldest[name]}.".startswith(f"{bound}."), each


def test_the_readme_names_every_tutorial() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(TUTORIALS) == 11
    for name in TUTORIALS:
        assert f"| [`{name}`](reference/{name}.py) |" in readme
        assert re.search(rf"^{name} .* equal$", readme, re.MULTILINE)


def test_limits_that_are_not_given_have_the_documented_defaults() -> None:
    """A world has one minute, and a script five."""
    assert inspect.signature(launch).parameters["deadline"].default == 60
    assert inspect.signature(launch).parameters["grace"].default == 10
    assert grace.ANSWERING * 10 == 60
    assert parser_of("run", "", *OF_SCRIPTS).parse_args([]).deadline is None
    assert script.DEADLINE == 300
    assert parser_of("run", "", DEADLINE).parse_args([]).deadline is None


def test_sizes_are_small_unless_given() -> None:
    """Roles wait for each other for three seconds."""
    subject, _ = tutorial_of("run", "", ["batch_parameter_server"])
    assert subject.timeout == 3
    assert list(subject.roles) == ["ps", "trainer1", "trainer2"]
    assert "model=convnet" in subject.name
    subject, _ = tutorial_of("run", "", ["batch_parameter_server", "--trainers", "1", "--model=mlp", "--timeout", "7"])
    assert subject.timeout == 7
    assert list(subject.roles) == ["ps", "trainer1"]
    assert "model=mlp" in subject.name


@pytest.mark.long
def test_a_tutorial_that_misses_its_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "parameter_server", "--healthy", "--steps", "1000000", "--deadline", "1"]
    assert faults.cli.main.main(arguments) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "verdict: hung"
    shutil.rmtree(said.err.strip().removeprefix("stored in "))


@pytest.mark.long
def test_a_script_that_ends_beyond_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its lost call takes a second until it fails."""
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    script = shutil.copy(SCRIPTS / "strict.py", tmp_path)
    plan = "Drop site=__main__:pay role=till nth=1 side=request"
    place = ["--dir", str(tmp_path / "run")]
    for bound, status, verdict in (("0.2", 1, "hung"), ("30", 0, "clean error")):
        assert (
            faults.cli.main.main(["run", "--bound", bound, *place, "--plan", plan, "--script", str(script), "here"])
            == status
        )
        assert capfd.readouterr().out.splitlines()[-1] == f"verdict: {verdict}"


def test_a_sweep_hurts_in_eleven_ways() -> None:
    assert len({*INJECTIONS, ORDER}) == 11


@pytest.mark.long
def test_idle_roles_end_at_their_worlds_deadline() -> None:
    with launch(["a"], deadline=1) as world:
        pid = world.call("a", os.getpid)
        assert left_after({pid}, 20) == set()
        with pytest.raises(RoleFailed) as caught:
            world.call("a", roles_plain.name)
        assert isinstance(caught.value.outcome, Overdue)


def test_a_worlds_own_folder_is_its_users_alone() -> None:
    with launch(["a"]) as world:
        world.call("a", roles_plain.name)  # RPC is up, so that its rendezvous is there
        assert (world.folder / "rendezvous").exists()
        assert world.folder.stat().st_mode & 0o077 == 0


def test_as_many_mutants_as_the_readme_says() -> None:
    (said,) = re.findall(r"plants some (\d+) bugs", (ROOT / "README.md").read_text())
    assert len(MUTANTS) >= int(said)


def test_a_soak_makes_a_hundred_times_the_examples() -> None:
    examples = {name: settings.get_profile(name).max_examples for name in ("default", "soak")}
    assert examples["soak"] == 100 * examples["default"]


def test_ci_runs_what_the_pages_say() -> None:
    assert "tox run -e ci\n" in (ROOT / ".ci" / "run").read_text()
    environments = ConfigParser(interpolation=None)
    environments.read(ROOT / "tox.ini")
    assert environments["testenv:ci"]["commands"].strip().split("\n") == [
        'python -c "import gymnasium, hypothesis, pytest, rich.progress, torch._dynamo, reference.training.vision"',
        "ruff check .",
        "ruff format --check .",
        # All tests at once: the long ones begin, and the others fill the time in which those wait.
        'python -m tests.side_by_side "python -m pytest -n 4 -m \'\' --durations=40" mypy "python -m reference verify"',
        # Without a control of the mutants: their killers have just passed on the healthy code.
        "python -m tests.mutants --no-control",
    ]


def test_tests_of_networks_say_why_they_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """They fail where they must run."""
    monkeypatch.setattr(network, "missing", lambda: "no nft here")
    monkeypatch.delenv("REFERENCE_REQUIRE_HOSTS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs a network: no nft here"):
        networks.require()
    monkeypatch.setenv("REFERENCE_REQUIRE_HOSTS", "1")
    with pytest.raises(pytest.fail.Exception, match="no network: no nft here"):
        networks.require()
