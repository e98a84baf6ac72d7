"""Run an implementation: a command on the cases of a suite, without torch; a command or a function on any one case."""

from __future__ import annotations

import importlib
import json
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reference.conform.answer import read_answer
from reference.conform.judge import Found, Ran, ended_badly, judge_answer
from reference.conform.process import run_command
from reference.conform.suite import Entry, Suite, SuiteCase
from reference.conform.tensor_file import DTYPES, write
from reference.system.files import Unusable, filled
from reference.system.processes import result_of
from reference.system.text import OneLine, shown
from reference.trace.case import Case


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
        Unusable: ``out`` cannot be made or written, is not empty, or is inside the suite.
        NotStarted: the command cannot be started.
        OSError: ``out`` cannot be written any more.
    """
    if out.resolve().is_relative_to(suite.folder.resolve()):
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
    return [_run_once(folder, settings, stop, case) for folder in folders]


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


# An implementation in Python: the content of ``case.json`` and the inputs in, the outputs out; None: not offered.
Function = Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None]


class NoImplementation(OneLine, ValueError):
    """A text names no command and no function that can be imported."""


@dataclass(frozen=True)
class Implementation:
    """Somebody's program: a command that gets ``CASE_DIR OUT_DIR``, or a function. ``seconds``: a run's limit."""

    command: tuple[str, ...] = ()
    function: Function | None = None
    seconds: float = 60.0

    @classmethod
    def of(cls, text: str) -> Implementation:
        """Make it of ``module:function``, or of a command as a shell splits it.

        Raises:
            NoImplementation: there is no such module, function or command.
        """
        module, colon, name = text.partition(":")
        if colon and module.replace(".", "_").isidentifier() and name.isidentifier():
            return cls(function=_imported(module, name))
        try:
            command = tuple(shlex.split(text))
        except ValueError as error:
            raise NoImplementation(f"{text!r}: {error}") from error
        if not command:
            raise NoImplementation(f"wanted a command or module:function, got {text!r}")
        if shutil.which(command[0]) is None:
            raise NoImplementation(f"{command[0]!r}: no such command, wanted one, or module:function")
        return cls(command)

    def judged(self, case: Case, folder: Path) -> Found:
        """Run it on ``case`` in a new ``folder``, and judge what it leaves.

        Raises:
            NotStarted: the command cannot be started.
        """
        from reference.conform.export import write_case
        from reference.conform.inputs import prepare  # with torch

        tutorial = case.tutorial()
        reference = prepare(Entry(f"{tutorial}-000", json.loads(case.to_json())))
        given, out = folder / reference.entry.id, folder / "out"
        write_case(given, reference)
        out.mkdir()
        asked = SuiteCase(given, reference.describe())
        failed = self._run(asked, out)
        return failed or judge_answer(asked, read_answer(asked, out), None, reference)

    def _run(self, asked: SuiteCase, out: Path) -> Found | None:
        """Let it answer; returns its judgement if there is no answer to judge."""
        if self.function is None:
            ended = run_command([*self.command, str(asked.folder), str(out)], self.seconds)
            said = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2]
            return ended_badly(Ran(ended.status, ended.seconds), said)
        found = self.function(deepcopy(asked.described), dict(asked.inputs))
        if found is None:
            return "skipped", "the function returned None", ()
        if why := _not_arrays(found):
            return "malformed", why, ()
        write(out / "trace.safetensors", found)
        return None


def _imported(module: str, name: str) -> Function:
    sys.path.insert(0, "")
    try:
        found: Function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise NoImplementation(f"{module}:{name}: {error}") from error
    finally:
        sys.path.remove("")
    if not callable(found):
        raise NoImplementation(f"{module}:{name}: got {shown(found)}, wanted a function")
    return found


def _not_arrays(found: Any) -> str:
    """Say why a function returned no arrays by name; empty if it did."""
    if not isinstance(found, Mapping):
        return f"the function returned {shown(found)}, wanted the outputs by name, or None"
    for name, array in found.items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray | np.generic):
            return f"the function returned {shown(name)}: {shown(array)}, wanted a NumPy array by its name"
        if array.dtype.newbyteorder("<") not in DTYPES.values():
            return f"the function returned {shown(name)} of dtype {array.dtype}, wanted one of {', '.join(DTYPES)}"
    return ""
