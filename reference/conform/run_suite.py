"""Run an implementation's command once per case, in folders of its own, and keep what it left. Imports no torch."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from reference.conform.answer import largest
from reference.conform.case_copy import changed, given_copy, is_folder
from reference.conform.process import Ended, run_command
from reference.conform.run_results import Ran
from reference.conform.suite import Suite, SuiteCase
from reference.system.long_waits import result_of
from reference.system.printable import OneLine


class NoFolder(OneLine, ValueError):
    """A folder for the results cannot be used."""


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
        NoFolder: ``out`` cannot be made, is not empty, or is inside the suite.
        NotStarted: the command cannot be started.
        OSError: ``out`` cannot be written.
    """
    _make(out, suite)
    ran = {}
    for case, runs in zip(cases, _run_cases(cases, out, settings), strict=True):
        ran[case.id] = [asdict(each) for each in runs]
        told(case.id)
    index = {"suite": suite.version, "command": list(settings.command), "seconds": settings.seconds, "cases": ran}
    (out / "run.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def _make(out: Path, suite: Suite) -> None:
    if out.resolve().is_relative_to(suite.folder.resolve()):
        raise NoFolder(f"{out}: inside the suite {suite.folder}, wanted a folder elsewhere")
    try:
        out.mkdir(parents=True, exist_ok=True)
        empty = not any(out.iterdir())
    except OSError as error:
        raise NoFolder(f"{out}: {error.strerror}, wanted a new folder") from error
    if not empty:
        raise NoFolder(f"{out}: not empty, wanted a new folder")


def _run_cases(cases: Sequence[SuiteCase], out: Path, settings: Settings) -> Iterator[list[Ran]]:
    """Run several cases at once. An error, or Ctrl-C, ends the commands that run, and starts no further ones."""
    stop = threading.Event()
    running: list[Future[list[Ran]]] = []
    with ThreadPoolExecutor(settings.jobs) as pool:
        try:
            running.extend(pool.submit(_run_case, out, settings, stop, case) for case in cases)
            yield from map(result_of, running)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            stop.set()


def _run_case(out: Path, settings: Settings, stop: threading.Event, case: SuiteCase) -> list[Ran]:
    folder = out / case.id
    folder.mkdir()
    return [_run_once(folder / f"{number}", settings, stop, case) for number in range(1, settings.repeat + 1)]


def _run_once(folder: Path, settings: Settings, stop: threading.Event, case: SuiteCase) -> Ran:
    folder.mkdir()
    with given_copy(case, folder) as given:
        answers = given.parent / "out"
        answers.mkdir()
        command = [*settings.command, str(given), str(answers)]
        ended = run_command(command, answers, settings.seconds, largest(case), stop)
        outside = too_much(case, ended) or changed(case, given)
        if ended.outgrown or not is_folder(answers):
            (folder / "out").mkdir()  # what is there instead goes with the temporary folder
        else:
            answers.rename(folder / "out")
    _keep(folder, ended)
    return Ran(ended.status, round(ended.seconds, 3), outside)


def too_much(case: SuiteCase, ended: Ended) -> str:
    """Say that a command wrote more into its folder than it may; empty if it did not."""
    return f"it wrote more than {largest(case)} bytes" if ended.outgrown else ""


def _keep(folder: Path, ended: Ended) -> None:
    (folder / "stdout.txt").write_bytes(ended.stdout)
    (folder / "stderr.txt").write_bytes(ended.stderr)
