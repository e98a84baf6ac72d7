"""The command ``compare``: two traces on disk, and what it says of their difference."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from reference.cli.main import main
from reference.dist_autograd import Case, train_locally
from reference.trace.trace import Trace

CASE = Case(steps=2)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the twin's trace as ``reference``."""
    train_locally(CASE).save(tmp_path / "reference")
    return tmp_path


def compared(place: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Compare ``yours`` there with it: the status, and what was said."""
    status = main(["compare", str(place / "yours"), str(place / "reference")])
    return status, capsys.readouterr().out


def test_equal_traces_have_status_0(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_locally(CASE).save(place / "yours")
    assert compared(place, capsys) == (0, "equal: all numbers of 18 tensors\n")


def test_rounding_is_told_and_has_status_0(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = train_locally(CASE).tensors
    moved = {name: torch.nextafter(t, torch.tensor(9.9)) for name, t in tensors.items() if "/loss/" in name}
    Trace(CASE, {**tensors, **moved}).save(place / "yours")
    status, text = compared(place, capsys)
    assert status == 0
    assert text.startswith("4 of 18 tensors differ by rounding only, the first is 0000/loss/context0")


def test_a_tensor_that_is_missing_beside_rounding_has_status_1(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = train_locally(CASE).tensors
    moved = {name: torch.nextafter(t, torch.tensor(9.9)) for name, t in tensors.items() if name != "0001/loss/context0"}
    Trace(CASE, moved).save(place / "yours")
    status, text = compared(place, capsys)
    assert status == 1
    assert text.startswith("yours lacks")


def test_a_mistake_is_explained_with_status_1(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors = train_locally(CASE).tensors
    Trace(CASE, {n: 2 * t if "/gradient/" in n else t for n, t in tensors.items()}).save(place / "yours")
    status, text = compared(place, capsys)
    assert status == 1
    assert "8 of 18 tensors differ by more than rounding, the first is 0000/gradient/context1/worker2." in text
    assert "The first stage that fails: gradients of step 0000. 4 of 4 tensors" in text
    assert "It is, bit for bit: the right numbers times 2" in text


def test_cases_that_differ_are_told_by_field(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_locally(Case(steps=2, lr=0.1, timeout=9.0)).save(place / "yours")
    told = "traces of different cases: lr is 0.1 in yours, 0.05 in the reference's\n"
    assert compared(place, capsys) == (1, told)


FIRST = "the first is 0000/gradient/context1/worker2"
ANSWER = "0000/gradient/context1/worker2: 9 of 9 numbers differ by more than rounding, by 2 at most"


@pytest.mark.parametrize(
    ("change", "status", "lines"),
    [
        (0.0, 0, ["equal: all numbers of 18 tensors"]),
        (1e-6, 1, [f"8 of 18 tensors differ by rounding only, {FIRST}: sums in"]),
        (2.0, 1, [f"8 of 18 tensors differ by more than rounding, {FIRST}.", ANSWER]),
    ],
)
def test_answers_which_have_no_case_are_told_by_what_differs(
    change: float, status: int, lines: list[str], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tensors = train_locally(CASE).tensors
    save_file({name: t + change * ("/gradient/" in name) for name, t in tensors.items()}, place / "yours")
    one_without = compared(place, capsys)
    save_file(tensors, place / "reference")
    assert compared(place, capsys) == one_without
    assert one_without[0] == status
    found = one_without[1].splitlines()
    assert [line[: len(wanted)] for line, wanted in zip(found, lines, strict=True)] == lines


def test_a_file_that_is_no_trace_is_bad_input(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x").write_bytes(b"x")
    for path in ("x", "absent", ""):
        assert main(["compare", str(place / path), str(place / "reference")]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert error.count(str(place)) == 1
