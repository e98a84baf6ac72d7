"""The option --implementation: right programs pass, wrong ones fail, and what is not offered is told as that."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference.dist_autograd import Case
from tests.properties.implementation import asked_for
from tests.support.implementations import Implementation, NoImplementation

ROOT = Path(__file__).parents[2]
NUMPY = ROOT / "examples" / "numpy"

# What a user's module may hold: the program in NumPy answers one tutorial, and its exact cases wrong.
MODULE = f"""\
import sys
sys.path.insert(0, {str(NUMPY)!r})
import dist_autograd

def answer(described, given):
    if described["tutorial"] != "dist_autograd":
        return None
    found = dist_autograd.train(described["case"], given)
    wrong = 2 if described["case"]["arithmetic"] == "exact" else 1
    return {{name: array * wrong for name, array in found.items()}}
"""


@pytest.mark.long
def test_right_answers_pass_wrong_ones_fail_with_the_explanation_and_the_rest_is_not_offered(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    options = ["-q", "-rs", "-p", "no:cacheprovider", "--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    options += [str(ROOT / "tests/properties/implementation.py"), "-k", "dist_autograd or pipeline"]
    command = [sys.executable, "-m", "pytest", *options, "--implementation", "mine:answer"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=150).stdout
    assert re.search(r"^1 failed, 1 passed, 2 skipped, \d+ deselected", said, re.MULTILINE), said
    assert "test_exact_dist_autograd" in said
    assert "It is, bit for bit: the right numbers times 2" in said
    assert "not offered: the function returned None" in said


def test_a_function_that_returns_none_offers_nothing(tmp_path: Path) -> None:
    nothing = Implementation(function=lambda described, given: None)
    assert nothing.judged(Case(steps=1), tmp_path)[:2] == ("skipped", "the function returned None")


def test_a_command_that_fails_is_errored_with_its_last_line(tmp_path: Path) -> None:
    program = Implementation.of(f"{sys.executable} -c 'raise SystemExit(\"no GPU\")'")
    assert program.judged(Case(steps=1), tmp_path)[:2] == ("errored", "exit status 1: no GPU")


@pytest.mark.parametrize(
    "text",
    ["", "no_such_module_here:train", "json:no_such_function", "json:__name__", "'unclosed", "no-such-command -x"],
)
def test_what_is_no_implementation_is_refused_in_one_line(text: str) -> None:
    before = [*sys.path]
    with pytest.raises(NoImplementation) as caught:
        Implementation.of(text)
    assert "\n" not in str(caught.value)
    assert sys.path == before


def test_a_commands_name_may_have_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine:2.1").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Implementation.of("mine:2.1 -x").command == ("mine:2.1", "-x")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (3, "the function returned 3, wanted the outputs by name, or None"),
        ({"a": 1.0}, "the function returned 'a': 1.0, wanted a NumPy array by its name"),
        ({1: np.zeros(2)}, "the function returned 1: array([0., 0.]), wanted a NumPy array by its name"),
        ({"a": np.zeros(2, np.float16)}, "the function returned 'a' of dtype float16, wanted one of F64"),
    ],
)
def test_a_function_that_returns_no_arrays_is_malformed(found: Any, text: str, tmp_path: Path) -> None:
    verdict, reason, _ = Implementation(function=lambda described, given: found).judged(Case(steps=1), tmp_path)
    assert verdict == "malformed"
    assert reason[: len(text)] == text


def test_a_function_that_changes_its_description_is_judged_by_what_was_asked(tmp_path: Path) -> None:
    def answers_nothing(described: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        described["outputs"].clear()
        return {}

    verdict, text, _ = Implementation(function=answers_nothing).judged(Case(steps=1), tmp_path)
    assert verdict == "malformed"
    assert text.startswith("yours lacks ")


def test_a_command_that_changes_its_inputs_is_judged_by_those_that_it_got(tmp_path: Path) -> None:
    program = (
        f"import sys, pathlib; sys.path.insert(0, {str(NUMPY)!r}); import tensors, dist_autograd\n"
        "tensors.main(dist_autograd.train); pathlib.Path(sys.argv[1], 'input.safetensors').write_bytes(b'')"
    )
    verdict, text, _ = Implementation((sys.executable, "-c", program)).judged(Case(steps=2), tmp_path)
    assert verdict in ("equal", "within bound"), text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("./no-such-program", "--implementation './no-such-program': no such command, wanted one, or module:function"),
        (None, "wanted --implementation CMD, or --implementation module:function"),
    ],
)
def test_an_implementation_that_is_missing_ends_pytest_with_one_line(text: str | None, line: str) -> None:
    with pytest.raises(pytest.exit.Exception) as caught:
        asked_for(text)
    assert caught.value.returncode == 4
    assert str(caught.value) == line
