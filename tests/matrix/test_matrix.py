"""Every cell of the matrix is run, and has the expected verdict. The page shows the same table."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.judge.rules import judge
from faults.ledger import record
from reference import TUTORIALS
from tests.matrix import matrix
from tests.matrix.matrix import Cell, cells
from tests.matrix.places import KINDS, PLACES
from tests.matrix.running import mistakes, run_cell
from tests.matrix.verdicts import EQUAL, ERROR, VERDICTS, Expected
from tests.support.gpu import gpu_processes, needs_gpu
from tests.support.networks import require, require_netem
from tests.support.stored_runs import stored_run

# The tutorials of which not all cells are long.
QUICK = ("parameter_server", "batch_parameter_server")


def marks(cell: Cell) -> list[pytest.MarkDecorator]:
    """Of every tutorial those cells are long whose packets are late or lost until a limit, or whose calls are lost and
    wait for it."""
    lost = cell.name.endswith(("-Drop-request", "-Drop-reply", "-Drop-to_here"))
    waits = cell.place == "network" or lost
    return [pytest.mark.long] if waits or cell.tutorial not in QUICK else []


@pytest.mark.parametrize("cell", [pytest.param(cell, id=cell.name, marks=marks(cell)) for cell in cells()])
def test_each_cell_has_its_expected_verdict(cell: Cell, tmp_path: Path) -> None:
    if cell.needs_network:
        require()
    if cell.needs_netem:
        require_netem()
    found, judgement = run_cell(cell, tmp_path)
    assert not mistakes(cell.expected, found, judgement), f"{cell.plan}\n{judgement}\n{found.timeline}"


@needs_gpu
@pytest.mark.parametrize("transfer", ["cpu", "direct"])
@pytest.mark.parametrize("kind", ["Crash-before", "Delay-request"])
def test_a_pipeline_on_a_gpu_ends_as_on_the_cpu_and_leaves_nothing_there(
    kind: str, transfer: str, tmp_path: Path
) -> None:
    """``timeout``: the shards prepare CUDA within a call."""
    cell = next(cell for cell in cells() if cell.name == f"pipeline-{kind}")
    found, judgement = run_cell(cell, tmp_path, device="cuda", transfer=transfer, timeout=30.0)
    assert not mistakes(cell.expected, found, judgement), f"{cell.plan}\n{judgement}\n{found.timeline}"
    assert not {each.process for each in found.timeline.events} & gpu_processes()


class TestTheTable:
    def test_every_tutorial_and_kind_has_a_cell_or_a_reason(self) -> None:
        kinds = {kind for of_place in KINDS.values() for kind in of_place}
        assert set(PLACES) == set(TUTORIALS)
        assert {name: set(row) for name, row in VERDICTS.items()} == dict.fromkeys(TUTORIALS, kinds)
        empty = [(n, kind) for n, row in VERDICTS.items() for kind, e in row.items() if not (e.verdict or e.reason)]
        assert empty == []
        told = [cell for cell in cells() if cell.expected.ends or cell.expected.trace]
        silent = [cell.name for cell in cells() if cell.expected.verdict != EQUAL and cell not in told]
        assert silent == [], "errors that nobody has to say"
        assert len({cell.name for cell in cells()}) == len(list(cells())) >= 230

    def test_the_page_is_not_stale(self) -> None:
        assert matrix.PAGE.read_text() == matrix.page(), "python -m tests.matrix.matrix > docs/matrix.md"


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    found = record.read(stored_run("matrix/rnn-Raise-request", tmp_path))
    for expected, said in (
        (Expected(EQUAL), "failed loudly, wanted equal"),
        (Expected(ERROR, {"trainer": "ValueError"}), "trainer: "),
        (Expected(ERROR, {"trainer": "FaultError", "ps": "PeerLost: trainer"}), ""),
    ):
        wrong = mistakes(expected, found, judge(found))
        assert [each[: len(said)] for each in wrong] == [said] * bool(said)
