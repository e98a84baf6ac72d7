"""Judge the golden runs again, and name those whose verdict is another one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from faults.judge.rules import Judgement, judge
from faults.ledger.record import read, read_plan
from tests.golden import store
from tests.golden.rows import Row, rows
from tests.golden.store import GOLDEN


@dataclass(frozen=True)
class Golden:
    """A golden run, judged again. ``held``: what each check found when it was recorded, by its name."""

    row: Row
    held: Mapping[str, bool | None]
    judgement: Judgement

    @property
    def differs(self) -> bool:
        return self.judgement.verdict != self.row.verdict

    @property
    def moved(self) -> list[str]:
        """Name the checks that find something else than when the run was recorded."""
        return [str(check) for check in self.judgement.checks if check.holds is not self.held.get(check.name, ...)]

    def __str__(self) -> str:
        return "\n    ".join([f"{self.row}: {self.judgement.verdict}, wanted {self.row.verdict}", *self.moved])


def golden_json(row: Row, judgement: Judgement) -> bytes:
    """Return what is stored beside a run's own files."""
    held = {check.name: check.holds for check in judgement.checks}
    return (json.dumps({"verdict": row.verdict, "checks": held}, indent=1) + "\n").encode()


def judged(place: Path, wanted: Iterable[Row]) -> Iterator[Golden]:
    """Judge the golden runs of these rows, in folders below ``place``. A row without a run is left out."""
    of_source: dict[str, list[Row]] = {}
    for row in wanted:
        of_source.setdefault(row.source, []).append(row)
    for source, each in of_source.items():
        runs = store.unpacked(source)
        for row in each:
            if row.name in runs:
                yield _judged(place / source / row.name, row, runs[row.name])


def _judged(folder: Path, row: Row, files: store.Files) -> Golden:
    store.write(files, folder)
    known = json.loads(files[GOLDEN])
    return Golden(row, known["checks"], judge(read(folder)))


def stale(place: Path, found: Iterable[Golden]) -> list[str]:
    """Say of each row of the tables without a golden run of its plan, and of each run without a row, what is wrong.
    ``found``: all golden runs, as judged below ``place``."""
    names, said = set(), []
    for each in found:
        names.add(str(each.row))
        if read_plan(place / each.row.source / each.row.name) != each.row.plan:
            said.append(f"{each.row} was recorded under another plan: record it")
    said += [f"{name} has no golden run: record it" for name in rows() if name not in names]
    stored = {
        f"{source}/{name}" for source in {row.source for row in rows().values()} for name in store.unpacked(source)
    }
    return said + [f"{name} is in no table: record removes it" for name in sorted(stored) if name not in rows()]
