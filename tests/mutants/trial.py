"""One run of some tests on one copy of the checkout, in a process of its own, and what it proves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# A test that hangs is ended, and has failed, after so many seconds; the rest of the suite has a longer limit.
TEST_SECONDS = 60
# A run that takes longer proves nothing (seconds).
RUN_SECONDS = 240

# A check of faults/checks.py that does not hold, as a failing test shows it.
_CHECK = re.compile(r"\b(?:FAIL|unknown) +(\w+): ")


@dataclass(frozen=True)
class Trial:
    """``verdict``: 'killed' (a test failed), 'survived' (all passed) or 'broken' (nothing can be said of it).

    ``failed`` and ``skipped``: node ids. ``checks``: the names of the checks that a failing test has shown.
    """

    verdict: str
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    seconds: float = 0.0
    said: str = ""


def tried(place: Path, tests: Sequence[str], *, all_of_them: bool = False) -> Trial:
    """Run the tests in the copy at ``place`` until one fails, or ``all_of_them``."""
    begun, report = time.monotonic(), place.parent / "report.xml"
    limit = RUN_SECONDS * (10 if all_of_them else 1)
    status, said = _run(_command(place, tests, report, all_of_them), place, limit)
    seconds = time.monotonic() - begun
    if status is None:
        return Trial("broken", seconds=seconds, said=f"not done after {limit} s\n{said}")
    failed, skipped, shown = _read(report) if report.exists() else ((), (), "")
    verdict = {0: "survived", 1: "killed" if failed else "broken"}.get(status, "broken")
    checks = tuple(dict.fromkeys(_CHECK.findall(shown)))
    return Trial(verdict, failed, skipped, checks, seconds, said)


def _command(place: Path, tests: Sequence[str], report: Path, all_of_them: bool) -> list[str]:
    options = [
        *([] if all_of_them else ["-x"]),
        *("-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short", "--hypothesis-seed=0"),
        *(f"--timeout={TEST_SECONDS}", "-o", "junit_family=xunit1"),
        *(f"--junitxml={report}", f"--basetemp={place.parent / 't'}"),
    ]
    return [sys.executable, "-m", "pytest", *options, *tests]


def _run(command: Sequence[str], place: Path, limit: float) -> tuple[int | None, str]:
    """The exit status, None if it took too long, and what was printed."""
    environment = {**os.environ, "PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": "1"}
    log = place.parent / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, log.read_text(errors="replace")


def _read(report: Path) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Which tests failed, which were skipped, and what the failed ones showed.

    A test fails in its body or when what it has left is looked at, but not in its set-up: a bug that lets nothing
    start proves nothing of the test.
    """
    failed, skipped, shown = [], [], []
    for case in xml.parse(report).getroot().iter("testcase"):
        problems = [*case.findall("failure"), *_teardowns(case)]
        if problems:
            failed.append(_node_id(case))
            shown += [f"{each.get('message')}\n{each.text}" for each in problems]
        elif case.find("skipped") is not None:
            skipped.append(_node_id(case))
    return tuple(dict.fromkeys(failed)), tuple(skipped), "\n".join(shown)


def _teardowns(case: xml.Element) -> list[xml.Element]:
    return [each for each in case.findall("error") if (each.get("message") or "").startswith("failed on teardown")]


def _node_id(case: xml.Element) -> str:
    file, name = case.get("file") or "", case.get("name") or ""
    module = file.removesuffix(".py").replace("/", ".")
    inner = (case.get("classname") or "").removeprefix(module).strip(".")
    return "::".join([file, *filter(None, inner.split(".")), name])
