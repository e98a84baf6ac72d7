"""Run an implementation's command once per case, in folders of its own, and keep what it left. Imports no torch."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reference.conform.answer import largest
from reference.conform.process import Ended, run_command
from reference.conform.suite import Suite, SuiteCase
from reference.system.printable import OneLine, one_line
from reference.system.strict_json import once


class NoResults(OneLine, ValueError):
    """A folder holds no results of a run, or not those of this suite."""


@dataclass(frozen=True)
class Ran:
    """One run of one case. ``status`` as in `Ended`; ``outside``: what it must not have written, if anything."""

    status: int | None
    seconds: float
    outside: str = ""


@dataclass(frozen=True)
class Settings:
    """``repeat``: runs of each case; ``seconds``: the time limit of each; ``jobs``: cases that run at once."""

    command: tuple[str, ...]
    repeat: int = 1
    seconds: float = 300.0
    jobs: int = 1


def run_suite(
    suite: Suite, cases: Sequence[SuiteCase], out: Path, settings: Settings, told: Callable[[str], object]
) -> None:
    """Run the command for all ``cases`` and leave the results in ``out``. ``told`` gets the id of each case that ended.

    Raises:
        NoResults: ``out`` is not empty.
        OSError: the command cannot be started, or ``out`` not be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise NoResults(f"{out}: not empty, wanted a new folder")
    with ThreadPoolExecutor(settings.jobs) as pool:
        ran = {}
        for case, runs in zip(cases, pool.map(partial(_run_case, out, settings), cases), strict=True):
            ran[case.id] = [asdict(each) for each in runs]
            told(case.id)
    index = {"suite": suite.version, "command": list(settings.command), "seconds": settings.seconds, "cases": ran}
    (out / "run.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _run_case(out: Path, settings: Settings, case: SuiteCase) -> list[Ran]:
    (out / case.id).mkdir()
    return [_run_once(out / case.id / f"{number}", settings, case) for number in range(1, settings.repeat + 1)]


def _run_once(folder: Path, settings: Settings, case: SuiteCase) -> Ran:
    folder.mkdir()
    with _given(case) as given:
        answers = given.parent / "out"
        answers.mkdir()
        command = [*settings.command, str(given), str(answers)]
        ended = run_command(command, answers, settings.seconds, largest(case))
        outside = too_much(case, ended) or _changed(case, given)
        if ended.outgrown:
            shutil.rmtree(answers)
            answers.mkdir()
        shutil.move(answers, folder / "out")
    _keep(folder, ended)
    return Ran(ended.status, round(ended.seconds, 3), outside)


def too_much(case: SuiteCase, ended: Ended) -> str:
    """Say that a command wrote more into its folder than it may; empty if it did not."""
    return f"it wrote more than {largest(case)} bytes" if ended.outgrown else ""


@contextmanager
def _given(case: SuiteCase) -> Iterator[Path]:
    """Make a copy of the case in a temporary folder, in which nothing else is, so that the suite stays as it is."""
    with tempfile.TemporaryDirectory(prefix="conform-") as place:
        given = Path(place, "case")
        shutil.copytree(case.folder, given)
        yield given


def _changed(case: SuiteCase, given: Path) -> str:
    """Say what was written beside the folder for the answer; empty if nothing was."""
    names = {path.name for path in given.parent.iterdir()}
    if names != {"case", "out"}:
        return f"it wrote {', '.join(sorted(names - {'case', 'out'})) or 'over its folders'} outside its folder"
    files = {path.name for path in given.iterdir()}
    wanted = {path.name for path in case.folder.iterdir()}
    if files != wanted or any((given / name).read_bytes() != (case.folder / name).read_bytes() for name in wanted):
        return "it changed the folder of the case"
    return ""


def _keep(folder: Path, ended: Ended) -> None:
    (folder / "stdout.txt").write_bytes(ended.stdout)
    (folder / "stderr.txt").write_bytes(ended.stderr)


def results(suite: Suite, out: Path) -> dict[str, list[Ran]]:
    """Read which cases ran, from the ``run.json`` that `run_suite` left.

    Raises:
        NoResults: there is none, or it is of another suite.
    """
    try:
        index: Any = json.loads((out / "run.json").read_text(encoding="utf-8"), object_pairs_hook=once)
        ran = {name: [Ran(**each) for each in runs] for name, runs in index["cases"].items()}
        version = index["suite"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NoResults(one_line(f"{out}: no results of a run ({type(error).__name__}: {error})")) from error
    if version != suite.version:
        raise NoResults(f"{out}: results of suite {version}, wanted {suite.version}")
    if strangers := sorted(set(ran) - set(suite.cases)):
        raise NoResults(f"{out}: results of cases that the suite lacks: {', '.join(strangers)}")
    return ran


def folder_of(out: Path, case: SuiteCase, number: int) -> Path:
    """The folder of one run's answer; ``number`` counts from 1."""
    return out / case.id / str(number) / "out"


def last_line(out: Path, case: SuiteCase, number: int) -> str:
    """The last line that the command wrote to stderr; empty if it wrote none."""
    path = out / case.id / str(number) / "stderr.txt"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return one_line(next((line for line in reversed(lines) if line.strip()), ""), 400)
