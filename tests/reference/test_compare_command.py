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
def reference(tmp_path: Path) -> str:
    train_locally(CASE).save(tmp_path / "reference")
    return str(tmp_path / "reference")


def told(capsys: pytest.CaptureFixture[str], yours: Trace, reference: str, tmp_path: Path) -> tuple[int, str]:
    yours.save(tmp_path / "yours")
    status = main(["compare", str(tmp_path / "yours"), reference])
    return status, capsys.readouterr().out


def test_equal_traces_have_status_0(reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, train_locally(CASE), reference, tmp_path)
    assert found == (0, "equal: all numbers of 18 tensors\n")


def test_rounding_is_told_and_has_status_0(reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = train_locally(CASE)
    tensors = {
        name: torch.nextafter(t, torch.tensor(9.9)) if "/loss/" in name else t for name, t in trace.tensors.items()
    }
    status, text = told(capsys, Trace(CASE, tensors), reference, tmp_path)
    assert status == 0
    assert text.startswith("4 of 18 tensors differ by rounding only, the first is 0000/loss/context0")


def test_a_mistake_is_explained_with_status_1(
    reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = train_locally(CASE)
    tensors = {name: 2 * t if "/gradient/" in name else t for name, t in trace.tensors.items()}
    status, text = told(capsys, Trace(CASE, tensors), reference, tmp_path)
    assert status == 1
    assert "8 of 18 tensors differ by more than rounding, the first is 0000/gradient/context1/worker2." in text
    assert "The first stage that fails: gradients of step 0000. 4 of 4 tensors" in text
    assert "It is, bit for bit: the right numbers times 2" in text


def test_cases_that_differ_are_told_by_field(
    reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, train_locally(Case(steps=2, lr=0.1, timeout=9.0)), reference, tmp_path)
    assert found == (1, "traces of different cases: lr is 0.1 in yours, 0.05 in the reference's\n")


ANSWER = "0000/gradient/context1/worker2: 9 of 9 numbers differ by more than rounding, by 2 at most"


@pytest.mark.parametrize(
    ("change", "status", "lines"),
    [
        (0.0, 0, ["equal: all numbers of 18 tensors"]),
        (1e-6, 1, ["8 of 18 tensors differ by rounding only, the first is 0000/gradient/context1/worker2: sums in"]),
        (
            2.0,
            1,
            ["8 of 18 tensors differ by more than rounding, the first is 0000/gradient/context1/worker2.", ANSWER],
        ),
    ],
)
@pytest.mark.parametrize("kind", ["both", "yours"])
def test_answers_which_have_no_case_are_told_by_what_differs(
    change: float,
    status: int,
    lines: list[str],
    kind: str,
    reference: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tensors = train_locally(CASE).tensors
    if kind == "both":
        save_file(tensors, reference)
    save_file({name: t + change * ("/gradient/" in name) for name, t in tensors.items()}, tmp_path / "yours")
    assert main(["compare", str(tmp_path / "yours"), reference]) == status
    found = capsys.readouterr().out.splitlines()
    assert [line[: len(wanted)] for line, wanted in zip(found, lines, strict=True)] == lines


def test_a_file_that_is_no_trace_is_bad_input(
    reference: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x").write_bytes(b"x")
    for path in ("x", "absent", ""):
        assert main(["compare", str(tmp_path / path), reference]) == 2
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        assert error.count(str(tmp_path)) == 1
