"""The golden runs have the verdicts that were written down, are recorded as the tables are now, and tell nothing
if they are not whole."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from faults.judge.rules import judge
from faults.ledger.ledger import SUFFIX
from faults.ledger.record import PLAN, RUN, RecordError, read
from faults.plan import Plan
from tests.golden import judging
from tests.golden.judging import Golden, judged, stale
from tests.golden.rows import rows

pytestmark = pytest.mark.always


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def found(place: Path) -> list[Golden]:
    return list(judged(place, rows().values()))


def test_every_golden_run_has_the_verdict_that_was_written_down(found: list[Golden]) -> None:
    assert len(found) > 400
    differing = [str(each) for each in found if each.differs]
    assert not differing, "\n".join([*differing, "python -m tests.golden judge"])


OTHER = Plan.parse("Crash role=nobody at=up@nobody").to_json().encode()


def parts(file: Path) -> Iterator[bytes]:
    """Yield what may stand in a file's place, besides a beginning of it: another plan, or a record without a fact."""
    if file.name == PLAN:
        yield OTHER
    elif file.name == RUN:
        facts = json.loads(file.read_text())
        # Runs of earlier versions lack the losses, which no rule reads, and who was lost, where nobody was.
        for name in (each for each in facts if each != "losses" and (each != "lost" or facts[each])):
            yield json.dumps({fact: value for fact, value in facts.items() if fact != name}).encode()


def test_no_verdict_but_unknown_comes_of_a_record_that_is_not_whole(place: Path, found: list[Golden]) -> None:
    """Of each run one file is removed, emptied, cut or changed: `run.json` has digests, which tell all cuts alike."""
    decided = []
    for each in found:
        folder, random = place / each.row.source / each.row.name, Random(str(each.row))
        file = random.choice([folder / PLAN, folder / RUN, *sorted(folder.glob(f"*{SUFFIX}"))])
        content = file.read_bytes()
        left = random.choice([None, b"", content[: random.randrange(len(content) - 2)], *parts(file)])
        file.unlink() if left is None else file.write_bytes(left)
        with suppress(RecordError):
            if (verdict := judge(read(folder)).verdict) != "unknown":
                decided.append(f"{each.row}: {verdict} with this {file.name}: {left!r}")
        file.write_bytes(content)
    assert not decided, "\n".join(decided)


def test_every_row_of_the_tables_has_a_golden_run_of_its_plan(place: Path, found: list[Golden]) -> None:
    assert stale(place, found) == [], "python -m tests.golden record NAME"


def test_the_judge_reads_nothing_but_the_folder_and_needs_no_torch(place: Path, found: list[Golden]) -> None:
    """Whatever it opens or starts would be another file, or another process, on another day."""
    done = subprocess.run(
        [sys.executable, "-c", _WATCHED, *(str(place / each.row.source / each.row.name) for each in found[::10])],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == ""
    assert done.stderr == ""
    assert done.returncode == 0


_WATCHED = """
import sys
from faults.ledger.record import read
from faults.judge.rules import judge

def watch(event, arguments):
    inside = event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(folder)
    if event.startswith(("open", "os.", "subprocess", "socket", "import")) and not inside:
        print(event, arguments)

judge(read(sys.argv[1]))  # what is imported late is imported now
sys.addaudithook(watch)
for folder in sys.argv[1:]:
    judge(read(folder))
assert "torch" not in sys.modules
"""


class TestATableThatChanged:
    ROW = rows()["matrix/rpc_basics-Raise-reply"]

    def test_another_verdict_is_named_with_the_check_that_moved(self, place: Path, found: list[Golden]) -> None:
        golden = next(each for each in found if each.row == self.ROW)
        assert golden.differs is False
        assert golden.moved == []
        other = replace(golden, row=replace(self.ROW, verdict="wrong"), held={**golden.held, "errors": False})
        assert other.differs is True
        assert str(other).splitlines() == [
            "matrix/rpc_basics-Raise-reply: failed loudly, wanted wrong",
            "    pass     errors: none that convicts the program",
        ]

    def test_another_plan_a_new_row_and_one_less_are_named(
        self, place: Path, found: list[Golden], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = [replace(each, row=replace(each.row, plan=Plan())) if each.row == self.ROW else each for each in found]
        new, gone = replace(self.ROW, name="new"), "retries/naive Duplicate"
        table = {**rows(), str(new): new}
        del table[gone]
        monkeypatch.setattr(judging, "rows", lambda: table)
        assert stale(place, other) == [
            f"{self.ROW} was recorded under another plan: record it",
            "matrix/new has no golden run: record it",
            f"{gone} is in no table: record removes it",
        ]
