"""Record golden runs: make each run, check that it has the verdict that was written down, and keep what it left."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from faults.judge.rules import Judgement, judge
from faults.ledger.record import OWN, RUN, Run, read, write
from faults.script.results import Results
from reference.system.files import RENDEZVOUS
from tests.golden import store
from tests.golden.examples import Example, run_example
from tests.golden.judging import golden_json
from tests.golden.rows import Row, rows
from tests.matrix import running as of_matrix
from tests.matrix.matrix import Cell
from tests.programs import running as of_programs
from tests.programs.verdicts import Expected
from tests.support import retries
from tests.support.script_runs import plain

ROOT = Path(__file__).parents[2]

# A file that is longer, such as a log, is refused: the archives are for ever in the repository's history.
MOST_BYTES = 1 << 20


class Refused(Exception):
    """A run that is not recorded, because something else came of it than was written down. Says what."""


def recorded(row: Row, place: Path) -> dict[str, bytes]:
    """Make a run below an empty folder, and return the files to keep. They name no path of this machine.

    Raises:
        Refused: its verdict, or how its roles ended, is not what was written down.
    """
    found, judgement, mistakes = _run(row, place)
    files = dict(kept(place / "run", {str(place): "/recorded"}))
    store.write(files, place / "kept")
    facts = json.loads(files[RUN])
    write(place / "kept", **{name: value for name, value in facts.items() if name not in OWN})  # of what is kept
    files[RUN] = (place / "kept" / RUN).read_bytes()
    again = judge(read(place / "kept"))
    if again.verdict != judgement.verdict:
        mistakes.append(f"{again.verdict} by what is kept, {judgement.verdict} by the run")
    if mistakes or again.verdict != row.verdict:
        raise Refused("\n".join([*mistakes, str(found.timeline), str(again), f"wanted: {row.verdict}"]))
    return {**files, store.GOLDEN: golden_json(row, again)}


def _run(row: Row, place: Path) -> tuple[Run, Judgement, list[str]]:
    """Run it in ``place / "run"``; name also what differs from the table besides the verdict."""
    entry, results = row.entry, Results()  # so that what a program prints is kept, too
    if isinstance(entry, Cell):
        found, judgement = of_matrix.run_cell(entry, place / "run")
        return found, judgement, of_matrix.mistakes(entry.expected, found, judgement)
    with plain(place):
        if isinstance(entry, Expected):
            found, judgement = of_programs.run_row(entry, place)
            return found, judgement, of_programs.mistakes(entry, found, judgement)
        if isinstance(entry, Example):
            return (*run_example(entry, place, results), [])
        return (*retries.run(*entry, place, results), [])


def kept(folder: Path, places: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a run's folder without paths of this machine. ``places``: paths, and what stands for them.

    Where torch's roles met is left out: memory that torch did not initialize is in that file.

    Raises:
        Refused: a file is longer than `MOST_BYTES`.
    """
    names = {
        **places,
        sys.executable: "/python/bin/python",
        sysconfig.get_path("stdlib"): "/python/lib",
        str(ROOT): "/checkout",
    }
    # A name within a longer word is another one. A path may be the beginning of another one: the longest first.
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest).encode())
    for path in sorted(each for each in folder.rglob("*") if each.is_file() and each.name != RENDEZVOUS):
        content = re.sub(rb"/[\w./-]*/site-packages/", b"/python/site-packages/", path.read_bytes())
        content = pattern.sub(lambda found: names[found[0].decode()].encode(), content)
        if len(content) > MOST_BYTES:
            raise Refused(f"{path.name} has {len(content)} bytes, wanted at most {MOST_BYTES}")
        yield str(path.relative_to(folder)), content


def _record(name: str) -> store.Files | str:
    """Record a row, in this process; return its files, or what is wrong, in lines."""
    with tempfile.TemporaryDirectory(prefix="golden-") as place:
        try:
            return recorded(rows()[name], Path(place))
        except Refused as error:
            return str(error)


def record(wanted: Sequence[Row], workers: int) -> Iterator[tuple[Row, store.Files | str]]:
    """Record these rows, ``workers`` at a time; yield each with its files, or with what is wrong."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        running = {pool.submit(_record, str(row)): row for row in wanted}
        for done in as_completed(running):
            yield running[done], done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def finish(new: Mapping[str, store.Files]) -> None:
    """Put new runs, by the names of their rows, into the archives, and take out those that are in no table."""
    known = rows()
    for source in {row.source for row in known.values()}:
        before = store.unpacked(source)
        every = {**before, **{known[row].name: files for row, files in new.items() if known[row].source == source}}
        runs = {name: files for name, files in every.items() if f"{source}/{name}" in known}
        if runs != before:
            store.pack(source, runs)
