"""Run some tests on one copy of the checkout, in a process of its own, and tell what that proves."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.preforked import ONE_THREAD


@dataclass(frozen=True)
class Extent:
    """How far a run of tests goes. ``stop``: only to the first failure; ``test``: seconds after which a test that hangs
    fails; ``run``: seconds after which the run is ended, and proves nothing; ``begin``: no test begins later."""

    stop: bool
    test: int
    run: int
    begin: int | None = None


FIRST_FAILURE = Extent(stop=True, test=60, run=240)
# The healthy code has longer, for slow machines.
HEALTHY = Extent(stop=False, test=150, run=2400)
SAMPLED = Extent(stop=True, test=60, run=150, begin=60)

# How pytest-timeout fails a test.
_HUNG = re.compile(r"Timeout \(?>\d")
# How it ends a run in which no further test may begin.
_OVER = "session-timeout: "


@dataclass(frozen=True)
class Trial:
    """``verdict``: 'killed' (a test failed), 'survived' (all passed), 'broken' (the tests do not start, or end with
    neither) or 'overdue' (they do not end).

    ``failed`` and ``skipped``: node ids. ``hung``: whether a test failed because it did not end.
    """

    verdict: str
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
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
    # What pytest imports when it starts, which is a seventh of a short trial.
    *("_hypothesis_pytestplugin", "_pytest.faulthandler", "_pytest.helpconfig", "_pytest.junitxml", "_pytest.pastebin"),
    *("_pytest.pytester_assertions", "_pytest.unittest", "multiprocessing.forkserver", "pdb", "platformdirs"),
    *("pytest_timeout", "tomllib", "torch.distributed.rpc.rref_proxy"),
)


class PreforkedPytest:
    """Starts the processes of one worker, one after the other. See preforked_pytest.py."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb", buffering=0)

    def run(self, place: Path, arguments: Sequence[str], limit: float) -> tuple[int | None, str]:
        """Pytest's exit status in the copy at ``place``, None if it took longer (seconds); and what it printed."""
        log, due = place.parent / "log", time.monotonic() + limit
        job = {"place": str(place), "arguments": list(arguments), "environment": _environment(), "log": str(log)}
        self._connection.sendall(json.dumps(job).encode() + b"\n")
        pid = self._number(due + 60)
        status = self._number(due)
        if pid is not None and status is None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
            self._number(time.monotonic() + 60)
        return status, log.read_text(errors="replace") if log.exists() else ""

    def _number(self, due: float) -> int | None:
        """The next answer; None if that takes longer. Raises RuntimeError if none can come."""
        if not select.select([self._connection], [], [], max(0.0, due - time.monotonic()))[0]:
            return None
        said = self._answers.readline()
        if not said:
            raise RuntimeError("the process that starts pytest has ended")
        return int(said)


@contextmanager
def preforked(count: int, preloaded: Sequence[str] = PRELOADED) -> Iterator[list[PreforkedPytest]]:
    """Start one process that imports what takes long, and forks ``count`` others, each of which serves one worker."""
    with ExitStack() as stack:
        pairs = [socket.socketpair() for _ in range(count)]
        for each in (end for pair in pairs for end in pair):
            stack.enter_context(each)
        numbers = [theirs.fileno() for _, theirs in pairs]
        script = str(Path(__file__).parents[1] / "preforked/preforked_pytest.py")
        process = subprocess.Popen(
            [sys.executable, script, ",".join(map(str, numbers)), *preloaded],
            stdin=subprocess.DEVNULL,
            env=_environment() | ONE_THREAD,
            pass_fds=numbers,
            start_new_session=True,
        )
        try:
            for _, theirs in pairs:
                theirs.close()
            yield [PreforkedPytest(ours) for ours, _ in pairs]
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # it has not been waited for, so the group is still there
            process.wait()


def _environment() -> dict[str, str]:
    unwanted = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")  # copies share the bytecode of what they import
    return {name: value for name, value in os.environ.items() if name not in unwanted}


# Only the plugins that killers need: otherwise pytest imports all that are installed, and lists their files, in every
# trial. Older ones have no such option.
_PLUGINS: tuple[str, ...] = (
    *("--disable-plugin-autoload", "-p", "torch_rpc_reference_plugin"),
    *("-p", "pytest_timeout", "-p", "_hypothesis_pytestplugin"),
)
if pytest.version_tuple < (8, 4):
    _PLUGINS = ("-p", "no:xdist")

_COMMON = (
    *("-m", ""),  # including the tests that the project's default leaves out
    *("-q", "-p", "no:cacheprovider"),
    *_PLUGINS,
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # for modules that the preforked process has imported
)


def collect(preforked: PreforkedPytest, place: Path, tests: Sequence[str]) -> tuple[bool, str]:
    """Return whether pytest finds all the tests in the copy at ``place``, and what it printed. Bytecode stays there."""
    arguments = ["--collect-only", *_COMMON, *tests]
    status, said = preforked.run(place, arguments, HEALTHY.run)
    return status == 0, said


def tried(preforked: PreforkedPytest, place: Path, tests: Sequence[str], extent: Extent) -> Trial:
    """Run the tests in the copy at ``place``.

    A test counts as failed if its body or its leak check fails, but not if its set-up does: a bug that lets nothing
    start proves nothing of the test.
    """
    begun, report = time.monotonic(), place.parent / "report.xml"
    status, said = preforked.run(place, _arguments(place, tests, report, extent), extent.run)
    seconds = time.monotonic() - begun
    if status is None:
        return Trial("overdue", seconds=seconds, said=f"not done after {extent.run} s\n{said}")
    cases = list(ElementTree.parse(report).getroot().iter("testcase")) if report.exists() else []
    problems = {case: [*case.findall("failure"), *_teardowns(case)] for case in cases}
    failed = tuple(dict.fromkeys(_node_id(case) for case in cases if problems[case]))
    skipped = tuple(_node_id(case) for case in cases if case.find("skipped") is not None)
    unready = any(case.find("error") is not None and not problems[case] for case in cases)
    shown = "\n".join(f"{each.get('message')}\n{each.text}" for found in problems.values() for each in found)
    verdict = {0: "survived", 1: "killed" if failed else "broken"}.get(status, "broken")
    if status == 1 and not (failed or unready) and _OVER in said:  # the time for all tests fails the run
        verdict = "survived"
    return Trial(verdict, failed, skipped, bool(_HUNG.search(shown)), seconds, said)


def _arguments(place: Path, tests: Sequence[str], report: Path, extent: Extent) -> list[str]:
    return [
        *(["-x"] if extent.stop else []),
        *([] if extent.begin is None else [f"--session-timeout={extent.begin}"]),
        *(*_COMMON, "--tb=short", "--hypothesis-seed=0", "--hypothesis-profile=whole"),
        *(f"--timeout={extent.test}", "-o", "junit_family=xunit1"),
        *(f"--junitxml={report}", f"--basetemp={place.parent / 't'}"),
        *tests,
    ]


def _node_id(case: ElementTree.Element) -> str:
    """Return the test's id as pytest writes it: file, classes, function and parameters (family xunit1)."""
    file, name = case.get("file") or "", case.get("name") or ""
    module = file.removesuffix(".py").replace("/", ".")
    inner = (case.get("classname") or "").removeprefix(module).strip(".")
    return "::".join([file, *filter(None, inner.split(".")), name])


def _teardowns(case: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in case.findall("error") if (each.get("message") or "").startswith("failed on teardown")]
