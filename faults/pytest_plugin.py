"""For pytest: worlds, plans, accounts of what a test leaves, and reports that show why one failed. docs/pytest.md.

Nothing of torch is imported before a test asks for one of the fixtures.
"""

from __future__ import annotations

import multiprocessing.util
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faults.plan.plan import Plan, PlanError
from faults.run.process_tree import marked
from faults.script import autostart
from faults.testing.leaks import KINDS, Accounting
from faults.testing.plan_marks import check_world, marks_of, of_option, wanted
from faults.testing.plan_tally import Tally
from faults.testing.running_test import RunningTest, place_for
from reference.system.printable import one_line, printable, shown

if TYPE_CHECKING:
    from faults.testing.active_plan import ActivePlan
    from faults.testing.idle_world import Idle

FIXTURES = {"world", "idle_world", "fresh_world", "plan", "run_dir", "_faults_plan"}
LEAKS = ("all", "fixtures", "off")
DIGITS = 1000  # of a seed: Python reads no more than 4300
MARKERS = (
    "world(*roles, **arguments): of a module: the roles of its idle world, and more for `reference.world.launch`",
    "plan(*texts, unseen=False, activate=True): what goes wrong in this test; docs/pytest.md",
    f"leaves(*kinds): what this test may leave: {', '.join(KINDS)}",
)

_scene = pytest.StashKey[RunningTest]()
_idles = pytest.StashKey[list[Any]]()  # of `Idle`
_mark = pytest.StashKey[str]()
_temporary = pytest.StashKey[str]()  # where temporary files go, so that another run's are not taken for this one's


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    told = "the plan of every test that can be hurt, instead of its own; several are joined"
    group.addoption("--faults-plan", metavar="TEXT", action="append", help=told)
    group.addoption("--faults-keep", metavar="DIR", help="keep ledgers and logs of failed tests there")
    group.addoption("--faults-leaks", choices=LEAKS, help="which tests are held to what they leave (fixtures)")
    group.addoption("--faults-seed", metavar="N", help="the fixture faults_seed, and Hypothesis's seed if it has none")
    parser.addini("faults_leaks", f"default of --faults-leaks: {', '.join(LEAKS)}", default="fixtures")
    told = "whether worlds of the fixtures are isolated, unless they say otherwise"
    parser.addini("faults_isolated", told, type="bool", default=False)
    parser.addini("faults_seed", "default of --faults-seed; none leaves Hypothesis alone", default="")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    autostart.tell_now()  # pytest captures what is written later
    try:
        plan = of_option(config.option.faults_plan)
    except PlanError as error:
        raise pytest.UsageError(f"--faults-plan: {error}") from None
    config.option.faults_plan = None if plan is None else str(plan)
    config.pluginmanager.register(Tally(config, plan), "faults-tally")
    if leaks_of(config) not in LEAKS:
        raise pytest.UsageError(f"faults_leaks must be one of {', '.join(LEAKS)}, got {leaks_of(config)!r}")
    keep = config.option.faults_keep
    if keep is not None and (not keep or (os.path.lexists(keep) and not Path(keep).is_dir())):
        raise pytest.UsageError(f"--faults-keep must be a folder, got {keep!r}")
    seed = _seed_text(config)
    if not (seed or "0").isdecimal() or len(seed) > DIGITS:
        wanted = f"a whole number from 0, of at most {DIGITS} digits"
        raise pytest.UsageError(f"--faults-seed must be {wanted}, got {shown(seed)}")
    if seed and getattr(config.option, "hypothesis_seed", "") is None:
        config.option.hypothesis_seed = seed
    config.stash[_idles] = []
    stack = ExitStack()
    config.stash[_mark] = stack.enter_context(marked())
    config.add_cleanup(stack.close)


def pytest_report_header(config: pytest.Config) -> list[str]:
    text = config.option.faults_plan
    plan = [] if text is None else [f"faults: the plan of --faults-plan: {Plan.parse(text)}"]
    return [f"faults: seed {_seed_text(config) or 0}, leaks of {leaks_of(config)}", *plan]


def leaks_of(config: pytest.Config) -> str:
    """Which tests are held to what they leave: `LEAKS`."""
    return str(config.option.faults_leaks or config.getini("faults_leaks"))


def _seed_text(config: pytest.Config) -> str:
    return str(config.option.faults_seed or config.getini("faults_seed"))


class Misuse(pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A test that asks for what cannot be: an error also of one that is expected to fail."""

    __module__ = "builtins"  # as pytest's own: its summary has only the name


@contextmanager
def _one_line() -> Iterator[None]:
    """A plan that cannot be fails its test with the error's text alone."""
    try:
        yield
    except PlanError as error:
        raise Misuse(str(error), pytrace=False) from None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that is to be hurt has its plan made after all other fixtures, whether or not it names `plan`."""
    item.stash[_scene] = RunningTest(isolated=item.config.getini("faults_isolated"))  # anew: a test may be run again
    with _one_line():
        asked = wanted(item, item.config.option.faults_plan)
        check_world(item)
    names = getattr(item, "fixturenames", None)
    if asked is not None and names is not None and "_faults_plan" not in names:
        item.fixturenames = [*names, "_faults_plan"]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _faults_account(request: pytest.FixtureRequest) -> Iterator[None]:
    """Around every test, and all of its own fixtures."""
    mode, names = leaks_of(request.config), set(request.fixturenames)
    scene = request.node.stash[_scene]
    scene.idles = [*request.config.stash[_idles]] if {"world", "idle_world"} & names else []
    for idle in scene.idles:
        idle.begin()
    held = mode != "off" and (mode == "all" or bool(FIXTURES & names))
    left: list[str] = []
    try:
        with _unhooked(left) if mode != "off" else nullcontext(), _held(request, left) if held else nullcontext():
            yield
    finally:
        scene.save()
    # Of a run that is interrupted the teardown is nobody's: a failure would end pytest itself by a traceback.
    if left and request.session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        pytest.fail("left by this test:\n" + "\n".join(left), pytrace=False)


@contextmanager
def _held(request: pytest.FixtureRequest, left: list[str]) -> Iterator[None]:
    """To what a test leaves: put into ``left``."""
    scene, stash = request.node.stash[_scene], request.config.stash
    allowed = _allowed(request.node)
    multiprocessing.util.get_temp_dir()  # its sockets stay where paths are short
    if _temporary not in stash:
        stash[_temporary] = str(_folder(request, "temporary"))
    before, tempfile.tempdir = tempfile.tempdir, stash[_temporary]
    try:
        accounting = Accounting(KINDS, stash[_mark])
        worlds = _other_worlds(scene)
        yield
        besides = {*allowed, "descriptors"} if scene.failed else allowed  # its traceback holds on to what it had open
        kept = [*scene.kept, *(each for world in (*scene.idles, *worlds) for each in world.left() or ())]
        left += [line for kind, line in kept if kind not in besides] + accounting.left(besides)
    finally:
        tempfile.tempdir = before


@contextmanager
def _unhooked(left: list[str]) -> Iterator[None]:
    """A plan that a test puts into its own process hurts no other test: it is removed, and put into ``left``."""
    before = _hooked()
    yield
    if not before and _hooked():
        sys.modules["faults.hook"].remove()
        left.append("a plan in this process: wanted hook.remove() or hook.deactivate()")


def _hooked() -> bool:
    hook = sys.modules.get("faults.hook")  # torch is imported for it, so not here
    return hook is not None and bool(hook.present())


def _other_worlds(scene: RunningTest) -> list[Any]:
    """Of `Kept`: idle worlds that fixtures have launched without `idle_world`."""
    if "reference.world.world" not in sys.modules:
        return []
    from faults.testing.rref_leaks import others

    return others([idle.world for idle in scene.idles])


def _allowed(item: pytest.Item) -> set[str]:
    allowed = {kind for mark in item.iter_markers("leaves") for kind in mark.args}
    if unknown := allowed - set(KINDS):
        pytest.fail(f"a test leaves some of {', '.join(KINDS)}, got {', '.join(sorted(unknown))}", pytrace=False)
    return allowed


@pytest.fixture(scope="module")
def idle_world(request: pytest.FixtureRequest) -> Iterator[Callable[..., Idle]]:
    """``idle_world(roles, **arguments)``: a world of idle roles for the tests of this module. For fixtures of module
    scope."""
    idles: list[Idle] = request.config.stash[_idles]
    begin = len(idles)

    def start(roles: Any, **arguments: Any) -> Idle:
        from faults.testing.idle_world import Idle

        arguments.setdefault("isolated", request.config.getini("faults_isolated"))
        idles.append(Idle(roles, lambda: _folder(request, "idle"), **arguments))
        return idles[-1]

    yield start
    for idle in idles[begin:]:
        idle.close()
    del idles[begin:]


@pytest.fixture(scope="module")
def world(request: pytest.FixtureRequest, idle_world: Callable[..., Idle]) -> Iterator[Idle]:
    """The idle world of this module's mark ``world``, or of an indirect parameter: a list of roles."""
    mark = request.node.get_closest_marker("world")
    roles = getattr(request, "param", mark.args if mark else ())
    if not roles:
        wanted = 'wanted `pytestmark = pytest.mark.world("a", "b")` or an indirect parameter'
        pytest.fail(f"no roles: {wanted}", pytrace=False)
    from reference.outcome import WorldError

    try:
        idle = idle_world(list(roles), **(mark.kwargs if mark else {}))
    except WorldError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    yield idle
    idle.close()
    request.config.stash[_idles].remove(idle)


@pytest.fixture
def run_dir(request: pytest.FixtureRequest, _faults_account: None) -> Path:
    """A folder for this test's ledgers and logs; kept in DIR when it fails under ``--faults-keep DIR``."""
    request.node.stash[_scene].folder = folder = _folder(request, "run")
    return folder


@pytest.fixture
def fresh_world(request: pytest.FixtureRequest, run_dir: Path) -> Iterator[Callable[..., Any]]:
    """``fresh_world(roles, **arguments)``: `launch`, under this test's plan; closed at the end of the test.

    With ``healthy=True`` without the plan.
    """
    scene = request.node.stash[_scene]
    _make_plan(request.node, run_dir)  # another fixture may launch before the plan's own is set up
    yield scene.launch
    scene.close()
    if scene.plan is not None:
        scene.plan.close()  # also where the set-up fails before the plan's own


@pytest.fixture
def _faults_plan(request: pytest.FixtureRequest, run_dir: Path) -> Iterator[ActivePlan | None]:
    """This test's plan, at work in its idle world."""
    planned = _make_plan(request.node, run_dir)
    if planned is None:
        yield None
        return
    try:
        _begin(request.node, planned)
        yield planned
    finally:
        planned.close()


@pytest.fixture
def plan(_faults_plan: ActivePlan | None) -> ActivePlan:
    """The plan of ``--faults-plan`` or of this test's marks, in its idle world or in the next fresh one."""
    if _faults_plan is None:
        raise Misuse('no plan: wanted `@pytest.mark.plan("...")` or --faults-plan TEXT', pytrace=False)
    return _faults_plan


def _make_plan(item: pytest.Item, folder: Path) -> ActivePlan | None:
    """The plan that this test is to be put under, made once."""
    scene = item.stash[_scene]
    with _one_line():
        asked = wanted(item, item.config.option.faults_plan)
    if scene.plan is None and asked is not None:
        from faults.testing.active_plan import ActivePlan

        scene.marks = marks_of(item)
        scene.plan = ActivePlan(asked.plan, folder, unseen=asked.unseen, guest=asked.guest)
    return scene.plan


def _begin(item: pytest.Item, planned: ActivePlan) -> None:
    """Put it to work in the world of the fixture ``world``, unless the test does so itself."""
    from faults.testing.idle_world import Idle

    world = getattr(item, "funcargs", {}).get("world")  # of a wider scope, so it is there
    asked = wanted(item, item.config.option.faults_plan)
    if asked is not None and asked.activate and isinstance(world, Idle):
        with _one_line():
            planned.begin(world)


@pytest.fixture(scope="session")
def faults_seed(request: pytest.FixtureRequest) -> int:
    """The run's seed."""
    return int(_seed_text(request.config) or 0)


def _folder(request: pytest.FixtureRequest, name: str) -> Path:
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return factory.mktemp(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test whose fault never fired fails."""
    yield
    _check_plan(item)


def _check_plan(item: pytest.Item) -> None:
    """Fail a test whose plan did nothing, or not all that it says."""
    if text := _unused(item):
        raise Misuse(text, pytrace=False)
    if text := _not_fired(item):
        pytest.fail(text, pytrace=False)


def _not_fired(item: pytest.Item) -> str:
    """Which faults that this test has asked for never happened; empty if all did, or none is asked for."""
    plan = item.stash[_scene].plan
    text = "" if plan is None or plan.guest else plan.not_fired()
    return text and f"not fired: {text}"


def _unused(item: pytest.Item) -> str:
    """Why the plan that this test has asked for was not put to work; empty if it was, or none is asked for."""
    scene = item.stash[_scene]
    if scene.plan is None and not marks_of(item):
        return ""
    from faults.testing.active_plan import UNUSED

    if scene.plan is None or not (scene.plan.guest or scene.plan.worked()):
        return UNUSED
    return "" if marks_of(item) == scene.marks else "a mark `plan` that came after the test's set-up does nothing"


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's own, which excuses what is expected to fail
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    scene = item.stash.get(_scene, None)
    if scene is None:
        return report
    _insist(item, call, report)
    if scene.plan is not None and report.when == "call":
        report.faults_plan = scene.plan.account()  # type: ignore[attr-defined]
    # In the teardown only of a test that has not failed before, whose sections are printed already.
    if report.failed and not scene.failed:
        scene.failed = True
        if scene.used:
            _tell(item, scene, report)
    return report


def _insist(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """A failure that is expected of a test does not excuse a plan that does nothing, or not all that it says."""
    if not hasattr(report, "wasxfail"):
        return
    excinfo = call.excinfo
    if excinfo is None or not isinstance(excinfo.value, Misuse):
        excinfo = _complaint(item) if report.when == "call" else None
    if excinfo is not None:
        del report.wasxfail
        report.outcome, report.longrepr = "failed", item.repr_failure(excinfo)


def _complaint(item: pytest.Item) -> pytest.ExceptionInfo[BaseException] | None:
    try:
        _check_plan(item)
    except pytest.fail.Exception:
        return pytest.ExceptionInfo.from_current()
    return None


def _tell(item: pytest.Item, scene: RunningTest, report: pytest.TestReport) -> None:
    """What happened, in a failing test's report; and where its files are kept."""
    over = report.when == "teardown"
    report.sections += scene.sections(over=over)
    if item.config.option.faults_keep:
        report.sections.append(("faults: kept", _keep(scene, item, over)))


def _keep(scene: RunningTest, item: pytest.Item, over: bool) -> str:
    """Where its files are, or will be when its worlds are over; or why they cannot be there."""
    try:
        scene.keep = place_for(item.config.option.faults_keep, item.nodeid)
        if over:
            scene.save()
    except OSError as error:
        scene.keep = None
        return one_line(f"nothing: {error}")
    return printable(str(scene.keep))
