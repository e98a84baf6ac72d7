"""The hooks and fixtures of the pytest plugin: worlds, plans, leak accounts, reports (docs/pytest.md).

torch is not imported before a test asks for one of the fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faults.run.leftovers import marked
from faults.testing.leak_account import account, not_waited_for
from faults.testing.plan_check import Misuse, Tally, check_plan, expected, insist, one_line_of_plan
from faults.testing.plan_marks import check_world, marks_of, wanted
from faults.testing.running_test import RunningTest, tell
from faults.testing.settings import (
    IDLE_WORLDS,
    MARKERS,
    PROCESS_MARK,
    RUNNING_TEST,
    add_options,
    check,
    leaks_of,
    seed_text,
    traces,
)

if TYPE_CHECKING:
    from faults.testing.active_plan import ActivePlan
    from faults.testing.idle_world import Idle
    from reference.world.world import World


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    plan = check(config)
    config.option.faults_plan = None if plan is None else str(plan)
    config.pluginmanager.register(Tally(config, plan), "faults-tally")
    seed = seed_text(config)
    if seed and getattr(config.option, "hypothesis_seed", "") is None:
        config.option.hypothesis_seed = seed
    config.stash[IDLE_WORLDS] = []
    stack = ExitStack()
    config.stash[PROCESS_MARK] = stack.enter_context(marked())
    config.add_cleanup(stack.close)


def pytest_report_header(config: pytest.Config) -> list[str]:
    text = config.option.faults_plan
    plan = [] if text is None else [f"faults: the plan of --faults-plan: {text}"]
    return [f"faults: seed {seed_text(config) or 0}, leak check: {leaks_of(config)}", *plan]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set the plan of a test up after all its other fixtures, even if the test does not name `plan`."""
    # A new state each time, because a test may be run again.
    item.stash[RUNNING_TEST] = RunningTest(isolated=item.config.getini("faults_isolated"), trace=traces(item.config))
    with one_line_of_plan():
        asked = wanted(item, item.config.option.faults_plan)
        check_world(item)
    names = getattr(item, "fixturenames", None)
    if asked is not None and names is not None and "_faults_plan" not in names:
        item.fixturenames = [*names, "_faults_plan"]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _faults_account(request: pytest.FixtureRequest) -> Iterator[None]:
    """Account for leaks around every test and all of its own fixtures."""
    with account(request):
        yield


@pytest.fixture(scope="module")
def idle_world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Idle]]:
    """Return ``idle_world(roles, **arguments)``: it launches a world of idle roles for the tests of this module, and is
    meant for fixtures of module scope."""
    idles: list[Idle] = request.config.stash[IDLE_WORLDS]
    begin = len(idles)

    def start(roles: Any, **arguments: Any) -> Idle:
        from faults.testing.idle_world import Idle

        arguments.setdefault("isolated", request.config.getini("faults_isolated"))
        idles.append(Idle(roles, lambda: tmp_path_factory.mktemp("idle"), trace=traces(request.config), **arguments))
        return idles[-1]

    yield start
    for idle in idles[begin:]:
        idle.close()
    del idles[begin:]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, idle_world: Callable[..., Idle]) -> Iterator[Idle]:
    """Return the idle world of this module's mark ``world``, or of an indirect parameter: a list of roles."""
    mark = request.node.get_closest_marker("world")
    roles = getattr(request, "param", mark.args if mark else ())
    if not roles:
        wanted = 'wanted `pytestmark = pytest.mark.world("a", "b")` or an indirect parameter'
        pytest.fail(f"no roles: {wanted}", pytrace=False)
    from reference.outcome import WorldError
    from reference.world.launcher import launch

    arguments = mark.kwargs if mark else {}
    if wrong := arguments.keys() - signature(launch).parameters.keys() | arguments.keys() & {"roles", "folder"}:
        pytest.fail(f"the mark world takes no {', '.join(sorted(wrong))}: wanted arguments of launch", pytrace=False)
    try:
        idle = idle_world(roles, **arguments)
    except WorldError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    yield idle
    idle.close()
    request.config.stash[IDLE_WORLDS].remove(idle)


@pytest.fixture
def run_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, _faults_account: None) -> Path:
    """Return a folder for this test's ledgers and logs. If the test fails, ``--faults-keep DIR`` copies it to DIR."""
    request.node.stash[RUNNING_TEST].folder = folder = tmp_path_factory.mktemp("run")
    return folder


@pytest.fixture
def fresh_world(request: pytest.FixtureRequest, run_dir: Path) -> Iterator[Callable[..., World]]:
    """Return ``fresh_world(roles, **arguments)``: it is `launch` under this test's plan, or without it
    (``healthy=True``). The world is closed at the end of the test."""
    running = request.node.stash[RUNNING_TEST]
    _make_plan(request.node, run_dir)  # another fixture may launch before `_faults_plan` is set up
    yield running.launch
    running.close(not_waited_for(request.node))
    if running.plan is not None:
        running.plan.close()  # even if the set-up fails before `_faults_plan`


@pytest.fixture
def _faults_plan(request: pytest.FixtureRequest, run_dir: Path) -> Iterator[ActivePlan | None]:
    """Put this test's plan to work in its idle world, unless the test does so itself."""
    active = _make_plan(request.node, run_dir)
    if active is None:
        yield None
        return
    from faults.testing.idle_world import Idle

    world = getattr(request.node, "funcargs", {}).get("world")  # set up already, because its scope is wider
    try:
        if active.asked.activate and isinstance(world, Idle):
            with one_line_of_plan():
                active.begin(world)
        yield active
    finally:
        active.close()


@pytest.fixture
def plan(_faults_plan: ActivePlan | None) -> ActivePlan:
    """Return the plan of ``--faults-plan`` or of this test's marks, at work in its idle world or in the next fresh
    one."""
    if _faults_plan is None:
        raise Misuse('no plan: wanted `@pytest.mark.plan("...")` or --faults-plan TEXT', pytrace=False)
    return _faults_plan


@pytest.fixture(scope="session")
def faults_seed(request: pytest.FixtureRequest) -> int:
    """Return the run's seed."""
    return int(seed_text(request.config) or 0)


def _make_plan(item: pytest.Item, folder: Path) -> ActivePlan | None:
    """Make the plan of this test, once."""
    running = item.stash[RUNNING_TEST]
    with one_line_of_plan():
        asked = wanted(item, item.config.option.faults_plan)
    if running.plan is None and asked is not None:
        from faults.testing.active_plan import ActivePlan

        running.marks = marks_of(item)
        running.plan = ActivePlan(asked, folder)
    return running.plan


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test whose fault never fired. A test may end by an error that its mark expects."""
    try:
        yield
    except Exception as error:
        if not expected(item, error):
            raise
    finally:
        item.stash[RUNNING_TEST].called = True
    check_plan(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's own hook, which excuses expected failures
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    running = item.stash.get(RUNNING_TEST, None)
    if running is None:
        return report
    if report.when == "call" and not running.called:  # a subtest's report, while the test runs
        running.part_failed |= report.failed
        return report
    insist(item, call, report)
    if running.plan is not None and report.when == "call":
        report.faults_plan = running.plan.account()  # type: ignore[attr-defined]
    # Once per test: if the test itself failed, the teardown's failure does not print the sections again.
    if (report.failed or running.part_failed) and not running.failed:
        running.failed = True
        if running.folder or running.idles:  # a plan and a fresh world have the folder
            tell(item, running, report)
    if report.when == "teardown" and running.page is not None and item.config.pluginmanager.hasplugin("html"):
        from pytest_html import extras

        report.extras = [*getattr(report, "extras", []), extras.url(running.page.resolve().as_uri(), "faults")]  # type: ignore[attr-defined]
    return report
