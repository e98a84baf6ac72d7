"""Imports between rooms go one way: tutorials import nothing of faults, and faults no tutorial."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from reference import TUTORIALS

pytestmark = pytest.mark.always

ROOT = Path(__file__).parents[2]
MODULES = {f"reference.{name}" for name in TUTORIALS}
# Functions that turn a tutorial's name into its module, and the rooms that may have tutorials by name.
LOADERS = {"reference.load"}
LOADING = {
    *("reference.trace", "reference.verify", "reference.explain", "reference.conform"),
    *("reference.cli", "faults.run"),
}
# Files that import a module by its name: one that their caller or a role's function names, or one that may be missing.
ANY_MODULE = {
    Path(file)
    for file in (
        "reference/__init__.py",
        "reference/roles.py",
        "reference/trace/__init__.py",
        "reference/cli/main.py",
        "faults/cli/main.py",
        "faults/inject/messages.py",
        "faults/script/autostart.py",
    )
}

# Each room, and the rooms from which its files may import. Every file of `reference` may import the table of contents.
_PLAIN = {"reference.system", "reference.outcome", "reference.trace"}
_LESSON = {*_PLAIN, "reference.roles", "reference.exact", "reference.training", "reference.rpc"}
_KIT = {"reference.explain", "reference.conform"}
_JUDGE = {"faults.plan", "faults.ledger", "reference.system", "reference.outcome"}
_HURT = {*_JUDGE, "faults.inject", "faults.tracing", "faults.hook"}
_RUN = {*_HURT, "faults.judge", "faults.run", "reference.trace", "reference.verify", "reference.world"}
ROOMS: dict[str, set[str]] = {
    "reference": set(),
    "reference.system": set(),
    "reference.outcome": set(),
    "reference.roles": set(),
    "reference.trace": {"reference.system"},
    "reference.exact": {"reference.system", "reference.trace"},
    "reference.training": {"reference.system", "reference.trace", "reference.exact"},
    "reference.rpc": {"reference.system", "reference.outcome", "reference.trace", "reference.training"},
    "tutorials": {*_LESSON, "tutorials"},
    "reference.world": {*_PLAIN, "reference.roles", "reference.training"},
    "reference.rounding": {"reference.system", "reference.trace", "reference.training"},
    "reference.verify": {*_PLAIN, "reference.exact", "reference.rounding", "reference.world", "reference.explain"},
    "reference.explain": {*_PLAIN, "reference.rounding", "reference.training"},
    "reference.conform": {*_PLAIN, "reference.roles", "reference.training", "reference.verify", "reference.explain"},
    "reference.cli": {*_PLAIN, "reference.rounding", "reference.verify", "reference.world", *_KIT},
    "reference.__main__": {"reference.system", "reference.cli"},
    "faults": set(),
    "faults.__main__": {"faults.script", "faults.cli", "reference.cli"},
    "faults.plan": {"reference.system"},
    "faults.ledger": {"faults.plan", "reference.system"},
    "faults.judge": _JUDGE,
    "faults.inject": {"faults.plan", "faults.ledger", "reference.system"},
    "faults.tracing": {"faults.plan", "faults.ledger", "faults.inject"},
    "faults.leaks": {"faults.ledger", "faults.tracing", "faults.judge"},
    "faults.hook": {"faults.plan", "faults.ledger", "faults.inject", "faults.tracing", "reference.system"},
    "faults.strategies": {"faults.plan"},
    "faults.run": _RUN,
    "faults.script": {*_RUN, "faults.script"},
    "faults.report": {*_JUDGE, "faults.judge", "faults.run", "faults.script"},
    "faults.testing": {*_RUN, "faults.report"},
    "faults.pytest_plugin": {*_RUN, "faults.script", "faults.testing"},
    "faults.cli": {*_RUN, "faults.script", "faults.report", "reference.cli"},
    "faults.startup": {"faults.script"},
}


def room_of(module: str) -> str:
    """The room in which a module of this project lies, by its full name or that of something in it."""
    parts = module.split(".")
    if ".".join(parts[:2]) in MODULES:
        return "tutorials"
    room = ".".join(parts[:2])
    return room if room in ROOMS else parts[0]


def forbidden(room: str, names: set[str]) -> set[str]:
    """Return those of the imported ``names`` that lie in a room which ``room`` may not know, or in the tests."""
    known = {room, "reference", *ROOMS[room], *(["faults"] if room.startswith("faults") else [])}
    own = {name for name in names if name.partition(".")[0] in ("reference", "faults", "*")}
    loaders = set() if room in LOADING else names & LOADERS
    return {name for name in own if room_of(name) not in known} | loaders | within(names, "tests")


def module_of(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def imports_of(source: str) -> set[str]:
    """The full names of everything that ``source`` imports anywhere in it.

    ``from a import b`` counts as ``a`` and ``a.b``: b may be a module. ``import_module`` and ``__import__`` may import
    anything, ``*``; so may ``from .``, which no file needs.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "*" if node.level else node.module
            found.update((f"{base}", *(f"{base}.{alias.name}" for alias in node.names)))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= {f"{node.value.id}.{node.attr}"} & LOADERS
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in ("import_module", "__import__"):
                found.add("*")
    return found


def within(names: set[str], *packages: str) -> set[str]:
    """Those of ``names`` that are or lie in one of ``packages``."""
    return {name for name in names if any(f"{name}.".startswith(f"{package}.") for package in packages)}


def files(*folders: str, pattern: str = "*.py") -> list[Path]:
    """Python files in these folders of the checkout, at any depth."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob(pattern))


ALL = [module_of(file) for file in files("reference", "faults")]


def imports(file: Path) -> set[str]:
    return imports_of((ROOT / file).read_text())


@pytest.mark.parametrize("room", list(ROOMS))
def test_a_file_imports_only_from_rooms_that_its_own_may_know(room: str) -> None:
    of_room = [file for file in files("reference", "faults") if room_of(module_of(file)) == room]
    anything = {file: {"*"} if file in ANY_MODULE else set() for file in of_room}
    assert {file: found for file in of_room if (found := forbidden(room, imports(file) - anything[file]))} == {}
    assert of_room


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("reference.system", "import ast, faults.hook as hook"),
        ("reference.trace", "from reference import rnn"),
        ("faults.plan", "def f():\n    from faults.judge import rules"),
        ("reference.rpc", "importlib.import_module(name)"),
        ("reference.rpc", "__import__(name)"),
        ("reference.rpc", "from ..world import start"),
        ("reference.rpc", "from reference import load"),
        ("reference.rpc", "import reference\nreference.load('rnn')"),
        ("reference.rpc", "import tests.support.roles_plain"),
    ],
)
def test_what_a_room_must_not_import_is_seen(room: str, source: str) -> None:
    assert forbidden(room, imports_of(source))


def test_every_file_lies_in_a_room() -> None:
    assert {room_of(module) for module in ALL} == set(ROOMS)


# Reading a plan or a run's folder must not wait for torch; nor must drawing a plan, or hearing of a moment.
_READS = [each for each in ALL if room_of(each) in ("reference.system", "faults.plan", "faults.ledger", "faults.judge")]
_READS += ["faults.strategies", "faults.inject.announcer"]
# A judged process writes down facts. What they mean is decided elsewhere, later.
_JUDGED = ["faults.hook", "faults.tracing.tracer", "faults.script.autostart", "faults.script.process_end"]
_JUDGED += ["faults.testing.rref_leaks"]


@pytest.mark.parametrize(
    ("inside", "unwanted"),
    [
        (_READS, {"torch"}),
        # gymnasium sets a variable of the environment, which every program that is started then has; matplotlib is
        # imported once there is a picture to draw.
        (
            [*_JUDGED, "reference.verify.verify", "reference.cli.table_command"],
            {"faults.judge", "gymnasium", "matplotlib"},
        ),
    ],
    ids=["reads", "judged"],
)
def test_what_must_not_be_imported_is_not(inside: list[str], unwanted: set[str]) -> None:
    modules = ", ".join(each for each in inside if each != "reference.system.preload_first")
    program = f"import sys, {modules}; print({unwanted!r} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize("file", files("tests/reference", "tests/faults", "tests/judge", pattern="test_*.py"), ids=str)
def test_a_test_file_has_the_name_of_a_source_file_or_room(file: Path) -> None:
    """What follows the name is its topic."""
    assert any(f"{file.stem}_".startswith(f"test_{name}_") for module in ALL for name in module.split("."))


@pytest.mark.parametrize("file", files("tests/formulas", pattern="[!t]*.py"), ids=str)
def test_a_formula_takes_nothing_from_the_tutorials(file: Path) -> None:
    """Otherwise it would share their mistakes. torchvision's model comes through its one importer."""
    assert within(imports(file), "reference", "faults") <= {
        "reference.training.vision",
        "reference.training.vision.resnet50",
    }
