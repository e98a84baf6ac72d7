"""Run an implementation, a command, on the cases of a suite. This needs no torch."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from reference.conform.judge import Ran
from reference.conform.process import run_command
from reference.conform.suite import Suite, SuiteCase
from reference.system.files import Unusable, filled
from reference.system.processes import result_of


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
        Unusable: ``out`` cannot be made or written, is not empty, is inside the suite, or another process fills it.
        BadInput: the command cannot be started, or took too long and runs as another user.
        OSError: ``out`` cannot be written any more.
    """
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(suite.folder)):
        raise Unusable(out, f"inside the suite {suite.folder}, wanted a folder elsewhere")
    with filled(out):
        ran = {}
        for case, runs in zip(cases, _run_cases(cases, out, settings), strict=True):
            ran[case.id] = [asdict(each) for each in runs]
            told(case.id)
        index = {"suite": suite.version, "command": list(settings.command), "seconds": settings.seconds, "cases": ran}
        (out / "run.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


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
    folders = [(out / case.id / f"{number}").resolve() for number in range(1, settings.repeat + 1)]
    return [_run_once(folder, settings, stop, case) for folder in folders if not stop.is_set()]


def _run_once(folder: Path, settings: Settings, stop: threading.Event, case: SuiteCase) -> Ran:
    """Run the command on a copy of the case, so that nothing that a program does changes the suite."""
    answers = folder / "out"
    answers.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="conform-", ignore_cleanup_errors=True) as place:
        given = shutil.copytree(case.folder, Path(place, "case"))
        ended = run_command([*settings.command, str(given), str(answers)], settings.seconds, stop)
    if not answers.is_dir():  # a program may have removed it, or made a file of it
        answers.unlink(missing_ok=True)
        answers.mkdir(parents=True)
    (folder / "stdout.txt").write_bytes(ended.stdout)
    (folder / "stderr.txt").write_bytes(ended.stderr)
    return Ran(ended.status, round(ended.seconds, 3))
