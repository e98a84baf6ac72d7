"""The exit statuses of the commands, which docs/commands.md promises. CI relies on nothing else.

tests/judge/test_rules.py has the status of each verdict.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import site
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults.__main__ import main as faults_main
from faults.cli.main import main
from reference import rpc_basics
from reference.outcome import Outcome
from reference.system.interrupts import SIGNALS
from reference.trace import Trace
from tests.support import roles_subjects as plays
from tests.support.stored_runs import stored_run
from tests.support.suite_runs import ROOT
from tests.support.targets import options, sweep_of

pytestmark = pytest.mark.usefixtures("own_temporary_files")


def headline(out: str) -> str:
    return out.splitlines()[0]


def verdict(out: str) -> str:
    return out.splitlines()[-1].removeprefix("verdict: ")


def wrong(case: rpc_basics.Case, replay: Trace | None = None) -> Trace:
    """A twin that computes something else than the run."""
    trace = _right(case, replay)
    trace.tensors["0000/randn/caller"][1, 2] += 1
    return trace


_right = rpc_basics.train_locally


@pytest.mark.parametrize(("twin", "wanted"), [(_right, "equal"), (wrong, "wrong")])
def test_a_run_of_a_wrong_tutorial_gives_1(
    twin: Any, wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a healthy run of a right one gives 0."""
    monkeypatch.setattr(rpc_basics, "train_locally", twin)
    assert main(["run", "rpc_basics", "--healthy"]) == (wanted == "wrong")
    out = capsys.readouterr().out
    assert headline(out).endswith(" s healthy: no faults planned")
    assert verdict(out) == wanted


def test_a_tutorial_that_is_not_healthy_is_not_swept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run that was not healthy is kept for the user."""
    monkeypatch.setattr(rpc_basics, "train_locally", wrong)
    assert main(["sweep", "rpc_basics"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    told, error = err.splitlines()
    assert error.startswith("error: the healthy run of rpc_basics")
    assert main(["check", f"{told.removeprefix('stored in ')}/healthy"]) == 1
    assert verdict(capsys.readouterr().out) == "wrong"


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_a_program_that_the_plan_cannot_reach_is_unknown(
    flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python ignores site packages; or it ignores PYTHONPATH, and the package is not installed for it."""
    installed = any(Path(place, "faults.pth").exists() for place in site.getsitepackages())
    text = "import sys; print('torch_rpc_reference_startup' in sys.modules)"
    assert main(["run", "--healthy", "--script", sys.executable, flag, "-c", text]) == 3
    out = capfd.readouterr().out
    assert f"  | {installed and flag != '-S'}" in out.splitlines()
    assert "no RPC seen" in out
    assert verdict(out) == "unknown"


PLAN_OF_ITS_OWN = ["--plan", "x", "--healthy", "--dir=y", "--script", "--", "--bound"]
# Words that begin as options of `faults` do, and the program's own `--help`.
OTHERS = ["--help", "--planner", "x", "--dirs=y", "plan", "--", "-h", "--seed=--plan"]


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize(
    ("script", "theirs"),
    [
        (["--script", "--", "my.py"], PLAN_OF_ITS_OWN),
        (["--script=--", "my.py"], PLAN_OF_ITS_OWN),
        (["--script=my.py"], OTHERS),
    ],
    ids=" ".join,
)
def test_words_after_the_script_belong_to_the_program(
    script: list[str], theirs: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    Path("my.py").write_text("import sys; print(sys.argv[1:])")
    assert main(["run", "--healthy", *script, *theirs]) == 3
    assert f"  | {theirs}" in capfd.readouterr().out.splitlines()


# sweep. test_sweep.py has wrong and needless errors.


def test_a_sweep_of_a_wrong_tutorial_gives_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second run is wrong: without a healthy first one nothing is swept."""
    twins = [_right]

    def spoilt(case: rpc_basics.Case, replay: Trace | None = None) -> Trace:
        return (twins.pop() if twins else wrong)(case, replay)

    monkeypatch.setattr(rpc_basics, "train_locally", spoilt)
    assert main(["sweep", "rpc_basics", "--kinds", "Delay request", "--budget", "1e-9"]) == 1
    assert "1 wrong" in capsys.readouterr().out


@pytest.mark.usefixtures("forkserver")
def test_an_interrupted_sweep_shows_what_it_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C comes in the second run after the healthy one."""
    seen: list[object] = []

    def judged(outcomes: Mapping[str, Outcome]) -> tuple[str, str] | None:
        seen.append(outcomes)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)
        return plays.judged(outcomes)

    subject, report = replace(plays.subject(plays.careful), judge=judged), tmp_path / "report.json"
    given = options(json=str(report), sites=plays.PAY, kinds=["Delay"], expect_error=())
    with pytest.raises(KeyboardInterrupt):
        sweep_of(subject, given)
    out = capsys.readouterr().out
    assert json.loads(report.read_text())["passed"] is None
    assert "careful: 1 run under 1 fault" in out
    assert out.splitlines()[-2:] == ["3 more were not run: nothing is known of them", "1 equal"]


# The programs themselves give the status that `main` returns.


class NotHandled(BaseException):
    """The program has left a signal to the default action, which would have ended this process."""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., object]]:
    """Return a function that returns the exit status of ``python -m package``, in this process. The package is run by
    its file, because pytest loads the modules of an installed package, and `runpy` cannot ask pytest for their code."""

    def not_handled(*_: object) -> None:
        raise NotHandled

    def start(package: str, *arguments: str) -> object:
        monkeypatch.setattr("sys.argv", [package, *arguments])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(Path(__file__).parents[2] / package / "__main__.py"), run_name="__main__")
        return left.value.code

    before = {number: signal.signal(number, not_handled) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield start
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("golden", "told", "wanted", "status"),
    [
        ("programs/primes seed=0", "healthy: no faults planned", "unchecked", 0),
        ("examples/pairs-lost-answer-and-retry", "under 2 faults: Drop ", "unchecked", 0),
        ("programs/ring Duplicate site=__main__:put role=rank0 nth=1", "under 1 fault: Duplicate ", "wrong", 1),
        ("examples/no-rpc", "healthy: no faults planned", "unknown", 3),
    ],
)
def test_python_m_faults_gives_the_status_of_its_command(
    golden: str, told: str, wanted: str, status: int, started: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stored_run(golden, tmp_path)
    assert started("faults", "check", str(place)) == status
    out = capsys.readouterr().out
    assert verdict(out) == wanted
    assert f" s {told}" in headline(out)


@pytest.mark.parametrize("by", SIGNALS, ids=str)
@pytest.mark.parametrize(
    "command",
    [("faults", "run", "rpc_basics", "--healthy"), ("reference", "verify", "rpc_basics")],
    ids=lambda each: each[0],
)
def test_an_interrupted_command_ends_with_130_and_leaves_no_process(
    command: Sequence[str],
    by: signal.Signals,
    started: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The signals are those of Ctrl-C, of a time limit, and of a terminal that is closed."""

    def signalled(case: rpc_basics.Case, replay: Trace | None = None) -> Trace:
        signal.raise_signal(by)
        return _right(case, replay)

    monkeypatch.setattr(rpc_basics, "train_locally", signalled)
    assert started(*command) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.parametrize("package", ["faults", "reference"])
def test_a_verdict_that_cannot_be_printed_is_no_pass(
    package: str, started: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full, or the reader has ended."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert started(package, "--help") == 2
        monkeypatch.undo()
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"


def test_a_table_that_nobody_reads_is_no_failed_run(tmp_path: Path) -> None:
    """Of a pipe that is closed rich itself says nothing, and leaves with status 1."""
    (tmp_path / "printing.py").write_text("from rich.console import Console\ndef main(_): Console().print('x' * 9)\n")
    program = "import sys; from reference.cli.main import status_of; sys.exit(status_of('printing'))"
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as pipe:
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, b"error: [Errno 32] Broken pipe\n")


def test_no_command_of_faults_begins_on_another_system(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(SystemExit) as left:
        faults_main()
    assert left.value.code == 2
    assert capsys.readouterr().err == "error: wanted Linux, got darwin\n"


@pytest.mark.parametrize(("twin", "status"), [(_right, 0), (wrong, 1)], ids=["right", "wrong"])
def test_python_m_reference_gives_the_status_of_its_command(
    twin: Any, status: int, started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpc_basics, "train_locally", twin)
    assert started("reference", "verify", "rpc_basics") == status
    assert started("reference", "verify", "nope") == 2
