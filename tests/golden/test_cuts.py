"""A record that lacks anything is noticed: of each golden run, each file is cut, emptied or removed, one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from faults.judge.rules import judge
from faults.ledger.ledger import SUFFIX
from faults.ledger.record import PLAN, RUN, RecordError, read
from faults.plan import Plan
from tests.golden import store

# The cuts at every line take minutes, so each test makes those of a part of the runs, and CI a share of the tests.
_PARTS, _PARTS_OF_MATRIX = 8, 24
_OTHERS = tuple(Plan.parse(each).to_json().encode() for each in ("seed=0", "Crash role=ps at=up@ps"))


def cuts(path: str, content: bytes, random: Random, every: bool) -> Iterator[bytes | None]:
    """Yield what may be left of a file; None: it is removed. ``every``: a ledger is cut at every line, and each fact is
    left out of ``run.json``, not one at random."""
    if path.endswith(SUFFIX):
        starts = [0, *(place + 1 for place, byte in enumerate(content[:-1]) if byte == ord("\n"))]
        yield from (content[:start] for start in (starts if every else random.sample(starts, 1)))
    elif path == PLAN:
        yield from (other for other in _OTHERS if Plan.from_json(other.decode()) != Plan.from_json(content.decode()))
    elif path == RUN:
        facts = json.loads(content)
        # Runs of earlier versions lack the losses, which no rule reads, and who was lost, where nobody was.
        facts = {name: value for name, value in facts.items() if name != "losses" and (name != "lost" or value)}
        for name in facts if every else random.sample([*facts], 1):
            yield json.dumps({fact: value for fact, value in facts.items() if fact != name}).encode()
    else:
        return
    yield from (content[: random.randrange(len(content) - 2)], None)


def verdict(folder: Path) -> str:
    try:
        return judge(read(folder)).verdict
    except RecordError:
        return "refused"


def _rows() -> Iterator[Any]:
    for source in sorted(each.name.partition(".")[0] for each in store.FOLDER.glob("*.tar.xz")):
        yield pytest.param(source, None, marks=pytest.mark.always, id=f"None-{source}")
        for part in range(_parts(source)):
            yield pytest.param(source, part, marks=pytest.mark.long, id=f"{part}-{source}")


def _parts(source: str) -> int:
    return _PARTS_OF_MATRIX if source == "matrix" else _PARTS


@pytest.mark.parametrize(("source", "part"), [*_rows()])
def test_no_verdict_but_unknown_comes_of_a_record_that_is_not_whole(
    source: str, part: int | None, tmp_path: Path
) -> None:
    """``part``: of these runs each file is cut everywhere; None: of all runs at one place at random."""
    runs, every = store.unpacked(source), part is not None
    chosen = sorted(runs)[part :: _parts(source)] if part is not None else sorted(runs)
    decided, tried = [], 0
    for name in chosen:
        files, folder = runs[name], tmp_path / name
        store.write(files, folder)
        assert verdict(folder) == json.loads(files[store.GOLDEN])["verdict"]
        for path, content in files.items():
            for number, cut in enumerate(cuts(path, content, Random(f"{name} {path}"), every)):
                (folder / path).unlink() if cut is None else (folder / path).write_bytes(cut)
                tried += 1
                if (found := verdict(folder)) not in ("unknown", "refused"):
                    decided.append(f"{name}: {path}, cut {number}: {found}")
                (folder / path).write_bytes(content)
    assert not decided, "\n".join(decided)
    assert tried > 7 * len(chosen)
