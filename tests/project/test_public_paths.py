"""The import paths that users write: what README and the manuals show, and each room's own list of public names."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from reference import TUTORIALS

ROOT = Path(__file__).parents[2]

# The page lists them as `.. autofunction:: faults.ledger.read`.
NAMED = re.findall(r"^\.\. auto\w+:: ([\w.]+)\.(\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
PUBLIC = (
    *(f"reference.{name}:{part}" for name in TUTORIALS for part in ("Case", "roles", "train_locally")),
    *(f"{module}:{name}" for module, name in NAMED),
    "faults.pytest_plugin:pytest_addoption",
)
# As `from faults.ledger import read, Timeline`: page, module, name.
SHOWN = [
    (page.name, module, name.strip())
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for module, names in re.findall(r"^\s*from ((?:reference|faults)[\w.]*) import ([\w, ]+)$", page.read_text(), re.M)
    for name in names.split(",")
]


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_path_leads_to_what_it_names(path: str) -> None:
    module, _, name = path.partition(":")
    value = getattr(import_module(module), name)
    assert getattr(value, "__name__", name) == name  # a union of types has none


def test_the_imports_that_pages_show_work() -> None:
    wrong = [
        each for each in SHOWN if not hasattr(import_module(each[1]), each[2]) and not find_spec(".".join(each[1:]))
    ]
    assert wrong == []
    assert len({page for page, *_ in SHOWN}) > 5


@pytest.mark.parametrize(
    "room", ["reference.world", "reference.trace", "reference.verify", "faults.plan", "faults.ledger"]
)
def test_a_room_hands_out_the_names_that_it_lists(room: str) -> None:
    module = import_module(room)
    named = {path for path in PUBLIC if path.startswith(f"{room}:")}
    assert named
    assert named <= {f"{room}:{name}" for name in module.__all__}
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert set(module.__all__) <= set(dir(module))
