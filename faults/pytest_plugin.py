"""For pytest: worlds, plans, accounts of what a test leaves, and reports that show why one failed. docs/pytest.md.

Nothing of torch is imported before a test asks for one of the fixtures.
"""

from __future__ import annotations

import multiprocessing.util
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from faults.leaks import KINDS, Accounting
from faults.plan import Plan, PlanError
from faults.relatives import marked
from faults.scene import Scene, place_for

if TYPE_CHECKING:
    from faults.idle import Idle
    from faults.planned import Planned

FIXTURES = {"world", "idle_world", "fresh_world", "plan", "run_dir"}
LEAKS = ("all", "fixtures", "off")
MARKERS = (
    "world(*roles, **arguments): of a module: the roles of its idle world, and more for `reference.world.launch`",
    "plan(text, unseen=False, activate=True): what goes wrong in this test; docs/pytest.md",
    f"leaves(*kinds): what this test may leave: {', '.join(KINDS)}",
)

_scene = pytest.StashKey[Scene]()
_idles = pytest.StashKey[list[Any]]()  # of `Idle`
_mark = pytest.StashKey[str]()
_temporary = pytest.StashKey[str]()  # where temporary files go, so that another run's are not taken for this one's


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("faults")
    group.addoption("--faults-plan", metavar="TEXT", help="the plan of every test that takes one, instead of its own")
    group.addoption("--faults-keep", metavar="DIR", help="keep ledgers and logs of failed tests there")
    group.addoption("--faults-leaks", choices=LEAKS, help="which tests are held to what they leave (fixtures)")
    group.addoption("--faults-seed", metavar="N", help="the fixture faults_seed, and Hypothesis's seed if it has none")
    parser.addini("faults_leaks", f"default of --faults-leaks: {', '.join(LEAKS)}", default="fixtures")
    parser.addini("faults_seed", "default of --faults-seed; none leaves Hypothesis alone", default="")


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads its seed
def pytest_configure(config: pytest.Config) -> None:
    for line in MARKERS:
        config.addinivalue_line("markers", line)
    try:
        Plan.parse(config.option.faults_plan or "seed=0")
    except PlanError as error:
        raise pytest.UsageError(f"--faults-plan: {error}") from None
    if leaks_of(config) not in LEAKS:
        raise pytest.UsageError(f"faults_leaks must be one of {', '.join(LEAKS)}, got {leaks_of(config)!r}")
    seed = _seed_text(config)
    if not (seed or "0").isdecimal():
        raise pytest.UsageError(f"--faults-seed must be a whole number from 0, got {seed!r}")
    if seed and getattr(config.option, "hypothesis_seed", "") is None:
        config.option.hypothesis_seed = seed
    config.stash[_idles] = []
    stack = ExitStack()
    config.stash[_mark] = stack.enter_context(marked())
    config.add_cleanup(stack.close)


def pytest_report_header(config: pytest.Config) -> str:
    return f"faults: seed {_seed_text(config) or 0}, leaks of {leaks_of(config)}"


def leaks_of(config: pytest.Config) -> str:
    """Which tests are held to what they leave: `LEAKS`."""
    return str(config.option.faults_leaks or config.getini("faults_leaks"))


def _seed_text(config: pytest.Config) -> str:
    return str(config.option.faults_seed or config.getini("faults_seed"))


@contextmanager
def _one_line(*errors: type[Exception]) -> Iterator[None]:
    """A test that asks for what cannot be fails with the error's text alone."""
    try:
        yield
    except errors as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(autouse=True)
def _faults_account(request: pytest.FixtureRequest) -> Iterator[None]:
    """Around every test, and all of its own fixtures."""
    mode, config = leaks_of(request.config), request.config
    mine = bool(FIXTURES & set(request.fixturenames))
    if not mine and mode != "all":
        yield
        return
    idles = config.stash[_idles] if {"world", "idle_world"} & set(request.fixturenames) else []
    scene = request.node.stash[_scene] = Scene(idles=[*idles])
    for idle in scene.idles:
        idle.begin()
    if mode == "off":
        yield
        return
    allowed = _allowed(request.node)
    multiprocessing.util.get_temp_dir()  # its sockets stay where paths are short
    if _temporary not in config.stash:
        config.stash[_temporary] = str(_folder(request, "temporary"))
    before, tempfile.tempdir = tempfile.tempdir, config.stash[_temporary]
    try:
        accounting = Accounting(KINDS, config.stash[_mark])
        worlds = _other_worlds(scene)
        yield
        besides = {*allowed, "descriptors"} if scene.failed else allowed  # its traceback holds on to what it had open
        kept = [*scene.kept, *(each for world in (*scene.idles, *worlds) for each in world.left() or ())]
        left = [line for kind, line in kept if kind not in besides] + accounting.left(besides)
    finally:
        tempfile.tempdir = before
    if left:
        pytest.fail("left by this test:\n" + "\n".join(left), pytrace=False)


def _other_worlds(scene: Scene) -> list[Any]:
    """Of `Kept`: idle worlds that fixtures have launched without `idle_world`."""
    if "reference.world" not in sys.modules:
        return []
    from faults.kept import others

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
        from faults.idle import Idle

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

    with _one_line(WorldError):
        idle = idle_world(list(roles), **(mark.kwargs if mark else {}))
    yield idle
    idle.close()
    request.config.stash[_idles].remove(idle)


@pytest.fixture
def run_dir(request: pytest.FixtureRequest, _faults_account: None) -> Iterator[Path]:
    """A folder for this test's ledgers and logs; kept in DIR when it fails under ``--faults-keep DIR``."""
    scene = request.node.stash[_scene]
    scene.folder = _folder(request, "run")
    yield scene.folder
    scene.save()


@pytest.fixture
def fresh_world(request: pytest.FixtureRequest, run_dir: Path) -> Iterator[Callable[..., Any]]:
    """``fresh_world(roles, **arguments)``: `launch`, under this test's plan; closed at the end of the test.

    With ``healthy=True`` without the plan.
    """
    scene = request.node.stash[_scene]
    yield scene.launch
    scene.close()


@pytest.fixture
def plan(request: pytest.FixtureRequest, run_dir: Path) -> Iterator[Planned]:
    """The plan of ``--faults-plan`` or of this test's mark, in its idle world or in the next fresh one."""
    from faults.planned import Planned

    mark = request.node.get_closest_marker("plan")
    text = request.config.option.faults_plan or (mark and (*mark.args, None)[0])
    if not isinstance(text, str):
        wanted = 'wanted `@pytest.mark.plan("...")` or --faults-plan TEXT'
        pytest.fail(f"no plan: {wanted}{f', got {text!r}' if text is not None else ''}", pytrace=False)
    options = {"unseen": False, "activate": True, **(mark.kwargs if mark else {})}
    if unknown := options.keys() - {"unseen", "activate"}:
        pytest.fail(f"a plan's mark takes unseen and activate, got {', '.join(sorted(unknown))}", pytrace=False)
    scene = request.node.stash[_scene]
    with _one_line(PlanError):
        planned = scene.plan = Planned(Plan.parse(text), run_dir, unseen=options["unseen"])
    try:
        if options["activate"] and "world" in request.fixturenames and scene.idles:
            with _one_line(PlanError):
                planned.activate(scene.idles[-1])
        yield planned
    finally:
        planned.close()


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
    scene = item.stash.get(_scene, None)
    text = scene.plan.not_fired() if scene is not None and scene.plan is not None else ""
    if text:
        pytest.fail(f"not fired: {text}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    scene = item.stash.get(_scene, None)
    # In the teardown only of a test that has not failed before, whose sections are printed already.
    if scene is not None and report.failed and not scene.failed:
        over = report.when == "teardown"
        scene.failed = True
        report.sections += scene.sections(over=over)
        if item.config.option.faults_keep:
            scene.keep = place_for(item.config.option.faults_keep, item.nodeid)
            report.sections.append(("faults: kept", str(scene.keep)))
            if over:
                scene.save()
    return report
