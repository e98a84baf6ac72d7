"""Who may import whom: tutorials know nothing of faults, faults nothing of tutorials, and nobody of tests."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from reference import TUTORIALS

ROOT = Path(__file__).parent.parent
MODULES = {f"reference.{name}" for name in TUTORIALS}


def imports_of(source: str, package: str) -> set[str]:
    """The full names of everything that ``source``, a module of ``package``, imports anywhere in it.

    ``from a import b`` counts as ``a`` and ``a.b``: b may be a module. ``import_module`` and ``__import__`` count
    as far as their argument is a constant; what follows is a ``*``.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if called in ("import_module", "__import__"):
                found.add(_constant(node.args[0]))
    return found


def _constant(argument: ast.expr) -> str:
    parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
    name = ""
    for part in parts:
        if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
            return f"{name}*"
        name += part.value
    return name


def within(names: set[str], *packages: str) -> set[str]:
    """Those of ``names`` that are, lie in, or may turn out to be one of ``packages``."""
    return {
        name
        for name in names
        for package in packages
        if f"{name}.".startswith(f"{package}.")
        or (name.endswith("*") and f"{package}.".startswith(name[:-1]) and name != "*")
    }


def files(*folders: str) -> list[Path]:
    """Python files in these folders of the checkout, at any depth."""
    return sorted(path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imports(file: Path) -> set[str]:
    return imports_of((ROOT / file).read_text(), ".".join(file.parent.parts))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("import a", {"a"}),
        ("import a.b as c, d", {"a.b", "d"}),
        ("from a.b import c", {"a.b", "a.b.c"}),
        ("from a import b, c as d", {"a", "a.b", "a.c"}),
        ("from . import b", {"room", "room.b"}),
        ("from .b import c", {"room.b", "room.b.c"}),
        ("def f():\n    if x:\n        import a", {"a"}),
        ("try:\n    import a\nexcept ImportError:\n    from b import c", {"a", "b", "b.c"}),
        ("if TYPE_CHECKING:\n    import a", {"a"}),
        ("importlib.import_module('a.b')", {"a.b"}),
        ("import_module(f'a.{b}')", {"a.*"}),
        ("__import__(name)", {"*"}),
        ("x = 'import a'", set()),
    ],
)
def test_all_forms_of_import_are_seen(source: str, wanted: set[str]) -> None:
    assert imports_of(source, "room") == wanted


@pytest.mark.parametrize(
    ("name", "package", "hit"),
    [
        ("tests", "tests", True),
        ("tests.plays", "tests", True),
        ("testsuite", "tests", False),
        ("reference", "reference.rpc_basics", False),
        ("reference.rpc_basics.Case", "reference.rpc_basics", True),
        ("reference.rpc_basics_2", "reference.rpc_basics", False),
        ("reference.*", "reference.rpc_basics", True),
        ("reference.*", "faults", False),
        ("*", "faults", False),
    ],
)
def test_what_lies_within_a_package(name: str, package: str, hit: bool) -> None:
    assert within({name}, package) == ({name} if hit else set())


def test_there_is_something_to_look_at() -> None:
    assert {f"{module.replace('.', '/')}.py" for module in MODULES} <= set(map(str, files("reference")))
    assert Path("faults/__init__.py") in files("faults")
    assert Path("tests/test_imports.py") in files("tests")


@pytest.mark.parametrize("file", files("reference"), ids=str)
def test_the_reference_imports_neither_faults_nor_tests(file: Path) -> None:
    assert within(imports(file), "faults", "tests") == set()


@pytest.mark.parametrize("file", files("faults"), ids=str)
def test_faults_import_neither_tests_nor_tutorials(file: Path) -> None:
    assert within(imports(file), "tests", *MODULES) == set()


@pytest.mark.parametrize("file", files("benchmarks", "docs", ".ci"), ids=str)
def test_only_tests_import_both_rooms(file: Path) -> None:
    rooms = {room for room in ("reference", "faults") if within(imports(file), room)}
    assert len(rooms) < 2, rooms


def test_only_vision_imports_torchvision() -> None:
    everything = files("reference", "faults", "tests", "benchmarks", "docs", ".ci")
    assert [str(file) for file in everything if within(imports(file), "torchvision")] == ["reference/vision.py"]


@pytest.mark.parametrize("file", files("tests/formulas"), ids=str)
def test_a_formula_takes_nothing_from_the_tutorials(file: Path) -> None:
    """Otherwise it would share their mistakes. torchvision's model comes through its one importer."""
    assert within(imports(file), "reference", "faults") <= {"reference.vision", "reference.vision.resnet50"}
