"""The conformance kit as its users run it: export a suite, run a program on it, and read the verdicts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import reference
from reference.cli.main import main
from reference.conform.answer import Answer, commitment, read_answer
from reference.conform.expected_verdicts import Expectation, as_toml
from reference.conform.export import export
from reference.conform.inputs import prepare, tensor_of
from reference.conform.judge import Judged, Ran, judge_answer, judge_case, judge_suite, results
from reference.conform.run_suite import Settings, run_suite
from reference.conform.suite import Entry, Suite, SuiteBroken, SuiteCase, chosen, open_suite
from reference.conform.tensor_file import Array, Tensors, write
from reference.conform.twin import prepared

ROOT = Path(__file__).parents[2]
NUMPY = ROOT / "examples" / "numpy"
Capture = pytest.CaptureFixture[str]


def ran(suite: Suite, place: Path, cases: str, *command: str) -> int:
    """Run a command, after further options and ``--``, on some cases; the results go to a folder ``out``."""
    return main(["conform", "run", str(suite.folder), "--out", str(place / "out"), "--cases", cases, *command])


def judged(suite: Suite, name: str, arrays: Mapping[str, Array], place: Path) -> tuple[str, str, Sequence[str]]:
    """Verdict, text and details of these tensors as an answer to a case."""
    write(place / "trace.safetensors", arrays)
    return judge_answer(suite.cases[name], read_answer(suite.cases[name], place), suite.commitments.get(name))


OPTIONAL = "0001/output/trainer1/1"  # of each batch server's case


@pytest.mark.parametrize("name", ["batch_parameter_server-001", "batch_parameter_server-002"])
def test_optional_tensors_do_not_decide_a_verdict(suite: Suite, name: str, tmp_path: Path) -> None:
    right = prepared(name).outputs | prepared(name).optional
    assert judged(suite, name, {**right, OPTIONAL: right[OPTIONAL] + np.float32(1)}, tmp_path)[0] == "equal"


@pytest.mark.parametrize("name", ["batch_parameter_server-001", "batch_parameter_server-002"])
def test_an_optional_tensor_tells_where_a_mistake_is(suite: Suite, name: str, tmp_path: Path) -> None:
    right = prepared(name).outputs | prepared(name).optional
    wrong = {each: right[each] + right[each].dtype.type(1) for each in ("0001/loss/trainer1", OPTIONAL)}
    verdict, _, details = judged(suite, name, prepared(name).outputs | wrong, tmp_path)
    assert verdict == "differs"
    assert details[0].startswith("The first stage that fails: outputs of layers of step 0001. 1 of 1 tensors"), details


def test_an_optional_tensor_has_the_listed_shape(suite: Suite, tmp_path: Path) -> None:
    name = "batch_parameter_server-001"
    verdict, text, _ = judged(suite, name, {**prepared(name).outputs, OPTIONAL: np.zeros((8, 4))}, tmp_path)
    assert (verdict, text.partition(",")[0]) == ("malformed", f"{OPTIONAL}: shape (8")


@pytest.mark.parametrize("name", [entry.id for entry in chosen("core")])
def test_no_expected_value_is_in_the_suite(suite: Suite, name: str) -> None:
    case = suite.cases[name]
    assert not set(case.inputs) & set(case.outputs)
    given = [array.tobytes() for array in case.inputs.values() if array.size > 1]
    numbers = {n: tensor_of(array) for n, array in prepared(name).outputs.items() if array.size > 1}
    outputs = {n: prepared(name).outputs[n] for n, t in numbers.items() if t.any() and not (t == 1).all()}
    assert [n for n, array in outputs.items() if array.tobytes() in given] == []


def test_a_commitment_tells_shape_dtype_and_numbers_apart() -> None:
    plain = np.arange(6.0)
    others = [plain.reshape(2, 3), plain.reshape(3, 2), plain.astype(np.float32), plain.astype(np.int64), plain + 1]
    assert len({commitment(each) for each in (plain, *others)}) == 6
    assert commitment(others[0]) == commitment(np.asfortranarray(others[0]).astype(">f8"))
    assert commitment(np.array([0.0, 1.0])) == commitment(np.array([-0.0, 1.0]))


def test_a_sign_of_zero_counts_as_other_bits(tmp_path: Path) -> None:
    """Only one row of the table is looked up, so the gradient of the others is zero."""
    sizes = {"steps": 1, "trainers": 1, "batch_size": 1, "bag": 1, "rows": 4, "dim": 2, "hidden": 2}
    reference = prepare(Entry("hybrid_ddp-000", sizes))
    outputs = dict(reference.outputs)
    zero = next(each for each, array in outputs.items() if (array == 0).any())
    outputs[zero] = np.where(outputs[zero] == 0, -outputs[zero], outputs[zero])
    case = SuiteCase(tmp_path, reference.describe())
    verdict, text, _ = judge_answer(case, Answer(tensors=Tensors(outputs)), None, reference)
    assert (verdict, text.partition(":")[0]) == ("within bound", f"1 of {len(outputs)} tensors have other bits")


def test_what_is_beyond_its_bound_by_some_roundings_has_that_reason(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here by so many that they are beyond the bound of every version; explanations count as many as rounding."""
    monkeypatch.setattr("reference.explain.difference.ROUNDINGS", 1e6)
    name, loss = "parameter_server-003", "0000/loss/worker1"
    outputs = dict(prepared(name).outputs)
    kind = outputs[loss].dtype  # NumPy 1 makes another one of it
    outputs[loss] = (outputs[loss] * (1 + 1e5 * np.finfo(kind).eps)).astype(kind)
    verdict, text, details = judged(suite, name, outputs, tmp_path)
    assert verdict == "differs"
    assert " of its bound, in 0000/loss/worker1" in text
    assert details == ()


def test_where_rounding_decides_what_follows_no_stage_is_judged(suite: Suite, tmp_path: Path) -> None:
    """A parameter so large that the twins which follow it overflow."""
    name = "batch_parameter_server-002"
    outputs = dict(prepared(name).outputs)
    outputs["0000/parameter/1.weight"] = np.full_like(outputs["0000/parameter/1.weight"], 3e38)
    verdict, _, details = judged(suite, name, outputs, tmp_path)
    assert verdict == "differs"
    assert details[-1].startswith("Single stages cannot be judged: ")


def test_all_misfits_are_told_at_once(suite: Suite, tmp_path: Path) -> None:
    arrays = dict(prepared("dist_autograd-001").outputs)
    loss = "0000/loss/context0"
    arrays[loss] = arrays[loss].reshape(1)
    arrays["0001/loss/context0"] = arrays["0001/loss/context0"].astype(np.float32)
    del arrays["0002/loss/context0"]
    arrays["more"] = np.zeros(3)
    verdict, first, rest = judged(suite, "dist_autograd-001", arrays, tmp_path)
    assert verdict == "malformed"
    assert {first, *rest} == {
        f"{loss}: shape (1,), wanted ()",
        "0001/loss/context0: dtype F32, wanted F64",
        "yours lacks 0002/loss/context0",
        "yours has, and the reference does not, more",
    }


def test_where_steps_are_counted_from_one_no_shape_is_told(suite: Suite, tmp_path: Path) -> None:
    """Episodes differ in their length."""
    outputs = prepared("reinforce-002").outputs.items()
    arrays = {f"{int(name[:4]) + 1:04d}{name[4:]}" if name[0] == "0" else name: array for name, array in outputs}
    verdict, first, rest = judged(suite, "reinforce-002", arrays, tmp_path)
    assert (verdict, rest) == ("malformed", ())
    assert first.endswith(": counted from 1?")


def test_an_explanation_tells_of_no_tensor_that_only_the_reference_has(suite: Suite, tmp_path: Path) -> None:
    arrays = dict(prepared("rpc_basics-001").outputs)
    arrays["0000/result/caller/remote/python"] = arrays["0000/result/caller/remote/python"] + 1
    verdict, *lines = judged(suite, "rpc_basics-001", arrays, tmp_path)
    assert verdict == "differs"
    assert "The first stage that fails: result of step 0000." in str(lines)
    assert not any(word in str(lines) for word in ("typed", "randn"))


def test_misfits_that_many_tensors_have_are_one_line(suite: Suite, tmp_path: Path) -> None:
    """Losses have a bad name, all other tensors a bad dtype."""
    outputs = prepared("dist_autograd-001").outputs.items()
    arrays = {name.replace("/loss/", "//loss/"): array.astype(np.float32) for name, array in outputs}
    assert judged(suite, "dist_autograd-001", arrays, tmp_path) == (
        "malformed",
        "yours lacks loss/* in every step, 9 tensors, the first is 0000/loss/context0",
        (
            "9 tensors: a tensor's name has no empty part, '.' or '..'; the first is 0000//loss/context0",
            "24 tensors: dtype F32, wanted F64; the first is 0000/gradient/context0/worker1",
        ),
    )


REFUSED = "result.json: status 'fine', wanted done, skipped, errored, and a text as reason"


@pytest.mark.parametrize(
    ("result", "verdict", "text"),
    [
        ({"status": "skipped", "reason": "no LSTM"}, "skipped", "no LSTM"),
        ({"status": "errored", "reason": "no room", "id": "dist_autograd-001"}, "errored", "no room"),
        ({"status": "fine"}, "malformed", REFUSED),
        ({"id": "rnn-001"}, "malformed", "result.json: answers case 'rnn-001', wanted dist_autograd-001"),
    ],
)
def test_a_result_file_says_what_became_of_a_case(
    suite: Suite, result: dict[str, str], verdict: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / "result.json").write_text(json.dumps(result))
    case = suite.cases["dist_autograd-001"]
    assert judge_answer(case, read_answer(case, tmp_path), None)[:2] == (verdict, text)


# What a program does in place of an answer, the verdict, and words of the reason.
HOSTILE = {
    "nothing written": ("pass", "malformed", "there is no trace.safetensors"),
    "its folder removed": ("out.rmdir()", "malformed", "there is no trace.safetensors"),
    "a file in its folder's place": ("out.rmdir(); out.touch()", "malformed", "there is no trace.safetensors"),
    "a pipe": ("os.mkfifo(trace)", "malformed", "not a plain file"),
    "a gigabyte": ("trace.touch(); os.truncate(trace, 2**30)", "malformed", "it has more than"),
    "a hang": ("time.sleep(3600)", "timed out", "and was ended"),
    "a crash": ("os.kill(os.getpid(), 11)", "errored", "signal 11"),
    "an error": (r"os.write(2, b'\xff'); raise ValueError('no such layer\n')", "errored", "ValueError: no such layer"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_each_hostile_program_gets_its_verdict(name: str, suite: Suite, tmp_path: Path) -> None:
    program, verdict, told = HOSTILE[name]
    begin = "import os, pathlib, sys, time; out = pathlib.Path(sys.argv[2]); trace = out / 'trace.safetensors'; "
    settings = Settings((sys.executable, "-c", begin + program), seconds=0.5 if name == "a hang" else 60.0)
    run_suite(suite, [suite.cases["dist_autograd-001"]], tmp_path / "out", settings, lambda _: None)
    (found,) = judge_suite(suite, tmp_path / "out")
    assert found.verdict == verdict
    assert told in found.text


def test_a_suite_that_has_changed_is_refused(tmp_path: Path) -> None:
    export(tmp_path / "suite", chosen("core", "dist_autograd-001"))
    path = tmp_path / "suite" / "cases" / "dist_autograd-001" / "input.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(SuiteBroken, match=r"input\.safetensors has changed since"):
        open_suite(tmp_path / "suite")


# Their cases take many steps in Python.
SLOW_IN_NUMPY = ("batch_reinforce", "reinforce", "rnn")


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.long] * (each in SLOW_IN_NUMPY)) for each in sorted(reference.TUTORIALS)],
)
def test_each_program_in_numpy_passes(suite: Suite, name: str, tmp_path: Path, capfd: Capture) -> None:
    status = ran(suite, tmp_path, f"{name}-*", "-j", "2", "--", sys.executable, str(NUMPY / f"{name}.py"))
    assert status == 0, capfd.readouterr().out


def test_a_relative_command_is_the_users(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Capture
) -> None:
    (tmp_path / "mine").write_text("#!/bin/sh\n")
    (tmp_path / "mine").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert ran(suite, Path(), "rpc*", "--", "./mine") == 1
    assert "malformed     there is no trace.safetensors" in capfd.readouterr().out


def test_results_can_be_judged_again(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    status = ran(suite, tmp_path, "dist*", "-j", "2", "--", sys.executable, str(NUMPY / "dist_autograd.py"))
    printed = capfd.readouterr().out
    assert status == 0, printed
    assert "dist_autograd-001  equal" in printed
    assert re.search(r"dist_autograd-002  within bound  \d+ of 40 tensors have other bits: sums in another", printed)
    assert main(["conform", "judge", str(suite.folder), str(tmp_path / "out")]) == 0
    assert capfd.readouterr().out == printed


def test_cases_are_chosen_by_any_of_several_globs(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    ran(suite, tmp_path, "rpc*", "--cases", "dist*", "--cases", "*-002", "--", "true")
    listed = [line.partition(" ")[0] for line in capfd.readouterr().out.splitlines()[:-1]]
    assert listed[:3] == ["rpc_basics-001", "dist_autograd-001", "dist_autograd-002"]
    assert {name.rpartition("-")[2] for name in listed[2:]} == {"002"}
    judge = ["conform", "judge", str(suite.folder), str(tmp_path / "out"), "--cases", "rpc*", "--cases", "rnn-002"]
    main(judge)
    listed = [line.partition(" ")[0] for line in capfd.readouterr().out.splitlines()[:-1]]
    assert listed == ["rpc_basics-001", "rnn-002"]
    assert main([*judge, "--cases", "pipeline-001"]) == 2
    told = "no case matches 'pipeline-001', wanted for instance rpc_basics-001, dist_autograd-001"
    assert capfd.readouterr().err == f"error: {told}\n"


def test_a_stale_expectation_alone_fails_the_command(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    file = tmp_path / "expected.toml"
    expected = [Expectation("rpc*", "malformed", "no program yet"), Expectation("gone*", "differs", "bug")]
    file.write_text(as_toml(expected))
    assert ran(suite, tmp_path, "rpc*", "--expect", str(file), "--", "true") == 1
    assert capfd.readouterr().err == f"unexpected: {file}: gone*: no case matches\n"
    file.write_text(as_toml(expected[:1]))
    assert main(["conform", "judge", str(suite.folder), str(tmp_path / "out"), "--expect", str(file)]) == 0


@pytest.fixture
def numpy_alone(tmp_path: Path) -> dict[str, str]:
    """An environment for ``python -S``, in which NumPy and this package are all that is installed."""
    for package in (ROOT / "reference", *Path(np.__file__).parents[1].glob("numpy*")):
        (tmp_path / package.name).symlink_to(package)
    return {"PATH": os.defpath, "PYTHONPATH": str(tmp_path)}


def test_exact_cases_are_run_and_judged_where_only_numpy_is_installed(
    suite: Suite, tmp_path: Path, numpy_alone: dict[str, str]
) -> None:
    run = ["run", str(suite.folder), "--out", str(tmp_path / "out"), "--cases", "dist_autograd-*", "--repeat", "2"]
    conform = [sys.executable, "-S", "-m", "reference", "conform"]
    command = [*conform, *run, "--", sys.executable, "-S", str(NUMPY)]
    done = subprocess.run(command, env=numpy_alone, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == (
        "dist_autograd-001  equal         all numbers of 33 tensors are the reference's\n"
        "dist_autograd-002  unknown       no exact case, so its judgement needs torch and the extra tutorials "
        "(No module named 'torch')\n"
        "2 cases: 1 equal, 1 unknown\n"
    )
    trace = tmp_path / "out" / "dist_autograd-002" / "2" / "out" / "trace.safetensors"
    trace.write_bytes(trace.read_bytes()[:-1] + b"\0")  # the runs of a natural case may differ
    again = [*conform, "judge", str(suite.folder), str(tmp_path / "out")]
    done = subprocess.run(again, env=numpy_alone, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines()[-1] == "2 cases: 1 equal, 1 unknown"
    assert done.returncode == 1


def test_without_torch_the_first_tensor_that_differs_is_the_first_by_cause(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "reference.conform.twin", None)
    arrays = dict(prepared("dist_autograd-001").outputs)
    for name in ("0000/gradient/context0/worker1", "0000/loss/context0"):
        arrays[name] = arrays[name] + 1
    told = "2 of 33 tensors differ, the first is 0000/loss/context0"
    assert judged(suite, "dist_autograd-001", arrays, tmp_path) == ("differs", told, ())


@pytest.mark.parametrize("arguments", [["conform", "export", "x"], ["compare", "x", "y"]], ids=" ".join)
def test_a_command_that_needs_torch_says_so_where_there_is_none(
    arguments: list[str], tmp_path: Path, numpy_alone: dict[str, str]
) -> None:
    command = [sys.executable, "-S", "-m", "reference", *arguments]
    done = subprocess.run(command, env=numpy_alone, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.stderr == b"error: torch is not installed, which this command needs\n"
    assert done.returncode == 2


def judged_together(suite: Suite, place: Path, name: str, *answers: Mapping[str, Array]) -> Judged:
    """Judge answers to a case as those of repeated runs."""
    for number, arrays in enumerate(answers, start=1):
        folder = place / name / str(number) / "out"
        folder.mkdir(parents=True)
        write(folder / "trace.safetensors", arrays)
    return judge_case(suite, place, suite.cases[name], [Ran(0, 1.0)] * len(answers))


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ((0, 1, 0), "its 3 runs differ: run 1 equal, run 2 differs, run 3 equal"),
        ((0, 0, 1), "its 3 runs differ: run 1 equal, run 2 equal, run 3 differs"),
        ((1, 2), "its 2 runs differ: run 1 differs, run 2 differs"),
    ],
)
def test_a_program_whose_runs_differ_is_unstable(added: Sequence[int], told: str, suite: Suite, tmp_path: Path) -> None:
    name, loss = "dist_autograd-001", "0000/loss/context0"
    right = prepared(name).outputs
    found = judged_together(suite, tmp_path, name, *({**right, loss: right[loss] + each} for each in added))
    assert (found.verdict, found.text) == ("unstable", told)


def test_optional_tensors_do_not_make_runs_differ(suite: Suite, tmp_path: Path) -> None:
    """Both runs are wrong alike."""
    name, loss = "batch_parameter_server-001", "0000/loss/trainer1"
    outputs, optional = prepared(name).outputs, prepared(name).optional[OPTIONAL]
    wrong = {**outputs, loss: outputs[loss] + 1}
    runs = ({**wrong, OPTIONAL: np.full_like(optional, number)} for number in (1, 2))
    assert judged_together(suite, tmp_path, name, *runs).verdict == "differs"


def test_a_command_keeps_its_own_dashes(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    program = "import sys; sys.exit(sys.argv[1] != '--')"
    before = ["--out", str(tmp_path / "out"), "--cases", "rpc_basics-001", str(suite.folder)]
    assert main(["conform", "run", *before, "--", sys.executable, "-c", program, "--"]) == 1
    assert "malformed     there is no trace.safetensors" in capfd.readouterr().out


def test_bad_input_is_one_line(tmp_path: Path, capfd: Capture) -> None:
    for arguments, status, text in (
        (["conform", "export", str(tmp_path), "--cases", "x*"], 2, "no case matches 'x*'"),
        (["conform", "export", str(tmp_path), "--suite", "all", "--cases", "x*"], 2, "--suite: invalid choice: 'all'"),
        (["conform", "judge", str(tmp_path), str(tmp_path)], 2, "no suite.json, wanted a folder that `conform export`"),
        (["conform", "run", str(tmp_path), "--out", "x"], 2, "wanted -- and a command"),
        (["conform", "run", "-o", "x", str(tmp_path), "rnn-001", "--", "true"], 2, "unrecognized arguments: rnn-001"),
        (["conform", "sing"], 2, "unknown command 'sing' of conform"),
    ):
        assert main(arguments) == status
        error = capfd.readouterr().err
        assert text in error
        assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--out", "{suite}/mine"], "inside the suite"),
        (["--out", "{file}"], "File exists, wanted a new folder"),
        (["--out", "{full}"], "not empty, wanted a new folder"),
        (["--out", "{new}", "--repeat", "0"], "argument --repeat: must be a whole number, at least 1, got '0'"),
        (["--out", "{new}", "--timeout", "long"], "argument --timeout: wanted seconds"),
        (["--out", "{new}", "--cases", "x*"], "no case matches 'x*', wanted for instance rpc_basics-001,"),
        (["--out", "{new}", "--expect", "{full}/x"], "No such file"),
        (["--out", "{new}", "--update", "--expect", "{file}/x"], "/file/x: Not a directory"),
    ],
)
def test_options_of_run_that_cannot_be_are_refused_before_it_runs(
    suite: Suite, options: list[str], text: str, tmp_path: Path, capfd: Capture
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    places = {"suite": suite.folder, **{name: tmp_path / name for name in ("file", "full", "new")}}
    command = ["--", "touch", str(tmp_path / "ran")]
    assert main(["conform", "run", str(suite.folder), *(each.format(**places) for each in options), *command]) == 2
    error = capfd.readouterr().err
    assert text in error
    assert error.count("\n") == 1
    assert not (tmp_path / "ran").exists()


def test_a_command_that_cannot_be_started_is_refused_in_one_line(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "text").write_text("no program")
    (tmp_path / "text").chmod(0o755)
    for command in ("./no-such-program", str(tmp_path), str(tmp_path / "text")):
        assert ran(suite, tmp_path, "rpc*", "--", command) == 2
        error = capfd.readouterr().err
        assert f"cannot start {command!r}: " in error
        assert error.count("\n") == 1


def test_a_program_that_changes_its_case_changes_no_further_run(tmp_path: Path) -> None:
    export(tmp_path / "suite", chosen("core", "dist_autograd-001"))
    suite = open_suite(tmp_path / "suite")
    program = """if True:
        import pathlib, sys
        file = pathlib.Path(sys.argv[1], "input.safetensors")
        content = file.read_bytes()
        file.write_bytes(b"")
        sys.exit(not content)
    """
    settings = Settings((sys.executable, "-c", program), repeat=2)
    run_suite(suite, [*suite.cases.values()], tmp_path / "out", settings, lambda _: None)
    assert [each.status for each in results(suite, tmp_path / "out")["dist_autograd-001"]] == [0, 0]
    assert open_suite(tmp_path / "suite").cases["dist_autograd-001"].inputs


@pytest.mark.parametrize("thread", ["main", "another"])
def test_ctrl_c_ends_the_command_and_the_judge_says_what_is_missing(suite: Suite, thread: str, tmp_path: Path) -> None:
    # It ends by itself, so that a run that waits for it fails this test and leaves nothing.
    program = f"""if True:
        import os, time
        from tests.support.send_interrupt import send_interrupt
        send_interrupt(os.getppid(), {thread!r})
        time.sleep(28)
    """
    run = ["conform", "run", str(suite.folder), "--out", str(tmp_path / "out"), "--cases", "r[pr]*", "--repeat", "3"]
    reference = [sys.executable, "-m", "reference"]
    command = [*reference, *run, "--", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=25, check=False)
    assert done.returncode == 130
    assert done.stderr == "interrupted\n"
    assert [str(each.relative_to(tmp_path)) for each in (tmp_path / "out").glob("*/*")] == ["out/rpc_basics-001/1"]
    judge = [*reference, "conform", "judge", str(suite.folder), str(tmp_path / "out")]
    done = subprocess.run(judge, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("no run.json, which `conform run` writes there when all its cases have ended\n")


def test_results_whose_folder_is_gone_are_refused(suite: Suite, tmp_path: Path, capfd: Capture) -> None:
    out = tmp_path / "out"
    ran(suite, tmp_path, "rpc*", "--", "true")
    shutil.rmtree(out / "rpc_basics-001" / "1" / "out")
    assert main(["conform", "judge", str(suite.folder), str(out)]) == 2
    assert f"{out}: rpc_basics-001/1/out is missing" in capfd.readouterr().err


def test_a_case_of_other_numbers_is_no_case_of_the_suite(tmp_path: Path) -> None:
    """Even if the digest of its file was made anew."""
    folder = tmp_path / "suite"
    export(folder, chosen("core", "dist_autograd-002"))
    case, index = folder / "cases" / "dist_autograd-002" / "case.json", folder / "suite.json"
    case.write_text(case.read_text().replace('"lr": 0.05', '"lr": 0.06'))
    content = json.loads(index.read_text())
    content["files"]["cases/dist_autograd-002/case.json"] = hashlib.sha256(case.read_bytes()).hexdigest()
    index.write_text(json.dumps(content))
    with pytest.raises(SuiteBroken, match="its numbers changed since this id was published"):
        open_suite(folder)


def test_the_last_step_of_an_episode_ends_its_last_start(suite: Suite) -> None:
    given = suite.cases["batch_reinforce-001"].inputs
    assert {name: array[-1] for name, array in given.items() if name.endswith("/ends")} == {
        f"data/observer{number}/{episode:04d}/ends": 1 for number in (1, 2, 3) for episode in (0, 1)
    }
