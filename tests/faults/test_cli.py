"""``python -m faults`` as a user meets it."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.cli.main import main
from faults.cli.options import read_plan, startable
from faults.ledger import record
from faults.plan import Plan, PlanError
from reference.system import temporary_folders
from tests.support.processes import descendants_of, end, left_after
from tests.support.send_interrupt import send_interrupt
from tests.support.suite_runs import ROOT

SITE = "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model"
DELAY = f"Delay site={SITE} role=trainer1 side=reply seconds=0.1"
SLOW = "Slow role=a kbit_per_second=1"
RUN = ["run", "batch_parameter_server", "--plan"]
NAIVE = str(ROOT / "examples/retries/naive.py")

pytestmark = pytest.mark.usefixtures("own_temporary_files")


def stored() -> list[str]:
    return [path.name for path in Path(tempfile.gettempdir()).glob("faults-*")]


def test_a_run_that_passes_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, DELAY, "--steps", "1", "--model", "mlp"]) == 0
    said = capsys.readouterr()
    assert "\npass     record, ends, left, result, errors, needed, fired, evidence\n" in said.out
    assert said.out.splitlines()[-1] == "verdict: equal"
    assert said.out.startswith("batch_parameter_server ")
    assert "model=mlp" in said.out.splitlines()[0]
    assert said.out.splitlines()[0].endswith(f" s under 1 fault: {Plan.parse(DELAY)}")
    assert said.err == ""
    assert stored() == []


@pytest.mark.long
def test_a_tutorial_that_misses_its_deadline_is_hung(capsys: pytest.CaptureFixture[str]) -> None:
    """Its deadline leaves RPC the time to start: before that it would be unknown."""
    assert main(["run", "parameter_server", "--healthy", "--steps", "1000000", "--deadline", "4"]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[-1] == "verdict: hung"
    (seconds,) = re.findall(r"^parameter_server .*: ([\d.]+) s healthy", said.out, re.MULTILINE)
    assert float(seconds) < 60  # the deadline of a run without the option is later than that
    shutil.rmtree(said.err.strip().removeprefix("stored in "))


@pytest.mark.long
@pytest.mark.parametrize(("command", "status"), [("list", 1), ("sweep", 2), ("shrink", 2)])
def test_a_healthy_run_has_the_deadline_that_is_given(command: str, status: int, tmp_path: Path) -> None:
    plan = ["--plan", "Crash role=ps at=up@ps"] if command == "shrink" else []
    given = ["--steps", "1000000", "--deadline", "4", "--dir", str(tmp_path / "new")]
    assert main([command, "parameter_server", *given, *plan]) == status
    folder = tmp_path / "new" if command == "list" else tmp_path / "new" / "healthy"
    assert record.read(folder).seconds < 60


@pytest.mark.parametrize("command", ["list", "run", "sweep"])
@pytest.mark.parametrize(
    ("name", "small"), [("batch_parameter_server", {"model": "convnet", "trainers": 2}), ("rnn", {})]
)
def test_the_help_names_the_defaults_of_the_small_case(
    command: str, name: str, small: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, name, "--help"])
    said = " ".join(capsys.readouterr().out.split())
    told = dict(re.findall(r" --(\w[\w-]*) [^ ]+ [^()]*\(default: ([^ )]+)\)", said))
    assert told["timeout"] == "3.0"
    assert told["steps"] == "2"
    assert {field: told[field] for field in small} == {field: str(value) for field, value in small.items()}
    assert "sha256" not in "".join(told)


def test_a_run_that_fails_is_stored_and_can_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, DELAY.replace("trainer1", "trainer1 nth=9")]) == 1
    said = capsys.readouterr()
    assert "verdict: not fired" in said.out
    assert "(recorded calls of this site: 2 by trainer1, 2 by trainer2)" in said.out
    assert " s  trainer1 returned\n" in said.out
    place = said.err.strip().removeprefix("stored in ")
    assert stored() == [Path(place).name]
    assert main(["check", place]) == 1
    assert "verdict: not fired" in capsys.readouterr().out
    shutil.rmtree(place)


@pytest.mark.usefixtures("plain_over_tcp")
def test_what_a_program_prints_is_shown_only_if_it_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of lines that differ only in numbers the last one is."""
    text = "import sys\nprint('begun')\nfor n in range(20): print(f'[W{n}.{n}] slow', file=sys.stderr)\nsys.exit(3)\n"
    (tmp_path / "my.py").write_text(text)
    assert main(["run", "--healthy", "--dir", str(tmp_path / "run"), "--script", str(tmp_path / "my.py")]) == 3
    said = capfd.readouterr()
    lines = said.out.splitlines()
    shown = ["the program's stdout:", "  | begun", "the program's stderr:", "  | [W19.19] slow  (20 such lines)"]
    assert [line for line in lines if line in shown] == shown
    assert "  | " not in said.err
    assert main(["run", "--healthy", "--dir", str(tmp_path / "two"), "--script", NAIVE]) == 0
    assert "balance" not in "".join(capfd.readouterr())


BAD = [
    (["fly"], "unknown command 'fly', wanted one of list, run"),
    (["run"], "run what? wanted a tutorial's name first, got nothing"),
    (["run", "--healthy"], "run what?"),
    (["run", "my.py", "--healthy"], "my.py is no tutorial: wanted `run ... --script my.py` for a program of your own"),
    (["run", "resnet"], "unknown tutorial 'resnet', wanted one of rpc_basics"),
    (["run", "rnn", "--colour", "red"], "unrecognized arguments: --colour red; wanted"),
    (["run", "rnn", "--steps", "0"], "rnn: steps must be at least 1, got 0"),
    (["run", "pipeline", "--healthy", "--device", "cuda"], "device 'cuda' is not available on this machine, wanted 'c"),
    (["run", "rnn", "--plan", "Delay"], "neither a plan nor a file that holds one: No such file"),
    (["run", "rnn", "--plan", "Crash role=ps"], "needs either 'site' or 'at'"),
    (["run", "rnn", "--plan", "/dev"], "Is a directory"),
    (["run", "rnn", "--plan", sys.executable], "it is not text"),
    (["run", "rnn", "--plan", "Crash role=baker at=up@baker"], "no role baker; wanted some of ps, trainer"),
    (["run", "rnn", "--deadline", "nan"], "wanted seconds, above 0"),
    (["run", "rnn", "--healthy", "--dir", "/dev/null/x"], "Not a directory"),
    (["run", "--healthy", "--script"], "--script what?"),
    (["run", "--healthy", "--script="], "--script what?"),
    (["run", "--healthy", "--script", "--"], "--script what?"),
    (["run", "--healthy", "--scrip", "true"], "run what?"),
    (["run", "--script=no-such.py"], "--script no-such.py: no such file"),
    (["run", "--script", "--", "no-such.py", "--plan", "x"], "--script no-such.py: no such file"),
    (["run", "--healthy", "--script", "/dev"], "--script /dev is a folder: wanted a Python file or a command"),
    (["run", "--healthy", "--script", "no-such-command"], "No such file or directory: 'no-such-command'"),
    (["run", "rnn", "--healthy", "--script", "true"], "unrecognized arguments: rnn; wanted"),
    (["run", "--healthy", "--steps", "3", "--script", "true"], "unrecognized arguments: --steps 3; wanted"),
    (["run", "--bound", "soon", "--script", "x.py"], "wanted seconds, above 0"),
    (["run", "--plan", SLOW, "--check", "false", "--script", "true"], "faults of a network need roles"),
    (["run", "--healthy", "--expect-error", "a-b", "--script", "true"], "wanted names of exceptions, such as TimeoutE"),
    (["run", "--healthy", "--same-output", "--script", "true"], "healthy run: wanted --plan, got --healthy"),
    (["sweep"], "sweep what?"),
    (["sweep", "rnn", "--budget", "-1"], "wanted seconds, above 0"),
    (["sweep", "rnn", "--kinds", "Delay,Melt"], "no sweep makes 'Melt', wanted some of Delay request, Delay,"),
    (["sweep", "rnn", "--plan", DELAY], "unrecognized arguments: --plan"),
    (["sweep", "rnn", "--kinds", "Delay", "--kinds", "Drop"], "--kinds is given twice, wanted once"),
    (["check"], "the following arguments are required: DIR"),
    (["check", "/no/such"], "is not a run's folder"),
    (["prepare"], "the following arguments are required: DIR"),
    (["prepare", "x", "y", "--healthy"], "unrecognized arguments: y"),
    (["prepare", "x", "--plan", SLOW], "faults of a network need roles"),
    (["list", "rnn", "--plan", DELAY], "unrecognized arguments: --plan"),
]

# Words before which a plan and `--healthy` can stand. Without either of them, each would run without faults.
RUNS = [["run", "rnn"], ["run", "--script", "true"], ["prepare", "x"]]
NO_FAULTS = [
    ([], "no faults are planned: wanted --plan PLAN, or --healthy for a run without any"),
    (["--plan="], "--plan '' has no faults: wanted at least one, or --healthy instead"),
    (["--plan", "  "], "has no faults"),
    (["--plan", "seed=3"], "--plan 'seed=3' has no faults"),
    (["--plan", '{"faults": [], "seed": 3}'], "has no faults"),
    (["--plan", os.devnull], "--plan '/dev/null' has no faults"),
    (["--plan", DELAY, "--healthy"], "--healthy is a run without faults: wanted it or --plan, got both"),
    (["--plan", DELAY, "--plan", DELAY], "--plan is given twice, wanted once"),
    ([f"--plan={DELAY}", "--plan", DELAY], "--plan is given twice, wanted once"),
    (["--healthy", "--healthy"], "--healthy is given twice, wanted once"),
    (["--pla", DELAY], "unrecognized arguments: --pla"),
    (["--plan", "--healthy"], "argument --plan: expected one argument"),
]
BAD += [
    ([run[0], *words, *run[1:]] if "true" in run else [*run, *words], said) for run in RUNS for words, said in NO_FAULTS
]

AFTER = "stands after --script, where all words belong"
BAD += [
    (["run", "--plan", DELAY, "--script", "x.py", *words], f"'{words[-1]}' {AFTER}")
    for after in ("--plan", "--healthy", "--dir", "--deadline", "--bound", "--script", "--plan=x", "--script=y.py")
    for words in ([after], ["3", "--", after])
]
BAD += [
    (["run", "--script=x.py", "--plan", DELAY], "wanted it before --script, or `--script -- ...` to pass it on"),
    (["run", "--script", "--plan", DELAY, "x.py"], "'--plan' stands after --script"),
]


def test_a_command_is_started_although_a_folder_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("true").mkdir()
    assert startable(["true"]) == ["true"]


@pytest.mark.parametrize(("arguments", "said"), BAD, ids=[" ".join(each).replace(DELAY, "DELAY") for each, _ in BAD])
def test_bad_input_is_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "", err
    assert err.count("\n") == 1, err
    assert err[:7] == "error: ", err
    assert said in err
    assert stored() == []
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_without_a_cell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "dist_autograd", "--sites", "nowhere"]) == 2
    assert "no cell of any kind with --sites nowhere: nothing to sweep, see `list`" in capsys.readouterr().err
    # A kind without any cell:
    assert main(["sweep", "dist_autograd", "--sites", "autograd:gradient", "--kinds", "Delay request,Order"]) == 2
    assert "no cell of Order with --sites autograd:gradient: nothing to sweep" in capsys.readouterr().err
    assert stored() == []


def test_without_a_command_the_status_is_2(capsys: pytest.CaptureFixture[str]) -> None:
    """A CI's line looks like this if its variable is empty."""
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("usage: python -m faults COMMAND") == 1


def test_help_ends_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.count("usage: python -m faults COMMAND") == 1
    for command in ("run", "sweep"):
        with pytest.raises(SystemExit, match=r"^0$"):
            main([command, "--help"])
        assert f"{command} NAME --help" in capsys.readouterr().out


def test_plans_are_texts_or_files(tmp_path: Path) -> None:
    file = tmp_path / "plan=1.txt"
    file.write_text(Plan.parse(DELAY).to_json())
    assert read_plan(str(file)) == read_plan(DELAY) == read_plan(Plan.parse(DELAY).to_json()) == Plan.parse(DELAY)
    assert read_plan('{"seed": 3}') == Plan(seed=3)
    many = "; ".join([DELAY] * 100)  # longer than a file name can be
    assert len(read_plan(many).faults) == 100
    with pytest.raises(PlanError, match="neither a plan nor a file"):
        read_plan("x" * 5000)
    with pytest.raises(PlanError, match=r"^'/dev/zero' is neither a plan nor a .*: it has more than 67108864 bytes$"):
        read_plan("/dev/zero")


def test_prepare_writes_the_plan_and_prints_the_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["prepare", "run", "--plan", DELAY]) == 0
    assert capsys.readouterr().out == f"FAULTS_RUN={tmp_path / 'run'}\n"
    assert main(["check", "run"]) == 3  # no program ran in it
    out = capsys.readouterr().out
    assert out.startswith("run: under 1 fault: Delay site=")
    assert "no run.json: the folder comes from `prepare`" in out
    assert " fired 0 times, wanted 1 (recorded calls of this site: none)\n" in out
    assert main(["prepare", "run", "--healthy"]) == 0
    assert main(["check", "run"]) == 3
    assert capsys.readouterr().out.splitlines()[1] == "run: healthy: no faults planned"
    assert main(["check", "run", "--ended", "0"]) == 3
    assert capsys.readouterr().out.startswith("run, started by something else: 0.0 s healthy: no faults planned\n")


def test_a_folder_that_is_not_a_runs_is_refused_before_the_healthy_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.json").write_text("{}")
    crash = "Crash role=a at=up@a"
    assert main(["run", "--same-output", "--plan", crash, "--dir", str(tmp_path), "--script", "true"]) == 2
    assert "has plan.json, which no run has written" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


WAITS = "import os, threading; open(os.environ['BEGUN'], 'w').close(); threading.Event().wait()"


@contextmanager
def begun(python: list[str], script: str, place: Path) -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    """Run `faults` on a script, with its processes, until the script has opened a pipe; its files are in ``place``."""
    command = [*python, "run", "--healthy", "--script", sys.executable, "-c", script]
    with tempfile.TemporaryDirectory() as besides:
        pipe = Path(besides) / "begun"
        os.mkfifo(pipe)
        variables = {**os.environ, "TMPDIR": str(place), "BEGUN": str(pipe)}
        with subprocess.Popen(
            command, env=variables, stderr=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            try:
                poll = select.poll()
                poll.register(reader)  # hung up: it was opened, and closed
                assert poll.poll(60_000)
                yield process, descendants_of(process.pid)
            finally:
                os.close(reader)
                process.kill()


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_an_interrupt_leaves_nothing(by: signal.Signals, tmp_path: Path) -> None:
    with begun([sys.executable, "-m", "faults"], WAITS, tmp_path) as (process, started):
        process.send_signal(by)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == "interrupted\n"
    assert list(tmp_path.iterdir()) == []
    assert left_after(started, 10) == set()


THREADED = """
import runpy, threading
threading.Thread(target=threading.Event().wait, daemon=True).start()
runpy.run_module("faults", run_name="__main__", alter_sys=True)
"""


def test_an_interrupt_that_another_thread_takes_ends_a_command_that_waits_for_a_script(tmp_path: Path) -> None:
    with begun([sys.executable, "-c", THREADED], WAITS, tmp_path) as (process, _):
        send_interrupt(process.pid, "another")
        _, err = process.communicate(timeout=15)
    assert process.returncode == 130
    assert err == "interrupted\n"


STARTS = """
import os, subprocess, sys, threading
subprocess.Popen(["sleep", "1000"], start_new_session=True)
subprocess.Popen(["env", "-i", "sleep", "1000"])
open(os.environ["BEGUN"], "w").close()
threading.Event().wait()
"""


def test_a_command_that_is_killed_takes_its_script_along(tmp_path: Path) -> None:
    """Its descendants end, too: those in a session of their own, and those without the environment. The folder of the
    run stays until the next launcher starts."""
    with begun([sys.executable, "-m", "faults"], STARTS, tmp_path) as (_, started):
        pass  # it is killed at once
    try:
        assert len(started) == 4  # with the parent's watcher
        assert left_after(started, 3) == set()
    finally:
        end(started)
    assert [path.name[:7] for path in tmp_path.iterdir()] == ["faults-"]
    temporary_folders.tidy(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
