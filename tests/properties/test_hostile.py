"""Files and texts of users that are not what they should be: one printable line says so, and soon.

The properties make forty inputs a format by default, ten thousand by ``--hypothesis-profile=soak``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import faults.cli.main
from faults.ledger import Ledger, ledger, record
from faults.ledger.record import End, RecordError
from faults.plan import Fault, Plan, PlanError
from faults.run.runs import prepared
from reference import TUTORIALS, load
from reference.cli.main import main
from reference.cli.options import BadInput
from reference.cli.run_command import run_parser
from reference.trace import CaseError, Trace, TraceError, compare
from reference.verify import judge
from reference.world import WorldError, run_rank
from tests.properties.hostile import (
    changed,
    documents,
    healthy_plans,
    is_one_line,
    mutated,
    one_tensor,
    size_of,
    texts,
    trace_file,
)
from tests.properties.properties import examples

# The number of examples of each format.
inputs = partial(examples, 40, soak=10_000)

# Seconds of this process's own time that half a megabyte may take: ten times what it takes. What grows with the square
# of the size takes more.
SOON = 2.0


@contextlib.contextmanager
def soon() -> Iterator[None]:
    """Fail as soon as the block has taken too much of the processor."""

    def late(*_: object) -> None:
        pytest.fail(f"took more than {SOON} s of the processor")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SOON)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def refused(*kinds: type[Exception]) -> Iterator[None]:
    """Whatever is raised is one of these, and one line."""
    said = ""
    try:
        yield
    except kinds as error:
        said = str(error)
    assert is_one_line(said), said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the folder of all examples of this module, one after the other."""
    return tmp_path_factory.mktemp("hostile")


# Plans


def _holds(plan: Plan) -> None:
    assert Plan.parse(str(plan)) == Plan.from_json(plan.to_json()) == plan
    assert str(plan).isprintable()


@inputs(text=texts(mutated(healthy_plans().map(lambda plan: str(plan).encode()))) | st.text())
def test_a_text_is_a_plan_or_refused_in_one_line(text: str) -> None:
    with refused(PlanError):
        _holds(Plan.parse(text))


@inputs(text=texts(documents(healthy_plans().map(lambda plan: json.loads(plan.to_json())))))
def test_a_json_is_a_plan_or_refused_in_one_line(text: str) -> None:
    with refused(PlanError):
        _holds(Plan.from_json(text))


@pytest.mark.parametrize(
    "text",
    [
        "Raise site=a:b side=reply text=" + "x" * 2**19,
        "Raise site=a:b side=reply text='" + "x " * 2**18 + "'",
        'Raise site=a:b side=reply text="' + r"\"" * 2**18 + '"',
        ";" * 2**19,
        r"\a" * 2**18,
        "'" + "x" * 2**19,
        "''" * 2**18,
    ],
    ids=["word", "literal", "quoted", "ends", "escapes", "unfinished", "empty"],
)
def test_half_a_megabyte_of_plan_is_read_soon(text: str) -> None:
    with soon(), refused(PlanError):
        Plan.parse(text)


def test_forty_thousand_names_are_read_soon() -> None:
    names = ", ".join(f'"k{number}": 1' for number in range(40_000))
    with soon(), pytest.raises(PlanError, match=r"^'k39999' is given twice$"):
        Plan.from_json(f'{{{names}, "k39999": 2}}')


def test_a_plan_of_fifteen_thousand_messages_is_made_soon() -> None:
    lost = tuple(Fault(kind="Drop", message="PYTHON_CALL", times=1, role=f"r{number}") for number in range(15_000))
    with soon():
        assert Plan(lost).faults == lost
    with pytest.raises(PlanError, match="wanted one Drop for each 'role', got two"):
        Plan((*lost, lost[0]))


@pytest.mark.parametrize("value", [-(10**400), 10**400, -1, 0], ids=["below", "beyond", "negative", "nought"])
def test_an_integer_that_is_no_time_is_refused(value: int) -> None:
    """It is not refused by the error of a float, which cannot hold all integers."""
    with pytest.raises(PlanError, match="'seconds' must be a number above 0, at most 1000000, got ") as caught:
        Plan.from_json(f'{{"faults": [{{"kind": "Delay", "site": "a:b", "side": "reply", "seconds": {value}}}]}}')
    assert is_one_line(str(caught.value))


# Cases

CASES = st.sampled_from(list(TUTORIALS)).map(lambda name: json.loads(load(name).Case().to_json()))


@inputs(name=st.sampled_from(list(TUTORIALS)), text=texts(documents(CASES)))
def test_a_json_is_a_case_or_refused_in_one_line(name: str, text: str) -> None:
    kind = load(name).Case
    with refused(CaseError):
        case = kind.from_json(text)
        assert kind.from_json(case.to_json()) == case


def test_a_case_says_each_field_once() -> None:
    with pytest.raises(CaseError, match=r"^rpc_basics: 'seed' is given twice$"):
        load("rpc_basics").Case.from_json('{"seed": 1, "seed": 2}')


def test_a_number_that_cannot_be_written_is_refused() -> None:
    for value in (10**5000, 2**1024):
        with pytest.raises(CaseError, match="steps must be a number of at most 1024 bits") as caught:
            load("rpc_basics").Case(steps=value)
        assert is_one_line(str(caught.value))
    assert "steps" in load("rpc_basics").Case(steps=2**1024 - 1).to_json()


# Options


WORDS = st.sampled_from(["--workers", "--lr", "--seed", "--record", "--text", "--deadline", "--save", "--", "-h", "-1"])


@inputs(
    name=st.sampled_from(list(TUTORIALS)),
    words=st.lists(WORDS | texts(mutated(st.just(b"--seed=1"))) | texts(mutated(st.just(b"12"))), max_size=4),
)
def test_options_are_a_case_or_refused_in_one_line(name: str, words: list[str]) -> None:
    with refused(BadInput, CaseError), contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        given = vars(run_parser(name).parse_args(words))
        kind = load(name).Case
        kind(**{key: value for key, value in given.items() if value is not None and key in kind.__dataclass_fields__})


HOSTILE_NUMBERS = ["9" * 5000, "٣", "1\x1b[31m", "-1", "", " 1", "1_0", "x" * 10**5, "\ud800"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [*(("WORLD_SIZE", value) for value in HOSTILE_NUMBERS), ("RANK", "-1"), ("MASTER_PORT", "")],
    ids=range(len(HOSTILE_NUMBERS) + 2),
)
def test_no_number_of_torchrun_is_refused_in_one_line(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_PORT": "1"})
    os.environ[variable] = value
    with pytest.raises(WorldError, match=f"^not started by torchrun: {variable} is .*, wanted a number$") as caught:
        run_rank({"a": print})
    assert is_one_line(str(caught.value))
    if variable == "WORLD_SIZE":
        assert main(["run", "rpc_basics"]) == 2
        line = capsys.readouterr().err.removesuffix("\n")
        assert line.startswith("error: WORLD_SIZE must be a number, got ")
        assert is_one_line(line)


# Traces

HEADER = {"tutorial": "rpc_basics", "case": "{}"}
PLACES = {
    "0000/loss/a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
    "0000/x": {"dtype": "F64", "shape": [2], "data_offsets": [4, 20]},
}
NAMES = ["abc/loss/x", "0000/loss/" + "x" * 2000, "../x", "a//b", "0000/\x1b", "9" * 5000 + "/loss/x", "0000/loss"]
TENSORS = st.tuples(
    st.sampled_from([*NAMES, "0000/loss/a", "0000/x", "order/events"]),
    st.sampled_from(["F64", "F32", "F16", "BF16", "I64", "U64", "BOOL", "F8_E4M3", "F8_E5M2", "F8_E8M0", "C64", "F4"]),
    st.lists(st.sampled_from([0, 1, 1, 2, 2**62, 2**64]), max_size=4) | st.sampled_from([[1] * 33, [1] * 32]),
)


def _of_tensors(tensors: list[tuple[str, str, list[int]]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": HEADER}
    place = 0
    for name, dtype, shape in tensors:
        size = 0 if 0 in shape or max(shape, default=1) > 2 else size_of(dtype, shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + size]}
        place += size
    return trace_file(header, bytes(place))


FILES = (
    mutated(st.just(trace_file({"__metadata__": HEADER, **PLACES}, bytes(20))))
    | changed(st.just({"__metadata__": HEADER, **PLACES})).map(lambda header: trace_file(header, bytes(20)))
    | st.lists(TENSORS, max_size=2).map(_of_tensors)
)


def _use(trace: Trace, folder: Path) -> None:
    """Whatever is done with a trace that loads; what it is not fit for is told so."""
    trace.losses()
    with refused(TraceError):
        assert compare(trace, trace).equal
    judge(trace, load("rpc_basics").train_locally)
    trace.save(folder / "again")
    assert Trace.load(folder / "again").tensors.keys() == trace.tensors.keys()


@inputs(content=FILES)
def test_a_file_is_a_trace_or_refused_in_one_line(folder: Path, content: bytes) -> None:
    (folder / "trace").write_bytes(content)
    with refused(TraceError, CaseError):
        trace = Trace.load(folder / "trace")
        if trace.case.tutorial() == "rpc_basics" and trace.case.steps < 10:
            _use(trace, folder)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (one_tensor("abc/loss/x"), "a loss has a name like '0003/loss/trainer1', got 'abc/loss/x'"),
        (one_tensor("0000/loss/x", shape=(2,)), "0000/loss/x: a loss is one number, got 2"),
        (one_tensor("../x"), "a tensor's name has no empty part, '.' or '..', got '../x'"),
        (one_tensor("0/\x1b[31m\0"), r"a tensor's name is printable and has at most 1000 characters, got '0/\x1b[31"),
        (one_tensor(shape=(1,) * 33), "0000/x: 33 dimensions, wanted at most 32"),
        (one_tensor(shape=(0, 2**62)), "0000/x: too large a shape, (0, 4611686018427387904)"),
        (one_tensor(shape=(0, 2**63)), "holds a tensor that cannot be read"),
        (one_tensor(dtype="F8_E4M3"), "0000/x: not a plain tensor of real numbers (torch.float8_e4m3fn"),
    ],
    ids=["loss", "losses", "folder", "control", "dimensions", "size", "beyond", "float8"],
)
def test_what_no_trace_holds_is_refused_when_it_is_read(content: bytes, why: str, tmp_path: Path) -> None:
    """It is not refused later, by an error of another library."""
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TraceError) as caught:
        Trace.load(tmp_path / "t")
    assert why in str(caught.value)
    assert is_one_line(str(caught.value))


def test_complex_numbers_are_refused(tmp_path: Path) -> None:
    """They are refused by us, or by a safetensors that does not know them yet."""
    (tmp_path / "t").write_bytes(one_tensor(dtype="C64"))
    with pytest.raises(TraceError, match=r"real numbers \(torch.complex64|not a safetensors file"):
        Trace.load(tmp_path / "t")
    with pytest.raises(TraceError, match=r"0000/x: not a plain tensor of real numbers \(torch.complex64"):
        Trace(load("rpc_basics").Case(), {"0000/x": torch.zeros(1, dtype=torch.complex64)}).save(tmp_path / "t")


def test_a_twin_that_cannot_be_computed_is_unknown() -> None:
    """A learning rate that its dtype cannot hold; probabilities that are not numbers any more."""
    for case in (load("dist_autograd").Case(lr=1e300), load("reinforce").Case(lr=1e30, steps=3)):
        trace = Trace(case, {f"{step:04d}/loss/x": torch.zeros(()) for step in range(case.steps)})
        difference, verdict = judge(trace, load(case.tutorial()).train_locally)
        assert verdict == "unknown"
        assert difference.partition(" (")[0] == "the twin cannot be computed"
        assert is_one_line(difference)


@pytest.mark.parametrize("name", TUTORIALS)
def test_more_steps_than_tensors_are_wrong_at_once(name: str) -> None:
    """The twin of a case in a file may take forever."""
    kind = load(name).Case
    case = kind(steps=9999 if "reinforce" in name else 2**1000)
    with soon():
        difference, verdict = judge(Trace(case, {"0000/x": torch.zeros(1)}), load(name).train_locally)
    assert verdict == "wrong"
    assert difference[:17] == "got 1 tensors for"


def test_a_learning_curve_that_is_not_in_the_trace_is_refused() -> None:
    module = load("reinforce")
    for tensors in ({}, {"0000/reward/running": torch.zeros(2)}):
        with pytest.raises(TraceError, match=r"^a running reward in 0 of 1 episodes, wanted one in each$"):
            module.goal(Trace(module.Case(steps=1), tensors))


@pytest.mark.parametrize(
    "header",
    [{"tutorial": "x" * 10**7}, {"case": "x" * 10**7}, {"case": f'{{"{"x" * 10**7}": 1}}'}, {"dtype": "x" * 10**7}],
    ids=["tutorial", "case", "field", "dtype"],
)
def test_an_error_of_ten_megabytes_is_one_line(header: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(one_tensor(**header))
    with soon(), pytest.raises((TraceError, CaseError)) as caught:
        Trace.load(tmp_path / "t")
    assert is_one_line(str(caught.value))


def test_a_save_refuses_what_a_load_would(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(one_tensor())
    trace = Trace.load(tmp_path / "t")
    for name in ("a/../b", "abc/loss/x", "\ud800"):
        with pytest.raises(TraceError) as caught:
            Trace(trace.case, {name: trace.tensors["0000/x"]}).save(tmp_path / "new")
        assert is_one_line(str(caught.value))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["a\0b", "\ud800", os.fsdecode(b"\xff")], ids=["NUL", "half", "bytes"])
def test_a_name_that_is_no_files_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t").write_bytes(one_tensor())
    trace = Trace.load(tmp_path / "t")
    for act in (trace.save, Trace.load):
        with pytest.raises(TraceError, match=r"^'.*': wanted a file's name in UTF-8$"):
            act(name)
    assert main(["run", "rpc_basics", "--save", name]) == 2
    assert is_one_line(capsys.readouterr().err.removesuffix("\n"))


# Folders of runs

PLAN = Plan.parse(
    "Drop site=shop:pay role=a nth=1 side=reply; Crash role=b at=up@b; Delay site=shop:pay seconds=1 side=request"
)
LINKS = [{"types": ["RuntimeError", "Exception"], "text": "timed out", "identity": "7.1"}]
CALL = {"site": "shop:pay", "nth": 1, "to": "shop", "via": "rpc"}


def _run(place: Path) -> None:
    prepared(PLAN, place)
    with contextlib.closing(Ledger(place, "a")) as own:
        own.write("up", rpc_timeout=1.0, workers=["a", "b"])
        own.write("planned", fault=0, kind="Drop", text=str(PLAN.faults[0]))
        own.write("invoke", **CALL, timeout=1.0, faults=[0, 2])
        own.write("fired", **CALL, fault=0, kind="Drop", caller="a", side="reply")
        own.write("effective", **CALL, fault=2, kind="Delay", caller="a", seconds=1.0)
        own.write("info", **CALL, seconds=1.0, error="RuntimeError: timed out", links=LINKS)
        own.write("raised", error="RuntimeError: timed out", links=LINKS)
        own.write("logged", text="lost", links=LINKS)
        own.write("exit", status=1)
    with contextlib.closing(Ledger(place, "b")) as own:
        own.write("up", rpc_timeout=1.0, workers=["a", "b"])
        own.write("fired", fault=1, kind="Crash", role="b", at="up@b", pid=1)
        own.write("shutdown", graceful=True, timeout=0.0)
        own.write("left", num_owner_rrefs=1, num_autograd_contexts=0)
    ends = {"a": End("Raised", "raised x", 12.5, ("RuntimeError",)), "b": End("Killed", "was killed by SIGKILL", 13.0)}
    ends |= {"+command": ends["a"]}
    times = {"bound": 12.0, "timeout": 1.0, "seconds": 1.0, "start": 0.0, "gone": {8: 2.0}}
    record.write(place, name="shop", ends=ends, statuses={7: 1}, trace="equal", difference="", leaks=[], **times)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run") / "run"
    _run(place)
    return place


def checked(place: Path) -> tuple[int, list[str]]:
    """Status and lines of ``faults check``; each is one line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = faults.cli.main.main(["check", str(place)])
    lines = [*out.getvalue().split("\n")[:-1], *err.getvalue().split("\n")[:-1]]
    assert [line for line in lines if not is_one_line(line)] == []
    assert len(lines) < 60
    return status, lines


def _copied(run: Path, folder: Path, name: str, content: bytes) -> Path:
    place = folder / "copy"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(run, place)
    (place / name).write_bytes(content)
    return place


def _judged(run: Path, folder: Path, name: str, content: bytes) -> None:
    status, lines = checked(_copied(run, folder, name, content))
    verdicts = [line for line in lines if line.startswith("verdict: ")]
    assert (status, len(verdicts), len(lines)) in [(2, 0, 1), *((n, 1, len(lines)) for n in (0, 1, 3))]


def test_the_folder_that_is_mutated_is_a_run(run: Path) -> None:
    assert checked(run)[0] in (0, 1)


@inputs(data=st.data())
def test_any_run_json_is_judged_or_refused_in_one_line(run: Path, folder: Path, data: st.DataObject) -> None:
    values = st.just(json.loads((run / "run.json").read_text()))
    _judged(run, folder, "run.json", data.draw(documents(values)))


@inputs(data=st.data())
def test_any_ledger_is_judged_or_refused_in_one_line(run: Path, folder: Path, data: st.DataObject) -> None:
    lines = [json.loads(line) for line in (run / "a.jsonl").read_text().splitlines()]
    whole = changed(st.just(lines)).map(lambda each: b"\n".join(json.dumps(line).encode() for line in each))
    _judged(run, folder, "a.jsonl", data.draw(whole | mutated(st.just((run / "a.jsonl").read_bytes()))))


@inputs(content=documents(healthy_plans().map(lambda plan: json.loads(plan.to_json()))))
def test_any_plan_json_is_judged_or_refused_in_one_line(run: Path, folder: Path, content: bytes) -> None:
    _judged(run, folder, "plan.json", content)


def _with(run: Path, folder: Path, **values: Any) -> Path:
    known = json.loads((run / "run.json").read_text())
    return _copied(run, folder, "run.json", json.dumps({**known, **values}).encode())


@pytest.mark.parametrize("text", ["\ud800", "\0", "\x1b[2J", "x\nverdict: equal", "x" * 10**5, "\u202e"], ids=range(6))
def test_what_a_run_says_of_itself_is_printed_on_one_line(text: str, run: Path, folder: Path) -> None:
    """It cannot print a verdict of its own."""
    end = {"kind": "Raised", "text": text, "time": 1.0, "types": [text], "process": 0}
    place = _with(run, folder, name=text, difference=text, leaks=[text], trace="wrong", ends={text: end})
    (place / os.fsdecode(b"\xff\x1b\n.jsonl")).write_text(json.dumps({"event": text, "time": 1, text: text}) + "\n")
    status, lines = checked(place)
    assert status == 3
    assert lines[-1] == "verdict: unknown"
    assert sum(line.startswith("verdict") for line in lines) == 1


@pytest.mark.parametrize(
    "values",
    [
        *({"name": 5}, {"bound": "1"}, {"bound": float("nan")}, {"seconds": float("inf")}, {"trace": "good"}),
        *({"leaks": "x"}, {"ends": []}, {"ends": {"a": 5}}, {"statuses": {"a": 1}}, {"gone": {"7": "x"}}),
        *({"schema": 1}, {"complete": False}, {"recorded": 1}),
        {"ends": {"a": {"kind": "Raised", "text": "", "time": 1, "types": "ab", "process": 0}}},
    ],
    ids=repr,
)
def test_a_run_of_other_types_is_no_run(values: dict[str, Any], run: Path, folder: Path) -> None:
    with pytest.raises(RecordError, match=r"run\.json is not a run: ") as caught:
        record.read(_with(run, folder, **values))
    assert is_one_line(str(caught.value))


@pytest.mark.parametrize(
    "details",
    [
        *({"fault": "0"}, {"fault": True}, {"site": 5}, {"nth": [1]}, {"faults": 0}, {"workers": "ab"}),
        *({"links": "abc"}, {"links": [5]}, {"links": [{"types": []}]}, {"links": [{"types": ["E"], "of": 3}]}),
        *({"rpc_timeout": "x"}, {"timeout": float("nan")}, {"pid": 1.5}),
        *({"world": {}}, {"status": "1"}, {"graceful": 1}, {"process": True}, {"time": 10**400}),
    ],
    ids=repr,
)
def test_a_line_of_other_types_is_torn(details: dict[str, Any], run: Path, folder: Path) -> None:
    line = json.dumps({"event": "exit", "time": 1.0, **details})
    place = _copied(run, folder, "b.jsonl", (run / "b.jsonl").read_bytes() + line.encode() + b"\n")
    assert ledger.read(place).torn == {"b": 1}
    assert len(ledger.read(place).events) == len(ledger.read(run).events)


MANY = 4000


def _call(event: str, number: int, **more: Any) -> str:
    return json.dumps({"event": event, "time": 1.0, **CALL, "nth": number + 2, "caller": "a", **more})


def test_many_faults_that_fired_are_judged_soon(run: Path, folder: Path) -> None:
    faults = [{"kind": "Drop", "site": "shop:pay", "side": "reply", "role": "a", "nth": n + 2} for n in range(MANY)]
    place = _copied(run, folder, "plan.json", json.dumps({"faults": faults}).encode())
    fired = [_call("fired", number, fault=number) for number in range(0, MANY, 2)]
    calls = [_call(event, number) for event in ("invoke", "ok", "info") for number in range(1, MANY, 2)]
    (place / "a.jsonl").write_text("\n".join([*fired, *calls]))
    (place / "b.jsonl").unlink()
    with soon():
        _, lines = checked(place)
    assert any(" fired: Drop site=shop:pay role=a nth=3 side=reply fired 0 times" in line for line in lines)


def test_more_links_than_anybody_writes_are_torn(run: Path, folder: Path) -> None:
    line = _call("raised", 1, error="", links=[{**LINKS[0], "of": number and number - 1} for number in range(4000)])
    place = _copied(run, folder, "b.jsonl", f"{line}\n".encode())
    with soon():
        checked(place)
    assert ledger.read(place).torn == {"b": 1}


@pytest.mark.long
def test_a_plan_is_the_same_in_another_locale_and_printed_there(tmp_path: Path) -> None:
    plan = Plan.parse("Drop site=shop:zähle nth=1 side=reply")
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}

    def python(*words: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **ascii_only}
        return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)

    program = "import sys; from faults.plan import Plan; from faults.run.runs import prepared; "
    program += "prepared(Plan.from_json(sys.argv[1]), sys.argv[2])"
    assert python("-c", program, json.dumps(json.loads(plan.to_json())), tmp_path).returncode == 0
    assert record.read(tmp_path).plan == plan
    (tmp_path / "plan.txt").write_text(str(plan), encoding="utf-8")
    python("-m", "faults", "prepare", tmp_path / "again", "--plan", tmp_path / "plan.txt")
    assert record.read(tmp_path / "again").plan == plan
    done = python("-m", "faults", "check", tmp_path)
    assert (done.returncode, done.stderr) == (3, "")
    assert r"site='shop:z\xe4hle'" in done.stdout


def test_a_folder_whose_name_cannot_be_printed_is_not_prepared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("a\x1b[31mb", os.fsdecode(b"\xff"), "a\nb"):
        assert faults.cli.main.main(["prepare", str(tmp_path / name), "--healthy"]) == 2
        assert is_one_line(capsys.readouterr().err.removesuffix("\n"))
    assert list(tmp_path.iterdir()) == []
