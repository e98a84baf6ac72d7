"""Each verdict gives its exit status, by each command that can have this verdict; a run without faults says so.
docs/commands.md promises the statuses, and CI relies on nothing else."""

from __future__ import annotations

import json
import runpy
import signal
import site
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.cli.main import main
from faults.judge.rules import exit_status
from faults.ledger import record
from faults.ledger.ledger import SCHEMA
from faults.ledger.record import End
from faults.plan import Plan
from faults.run.runs import Subject
from faults.run.sweep import all_passed
from reference import rpc_basics
from reference.outcome import Outcome
from reference.system.interrupts import SIGNALS
from reference.trace import Trace
from tests.support import roles_subjects as plays
from tests.support.script_runs import own
from tests.support.targets import run_of, sweep_of

DROP = "Drop site=shop:pay role=till nth=1 side=reply"

pytestmark = pytest.mark.usefixtures("own_temporary_files")


def headline(out: str) -> str:
    return out.splitlines()[0]


def verdict(out: str) -> str:
    return out.splitlines()[-1].removeprefix("verdict: ")


# check: folders as runs write them, made by hand.

RETURNED = {"shop": End("Returned", "returned", 103.0), "till": End("Returned", "returned", 103.0)}
LOST = End("Raised", "raised RuntimeError: RPCErr:1:RPC ran for more than set timeout", 103.0, ("RuntimeError",))
CALL: Mapping[str, Any] = {"caller": "till", "site": "shop:pay", "nth": 1}


def lines(role: str, fired: bool) -> Iterator[dict[str, Any]]:
    """The ledger of a role that ends well, with its part in a lost reply."""
    yield {"event": "start", "schema": SCHEMA, "time": 100.0, "wall": 100.0, "boot": "same", "pid": 1}
    yield {"event": "up", "time": 100.5}
    if role == "shop" and fired:
        yield {"event": "executed", "time": 100.8, **CALL}
        yield {"event": "fired", "time": 100.9, "fault": 0, "kind": "Drop", **CALL}
    if role == "till":
        yield {"event": "invoke", "time": 100.7, "site": "shop:pay", "nth": 1, "to": "shop", "faults": [0] * fired}
        error = "RPCErr:1:RPC ran for more than set timeout"
        end = {"event": "info", "error": error} if fired else {"event": "ok"}
        yield {**end, "time": 102.0, "site": "shop:pay", "nth": 1}
    yield {"event": "shutdown", "time": 102.5}
    yield {"event": "left", "time": 102.6, "num_owner_rrefs": 0}


def folder(place: Path, plan: str, ends: Mapping[str, End], fired: bool = True, **values: Any) -> Path:
    """A stored run of a till that pays at a shop."""
    place.mkdir()
    (place / "plan.json").write_text(Plan.parse(plan).to_json())
    for role in ends:
        (place / f"{role}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines(role, fired)))
    plain = {"name": "shop", "bound": 5.0, "seconds": 3.0, "trace": None, "difference": "", "leaks": [], "start": 100.0}
    record.write(place, ends=ends, **{**plain, "recorded": True, **values})
    return place


STORED: list[tuple[str, int, dict[str, Any]]] = [
    ("equal", 0, {"trace": "equal"}),
    ("unchecked", 0, {}),
    ("failed loudly", 0, {"ends": {**RETURNED, "till": LOST}}),
    ("hung", 1, {"ends": {**RETURNED, "till": End("Overdue", "was overdue", 160.0)}}),
    ("hung", 1, {"ends": {**RETURNED, "till": LOST}, "bound": 0.5}),
    ("wrong", 1, {"trace": "wrong", "difference": "1 ULPs"}),
    (
        "wrong",
        1,
        {"ends": {**RETURNED, "till": End("Raised", "raised KeyError: 'x'", 103.0, ("KeyError", "LookupError"))}},
    ),
    ("wrong", 1, {"ends": {**RETURNED, "till": End("Killed", "was killed by SIGSEGV", 103.0)}}),
    ("leaked", 1, {"leaks": ["till still runs (process 1)"]}),
    ("not fired", 1, {"fired": False}),
]


@pytest.mark.parametrize(
    ("wanted", "status", "how"), STORED, ids=lambda value: value if isinstance(value, str) else None
)
def test_check_gives_the_status_of_the_verdict(
    wanted: str, status: int, how: Mapping[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder(tmp_path / "run", DROP, **{"ends": RETURNED, **how})
    assert main(["check", str(place)]) == status
    assert verdict(out := capsys.readouterr().out) == wanted, out
    assert headline(out) == f"shop: 3.0 s under 1 fault: {DROP}"


def test_check_of_an_unknown_run_gives_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torn = folder(tmp_path / "torn", DROP, RETURNED)
    with (torn / "till.jsonl").open("a") as ledger:
        ledger.write('{"event": "o')
    unrecorded = folder(tmp_path / "unrecorded", DROP, RETURNED)
    (unrecorded / "run.json").unlink()
    for place in (torn, unrecorded):
        assert main(["check", str(place)]) == 3
        assert verdict(capsys.readouterr().out) == "unknown"


def test_check_of_a_healthy_run_says_that_nothing_was_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder(tmp_path / "run", "seed=3", RETURNED, fired=False)
    assert main(["check", str(place)]) == 0
    assert verdict(out := capsys.readouterr().out) == "unchecked", out
    assert headline(out) == "shop: 3.0 s healthy: no faults planned"


def test_several_faults_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = folder(tmp_path / "run", f"{DROP}; Crash role=shop at=step:1@shop", RETURNED)
    assert main(["check", str(place)]) == 1
    assert headline(capsys.readouterr().out).startswith(f"shop: 3.0 s under 2 faults: {DROP}; Crash role=shop")


@pytest.mark.parametrize("roles", [["shop", "till"], []], ids=["launched", "command"])
def test_a_run_without_rpc_is_unknown(roles: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Launched roles have no ledgers, and a command's processes wrote none."""
    ends = dict.fromkeys(roles or ["+command"], RETURNED["shop"])
    place = folder(tmp_path / "run", "seed=0", ends)
    for ledger in place.glob("*.jsonl"):
        ledger.unlink()
    assert main(["check", str(place)]) == 3
    assert verdict(out := capsys.readouterr().out) == "unknown", out
    assert "no RPC seen: no process called rpc.init_rpc, or FAULTS_RUN did not reach the process that did" in out
    assert "another environment, without this one's FAULTS_RUN and PYTHONPATH" in out


def test_a_role_that_never_came_up_counts_as_no_rpc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its ledger was begun, but `init_rpc` failed, and the program caught that error."""
    place = folder(tmp_path / "run", "seed=0", {"+command": RETURNED["shop"]})
    (place / "+command.jsonl").unlink()
    (place / "till.jsonl").write_text(json.dumps(next(lines("till", False))) + "\n")
    assert main(["check", str(place)]) == 3
    assert "no RPC seen" in capsys.readouterr().out


# run: worlds, under plans that lead to each verdict.

PAY = f"site={plays.PAY} role=till"
RAISE = f"Raise {PAY} nth=2 side=request error=ValueError text=gone"
OPTIONS = Namespace(dir=None, deadline=30.0, json=None, junit=None, leaks="count", expect_error=())


@pytest.mark.usefixtures("forkserver")
@pytest.mark.parametrize(
    ("till", "plan", "wanted", "status"),
    [
        (plays.careful, f"Delay {PAY} nth=3 side=reply seconds=0.1", "equal", 0),
        (plays.careful, RAISE, "failed loudly", 0),
        (plays.careless, RAISE.replace("ValueError", "RuntimeError"), "wrong", 1),
        pytest.param(plays.untidy, "seed=0", "leaked", 1, marks=pytest.mark.long),
        (plays.careful, f"Drop {PAY} nth=4 side=reply", "not fired", 1),
        (plays.careful, "Delay message=CLEANUP_AUTOGRAD_CONTEXT_REQ seconds=0.1", "unknown", 3),
    ],
    ids=lambda value: value if isinstance(value, str) and "=" not in value else None,
)
def test_run_gives_the_status_of_the_verdict(
    till: Callable[[], object], plan: str, wanted: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_of(plays.subject(till), Plan.parse(plan), OPTIONS) == status
    said = capsys.readouterr()
    assert verdict(said.out) == wanted, said.out
    assert said.err.startswith("stored in ") == (status > 0)


@pytest.mark.long
def test_a_run_that_hangs_gives_1(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan.parse(f"Drop {PAY} nth=2 side=request")
    assert run_of(plays.subject(plays.stubborn), plan, Namespace(**{**vars(OPTIONS), "deadline": 3.0})) == 1
    assert verdict(capsys.readouterr().out) == "hung"


def wrong(case: rpc_basics.Case, replay: Trace | None = None) -> Trace:
    """A twin that computes something else than the run."""
    trace = _right(case, replay)
    trace.tensors["0000/randn/caller"][1, 2] += 1
    return trace


_right = rpc_basics.train_locally


def test_a_healthy_run_of_a_tutorial_gives_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Calls are recorded."""
    assert main(["run", "rpc_basics", "--healthy", "--dir", str(tmp_path / "run")]) == 0
    assert record.read(tmp_path / "run").timeline.of("invoke")
    out = capsys.readouterr().out
    assert headline(out).endswith(" s healthy: no faults planned")
    assert "pass     record, ends," in out
    assert verdict(out) == "equal"


def test_a_run_of_a_wrong_tutorial_gives_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(rpc_basics, "train_locally", wrong)
    assert main(["run", "rpc_basics", "--healthy"]) == 1
    assert verdict(capsys.readouterr().out) == "wrong"


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


def test_list_of_a_tutorial_that_is_not_healthy_gives_its_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rpc_basics, "train_locally", wrong)
    assert main(["list", "rpc_basics"]) == 1
    out = capsys.readouterr().out
    assert verdict(out) == "wrong"
    assert "plans, of which each makes one run" not in out


def interrupting(case: rpc_basics.Case, replay: Trace | None = None) -> Trace:
    """Ctrl-C comes while the twin computes."""
    signal.raise_signal(signal.SIGINT)
    return _right(case, replay)


@pytest.mark.parametrize(
    "command", [["run", "rpc_basics", "--healthy"], ["list", "rpc_basics"], ["sweep", "rpc_basics"]]
)
def test_an_interrupt_is_130_and_nothing_is_stored(
    command: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(rpc_basics, "train_locally", interrupting)
    assert main(command) == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert list(tmp_path.iterdir()) == []


# run --script: commands that reach their verdict without RPC, and some with RPC.


@pytest.mark.parametrize(
    ("text", "options", "wanted", "status"),
    [
        ("", ["--healthy"], "unknown", 3),
        ("", ["--plan", DROP], "unknown", 3),
        ("raise SystemExit(3)", ["--healthy"], "unknown", 3),
        ("import threading; threading.Event().wait()", ["--healthy", "--deadline", "1"], "unknown", 3),
    ],
    ids=["no-rpc", "no-rpc-to-hurt", "failed", "overdue"],
)
def test_a_run_of_a_script_gives_the_status_of_its_verdict(
    text: str, options: list[str], wanted: str, status: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.py").write_text(text)
    place = ["--dir", str(tmp_path / "run")]
    assert main(["run", *options, *place, "--script", str(tmp_path / "my.py"), "--colour"]) == status
    out = capfd.readouterr().out
    assert verdict(out) == wanted, out
    assert ("under 1 fault: Drop" if "--plan" in options else "healthy: no faults planned") in headline(out)
    assert "my.py --colour: " in headline(out)


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_a_program_that_the_plan_cannot_reach_is_unknown(
    flag: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python ignores site packages; or it ignores PYTHONPATH, and the package is not installed for it."""
    installed = any(Path(place, "faults.pth").exists() for place in site.getsitepackages())
    text = "import sys; print('torch_rpc_reference_startup' in sys.modules)"
    assert main(["run", "--healthy", "--script", sys.executable, flag, "-c", text]) == 3
    out = capfd.readouterr().out
    assert out.splitlines()[:1] == [str(installed and flag != "-S")]
    assert "no RPC seen" in out


@pytest.mark.parametrize("script", [["--script", "--"], ["--script=--"]], ids=" ".join)
def test_words_after_two_dashes_belong_to_the_program(
    script: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my.py").write_text("import sys; print(sys.argv[1:])")
    theirs = ["--plan", "x", "--healthy", "--dir=y", "--script", "--", "--bound"]
    assert main(["run", "--healthy", *script, str(tmp_path / "my.py"), *theirs]) == 3
    assert capfd.readouterr().out.splitlines()[0] == str(theirs)


def test_other_words_after_the_script_belong_to_the_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """This includes words that begin as options of `faults` do, and the program's own `--help`."""
    (tmp_path / "my.py").write_text("import sys; print(sys.argv[1:])")
    theirs = ["--help", "--planner", "x", "--dirs=y", "plan", "--", "-h", "--seed=--plan"]
    assert main(["run", "--healthy", f"--script={tmp_path / 'my.py'}", *theirs]) == 3
    assert capfd.readouterr().out.splitlines()[0] == str(theirs)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "wanted", "status"),
    [
        (["--healthy"], "unchecked", 0),
        (["--plan", "Drop site=__main__:pay role=till nth=1 side=request"], "failed loudly", 0),
        (["--plan", "Duplicate site=__main__:pay role=till nth=1"], "wrong", 1),
    ],
    ids=["unchecked", "failed-loudly", "wrong"],
)
def test_a_run_of_an_rpc_script_gives_the_status_of_its_verdict(
    options: list[str],
    wanted: str,
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    assert main(["run", *options, "--script", own("strict.py", tmp_path), "here"]) == status
    assert verdict(out := capfd.readouterr().out) == wanted, out


# sweep. test_sweep.py has wrong and needless errors.


@pytest.mark.parametrize(
    ("passed", "status"),
    [
        ([True], 0),
        ([True, True], 0),
        ([True, None], 3),
        ([None], 3),
        ([True, False], 1),
        ([False, None], 1),
        ([None, False, True], 1),
    ],
)
def test_a_sweep_fails_by_one_defect_and_is_unknown_by_one_unknown_run(
    passed: Sequence[bool | None], status: int
) -> None:
    """One defect is enough, and one run that does not tell."""
    assert exit_status(all_passed(passed)) == status


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
def test_an_interrupted_sweep_shows_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C comes in the second run after the healthy one."""
    seen: list[object] = []

    def judged(outcomes: Mapping[str, Outcome]) -> tuple[str, str] | None:
        seen.append(outcomes)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)
        return plays.judged(outcomes)

    plain = plays.subject(plays.careful)
    subject = Subject("careful", plain.roles, plain.timeout, judged)
    with pytest.raises(KeyboardInterrupt):
        sweep_of(
            subject,
            Namespace(**vars(OPTIONS), sites=plays.PAY, kinds=["Delay"], budget=None, part=None, pairs=False),
        )
    out = capsys.readouterr().out
    assert "careful: 1 of 4 cells, each under 1 fault" in out
    assert out.splitlines()[-2:] == ["1 equal", "3 of 4 cells were not run"]


# The programs themselves give the status that `main` returns.


class NotHandled(BaseException):
    """The program has left a signal to the default action, which would have ended this process."""


@pytest.fixture
def _signals() -> Iterator[None]:
    def not_handled(*_: object) -> None:
        raise NotHandled

    before = {number: signal.signal(number, not_handled) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def started(package: str, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> object:
    """Return the exit status of ``python -m package``, in this process. The package is run by its file, because pytest
    loads the modules of an installed package, and `runpy` cannot ask pytest for their code."""
    monkeypatch.setattr("sys.argv", [package, *arguments])
    with pytest.raises(SystemExit) as left:
        runpy.run_path(str(Path(__file__).parents[2] / package / "__main__.py"), run_name="__main__")
    return left.value.code


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize(
    ("wanted", "status", "how"), [STORED[1], STORED[5], STORED[9]], ids=["unchecked", "wrong", "not fired"]
)
def test_python_m_faults_gives_the_status_of_its_command(
    wanted: str,
    status: int,
    how: Mapping[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = folder(tmp_path / "run", DROP, **{"ends": RETURNED, **how})
    assert started("faults", ["check", str(place)], monkeypatch) == status
    assert verdict(capsys.readouterr().out) == wanted


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("by", SIGNALS, ids=str)
@pytest.mark.parametrize(
    "command",
    [("faults", "run", "rpc_basics", "--healthy"), ("reference", "verify", "rpc_basics")],
    ids=lambda each: each[0],
)
def test_an_interrupted_command_ends_with_130_and_leaves_no_process(
    command: Sequence[str], by: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signals are those of Ctrl-C, of a time limit, and of a terminal that is closed."""

    def signalled(case: rpc_basics.Case, replay: Trace | None = None) -> Trace:
        signal.raise_signal(by)
        return _right(case, replay)

    monkeypatch.setattr(rpc_basics, "train_locally", signalled)
    assert started(command[0], command[1:], monkeypatch) == 130
    assert capsys.readouterr() == ("", "interrupted\n")


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize("package", ["faults", "reference"])
def test_a_verdict_that_cannot_be_printed_is_no_pass(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk is full, or the reader has ended."""
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert started(package, ["--help"], monkeypatch) != 0
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space left"):
            full.close()
    assert capsys.readouterr().err == "error: [Errno 28] No space left on device\n"


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize(
    ("twin", "status"), [(_right, 0), (wrong, 1), (interrupting, 130)], ids=["right", "wrong", "interrupted"]
)
def test_python_m_reference_gives_the_status_of_its_command(
    twin: Any, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rpc_basics, "train_locally", twin)
    assert started("reference", ["verify", "rpc_basics"], monkeypatch) == status
    assert started("reference", ["verify", "nope"], monkeypatch) == 2
