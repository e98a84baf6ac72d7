"""The plugin in suites of their own, as anybody would run them: what they report is read line by line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUITES = Path(__file__).parent / "suites"
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run one of the suites in a process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini("[pytest]\n")

    def start(suite: str, *arguments: str, plugin: str = "faults.pytest_plugin") -> pytest.RunResult:
        pytester.makepyfile(**{f"test_{suite}": (SUITES / f"{suite}.py").read_text()})
        options = ("-p", plugin, "-p", "no:cacheprovider", f"test_{suite}.py", *arguments)
        return pytester.runpytest_subprocess(*options, timeout=100)

    return start


def part(result: pytest.RunResult, title: str) -> list[str]:
    """The lines below the first heading of this title, up to the next one."""
    lines = result.stdout.lines
    starts = [n for n, line in enumerate(lines) if re.fullmatch(rf"[-_]+ {re.escape(title)} [-_]+", line)]
    assert starts, (title, result.stdout.str())
    rest = lines[starts[0] + 1 :]
    end = next(n for n, line in enumerate([*rest, "=" * 10]) if re.match(r"[-_=]{5,}|[-_=]+ .* [-_=]+$", line))
    return rest[:end]


def test_each_kind_of_leak_is_named_and_what_is_given_back_is_none(run: Run) -> None:
    result = run("leaking", "--faults-leaks=all")
    result.assert_outcomes(passed=18, errors=9)
    wanted = {
        "process": [r"process \d+: sleep 60"],
        "orphan": [r"process \d+: sleep 61"],
        "thread": ["thread planted"],
        "descriptor": [r"file descriptor \d+: /dev/null"],
        "memory": [r"file descriptor \d+: /dev/shm/planted_\w+", r"shared memory planted_\w+"],
        "file": [r"temporary file world-planted\w+"],
        "role": [r"process \d+: .*", r"thread world", r"file descriptor .*"],
        "rref": ["b keeps num_owner_rrefs=1, was 0", "b keeps num_forks=1, was 0"],
        "context": ["a keeps num_autograd_contexts=1, was 0", "b keeps num_autograd_contexts=1, was 0"],
    }
    for name, forms in wanted.items():
        first, *lines = part(result, f"ERROR at teardown of test_{name}")
        assert first == "left by this test:"
        for form in forms:
            assert any(re.fullmatch(form, line) for line in lines), (form, lines)
        assert all(any(re.fullmatch(form, line) for form in forms) for line in lines), (forms, lines)


def test_a_suite_that_does_not_ask_is_not_held_to_anything(run: Run) -> None:
    """By default only tests with the fixtures are; here those of RRefs."""
    result = run("leaking")
    result.assert_outcomes(passed=18, errors=2)
    assert run("leaking", "--faults-leaks=off", "-k", "rref").parseoutcomes() == {"passed": 2, "deselected": 16}


def test_a_failing_test_shows_plan_timeline_logs_and_stacks(run: Run, pytester: pytest.Pytester) -> None:
    begin = time.monotonic()
    result = run("failing", "--faults-keep", "kept")
    assert time.monotonic() - begin < 90  # five tests fail, each within its own bound, on a busy machine too
    result.assert_outcomes(passed=3, failed=5)
    text = result.stdout.str()
    fault = "Raise site=tests.plugin_plays:double role=a nth=1 side=request error=ValueError text='no sale'"
    assert text.count(f" faults: plan {'-' * 10}") == 2
    assert re.search(rf"-+ faults: plan -+\n{re.escape(fault)}\n-+ faults: timeline -+\n", text)
    timeline = part(result, "faults: timeline")
    assert all(re.match(r" *\d+\.\d{4}  [ab]  \w+", line) for line in timeline)
    assert any(re.search(r"  b  fired  fault=0 kind=Raise", line) for line in timeline)
    unfired = fault.replace("nth=1", "nth=7")
    calls = "(recorded calls of it: 1 by a)"
    assert f"not fired: {unfired} fired 0 times, wanted 1 {calls}" in result.stdout.lines
    assert "asking b" in text
    assert text.count("in hang_in_this_function") == 3  # by the world's deadline, a call's, and pytest-timeout's
    assert len(re.findall(r"-+ faults: stacks of [ab] -+", text)) == 4
    kept = sorted(path.name for path in (pytester.path / "kept").iterdir())
    assert kept == [
        f"test_failing.py_{name}"
        for name in ("test_call_overdue", "test_not_fired", "test_overdue", "test_timeout", "test_wrong")
    ]
    files = {path.name for path in (pytester.path / "kept" / "test_failing.py_test_wrong").iterdir()}
    assert {"plan.json", "a.jsonl", "b.jsonl", "a.log", "b.log"} <= files
    for place in kept:
        assert re.search(rf"-+ faults: kept -+\nkept/{re.escape(place)}\n", text)


def test_the_plan_of_the_command_line_comes_first(run: Run) -> None:
    """The same tests: the healthy plan makes the failing one pass, and the other has nothing that could not fire."""
    result = run("failing", "--faults-plan", "seed=3", "-k", "wrong or not_fired")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--faults-plan", "Frob x=1"], "ERROR: unknown 'kind' 'Frob', wanted one of Delay, Raise, Drop, *"),
        (["--faults-seed", "-1"], "ERROR: --faults-seed must be a whole number from 0, got '-1'"),
        (["-o", "faults_leaks=some"], "ERROR: faults_leaks must be one of all, fixtures, off, got 'some'"),
    ],
)
def test_options_that_mean_nothing(run: Run, arguments: list[str], message: str) -> None:
    result = run("plain", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def installed(pytester: pytest.Pytester, name: str) -> None:
    """As pip leaves a package: its metadata on the path."""
    place = pytester.path / "reference_package-1.0.dist-info"
    place.mkdir(exist_ok=True)
    (place / "METADATA").write_text("Metadata-Version: 2.1\nName: reference-package\nVersion: 1.0\n")
    (place / "entry_points.txt").write_text(f"[pytest11]\n{name} = faults.pytest_plugin\n")


def test_installed_or_not_it_is_there_once_and_torch_is_not(run: Run, pytester: pytest.Pytester) -> None:
    """The suite itself looks for torch. An entry point of another name is registered a second time, and refused."""
    pytester.makeconftest('pytest_plugins = ["faults.pytest_plugin"]')
    result = run("plain", "--faults-seed=5", plugin="no:nothing")
    result.assert_outcomes(passed=2)
    assert result.stdout.lines.count("faults: seed 5, leaks of fixtures") == 1
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert list(points.values()) == ["faults.pytest_plugin"]
    installed(pytester, next(iter(points)))
    run("plain", plugin="no:nothing").assert_outcomes(passed=2)
    pytester.makeconftest("")
    run("plain", plugin="no:nothing").assert_outcomes(passed=2)
    pytester.makeconftest('pytest_plugins = ["faults.pytest_plugin"]')
    installed(pytester, "faults")
    twice = run("plain", plugin="no:nothing")
    assert twice.ret != 0
    assert "Plugin already registered under a different name" in twice.stdout.str() + twice.stderr.str()


def test_the_seed_decides_what_hypothesis_draws(run: Run) -> None:
    drawn = []
    for seed in ("1", "1", "2"):
        result = run("drawing", "-s", "--faults-seed", seed)
        result.assert_outcomes(passed=1)
        drawn.append(next(line for line in result.stdout.lines if "drawn" in line))
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_examples_of_the_manual(run: Run, pytester: pytest.Pytester) -> None:
    blocks = re.findall(r"```python\n# (\w+\.py).*\n((?s:.*?))```", (ROOT / "docs" / "pytest.md").read_text())
    assert [name for name, _ in blocks] == ["conftest.py", "shop.py", "test_shop.py"]
    for name, content in blocks:
        (pytester.path / name).write_text(content)
    pytester.runpytest_subprocess("test_shop.py", timeout=100).assert_outcomes(passed=4)


def test_in_two_workers_of_xdist(run: Run) -> None:
    result = run("failing", "-n", "2", "--faults-leaks=all", "-k", "wrong or replaced or dies or fires")
    result.assert_outcomes(passed=3, failed=1)
    assert "faults: timeline" in result.stdout.str()
    assert result.stdout.str().count("faults: seed 0") == 1


def test_two_suites_at_once_do_not_disturb_each_other(pytester: pytest.Pytester) -> None:
    """While a test of the second begins and ends, the first has a process, shared memory and a world of its own."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_shared=(SUITES / "shared.py").read_text())
    for name in ("go", "made", "done"):
        os.mkfifo(pytester.path / name)
    processes = []
    for part_of in ("first", "second"):
        command = [sys.executable, "-m", "pytest", "-p", "faults.pytest_plugin", "-p", "no:cacheprovider"]
        processes.append(
            subprocess.Popen(
                [*command, "--faults-leaks=all", "--timeout=60", "-k", part_of],
                cwd=pytester.path,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        first, second = (process.communicate(timeout=90)[0] for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait(10)
    assert [process.returncode for process in processes] == [0, 0], first + second
    assert "1 passed" in first
    assert "2 passed" in second
