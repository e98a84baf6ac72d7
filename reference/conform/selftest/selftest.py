"""Judge every broken implementation, and say which ones did not get their verdict and their explanation."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reference.conform.answer import read_answer
from reference.conform.inputs import export
from reference.conform.judge import Judged, judge_answer, judge_suite
from reference.conform.run_suite import Settings, run_suite
from reference.conform.selftest.agent_mistakes import AGENT_MISTAKES
from reference.conform.selftest.broken import Broken, Tensors
from reference.conform.selftest.hostile import HOSTILE, Hostile
from reference.conform.selftest.other_mistakes import OTHER_MISTAKES
from reference.conform.selftest.server_mistakes import SERVER_MISTAKES
from reference.conform.suite import Suite, chosen, open_suite
from reference.conform.tensor_file import write
from reference.conform.twin import prepared

MISTAKES = (*SERVER_MISTAKES, *OTHER_MISTAKES, *AGENT_MISTAKES)
# The case that hostile programs get, and how long one may run (seconds).
CASE, SECONDS = "dist_autograd-001", 15.0


@dataclass(frozen=True)
class Tested:
    """One broken implementation, what it got, and what it should have got."""

    name: str
    got: Judged
    verdict: str
    told: str

    @property
    def holds(self) -> bool:
        """Whether verdict and explanation are the expected ones."""
        return self.got.verdict == self.verdict and self.told in "\n".join((self.got.text, *self.got.details))


def selftest() -> Iterator[Tested]:
    """Judge all broken implementations, and the healthy twin of every core case."""
    with tempfile.TemporaryDirectory(prefix="conform-") as place:
        export(Path(place, "suite"), chosen("core"))
        suite = open_suite(Path(place, "suite"))
        for entry in chosen("core"):
            yield healthy(suite, entry.id, Path(place, "healthy", entry.id))
        for number, broken in enumerate(MISTAKES):
            tensors = broken.tensors(prepared(broken.case))
            yield judged(suite, broken, tensors, Path(place, f"broken{number}"))
        for number, each in enumerate(HOSTILE):
            yield run(suite, each, Path(place, f"hostile{number}"))


def healthy(suite: Suite, name: str, folder: Path) -> Tested:
    """Judge the twin's own answer: a judge that refuses it is broken, too."""
    folder.mkdir(parents=True)
    write(folder / "trace.safetensors", prepared(name).outputs)
    case = suite.cases[name]
    found = judge_answer(case, read_answer(case, folder), suite.commitments.get(name))
    return Tested(f"the twin of {name}", Judged(name, *found), "equal", "")


def judged(suite: Suite, broken: Broken, tensors: Tensors, folder: Path) -> Tested:
    """Judge one mistake; ``tensors``: its whole trace."""
    folder.mkdir()
    reference = prepared(broken.case)
    given = set(reference.twin.tensors) - set(reference.outputs)
    arrays = {name: t.detach().contiguous().numpy() for name, t in tensors.items() if name not in given}
    write(folder / "trace.safetensors", arrays)
    case = suite.cases[broken.case]
    found = judge_answer(case, read_answer(case, folder), suite.commitments.get(case.id))
    return Tested(broken.name, Judged(case.id, *found), broken.verdict, broken.told)


def run(suite: Suite, hostile: Hostile, out: Path) -> Tested:
    """Run one hostile program, and judge what it left."""
    settings = Settings((sys.executable, *hostile.command), seconds=SECONDS)
    run_suite(suite, [suite.cases[CASE]], out, settings, lambda _: None)
    (found,) = judge_suite(suite, out)
    return Tested(hostile.name, found, hostile.verdict, hostile.told)
