"""Run some tests on one copy of the checkout, in a process of its own, and tell what that proves."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.mutants.spare_forkserver import ONE_THREAD
from tests.project.junit import node_id

# A test that hangs fails after this many seconds; on the healthy code it has longer, for slow machines.
TEST_SECONDS, HEALTHY_TEST_SECONDS = 30, 150
# A run that takes longer proves nothing (seconds).
RUN_SECONDS, HEALTHY_RUN_SECONDS = 240, 2400

# How a failing test shows a check of faults/verdict/checks.py that does not hold.
_CHECK = re.compile(r"\b(?:FAIL|unknown) +(\w+): ")
# How pytest-timeout fails a test.
_HUNG = re.compile(r"Timeout \(?>\d")


@dataclass(frozen=True)
class Trial:
    """``verdict``: 'killed' (a test failed), 'survived' (all passed) or 'broken' (it proves nothing).

    ``failed`` and ``skipped``: node ids. ``checks``: the names of the checks that a failing test has shown; ``hung``:
    whether it failed because it did not end.
    """

    verdict: str
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    hung: bool = False
    seconds: float = 0.0
    said: str = ""


# Modules that take long to import, and are the same in every copy.
PRELOADED = (
    "pytest",
    "hypothesis",
    "hypothesis.strategies",
    "numpy",
    "torch",
    "torch.distributed.autograd",
    "torch.distributed.optim",
    "torch.distributed.rpc",
    "torch.func",
    "safetensors.torch",
    "gymnasium",
    "rich.progress",
    "torch._dynamo.utils",
    "torch.onnx.symbolic_opset11",
    str(Path(__file__).parents[2] / "reference/training/vision.py"),  # torchvision, beside any build of torch
)


class PreforkedPytest:
    """Starts the processes of one worker, one after the other. See preforked_pytest.py."""

    def __init__(self, preloaded: Sequence[str] = PRELOADED) -> None:
        unwanted = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # copies share the bytecode of what they import
        self._environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("preforked_pytest.py")), *preloaded],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment | ONE_THREAD,
            bufsize=0,
            start_new_session=True,
        )

    def run(self, place: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
        """Pytest's exit status in the copy at ``place``, None if it took longer (seconds); and what it printed."""
        assert self.process.stdin is not None
        log, due = place.parent / "log", time.monotonic() + limit
        job = {"place": str(place), "arguments": list(arguments), "environment": self._environment, "log": str(log)}
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        pid = self._number(due + 60)
        status = self._number(due)
        if pid is None or (status is None and self.process.poll() is not None):
            raise RuntimeError("the process that starts pytest has ended")
        if status is None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self._number(time.monotonic() + 60)
        return status, log.read_text(errors="replace") if log.exists() else ""

    def _number(self, due: float) -> int | None:
        """The next that it says; None if that takes longer, or it has ended."""
        assert self.process.stdout is not None
        ready = select.select([self.process.stdout], [], [], max(0.0, due - time.monotonic()))[0]
        said = self.process.stdout.readline() if ready else b""
        return int(said) if said else None

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


_COMMON = (
    *("-m", ""),  # including the tests that the project's default leaves out
    *("-q", "-p", "no:xdist", "-p", "no:cacheprovider"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # for modules that the preforked process has imported
)


def collect(preforked: PreforkedPytest, place: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Return whether pytest finds all the tests in the copy at ``place``, and what it printed. Bytecode stays there."""
    arguments = ["--collect-only", *_COMMON, *tests]
    status, said = preforked.run(place, arguments, HEALTHY_RUN_SECONDS)
    return status == 0, said


def tried(preforked: PreforkedPytest, place: Path, tests: Sequence[str], *, all_of_them: bool = False) -> Trial:
    """Run the tests in the copy at ``place`` until one fails, or ``all_of_them``."""
    begun, report = time.monotonic(), place.parent / "report.xml"
    limit = HEALTHY_RUN_SECONDS if all_of_them else RUN_SECONDS
    status, said = preforked.run(place, _arguments(place, tests, report, all_of_them), limit)
    seconds = time.monotonic() - begun
    if status is None:
        return Trial("broken", seconds=seconds, said=f"not done after {limit} s\n{said}")
    failed, skipped, shown = _read(report) if report.exists() else ((), (), "")
    verdict = {0: "survived", 1: "killed" if failed else "broken"}.get(status, "broken")
    checks = tuple(dict.fromkeys(_CHECK.findall(shown)))
    return Trial(verdict, failed, skipped, checks, bool(_HUNG.search(shown)), seconds, said)


def _arguments(place: Path, tests: Sequence[str], report: Path, all_of_them: bool) -> list[str]:
    return [
        *([] if all_of_them else ["-x"]),
        *(*_COMMON, "--tb=short", "--hypothesis-seed=0"),
        *(f"--timeout={HEALTHY_TEST_SECONDS if all_of_them else TEST_SECONDS}", "-o", "junit_family=xunit1"),
        *(f"--junitxml={report}", f"--basetemp={place.parent / 't'}"),
        *tests,
    ]


def _read(report: Path) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Read which tests failed, which were skipped, and the output of the failed ones.

    A test counts as failed if its body or its leak check fails, but not if its set-up does: a bug that lets nothing
    start proves nothing of the test.
    """
    failed, skipped, shown = [], [], []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        problems = [*case.findall("failure"), *_teardowns(case)]
        if problems:
            failed.append(node_id(case))
            shown += [f"{each.get('message')}\n{each.text}" for each in problems]
        elif case.find("skipped") is not None:
            skipped.append(node_id(case))
    return tuple(dict.fromkeys(failed)), tuple(skipped), "\n".join(shown)


def _teardowns(case: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in case.findall("error") if (each.get("message") or "").startswith("failed on teardown")]
