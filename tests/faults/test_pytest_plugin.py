"""The plugin in suites of their own, as a user runs them, with the header of their reports."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from faults.plan import Plan
from faults.plan.kinds import NAMES
from faults.testing.settings import check, traces
from tests.support.suite_runs import ROOT, Run, installed, part, suites


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one of the suites in a process of its own."""
    return suites(pytester, monkeypatch)


def seconds(result: pytest.RunResult, test: str) -> float:
    """Return how long the test's call took, from ``--durations=0 -vv``."""
    found = re.search(rf"^([\d.]+)s call .*::{test}$", result.stdout.str(), re.MULTILINE)
    assert found is not None, result.stdout.str()
    return float(found[1])


@pytest.mark.long
def test_each_kind_of_leak_is_named_and_released_things_are_none(run: Run) -> None:
    result = run("leaking", "--faults-leaks=all")
    result.assert_outcomes(passed=21, errors=12)
    rref = ["b keeps num_owner_rrefs=1, was 0", "b keeps num_forks=1, was 0"]
    context = [f"{role} keeps num_autograd_contexts=1, was 0" for role in "ab"]
    wanted = {
        "process": [r"process \d+: sleep 60"],
        "orphan": [r"process \d+: sleep 61"],
        "memory": [r"shared memory planted_\w+"],
        "role": [r"process \d+: .*"],
        "rref": rref,
        "context": context,
        "an_rref_beside_a_failure_that_was_caught": rref,
        "an_rref_under_a_plan": rref,
        "a_context_in_a_world_of_ones_own": context,
        "an_rref_besides": rref,
        "a_context_in_a_fresh_world": context,
        "a_context_in_roles_that_return": [f"{role} keeps num_autograd_contexts=1 at its end" for role in "ab"],
    }
    for name, forms in wanted.items():
        first, *lines = part(result, f"ERROR at teardown of test_{name}")
        assert first == "left by this test:"
        for form in forms:
            assert any(re.fullmatch(form, line) for line in lines), (form, lines)
        assert all(any(re.fullmatch(form, line) for form in forms) for line in lines), (forms, lines)
    title = "ERROR at teardown of test_an_rref_under_a_plan"
    assert part(result, "faults: plan", title)[0].startswith("Delay site=tests.support.roles_plugin:double role=a ")
    assert any("fired" in line for line in part(result, "faults: timeline", title))


def test_a_failing_test_whose_folder_cannot_be_kept_says_so(run: Run) -> None:
    """The others of the run go on."""
    result = run("piped", "--faults-keep", "kept")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    assert part(result, "ERROR at teardown of test_with_a_pipe")[1].startswith("a copy of its run that is not whole: ")


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
def test_leaks_are_named_with_their_holders(run: Run) -> None:
    result = run("holding", "--faults-leaks-trace")
    result.assert_outcomes(passed=5, errors=4)
    fork = r"RRef \d+ of b: fork held by a since .*roles_plugin.py:\d+ in {}, where a made it; "
    by = r"the global _kept of tests\.support\.roles_plugin holds {}"
    context = r"autograd context \d+ of a: entered at .*roles_plugin.py:\d+ in keep_a_context, not left"
    wanted = {
        "rref": (3, fork.format("keep_an_rref") + by.format("it")),
        "context": (3, context),
        "another_rref_besides": (3, fork.format("keep_a_pair") + by.format("it")),
        "rrefs_of_a_world_that_ends": (1, fork.format("keep_an_rref") + by.format("it") + ", and a has got another .*"),
    }
    for name, (count, form) in wanted.items():
        lines = part(result, f"ERROR at teardown of test_{name}")[1:]
        assert len(lines) == count, lines
        assert re.fullmatch(form, lines[-1]), (form, lines)


@pytest.mark.parametrize(("arguments", "errors"), [([], 1), (["--faults-leaks=off"], 0)])
def test_leaks_count_for_the_tests_that_the_option_selects(run: Run, arguments: list[str], errors: int) -> None:
    """Two tests leave something; only one has a fixture."""
    result = run("asking", *arguments)
    result.assert_outcomes(passed=2, errors=errors)
    assert result.stdout.str().count(" ERROR at teardown of test_with_a_fixture ") == errors


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
def test_a_failing_test_shows_plan_timeline_logs_and_stacks(run: Run, pytester: pytest.Pytester) -> None:
    result = run("failing", "--faults-keep", "kept", "--faults-report", "pages", "--durations=0", "-vv")
    result.assert_outcomes(passed=3, failed=5, errors=1)
    for name in ("overdue", "call_overdue", "timeout"):
        assert seconds(result, f"test_{name}") < 1 + 6  # its own limit, and the time for the stacks
    text = result.stdout.str()
    fault = "Raise site=tests.support.roles_plugin:double role=a nth=1 side=request error=ValueError text='no sale'"
    assert text.count(f" faults: plan {'-' * 10}") == 3
    assert part(result, "faults: plan", "test_wrong") == [fault]
    assert str(Plan.parse(fault)) == fault
    timeline = part(result, "faults: timeline", "test_wrong")
    assert all(re.match(r" *\d+\.\d{4}  [ab]  \w+", line) for line in timeline)
    assert any(re.search(r"  b  fired  .* fault=0 kind=Raise", line) for line in timeline)
    unfired = fault.replace("nth=1", "nth=7")
    calls = "(recorded calls of this site: 1 by a)"
    assert f"not fired: {unfired} fired 0 times, wanted 1 {calls}" in result.stdout.lines
    assert part(result, "faults: log of a", "test_wrong") == ["asking b"]
    assert "ValueError: no sale" in part(result, "faults: log of b", "test_wrong")
    assert "AttributeError" not in text
    # The end comes by the world's deadline, by a call's, or by pytest-timeout. In the last two, b waits for work.
    assert len(re.findall(r"-+ faults: stacks of [ab] -+", text)) == 5
    for function in ("wait_for_ever", "_second_thread"):
        assert len(re.findall(rf"^  File .* in {function}$", text, re.MULTILINE)) == 3
    late = "faults of a message have to be there when RPC starts: wanted a fresh world, got idle"
    assert part(result, "ERROR at setup of test_too_late") == [late]
    folders = (pytester.path / "kept").iterdir()
    kept = {each.name: {str(file.relative_to(each)) for file in each.rglob("*.*")} for each in folders}
    names = ("call_overdue", "not_fired", "overdue", "timeout", "too_late", "wrong")
    assert kept.keys() == {f"test_failing.py_test_{name}" for name in names}
    assert {"plan.json", "a.jsonl", "b.jsonl"} <= kept["test_failing.py_test_wrong"]
    for name, files in kept.items():
        place = "" if name.endswith(("_test_wrong", "_test_overdue")) else "idle/"  # a fresh world's, or an idle one's
        assert {f"{place}a.log", f"{place}b.log"} <= files
        assert re.search(rf"-+ faults: kept -+\n{re.escape(str(pytester.path))}/kept/{re.escape(name)}\n", text)
    pages = {each.parent.name: each.read_text() for each in (pytester.path / "pages").glob("*/report.html")}
    assert pages.keys() == {f"test_failing.py_test_{name}" for name in ("not_fired", "wrong", "too_late")}
    page = pages["test_failing.py_test_wrong"]
    assert "This test failed." in page
    assert "no sale" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--faults-plan", "Frob x=1"], "--faults-plan: unknown 'kind' 'Frob', wanted one of Delay, *"),
        (["--faults-plan", ""], "--faults-plan: a plan without a fault does nothing: *, got ''"),
        (["--faults-seed", "-1"], "--faults-seed must be a whole number from 0, *, got '-1'"),
        (["--faults-seed", "9" * 5000], "--faults-seed must be a whole number from 0, of at most 1000 digits*"),
        (["--faults-keep", "/dev/null"], "--faults-keep must be a folder, got '/dev/null'"),
        (["--faults-report", ""], "--faults-report must be a folder, got ''"),
        (["-o", "faults_leaks=some"], "faults_leaks must be one of all, fixtures, off, got 'some'"),
    ],
)
def test_impossible_options_are_refused_in_one_line(
    arguments: list[str], message: str, pytester: pytest.Pytester
) -> None:
    config = pytester.parseconfig("-p", "faults.pytest_plugin", *arguments)
    with pytest.raises(pytest.UsageError) as refused:
        check(config)
    assert fnmatch(str(refused.value), message)
    assert "\n" not in str(refused.value)


def test_an_impossible_option_ends_pytest_before_any_test(run: Run) -> None:
    result = run("plain", "--faults-seed", "-1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --faults-seed must be a whole number from 0, *, got '-1'"])


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [([], False), (["--faults-leaks-trace"], True), (["-o", "faults_leaks_trace=true"], True)],
)
def test_worlds_trace_their_leaks_by_an_option_or_a_setting(
    arguments: list[str], wanted: bool, pytester: pytest.Pytester
) -> None:
    assert traces(pytester.parseconfig("-p", "faults.pytest_plugin", *arguments)) is wanted


def test_a_test_that_asks_for_something_impossible_fails_in_one_line(run: Run) -> None:
    result = run("misused")
    unknown = f"unknown 'kind' 'Frob', wanted one of {', '.join(NAMES)}"
    wanted = {
        "no_roles": 'no roles: wanted `pytestmark = pytest.mark.world("a", "b")` or an indirect parameter',
        "roles_of_one_test": "the mark world of one test has no effect, because a module has one world: "
        'wanted `pytestmark = pytest.mark.world("a", "b")` or an indirect parameter',
        "no_plan": 'no plan: wanted `@pytest.mark.plan("...")` or --faults-plan TEXT',
        "unknown_kind": unknown,
        "unknown_kind_beside_a_world": unknown,
        "unknown_kind_and_expected_to_fail": unknown,
        "unknown_leak": "the mark leaves takes processes, memory, rrefs, contexts, got process",
        "roles_that_cannot_be[twice]": "role names must differ, got a, a",
        "roles_that_cannot_be[text]": "roles are a mapping or a list of names, got 'ab'",
        "roles_that_cannot_be[played]": "an idle world's roles play nothing: wanted their names, got functions, too",
    }
    result.assert_outcomes(errors=len(wanted))
    for name, line in wanted.items():
        assert part(result, f"ERROR at setup of test_{name}") == [line]


@pytest.mark.parametrize("argument", ["dedline", "folder"])
def test_a_mark_with_an_argument_that_no_idle_world_takes_fails_in_one_line(
    argument: str, run: Run, pytester: pytest.Pytester
) -> None:
    mark = f"import pytest\npytestmark = pytest.mark.world('a', {argument}=3)"
    pytester.makepyfile(test_marked=f"{mark}\ndef test_marked(world): pass")
    (line,) = part(run("plain", "test_marked.py"), "ERROR at setup of test_marked")
    assert line == f"the mark world takes no {argument}: wanted arguments of launch"


@pytest.mark.long
def test_installed_or_not_it_is_there_once_and_torch_is_not(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The suite itself looks for torch. The plugin comes by a conftest, by both, or by the entry point alone."""
    ours = 'pytest_plugins = ["faults.pytest_plugin"]'
    for conftest, entry_point in ((ours, False), (ours, True), ("", True)):
        pytester.makeconftest(conftest)
        if entry_point:
            installed(pytester, monkeypatch)
        result = run("plain", "--faults-seed=5", plugin="no:nothing")
        result.assert_outcomes(passed=2)
        assert result.stdout.lines.count("faults: seed 5, leak check: fixtures") == 1


def test_an_idle_world_ends_with_its_module(run: Run, pytester: pytest.Pytester) -> None:
    fixture = "import pytest\n@pytest.fixture(scope='module')\ndef idle(idle_world): return idle_world(['a'])\n"
    pytester.makepyfile(
        test_first=f"{fixture}def test(idle, pytestconfig): pytestconfig.role = idle.pids['a']",
        test_second="from faults.run.leftovers import is_running\n"
        "def test(pytestconfig): assert not is_running(pytestconfig.role)",
    )
    run("plain", "test_first.py", "test_second.py").assert_outcomes(passed=4)


@pytest.mark.long
@pytest.mark.usefixtures("one_thread")
def test_the_examples_of_the_manual_run(run: Run, pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"```python\n# (\w+\.py).*\n((?s:.*?))```", (ROOT / "docs" / "pytest.md").read_text())
    assert [name for name, _ in blocks] == ["conftest.py", "shop.py", "test_shop.py"]
    for name, content in blocks:
        (pytester.path / name).write_text(content)
    pytester.runpytest_subprocess("test_shop.py", timeout=100).assert_outcomes(passed=3)


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "pytest.exit('enough', returncode=1)"])
def test_a_run_that_is_interrupted_ends_as_pytests_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A process and shared memory that the test had at that moment are no leaks, and nobody waits for them."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("from faults.testing import leak_account\nleak_account.GRACE = 1000.0")
    pytester.makepyfile(f"""
        import subprocess
        from multiprocessing.shared_memory import SharedMemory
        import pytest

        @pytest.fixture(scope="session", autouse=True)
        def child():
            with subprocess.Popen(["cat"], stdin=subprocess.PIPE):
                yield

        def test():
            test.kept = SharedMemory(create=True, size=8), subprocess.Popen(["cat"], stdin=subprocess.PIPE)
            {end}
    """)
    result = pytester.runpytest_subprocess("-p", "faults.pytest_plugin", "--faults-leaks=all", timeout=100)
    assert result.ret == (1 if "returncode" in end else pytest.ExitCode.INTERRUPTED)
    result.stdout.fnmatch_lines(["!* *KeyboardInterrupt* !*" if "raise" in end else "!* *enough* !*"])
    assert "Traceback" not in result.stderr.str()


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="subtests came with pytest 9")
def test_a_subtest_that_fails_does_not_end_the_worlds_of_its_test(run: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_parts="""
        import os
        from functools import partial
        from pathlib import Path

        def test(fresh_world, subtests, tmp_path):
            os.mkfifo(tmp_path / "word")
            word = os.open(tmp_path / "word", os.O_RDWR)
            world = fresh_world({"a": partial(read, tmp_path)})
            with subtests.test("first"):
                assert False
            os.write(word, b".")
            assert world.wait()["a"].value == b"."

        def read(folder):
            return os.read(os.open(folder / "word", os.O_RDONLY), 1)
        """
    )
    result = run("plain", "test_parts.py")
    result.stdout.fnmatch_lines(["contains 1 failed subtest", "*faults: end of a*", "returned"])
