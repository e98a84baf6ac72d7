"""Shrinks: of invented programs, whose bugs are known, and what the command refuses and tells.

tests/project/test_snippets.py makes the manual's shrink, of a program that pays twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.cli.main import main
from faults.cli.shrink_command import report, shrink_plan, tell
from faults.judge.rules import Check, Judgement, judge
from faults.ledger import ledger
from faults.ledger.ledger import Event, Timeline
from faults.ledger.record import End, Run, read
from faults.plan import Fault, Plan
from faults.run.runs import prepared, run
from faults.run.shrink import Shrinker, fails_alike
from faults.strategies import plans
from reference.cli.options import BadInput
from tests.support import roles_subjects as plays
from tests.support.targets import Closed, options, read_report, shrink_of

SITES = {"m:f": {"a": 3, "b": 2}, "m:g": {"a": 1}}
DRAWN = plans(SITES, ["a", "b", "ps"], steps=3, max_faults=4, min_faults=1)
# The check that fails with each defect.
CHECKS = {"hung": "ends", "wrong": "trace", "leaked": "left", "not fired": "fired"}


def judgement(verdict: str, check: str | None = None) -> Judgement:
    if verdict in CHECKS:
        return Judgement((Check(check or CHECKS[verdict], verdict, False, "seen"),), verdict)
    return Judgement((Check("ends", "hung", None if verdict == "unknown" else True, "seen"),), verdict)


def calls_of(fault: Fault) -> list[tuple[str, int]]:
    """Return the calls of `SITES` that a fault hits, as every program here makes them."""
    return [
        (role, nth)
        for role, count in SITES.get(str(fault.site), {}).items()
        for nth in range(1, count + 1)
        if fault.role in (None, role) and nth in (fault.numbers or [nth]) and fault.kind != "Order"
    ]


class Program:
    """An invented program. ``verdict``: tells how a run under a plan ends; ``reaches``: whether its faults fire."""

    def __init__(self, verdict: Callable[[Plan], str], reaches: Callable[[Plan], bool] = lambda plan: True) -> None:
        self.verdict, self.reaches, self.plans = verdict, reaches, list[Plan]()

    def __call__(self, plan: Plan, folder: Path) -> tuple[Run, Judgement]:
        self.plans.append(plan)
        events = [
            Event(role, "fired", 0.0, {"fault": number, **({"caller": role, "nth": nth} if nth else {})})
            for number, fault in enumerate(plan.faults if self.reaches(plan) else ())
            for role, nth in calls_of(fault) or [("ps", 0)]
        ]
        return Run("program", plan, Timeline(tuple(events), {}, ("a",)), seconds=1.0), judgement(self.verdict(plan))


def shrunk(program: Program, plan: Plan, **options: Any) -> Shrinker:
    shrinker = Shrinker(program, plan, Path("runs"), **options)
    if shrinker.start().alike:
        shrinker.shrink()
        shrinker.confirm()
    return shrinker


def smallest(program: Program, plan: Plan, **options: Any) -> Plan:
    found = shrunk(program, plan, **options).smallest
    assert found is not None
    return found.plan


@st.composite
def bugs(draw: st.DrawFn) -> Callable[[Plan], str]:
    """Draw what a program does: one verdict if some kinds are planned together, and another one at some calls."""
    kinds = draw(
        st.sets(st.sampled_from(["Delay", "Drop", "Crash", "Raise", "Pause", "Duplicate"]), min_size=1, max_size=2)
    )
    first, second = draw(st.permutations(["wrong", "hung", "leaked"]))[:2]
    call = ("a", draw(st.integers(1, 3)))

    def verdict(plan: Plan) -> str:
        if kinds <= {fault.kind for fault in plan.faults}:
            return first
        if any(call in calls_of(fault) for fault in plan.faults):
            return second
        return ("equal", "failed loudly", "unknown", "not fired")[len(str(plan)) % 4]  # no defect, and not always one

    return verdict


@settings(max_examples=100, database=None)
@given(DRAWN, bugs())
def test_no_smaller_plan_fails_and_the_verdict_stays(plan: Plan, bug: Callable[[Plan], str]) -> None:
    program = Program(bug)
    shrinker = shrunk(program, plan)
    verdict = bug(plan)
    if verdict not in ("wrong", "hung", "leaked"):
        assert shrinker.smallest is None
        assert program.plans == [plan]
        return
    assert shrinker.smallest is not None
    found = shrinker.smallest.plan
    assert bug(found) == verdict
    assert shrinker.minimal is True
    assert shrinker.failures == (2, 2)
    for number in range(len(found.faults) if len(found.faults) > 1 else 0):
        rest = Plan(found.faults[:number] + found.faults[number + 1 :], found.seed)
        assert bug(rest) != verdict, "a fault is not needed"
    assert found == Plan(tuple(plan.faults[number] for number in shrinker.kept), plan.seed)
    assert program.plans[-1] == found
    assert len(set(program.plans[:-1])) == len(program.plans) - 1, "a plan is run twice"


THREE = Plan.parse(
    "Delay site=m:f role=a nth=1 side=request seconds=0.5; Drop site=m:f role=a nth=3 side=reply; Duplicate site=m:g"
)


def test_a_fault_that_is_needed_no_more_is_left_out_in_another_round() -> None:
    """Here the first fault is needed as long as the last one is there."""

    def verdict(plan: Plan) -> str:
        kinds = [fault.kind for fault in plan.faults]
        return "wrong" if "Drop" in kinds and ("Duplicate" not in kinds or "Delay" in kinds) else "equal"

    assert smallest(Program(verdict), THREE) == Plan(THREE.faults[1:2])


def test_a_shrink_does_not_slip_to_another_bug() -> None:
    """One fault alone hangs, both together are wrong, and a check of another name does not fail alike."""

    def verdict(plan: Plan) -> str:
        return "wrong" if len(plan.faults) == 3 else "hung"

    assert smallest(Program(verdict), THREE).faults[1].kind == "Drop"
    assert len(smallest(Program(verdict), THREE).faults) == 3
    by_errors = judgement("wrong", "errors")
    assert not fails_alike(judgement("wrong"), by_errors)
    both = Judgement((*judgement("wrong").checks, *by_errors.checks), "wrong")
    assert fails_alike(by_errors, both)
    late = Judgement((*judgement("hung").checks, *by_errors.checks), "hung")
    assert not fails_alike(by_errors, late)
    assert not fails_alike(judgement("not fired"), judgement("not fired"))
    assert not fails_alike(judgement("unknown"), judgement("unknown"))


def test_a_shrink_does_not_slip_to_another_error() -> None:
    """The first fault makes the program fail its own check; the second one alone breaks something else."""

    def run(plan: Plan, folder: Path) -> tuple[Run, Judgement]:
        found, judged = Program(lambda plan: "wrong")(plan, folder)
        error = "AssertionError" if any(fault.kind == "Drop" for fault in plan.faults) else "KeyError"
        ends = {"a": End("Raised", f"raised {error}: 1", 1.0, (error, "Exception"))}
        return replace(found, ends=ends), judgement(judged.verdict, "errors")

    shrinker = Shrinker(run, THREE, Path("runs"))
    assert shrinker.start().alike
    shrinker.shrink()
    assert shrinker.smallest is not None
    assert [fault.kind for fault in shrinker.smallest.plan.faults] == ["Drop"]


def test_a_run_that_fails_before_any_fault_does_not_count() -> None:
    """As on a slow machine, where a run is overdue before its faults. Of most messages no event tells."""
    program = Program(lambda plan: "hung", reaches=lambda plan: len(plan.faults) == 3)
    shrinker = shrunk(program, THREE)
    assert shrinker.smallest is not None
    assert len(shrinker.smallest.plan.faults) == 3
    program = Program(lambda plan: "hung", reaches=lambda plan: False)
    assert shrunk(program, THREE).smallest is None
    assert shrunk(program, Plan.parse("Drop message=RREF_USER_DELETE role=a times=1")).smallest is not None


@pytest.mark.parametrize(
    ("budget", "runs", "minimal"),
    [(0.5, 1, False), (1.5, 2, False), (2.5, 3, False), (3.5, 4, True), (1000.0, 5, True)],
)
def test_no_run_begins_after_the_budget(
    budget: float, runs: int, minimal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run takes a second of the clock that the test sets. The given plan is run in any case. The fourth run shows
    that nothing smaller fails, and the fifth confirms it."""
    now = [0.0]
    monkeypatch.setattr("faults.run.shrink.time.monotonic", lambda: now[0])

    def verdict(plan: Plan) -> str:
        now[0] += 1.0
        return "wrong" if any(fault.kind == "Drop" for fault in plan.faults) else "equal"

    program = Program(verdict)
    shrinker = shrunk(program, THREE, budget=budget)
    assert len(program.plans) == runs
    assert shrinker.minimal == minimal
    assert shrinker.smallest is not None
    assert any(fault.kind == "Drop" for fault in shrinker.smallest.plan.faults)
    assert shrinker.failures == ((2, 2) if runs == 5 else (1, 1))


def test_a_plan_that_fails_only_sometimes_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(lambda plan: "wrong" if program.plans.count(plan) == 1 and plan == THREE else "equal")
    shrinker = shrunk(program, THREE, tell=tell)
    assert shrinker.smallest is not None
    assert shrinker.smallest.plan == THREE
    assert shrinker.failures == (1, 2)
    report("program", shrinker)
    said = capsys.readouterr()
    assert "failed in 1 of 2 runs: it does not fail in every run, so a smaller one may have" in said.out
    assert "removed: " not in said.out
    first, *_, last = said.err.splitlines()
    assert first == f"run 0, 1.0 s: wrong: {THREE}"
    assert last == f"run 4, 1.0 s: equal, again: {THREE}"


def test_the_smallest_plan_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    given = Plan.parse("; ".join(f"Duplicate site=m:function_{number} role=a" for number in range(200)))
    report("program", shrunk(Program(lambda plan: "wrong"), given, budget=0.0))
    plan = capsys.readouterr().out.splitlines()[-1].removeprefix("plan: ")
    assert len(plan) > 5000
    assert Plan.parse(plan) == given


def test_a_shrink_is_reported_even_if_nobody_can_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, asked = Program(lambda plan: "wrong"), options(budget=0.0, json=str(tmp_path / "report.json"))

    def kept(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        prepared(plan, place)
        return program(plan, place)

    monkeypatch.setattr("sys.stdout", Closed())
    with pytest.raises(OSError, match=r"^closed$"):
        shrink_plan(kept, "program", Plan.parse("Raise site=m:f role=a side=request"), tmp_path, asked, [])
    assert read_report(tmp_path / "report.json")["runs"][0]["verdict"] == "wrong"


# Real runs.

PAY = f"site={plays.PAY} role=till"
LOST = f"Drop {PAY} nth=2 side=reply"


def test_an_interrupted_shrink_tells_its_smallest_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The interrupt comes in the run after the first smaller plan that is kept."""
    given = f"Delay {PAY} side=request seconds=0.01; {LOST}; {LOST}"
    subject, began = plays.subject(plays.retrying), list[Plan]()

    def until(plan: Plan, place: Path) -> tuple[Run, Judgement]:
        began.append(plan)
        if len(began) == 3:
            raise KeyboardInterrupt
        return run(subject, plan, place)

    passed: list[bool | None] = []
    with pytest.raises(KeyboardInterrupt):
        shrink_plan(until, "retrying", Plan.parse(given), tmp_path, options(json=str(tmp_path / "report.json")), passed)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "retrying: wrong under 2 of 3 faults, after 2 runs"
    assert "the budget was spent, or the shrink was interrupted, before each fault was left out" in said
    assert said[-1] == f"plan: {LOST}; {LOST}"
    assert passed == [False]
    [told] = read_report(tmp_path / "report.json")["runs"]
    assert f"plan: {told['plan']}" == said[-1]
    smallest = read(told["folder"])
    assert str(smallest.plan) == told["plan"]
    assert judge(smallest).verdict == "wrong"


@pytest.mark.parametrize(
    ("plan", "verdict"), [(LOST, "failed loudly"), (f"Drop {PAY} nth=9 side=reply", "not fired: ")]
)
def test_a_plan_that_does_not_fail_is_refused(plan: str, verdict: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^the program does not fail under Drop site=") as caught:
        shrink_of(plays.subject(plays.careful), Plan.parse(plan), options(dir=str(tmp_path)))
    assert f"wanted hung, leaked, wrong or needless failure, got {verdict}" in str(caught.value)


def test_a_program_that_fails_before_the_fault_is_refused(tmp_path: Path) -> None:
    """It is healthy once, and then loses its first payment by itself."""
    found = iter([("equal", ""), ("wrong", "got 110, wanted 111")])
    subject = replace(plays.subject(plays.careful), judge=lambda outcomes: next(found))
    wanted = r"^the program fails before any fault of Drop site=\S+ .* hits it: wrong: got 110"
    with pytest.raises(BadInput, match=wanted):
        shrink_of(subject, Plan.parse(f"Drop {PAY} nth=9 side=reply"), options(dir=str(tmp_path)))


def test_a_plan_of_which_nothing_is_known_gives_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = iter([("equal", ""), ("unknown", "the check did not end")])
    subject = replace(plays.subject(plays.careful), judge=lambda outcomes: next(found))
    traced = options(dir=str(tmp_path), leaks="trace")
    assert shrink_of(subject, Plan.parse(f"Delay {PAY} side=reply seconds=0.01"), traced) == 3
    assert ledger.read(tmp_path / "healthy").of("traced"), "the run that the others are compared with is traced, too"
    assert capsys.readouterr().out.startswith("unknown whether the program fails under the plan, so there is nothing")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rnn"], "error: shrink what? wanted --plan PLAN, a plan under which the program fails"),
        (["rnn", "--plan", "seed=3"], "error: --plan 'seed=3' has no faults: wanted a plan under which"),
        (["rnn", "--plan", "Crash role=nobody at=up@nobody"], "nobody"),
        (["rnn", "--plan", LOST, "--healthy"], "error: unrecognized arguments: --healthy"),
        (["--plan", LOST, "--json", ".", "--script", "my.py"], "error: cannot write .: it is a directory"),
        (["--plan", "Reset role=till", "--script", "my.py"], "error: faults of a network need roles that are started"),
    ],
)
@pytest.mark.usefixtures("own_folder")
def test_bad_input_is_one_line_and_starts_nothing(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my.py").write_text("raise SystemExit('started')")
    assert main(["shrink", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
