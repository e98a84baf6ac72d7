"""The gradient properties against somebody's program.

``pytest tests/properties/implementation.py --implementation "CMD"`` runs ``CMD CASE_DIR OUT_DIR`` for each example;
``--implementation module:function`` calls ``function(described, inputs)`` (docs/conformance.md). What the program does
not offer is skipped as not offered, never passed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.properties.cases import EXACT, NATURAL
from tests.properties.properties import examples
from tests.support.implementations import Implementation, NoImplementation


@pytest.fixture(scope="module")
def implementation(request: pytest.FixtureRequest) -> Implementation:
    return asked_for(request.config.getoption("--implementation"))


def asked_for(text: str | None) -> Implementation:
    """Return what the option names. If it names nothing, end pytest with one line that says so."""
    if text is None:
        pytest.exit("wanted --implementation CMD, or --implementation module:function", returncode=4)
    try:
        return Implementation.of(text)
    except NoImplementation as error:
        pytest.exit(f"--implementation {error}", returncode=4)


def is_right(name: str, cases: Any, count: int, wanted: tuple[str, ...]) -> Callable[..., None]:
    """The property that the program's answer to every case of a tutorial has one of the ``wanted`` verdicts."""

    def test(implementation: Implementation, case: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            verdict, text, details = implementation.judged(case, Path(folder))
        if verdict == "skipped":
            pytest.skip(f"not offered: {text}")
        assert verdict in wanted, "\n".join((f"{verdict}: {text}", *details))

    test.__name__ = test.__qualname__ = f"test_{name}"
    return examples(count, case=cases)(test)


for _tutorial, _cases in EXACT.items():
    globals()[f"test_exact_{_tutorial}"] = is_right(f"exact_{_tutorial}", _cases, 20, ("equal",))
for _tutorial, _cases in NATURAL.items():
    _right = ("equal", "within bound")
    globals()[f"test_natural_{_tutorial}"] = is_right(f"natural_{_tutorial}", _cases, 10, _right)
