"""The command line: what it prints, what it refuses before anything starts, and its exit status."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest
import torch

import reference.verify.verify
from reference import TUTORIALS, load, parameter_server
from reference.cli import run_command, verify_command
from reference.cli.main import main
from reference.outcome import Killed, Outcome, Overdue, Raised, Returned
from reference.parameter_server import train_locally
from reference.trace import Case, Trace, compare
from reference.trace.checkpoint import Checkpoints
from reference.verify.verify import CASES, Row, case_of, cases, changes
from reference.world import World, launch
from tests.support.disk import files_of

TORCHRUN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
ALL = ", ".join(TUTORIALS)
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _not_under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TORCHRUN:
        monkeypatch.delenv(name, raising=False)


LOST = Raised("reference.outcome.PeerLost", "worker1 is gone", "not shown")


def case_of_role(role: Any) -> Case:
    """The case in a role's function, which tutorials make by `functools.partial`."""
    found: Case = next(each for each in (*role.args, *role.keywords.values()) if isinstance(each, Case))
    return found


@dataclass
class FakeWorld:
    """Replaces a world, whose roles have all ended with ``outcomes``."""

    outcomes: dict[str, Outcome]
    logs: dict[str, str] = field(default_factory=dict)
    launched: list[tuple[dict[str, Any], float]] = field(default_factory=list)
    again: list[dict[str, Any]] = field(default_factory=list)

    def __call__(
        self, roles: Mapping[str, Any], *, deadline: float, on_progress: object, isolated: bool, **again: Any
    ) -> Self:
        assert isolated
        self.launched.append((dict(roles), deadline))
        self.again.append(again)
        return self

    def wait(self) -> dict[str, Outcome]:
        return self.outcomes

    @property
    def ended(self) -> dict[str, float]:
        return dict.fromkeys(self.outcomes, time.monotonic())

    def log(self, role: str) -> str:
        return self.logs.get(role, "")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    """A world in which parameter_server succeeded with two steps, as `verify` asks."""
    trace = train_locally(parameter_server.Case(steps=2))
    fake = FakeWorld({"ps": Returned(trace), "worker1": Returned()})
    for module in (run_command, reference.verify.verify):
        monkeypatch.setattr(module, "launch", fake)
    monkeypatch.setitem(CASES, "parameter_server", ({"steps": 2},))
    return fake


Refused = Callable[[Sequence[str]], str]


@pytest.fixture
def refused(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Call the command, which must start no process and end with status 2, and return its single line of an error."""
    for start in ("reference.world.launcher.start", "reference.world.torchrun.start_agent"):
        monkeypatch.setattr(start, lambda *_, **__: pytest.fail("a process was started"))

    def call(arguments: Sequence[str]) -> str:
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("error: ")
        assert captured.err.endswith("\n")
        assert captured.err.count("\n") == 1, captured.err
        return captured.err.removeprefix("error: ").removesuffix("\n")

    return call


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("verify nope", f"unknown tutorial 'nope', wanted one of {ALL}"),
        ("run --steps 3", f"unknown tutorial '--steps', wanted one of {ALL}"),
        ("run rpc_basics --steps x", "argument --steps: invalid int value: 'x'"),
        ("run rpc_basics --deadline nan", "a deadline is a positive number of seconds, at most 1e+06, got nan"),
        ("run rpc_basics --steps 0", "rpc_basics: steps must be at least 1, got 0"),
        ("run reinforce --steps 10000", "reinforce: steps must be at most 9999, got 10000"),
        (
            "run batch_parameter_server --arithmetic exact --steps 6 --save nowhere.safetensors",
            "batch_parameter_server: step 3: sum of (4, 30) needs 57 bits, and 53 are exact; "
            "wanted smaller sizes, lr or fewer steps",
        ),
        (
            "run pipeline --arithmetic exact --steps 4 --splits 1,2",
            "pipeline: step 2: addmm of (8, 8) and (8, 8) needs 65 bits, and 53 are exact; "
            "wanted smaller sizes, lr or fewer steps",
        ),
        ("run rpc_basics --steps=1 --seed 2 --steps=1", "--steps is given twice, wanted once"),
        ("run batch_reinforce --batch --no-batch", "--batch/--no-batch is given twice, wanted once"),
        ("list --hel", "unrecognized arguments: --hel; wanted -h, --help"),
        ("verify --long rnn pipeline", "--long adds no run of rnn, pipeline, wanted reinforce among the names"),
        ("run rnn --every 2", "--every and --optional-checkpoints need --checkpoint or --resume"),
        ("run rnn --optional-checkpoints", "--every and --optional-checkpoints need --checkpoint or --resume"),
        ("run rnn --every 0 --resume d", "argument --every: must be a whole number, at least 1, got '0'"),
        ("run rnn --restarts x", "argument --restarts: must be a whole number, at least 1, got 'x'"),
        ("run rnn --checkpoint d --resume e", "argument --resume: not allowed with argument --checkpoint"),
        ("run rnn --resume=", "checkpoints need a folder, got an empty name"),
    ],
)
def test_bad_input_is_one_line_with_status_2(arguments: str, message: str, refused: Refused) -> None:
    assert refused(arguments.split()) == message


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nope", ["'nope'", "list", "run", "verify"]),
        ("list two\nlines", ["lines"]),
        ("run", list(TUTORIALS)),
        ("run rpc_basics --nope 3", ["--nope 3", "--seed", "--steps", "--size", "--save"]),
        ("run rpc_basics -- --save x", ["--save x"]),
        ("verify --lon", ["--lon", "NAME"]),
    ],
)
def test_unknown_words_and_what_was_wanted_are_named(arguments: str, said: Sequence[str], refused: Refused) -> None:
    line = refused(arguments.split(" "))
    assert [word for word in said if word not in line] == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="here cuda is a device like any other")
def test_a_missing_device_is_refused(refused: Refused) -> None:
    line = refused(["run", "parameter_server", "--device", "cuda"])
    assert line == "device 'cuda' is not available on this machine, wanted 'cpu'"


def test_a_device_that_is_there_is_taken(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert main(["run", "parameter_server", "--device", "cuda"]) == 0
    assert given_case(world) == parameter_server.Case(device="cuda", record="ends")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing/trace", "No such file or directory"),
        ("folder", "it is a directory, wanted a file"),
        ("file/trace", "Not a directory"),
        ("loop", "a loop of links" if sys.version_info < (3, 13) else "Too many levels of symbolic links"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(path: str, reason: str, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    save = f"{tmp_path}/{path}"
    assert refused(["run", "rpc_basics", "--save", save]) == f"cannot write {save}: {reason}"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "loop"]


def test_a_full_disk_is_reported_in_one_line(world: FakeWorld, tmp_path: Path, capsys: Capture) -> None:
    save = tmp_path / "t"
    with files_of(16):
        assert main(["run", "parameter_server", "--steps", "2", "--save", str(save)]) == 2
    assert capsys.readouterr().err == f"error: cannot write {save}: File too large\n"
    assert world.launched == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_the_run_has_filled_hides_no_verdict(
    world: FakeWorld, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = tmp_path / "t"
    monkeypatch.setattr("reference.cli.run_command.check_writable", lambda _: None)  # the disk is not full yet
    with files_of(16):
        assert main(["run", "parameter_server", "--steps", "2", "--save", str(save), "--verify"]) == 2
    out, err = capsys.readouterr()
    assert "equal: bits equal in " in out
    assert err.startswith(f"error: training succeeded, but {save} cannot be written: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("length", "ends"), [(250, 0), (256, 2)])
def test_a_file_name_that_is_too_long_is_refused_before_the_run(
    length: int, ends: int, world: FakeWorld, tmp_path: Path, capsys: Capture
) -> None:
    """The file system takes 255 bytes."""
    save = tmp_path / ("x" * length)
    status = main(["run", "parameter_server", "--steps", "2", "--save", str(save)])
    saved = [path.name for path in tmp_path.iterdir()]
    assert (status, saved, len(world.launched)) == ((2, [], 0) if ends else (0, [save.name], 1))


# Help


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]], ids=str)
def test_help_names_every_command(arguments: list[str], capsys: Capture) -> None:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    commands = [line.split()[0] for line in captured.out.splitlines() if line.startswith("  ")]
    assert commands == ["list", "run", "verify", "compare", "conform"]
    said = "Exit status 0: success; 1: a run failed or differs from its twin; 2: bad input, and no process was started,"
    assert f"{said}\nor an output that cannot be written; 3: unknown; 130: interrupted." in captured.out
    assert captured.err == ""


def test_list_names_every_tutorial(capsys: Capture) -> None:
    assert main(["list"]) == 0
    captured = capsys.readouterr()
    assert dict(line.split(maxsplit=1) for line in captured.out.splitlines()) == TUTORIALS
    assert len({line.index(TUTORIALS[line.split()[0]]) for line in captured.out.splitlines()}) == 1
    assert captured.err == ""


def test_run_help_names_every_tutorial(capsys: Capture) -> None:
    assert main(["run", "--help"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"NAME: {ALL}"


@pytest.mark.parametrize("name", TUTORIALS)
def test_help_of_a_tutorial_names_every_field(name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every field is listed with its values, meaning and default; and the module's docstring is shown."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as left:
        main(["run", name, "--help"])
    assert left.value.code == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    text = " ".join(captured.out.split())
    for item in fields(load(name).Case):
        options = item.metadata.get("options")
        dashed = item.name.replace("_", "-")
        kinds = {int: "N", float: "X", str: "TEXT", bool: f"--no-{dashed}"}
        shape = "|".join(options) if options else kinds[item.metadata["type"]]
        option = f"--{dashed}, {shape}" if item.metadata["type"] is bool else f"--{dashed} {shape}"
        default = "" if item.default == "" else f" (default: {item.default})"
        assert f"{option} {item.metadata['help']}{default}" in text
    assert "(default: every); without --save or --verify: ends" in text
    assert "--save FILE save the trace there" in text
    assert "--deadline X seconds for each run; under torchrun, for which a rank waits" in text
    assert " ".join((load(name).__doc__ or "").split()) in text


# run


def given_case(world: FakeWorld) -> Any:
    """The case that the launched roles were made of."""
    [(roles, _)] = world.launched
    return case_of_role(roles["ps"])


def test_options_make_the_case(world: FakeWorld) -> None:
    options = "--steps 3 --seed 9 --workers 2 --batch-size 7 --lr 0.5 --dtype float64 --record every --timeout 5"
    assert main(["run", "parameter_server", *options.split(), "--deadline", "12.5"]) == 0
    wanted = parameter_server.Case(
        steps=3, seed=9, workers=2, batch_size=7, lr=0.5, dtype="float64", record="every", timeout=5.0
    )
    assert given_case(world) == wanted
    assert list(world.launched[0][0]) == ["ps", "worker1", "worker2"]
    assert world.launched[0][1] == 12.5


@pytest.mark.parametrize(
    ("options", "record"),
    [
        ([], "ends"),
        (["--save", "t"], "every"),
        (["--record", "every"], "every"),
        (["--record", "ends", "--save", "t"], "ends"),
    ],
)
def test_steps_in_between_are_recorded_if_they_are_saved_or_asked_for(
    options: list[str], record: str, world: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "parameter_server", *options]) == 0
    assert given_case(world) == parameter_server.Case(record=record)
    assert world.launched[0][1] == 3600.0
    assert [path.name for path in tmp_path.iterdir()] == ["t"] * ("--save" in options)


def test_a_failed_run_says_who_failed_and_how_and_saves_nothing(
    world: FakeWorld, tmp_path: Path, capsys: Capture
) -> None:
    """Roles that only miss a peer are not blamed; of the others: traceback, stacks, or the log's last 50 lines."""
    world.outcomes = {
        "ps": LOST,
        "worker1": Killed(9),
        "worker2": Raised("ValueError", "bad\nsecond line", "Traceback of worker2\nValueError: bad"),
        "worker3": Overdue("stacks of worker3"),
        "worker4": Returned(),
    }
    world.logs = {"worker1": "".join(f"line {number}\n" for number in range(60)), "ps": "not shown"}
    assert main(["run", "parameter_server", "--workers", "4", "--save", str(tmp_path / "t")]) == 1
    assert list(tmp_path.iterdir()) == []
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "parameter_server failed:",
        "  worker1 was killed by SIGKILL",
        "  worker2 raised ValueError: bad",
        "  worker3 was overdue",
        "--- worker1",
        *(f"line {number}" for number in range(10, 60)),
        "--- worker2",
        "Traceback of worker2",
        "ValueError: bad",
        "--- worker3",
        "stacks of worker3",
    ]


def test_a_real_run_saves_what_the_twin_computes(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "trace"
    assert main(["run", "parameter_server", "--steps", "2", "--save", str(file)]) == 0
    trace = Trace.load(file)
    assert trace.case == parameter_server.Case(steps=2)
    assert str(compare(trace, train_locally(trace.case))) == "bits equal in 13 tensors"
    first, *others = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"parameter_server: 2 roles, 2 steps in \d+\.\d s", first)
    losses = [trace.tensors[f"000{step}/loss/worker1"].item() for step in range(2)]
    assert others == [
        f"  mean loss {losses[0]:.6g} at the first step, {losses[1]:.6g} at the last",
        f"saved 13 tensors to {file}",
    ]


def test_a_wrong_run_is_explained_and_gives_1(world: FakeWorld, capsys: Capture) -> None:
    """The run has twice the reference's first gradient."""
    trace = train_locally(parameter_server.Case(steps=2))
    trace.tensors["0000/gradient/weight"] *= 2
    world.outcomes = {"ps": Returned(trace), "worker1": Returned()}
    assert main(["run", "parameter_server", "--steps", "2", "--verify"]) == 1
    verdict, *explanation = capsys.readouterr().out.splitlines()[-8:]
    assert verdict.startswith("wrong: ")
    assert "0000/gradient/weight" in verdict
    assert any("The first stage that fails: gradients of step 0000." in line for line in explanation)


def test_a_run_that_nobody_can_judge_is_unknown_and_gives_3(world: FakeWorld, capsys: Capture) -> None:
    """A learning rate with which the run and its twin overflow."""
    trace = train_locally(parameter_server.Case(steps=9, lr=1e30))
    trace.tensors["0000/gradient/weight"] *= 2
    world.outcomes = {"ps": Returned(trace), "worker1": Returned()}
    assert main(["run", "parameter_server", "--steps", "9", "--lr", "1e30", "--verify"]) == 3
    assert "\nunknown: " in capsys.readouterr().out


# Checkpoints and restarts


def test_options_make_the_checkpoints(world: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = "--workers 2 --steps 2 --resume d --every 3 --optional-checkpoints --restarts 4"
    assert main(["run", "parameter_server", *words.split()]) == 0
    case, roles = parameter_server.Case(workers=2, steps=2, record="ends"), ["ps", "worker1", "worker2"]
    wanted = Checkpoints.of_case(tmp_path / "d", case, roles, resume=True, every=3, optional=True)
    assert world.again == [{"checkpoints": wanted, "restarts": 4}]


def test_a_lost_role_is_told_in_two_lines_and_the_run_goes_on(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worlds: list[World] = []

    def launched(*arguments: Any, **how: Any) -> World:
        worlds.append(launch(*arguments, **how))
        return worlds[-1]

    def kill() -> None:
        due = time.monotonic() + 60
        while not (worlds and any(tmp_path.glob("[0-9]*.json"))) and time.monotonic() < due:  # not a scratch file
            time.sleep(0.005)
        os.kill(worlds[0].pids["worker2"], signal.SIGKILL)

    monkeypatch.setattr(run_command, "launch", launched)
    with ThreadPoolExecutor() as pool:
        killed = pool.submit(kill)
        words = "--workers 2 --steps 60 --restarts 2 --verify --resume"
        status = main(["run", "parameter_server", *words.split(), str(tmp_path)])
        killed.result()
    out, err = capsys.readouterr()
    assert status == 0, err
    lives = [line for line in err.splitlines() if line.startswith("life ")]
    assert lives[0] == "life 1 ended: worker2 was killed by SIGKILL"
    assert re.fullmatch(r"life 2 goes on after step [1-9]\d*", lives[1])
    assert len(lives) == 2
    assert out.splitlines()[-1] == "equal: bits equal in 603 tensors"


SAVING = ["run", "parameter_server", "--steps", "5", "--every", "2"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that a real run has left its checkpoints in."""
    folder = tmp_path_factory.mktemp("saved") / "new"
    assert main([*SAVING, "--checkpoint", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--checkpoint {saved}", "{saved}: has checkpoints up to step 4, wanted a new folder, or to resume"),
        ("--checkpoint {loop}", "{loop}: is no folder, wanted one for checkpoints"),
        ("--resume {saved} --seed 3", "{saved}: no checkpoint can be used: {saved}/00000004.json: seed is 0, wanted 3"),
    ],
    ids=["used", "a loop of links", "another case"],
)
def test_a_folder_that_cannot_be_used_is_refused(
    options: str, said: str, saved: Path, tmp_path: Path, refused: Refused
) -> None:
    places = {"saved": saved, "loop": tmp_path / "loop"}
    places["loop"].symlink_to(places["loop"])
    assert refused([*SAVING, *options.format(**places).split()]).startswith(said.format(**places))


def test_a_run_says_from_which_step_it_goes_on(saved: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = shutil.copytree(saved, tmp_path / "copy")
    assert main([*SAVING, "--resume", str(folder)]) == 0
    assert "life 1 goes on after step 4\n" in capsys.readouterr().err


def test_a_checkpoint_that_was_left_out_is_told(world: FakeWorld, tmp_path: Path, capsys: Capture) -> None:
    lines = [f"no checkpoint of step {step}: /x: No space left on device" for step in (2, 3, 4)]
    begin = "2026-11-29 07:15:00,123 reference.trace.checkpoint WARNING "
    world.logs = {"ps": "".join(f"{begin}{line}\n" for line in lines), "worker1": "step 2\n"}
    assert main([*SAVING, "--resume", str(tmp_path), "--optional-checkpoints"]) == 0
    assert capsys.readouterr().err == f"ps: {lines[0]} (and 2 more)\n"


# verify


def rows(output: str) -> list[list[str]]:
    """The cells of the table's body, with folded lines joined."""
    body: list[list[str]] = []
    for line in output.splitlines():
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            if cells[-1]:  # a row's first line has the verdict
                body.append(cells)
            else:
                body[-1] = [f"{above} {cell}".strip() for above, cell in zip(body[-1], cells, strict=True)]
    return body


def test_small_leaves_out_what_trains_resnet50_and_nothing_else() -> None:
    small = cases(list(TUTORIALS), small=True)
    left_out = [case for case in cases(list(TUTORIALS)) if case not in small]
    assert [(case.tutorial(), getattr(case, "model", "")) for case in left_out] == [
        (name, "resnet50") for name in ("batch_parameter_server", "sharded_parameter_server", "pipeline", "pipeline")
    ]
    assert {case.tutorial() for case in small} == set(TUTORIALS)


def changed(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Returned:
    trace = train_locally(parameter_server.Case(steps=2))
    return Returned(Trace(trace.case, {**trace.tensors, name: change(trace.tensors[name])}))


@pytest.mark.parametrize("names", [[], ["parameter_server", "rnn", "parameter_server"]], ids=["all", "three"])
def test_verify_runs_every_case_of_every_name(
    names: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """There is one row per case, in order, even if a name is given twice."""
    asked: list[Case] = []

    def pretend(case: Case, on_progress: object, meanwhile: Callable[[], None]) -> Callable[[], Row]:
        asked.append(case)
        if len(asked) % 2:  # otherwise nothing runs, as for a case that is refused
            meanwhile()
        return partial(Row, case, 7, 1.25, "the worst error is 0.50 of its bound, in x", "within bound")

    monkeypatch.setattr(verify_command, "played", pretend)
    assert main(["verify", *names]) == 0
    assert asked == [case_of(name, given) for name in names or TUTORIALS for given in CASES[name]]
    body = rows(capsys.readouterr().out)
    assert [row[:2] for row in body] == [[case.tutorial(), changes(case) or "defaults"] for case in asked]
    steps = str(asked[0].steps)
    assert body[0][2:] == ["7", steps, "1.2", "the worst error is 0.50 of its bound, in x", "within bound"]


def test_an_interrupted_verify_shows_what_it_has(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    asked: list[Case] = []

    def pretend(case: Case, on_progress: object, meanwhile: Callable[[], None]) -> Callable[[], Row]:
        meanwhile()
        if asked:
            raise KeyboardInterrupt
        asked.append(case)
        return partial(Row, case, 7, 1.25, "", "equal")

    monkeypatch.setattr(verify_command, "played", pretend)
    with pytest.raises(KeyboardInterrupt):
        main(["verify", "parameter_server", "rnn"])
    assert [row[0] for row in rows(capsys.readouterr().out)] == ["parameter_server"]


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        (["failed", "equal"], 1),
        (["equal", "unknown"], 3),
        (["unknown", "wrong"], 1),
        (["refused", "unknown"], 1),
    ],
)
def test_one_bad_row_fails_verify_and_an_unknown_one_gives_3_if_no_other_is_bad(
    verdicts: list[str], status: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    left = iter(verdicts)
    why = ("one\ntwo",)
    monkeypatch.setattr(verify_command, "played", lambda case, *_: lambda: Row(case, 2, 1.0, "", next(left), why))
    monkeypatch.setitem(CASES, "parameter_server", ({}, {}))
    assert main(["verify", "parameter_server"]) == status
    out = capsys.readouterr().out
    assert [row[-1] for row in rows(out)] == verdicts
    # The explanations follow the table, each in one line.
    assert out.endswith("┘\n" + "parameter_server\n  one\\ntwo\n" * 2)


@pytest.mark.parametrize(
    ("outcomes", "difference", "verdict"),
    [
        ({"ps": LOST, "worker1": Raised("KeyError", "'x'")}, "worker1 raised KeyError: 'x'", "failed"),
        ({"ps": Returned(None)}, "", "failed"),
        ({"ps": changed("0001/loss/worker1", lambda t: t * 2)}, "8388608 ULPs in 0001/loss/worker1, 1 of ", "wrong"),
        ({"ps": changed("initial/bias", lambda t: t * float("nan"))}, "initial/bias: holds NaN", "wrong"),
    ],
    ids=["raised", "no trace", "another loss", "nan"],
)
def test_verify_says_what_is_wrong(
    outcomes: dict[str, Outcome], difference: str, verdict: str, world: FakeWorld, capsys: Capture
) -> None:
    world.outcomes.update(outcomes)
    assert main(["verify", "parameter_server"]) == 1
    [row] = rows(capsys.readouterr().out)
    assert row[0] == "parameter_server"
    assert row[-2].startswith(difference)
    assert row[-1] == verdict


# torchrun


def test_under_torchrun_the_trainers_fit_beside_any_number_of_servers() -> None:
    assert run_command.fitted("sharded_parameter_server", {"servers": 3}, 6) == {"servers": 3, "trainers": 3}


@pytest.mark.parametrize(
    ("size", "options", "wanted"),
    [("4", ["--workers", "3"], {"workers": 3}), ("2", ["--seed", "4"], {"workers": 1, "seed": 4})],
)
def test_under_torchrun_the_case_fits_the_processes(
    size: str, options: list[str], wanted: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    played: list[tuple[dict[str, Any], float]] = []

    def play(roles: Mapping[str, Any], *, deadline: float, before: object) -> tuple[str, object]:
        assert before is None
        played.append((dict(roles), deadline))
        return "ps", train_locally(parameter_server.Case(steps=2))

    monkeypatch.setattr(run_command, "run_rank", play)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", size)
    assert main(["run", "parameter_server", *options]) == 0
    [(roles, deadline)] = played
    assert case_of_role(roles["ps"]) == parameter_server.Case(record="ends", **wanted)
    assert len(roles) == int(size)
    assert deadline == 3600.0
    assert capsys.readouterr().out.splitlines()[0] == f"parameter_server: {size} roles, 100 steps"
    monkeypatch.setattr(run_command, "run_rank", lambda *_, **__: ("worker1", None))  # which has no trace
    assert main(["run", "parameter_server", *options]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("size", "options", "message"),
    [
        ("4", "rref_dataflow", "torchrun started 4 processes, wanted 5: worker0, worker1, worker2, worker3, w"),
        ("3", "batch_parameter_server --trainers 5", "torchrun started 3 processes, wanted 6: ps, trainer1, t"),
        ("1", "batch_parameter_server", "batch_parameter_server: trainers must be at least 1, got 0"),
        ("2", "parameter_server --restarts 2", "--restarts has no effect under torchrun, wanted its own --max-rest"),
        ("2", "parameter_server --checkpoint x", "--checkpoint refuses what an earlier start has saved, wanted --resu"),
    ],
)
def test_under_torchrun_a_case_that_cannot_fit_is_refused(
    size: str, options: str, message: str, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    place = {"RANK": "0", "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value in {**place, "TORCHELASTIC_MAX_RESTARTS": "3"}.items():
        monkeypatch.setenv(name, value)
    assert refused(["run", *options.split()]).startswith(message)


def test_under_torchrun_checkpoints_of_another_case_are_refused_in_one_line(
    saved: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused
) -> None:
    monkeypatch.setattr(run_command, "run_rank", lambda *_, deadline, before: before("ps"))
    monkeypatch.setattr("os._exit", sys.exit)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", str(parameter_server.Case().workers + 1))
    line = refused([*SAVING, "--seed", "3", "--resume", str(saved)])
    assert line.startswith(f"{saved}: no checkpoint can be used: {saved}/00000004.json: seed is 0, wanted 3")


def test_long_adds_rows_that_have_a_goal(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    asked: list[dict[str, bool]] = []

    def pretend(case: Case, *_: object, **judged_by: bool) -> Callable[[], Row]:
        asked.append(judged_by)
        return partial(Row, case, 3, 1.0, "-", "missed" if judged_by else "equal")

    monkeypatch.setattr(verify_command, "played", pretend)
    assert main(["verify", "reinforce"]) == 0
    assert main(["verify", "--long", "reinforce"]) == 1
    short = len(CASES["reinforce"])
    assert asked == [{}] * (2 * short) + [{"goal": True}]
    assert rows(capsys.readouterr().out)[-1][-1] == "missed"
