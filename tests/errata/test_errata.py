"""Every published crash and silent error still fails as docs/errata.md says.

The modules beside this one repeat what the published code does. Here it is run, and compared with the page in both
directions.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reference.outcome import Raised, RoleFailed
from reference.world import World, launch
from tests.errata.listings import BEHAVIOURS, Behaviour, fits

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errata.md"
PARTS = ("platform", "lines", "s0", "s0_agents", "s1", "s2", "s2_agents", "s4")

# Errata that a test of another module shows.
ELSEWHERE = {
    "S1.16": "tests/torch/test_rref_lifetime.py::test_after_the_shutdown_rrefs_cannot_be_used",
    "S3.3": "tests/reference/test_dist_autograd.py::test_a_fetched_nn_parameter_is_never_trained",
    "S4.14": "tests/torch/test_late_gradients.py::test_the_optimizer_skips_a_role_whose_gradients_are_late",
}

for part in PARTS:
    importlib.import_module(f"tests.errata.{part}")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with launch(["worker0", "worker1", "worker2"], deadline=150) as world:
        yield world


def check(behaviour: Behaviour, world: World | None) -> None:
    """Run a behaviour. Raises AssertionError: it does anything but what its row says."""
    if behaviour.raises is None:
        assert run(behaviour, world) == behaviour.gives
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011 (type and text are compared below)
        run(behaviour, world)
    kind, text = told(caught.value)
    assert kind.rpartition(".")[2] == behaviour.raises[0]
    assert fits(behaviour.raises[1], text), text


def run(behaviour: Behaviour, world: World | None) -> object:
    if behaviour.here:
        return behaviour.function()
    assert world is not None
    return world.call("worker0", behaviour.function)


def told(error: BaseException) -> tuple[str, str]:
    """Return type and text of an error, raised here or on a role."""
    if isinstance(error, RoleFailed):
        assert isinstance(error.outcome, Raised), str(error)
        return error.outcome.type, error.outcome.message
    return type(error).__qualname__, str(error)


MARKS = {"S1.14": [pytest.mark.long]}  # it imports torch twice


@pytest.mark.parametrize(
    "behaviour", [pytest.param(each, id=number, marks=MARKS.get(number, [])) for number, each in BEHAVIOURS.items()]
)
def test_each_erratum_is_shown_by_its_listing(behaviour: Behaviour, world: World) -> None:
    check(behaviour, world)


def severities(page: str) -> dict[str, str]:
    """Map the number of every row of the page to its severity."""
    rows = re.findall(r"^\| ((?:S\d|0)\.\d+) \|.*\| ([^|]+) \|$", page, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\| (?:S\d|0)\.", page, re.MULTILINE)), "a row of another shape"
    assert len(rows) == len(dict(rows)), "a number stands twice"
    return dict(rows)


def must_be_shown(page: str) -> set[str]:
    return {number for number, severity in severities(page).items() if re.search("crash|silent", severity)}


def test_every_crash_and_every_silent_error_is_shown() -> None:
    assert must_be_shown(PAGE.read_text()) - set(BEHAVIOURS) - set(ELSEWHERE) == set()


def test_every_number_shown_is_on_the_page() -> None:
    assert {*BEHAVIOURS, *ELSEWHERE} - set(severities(PAGE.read_text())) == set()


@pytest.mark.parametrize(("number", "place"), ELSEWHERE.items(), ids=ELSEWHERE)
def test_errata_shown_elsewhere_name_existing_tests(number: str, place: str) -> None:
    path, name = place.split("::")
    functions = {
        node.name: ast.get_docstring(node) or ""
        for node in ast.parse((ROOT / path).read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    assert f"Erratum {number}:" in functions[name]


def unlucky() -> None:
    raise LookupError("no id 7\nmore")


@pytest.mark.parametrize(
    "raises",
    [("KeyError", "no id 7"), *(("LookupError", each) for each in ("no id", "no id 7…", "no.id 7", "no id 7\nless"))],
)
def test_another_error_is_noticed(raises: tuple[str, str]) -> None:
    with pytest.raises(AssertionError):
        check(Behaviour("S9.1", unlucky, None, raises, here=True), None)


def test_the_rows_that_must_be_shown_are_found() -> None:
    page = "| S9.1 | a | b | c | **silent** (x) |\n| 0.99 | a | b | c | crash |\n| S9.3 | a | b | c | hang |\n"
    assert must_be_shown(page) == {"S9.1", "0.99"}
