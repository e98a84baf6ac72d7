"""A plan of a test is put to work, or the test fails. A suite has such tests in every combination."""

from __future__ import annotations

import re
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

from faults.plan import Plan, PlanError
from faults.plan.kinds import NAMES
from faults.testing.active_plan import UNUSED
from faults.testing.plan_check import Tally
from faults.testing.plan_marks import Wanted, of_option, wanted
from tests.support.suite_runs import Run, endings, part, suites

FAULT = "Raise site=tests.support.roles_plugin:double role=a {} side=request error=ValueError text='no sale'"
NOT_FIRED = (
    f"FAILED Failed: not fired: {FAULT.format('nth=2')} fired 0 times, wanted 1 (recorded calls of this site: 1 by a)"
)
REFUSAL = "ValueError: On WorkerInfo(id=1, name=b): ValueError('no sale')"
# The tests of suites/hurting.py that do not pass. A skipped test has no name there.
ENDINGS = {
    "not_fired_in_unittest": NOT_FIRED,
    "not_fired_and_expected_to_fail": NOT_FIRED.replace("1 by a", "none"),
    "not_fired_and_expected_to_fail_in_vain": NOT_FIRED,
    "not_fired_though_unseen": "FAILED Failed: not fired: Drop message=PYTHON_REMOTE_CALL role=a times=1: "
    "left no evidence",
    "expected_to_fail_under_it": "XFAIL",
    "hurt_unexpectedly": f"FAILED reference.outcome.RoleFailed: a raised ValueError: {REFUSAL}",
    "hurt_unexpectedly_in_the_role": f"FAILED reference.outcome.RoleFailed: a raised ValueError: {REFUSAL}",
    "not_fired_though_an_error_is_expected": NOT_FIRED,
    "unused_without_a_fixture": f"FAILED Misuse: {UNUSED}",
    "unused_arguments": f"FAILED Misuse: {UNUSED}",
    "unused_though_unseen": f"FAILED Misuse: {UNUSED}",
    "unused_when_nobody_says_so": f"FAILED Misuse: {UNUSED}",
    "unused_and_expected_to_fail": f"FAILED Misuse: {UNUSED}",
    "unused_and_said_to_fail": f"FAILED Misuse: {UNUSED}",
    "late_mark": f"FAILED Misuse: {UNUSED}",
    "late_second_mark": "FAILED Misuse: a mark `plan` that came after the test's set-up does nothing",
    "stranger_in_a_fresh_world": "FAILED faults.plan.places.PlanError: Drop message=RREF_USER_DELETE role=c times=1: "
    "no role c; wanted some of a, b",
    "stranger_in_the_idle_world": f"ERROR Misuse: {FAULT.format('nth=1').replace('role=a', 'role=c')}: "
    "no role c; wanted some of a, b",
    "broken_in_its_set_up": "ERROR OSError: broken",
    "failed": f"FAILED reference.outcome.RoleFailed: a raised ValueError: {REFUSAL}",
    "overdue": "FAILED Failed: Timeout",
}


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one of the suites in a process of its own."""
    monkeypatch.setenv("COLUMNS", "400")  # the summary in whole lines
    return suites(pytester, monkeypatch)


def counted(result: pytest.RunResult) -> str:
    """Return the line on the tests that ran under a plan."""
    found = [re.fullmatch(r"=+ faults: (.* ran under .*?) =+", line) for line in result.outlines]
    (said,) = [match[1] for match in found if match]
    return said


# The tests of suites/hurting.py by their names, as `-k` chooses them.
KINDS_OF_TESTS = {
    "hurt": "test_hurt_ or test_parameter or test_expected",
    "not fired": "test_not_fired",
    "unused": "test_unused or test_late",
}
OTHERS = " and ".join(f"not ({each})" for each in (*KINDS_OF_TESTS.values(), "test_option"))


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("kind", "ended", "said"),
    [
        ("hurt", 17, ["16 of 17 tests have a plan", "16 tests ran under a plan"]),
        ("not fired", 5, ["5 of 5 tests have a plan", "5 tests ran under a plan"]),
        ("unused", 8, ["7 of 8 tests have a plan", "1 test ran under a plan"]),
        ("others", 9, ["6 of 10 tests have a plan", "3 tests ran under a plan"]),  # one is skipped
    ],
    ids=[*KINDS_OF_TESTS, "others"],
)
def test_a_mark_alone_puts_its_plan_to_work_or_fails_its_test(run: Run, kind: str, ended: int, said: list[str]) -> None:
    result = run("hurting", "-rA", "-k", KINDS_OF_TESTS.get(kind, OTHERS))
    found = {name: re.sub(r"Timeout .*", "Timeout", how) for name, how in endings(result).items()}
    assert {name: how for name, how in found.items() if how != "PASSED"} == {
        name: how for name, how in ENDINGS.items() if name in found
    }
    assert len(found) == ended
    assert re.findall(r"faults: (.* (?:have|under) a plan)", result.stdout.str()) == said
    if kind == "not fired":  # what ended the test that was expected to fail is told, too
        shown = part(result, "faults: the failure that was expected", "test_not_fired_and_expected_to_fail")
        assert "E       AssertionError: before it could" in shown


@pytest.mark.parametrize(
    ("account", "said"), [(None, []), ({"worked": True, "fired": []}, ["1 test ran under a plan"])]
)
def test_the_tests_with_marks_of_xdists_workers_are_counted(
    account: Any, said: list[str], pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """The controller gets reports only: it collects no test."""
    config = pytester.parseconfig("-p", "faults.pytest_plugin")
    report = pytest.TestReport("test", ("", 0, ""), {}, "passed", None, "call", faults_plan=account)
    tally = Tally(config, None)
    tally.pytest_runtest_logreport(report)
    tally.pytest_terminal_summary(TerminalReporter(config))
    assert re.findall(r"faults: (.* under a plan)", capsys.readouterr().out) == said


@pytest.mark.long
@pytest.mark.parametrize("workers", [0, 2])
def test_a_plan_of_the_command_line_hits_every_test_with_a_world(run: Run, workers: int) -> None:
    result = run("hurting", "-k", "option", "-n", str(workers), "--faults-plan", FAULT.format("nth=1"))
    result.assert_outcomes(passed=5)
    assert result.ret == pytest.ExitCode.OK
    assert counted(result) == "4 tests ran under the plan of --faults-plan"


NONE = "no test ran under the plan of --faults-plan: wanted one that uses world, fresh_world or plan"


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("plan", "ran", "why"),
    [
        (FAULT.format("nth=99"), "1 test", f"fired in no test: {FAULT.format('nth=99')}"),
        ("Drop message=RREF_USER_DELETE times=1", "0 tests", NONE),
        (FAULT.format("nth=1").replace("role=a", "role=c"), "0 tests", NONE),
    ],
)
def test_a_run_in_which_a_plan_of_the_command_line_never_fired_fails(run: Run, plan: str, ran: str, why: str) -> None:
    result = run("hurting", "-k", "option_without", "--faults-plan", plan)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert counted(result) == f"{ran} ran under the plan of --faults-plan"
    assert why in result.outlines
    assert any(line.startswith("faults: 1 test ran without it: ") for line in result.outlines) == (ran == "0 tests")


def test_a_run_without_a_test_for_the_plan_of_the_command_line_fails(run: Run) -> None:
    result = run("plain", "--faults-plan", FAULT.format("nth=1"))
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "faults: 0 of 2 tests have a plan" in result.outlines
    assert any("faults: the plan was not carried out" in line for line in result.outlines)


UNKNOWN = f"unknown 'kind' 'nonsense', wanted one of {', '.join(NAMES)}"
EMPTY = "a plan without a fault does nothing: wanted at least one fault, got "
ONE = "the plans of one test are joined: wanted one"


@pytest.mark.parametrize(
    ("marks", "why"),
    [
        ("@plan(FAULT, 'nonsense')", UNKNOWN),
        ("@plan('nonsense')\n@plan(FAULT)", UNKNOWN),
        ("@plan('')", f"{EMPTY}''"),
        ("@plan('seed=3')", f"{EMPTY}'seed=3'"),
        ("@plan(FAULT)\n@plan('{}')", f"{EMPTY}'{{}}'"),
        ("@plan", 'no plan: wanted `@pytest.mark.plan("...")`, got a mark without a text'),
        ("@plan(7)", 'no plan: wanted `@pytest.mark.plan("...")` or --faults-plan TEXT, got 7'),
        ("@plan(f'seed=3; {FAULT}')\n@plan(f'# so\\nseed=4; {FAULT}')", f"{ONE} seed, got 4 and 3"),
        ("@plan(FAULT, unseen=True)\n@plan(FAULT, unseen=False)", f"{ONE} unseen, got False and True"),
        ("@plan(FAULT, expect_error=['E'])", "the mark plan: expect_error must be a text, got ['E']"),
        ("@plan(FAULT, unseen='yes')", "the mark plan: unseen must be True or False, got 'yes'"),
        ("@plan('seed=1', unsen=True)", "the mark plan takes unseen, activate, expect_error, got unsen"),
    ],
)
def test_marks_that_are_no_plan_are_refused(pytester: pytest.Pytester, marks: str, why: str) -> None:
    """tests/faults/test_pytest_plugin.py shows that a test with such marks fails, whatever fixtures it has."""
    pytester.plugins.append("faults.pytest_plugin")
    names = "FAULT = 'Raise site=shop:pay role=a side=request'\nplan = pytest.mark.plan"
    item = pytester.getitem(f"import pytest\n{names}\n{marks}\ndef test_func(): pass")
    with pytest.raises(PlanError) as refused:
        wanted(item, None)
    assert str(refused.value) == why


@pytest.mark.parametrize(("message", "unseen"), [("RREF_USER_DELETE", True), ("RREF_FORK_REQUEST", False)])
def test_a_test_answers_only_for_messages_of_its_own_plan(
    pytester: pytest.Pytester, message: str, unseen: bool
) -> None:
    """The plan of the option replaces that of the mark."""
    pytester.plugins.append("faults.pytest_plugin")
    mark = "@pytest.mark.plan('Drop message=RREF_USER_DELETE times=1', unseen=True)"
    item = pytester.getitem(f"import pytest\n{mark}\ndef test_func(): pass")
    option = f"Drop message={message} times=1"
    assert wanted(item, option) == Wanted(Plan.parse(option), unseen)


def test_a_mark_that_does_not_name_an_option_agrees_with_one_that_does(pytester: pytest.Pytester) -> None:
    pytester.plugins.append("faults.pytest_plugin")
    texts = FAULT.format("nth=1"), FAULT.format("nth=2")
    marks = f"@pytest.mark.plan({texts[1]!r}, expect_error='OSError')\n@pytest.mark.plan({texts[0]!r})"
    item = pytester.getitem(f"import pytest\n{marks}\ndef test_func(): pass")
    assert wanted(item, None) == Wanted(Plan.parse("; ".join(texts)), expect_error="OSError")


def test_several_options_are_joined_to_one_plan(pytester: pytest.Pytester) -> None:
    pytester.plugins.append("faults.pytest_plugin")
    texts = ["seed=3; Drop message=RREF_USER_DELETE times=1", FAULT.format("nth=1")]
    both = Plan.parse("; ".join(texts))
    config = pytester.parseconfigure(*(f"--faults-plan={text}" for text in texts))
    assert config.option.faults_plan == str(both)
    assert of_option(texts) == of_option(str(both)) == both
    assert of_option(None) is None
    with pytest.raises(PlanError, match="wanted one seed, got 3 and 4"):
        of_option([texts[0], texts[0].replace("3", "4")])


@pytest.mark.long
def test_a_plan_that_a_test_leaves_in_its_own_process_is_removed_and_told(run: Run) -> None:
    result = run("hooked", "-rA")
    assert {name: how for name, how in endings(result).items() if how != "PASSED"} == {
        "installed": "ERROR Failed: left by this test:",
        "active": "FAILED OSError: before it is undone",
    }
    result.assert_outcomes(passed=6, failed=1, errors=2)
    line = "a plan in this process: wanted hook.remove() or hook.deactivate()"
    summary = next(number for number, each in enumerate(result.outlines) if "short test summary" in each)
    assert result.outlines[:summary].count(line) == 2  # in CI pytest prints it in its summary, too
