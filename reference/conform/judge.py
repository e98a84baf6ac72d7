"""Judge an implementation's results, case by case. An exact case is judged by its commitments, without torch."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference.conform.answer import Answer, commitment, read_answer
from reference.conform.suite import Suite, SuiteBroken, SuiteCase
from reference.conform.tensor_file import Array, dtype_name
from reference.system.files import content_of
from reference.system.text import OneLine, once, one_line, shown
from reference.trace.names import structure

if TYPE_CHECKING:
    from reference.conform.inputs import Prepared  # with torch


class NoResults(OneLine, ValueError):
    """A folder holds no results of a run, or not those of this suite."""


@dataclass(frozen=True)
class Ran:
    """One run of one case; ``status`` as in `Ended`."""

    status: int | None
    seconds: float


def results(suite: Suite, out: Path) -> dict[str, list[Ran]]:
    """Read which cases ran, from the ``run.json`` that `run_suite` left.

    Raises:
        NoResults: there is none, it is of another suite, or a case's folder is missing.
    """
    if not (out / "run.json").exists():
        raise NoResults(f"{out}: no run.json, which `conform run` writes there when all its cases have ended")
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
    for name, runs in ran.items():
        for number in range(1, len(runs) + 1):
            if not folder_of(out, suite.cases[name], number).is_dir():
                raise NoResults(f"{out}: {name}/{number}/out is missing")
    return ran


def folder_of(out: Path, case: SuiteCase, number: int) -> Path:
    """The folder of one run's answer; ``number`` counts from 1."""
    return out / case.id / str(number) / "out"


def last_line(out: Path, case: SuiteCase, number: int) -> str:
    """The last line that the command wrote to stderr; empty if it wrote none."""
    path = out / case.id / str(number) / "stderr.txt"
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return one_line(next((line for line in reversed(lines) if line.strip()), ""), 400)


LONGEST = 2**20


class BadExpectations(OneLine, ValueError):
    """A file of expectations cannot be read, or an entry of it is not valid."""


@dataclass(frozen=True)
class Expectation:
    """One entry of the file: the cases that match the glob ``cases`` have this verdict."""

    cases: str
    verdict: str
    reason: str
    link: str = ""

    def matches(self, case_id: str) -> bool:
        return fnmatchcase(case_id, self.cases)


def read_expectations(path: Path) -> list[Expectation]:
    """Read a file of expectations.

    Raises:
        BadExpectations: it is not TOML, or an entry has an unknown key, a wrong type, no reason or no such verdict.
    """
    try:
        content = tomllib.loads(content_of(path, LONGEST).decode())
    except (OSError, ValueError) as error:
        raise BadExpectations(one_line(f"{path}: {error}")) from error
    entries = content.get("expect", [])
    if set(content) - {"expect"} or not isinstance(entries, list):
        raise BadExpectations(f"{path}: wanted entries [[expect]] only, got {shown(sorted(content))}")
    return [_entry(path, number, entry) for number, entry in enumerate(entries, start=1)]


def _entry(path: Path, number: int, entry: Any) -> Expectation:
    wanted = {"cases", "verdict", "reason"}
    if not isinstance(entry, dict) or not wanted <= set(entry) <= {*wanted, "link"}:
        got = shown(sorted(entry) if isinstance(entry, dict) else entry)
        raise BadExpectations(f"{path}, entry {number}: wanted cases, verdict, reason, and perhaps link, got {got}")
    for key, value in entry.items():
        if type(value) is not str or not value:
            raise BadExpectations(f"{path}, entry {number}: {key} must be a text, got {shown(value)}")
    if entry["verdict"] not in VERDICTS or entry["verdict"] in RIGHT:
        others = ", ".join(verdict for verdict in VERDICTS if verdict not in RIGHT)
        raise BadExpectations(f"{path}, entry {number}: verdict {shown(entry['verdict'])}, wanted one of {others}")
    return Expectation(**entry)


def as_toml(expected: Sequence[Expectation]) -> str:
    """Return the text of a file that has these entries."""
    lines = []
    for each in expected:
        lines += ["[[expect]]", *(f"{key} = {_toml(getattr(each, key))}" for key in ("cases", "verdict", "reason"))]
        if each.link:
            lines.append(f"link = {_toml(each.link)}")
        lines.append("")
    return "\n".join(lines)


def _toml(text: str) -> str:
    """A TOML string. Of what TOML refuses, a printable line has only these two."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


VERDICTS = (
    "equal",
    "within bound",
    "differs",
    "malformed",
    "unstable",
    "errored",
    "timed out",
    "skipped",
    "unknown",
)
# The verdicts of an implementation that is right.
RIGHT = ("equal", "within bound")


@dataclass(frozen=True)
class Judged:
    """The judgement of one case; ``text``: one line that says why, ``details``: further lines."""

    id: str
    verdict: str
    text: str = ""
    details: Sequence[str] = field(default=())
    seconds: float = 0.0


def judge_suite(suite: Suite, out: Path) -> list[Judged]:
    """Judge every case that ran.

    Raises:
        NoResults: ``out`` has no results of this suite.
        SuiteBroken: the suite, or this machine, does not give the numbers with which the suite was exported.
    """
    return [judge_case(suite, out, suite.cases[name], runs) for name, runs in results(suite, out).items()]


def judge_case(suite: Suite, out: Path, case: SuiteCase, runs: Sequence[Ran]) -> Judged:
    """Judge one case. If its runs differ from each other and not all are right, it is unstable."""
    commitments = suite.commitments.get(case.id)
    answers, judged = [], []
    for number, ran in enumerate(runs, start=1):
        found = _without_answer(out, case, number, ran)
        if found is None:
            answer = read_answer(case, folder_of(out, case, number))
            answers.append(answer)
            found = judge_answer(case, answer, commitments)
        judged.append(found)
    worst = next((each for each in judged if each[0] not in RIGHT), max(judged, key=lambda each: each[0]))
    seconds = sum(ran.seconds for ran in runs)
    if worst[0] not in RIGHT and not _alike(judged, answers):
        return Judged(case.id, "unstable", f"its {len(runs)} runs differ: {_listed(judged)}", (), seconds)
    return Judged(case.id, worst[0], worst[1], worst[2], seconds)


Found = tuple[str, str, Sequence[str]]


def _without_answer(out: Path, case: SuiteCase, number: int, ran: Ran) -> Found | None:
    """The judgement of a run that did not end well; None if it ended well."""
    return ended_badly(ran, last_line(out, case, number))


def ended_badly(ran: Ran, said: str) -> Found | None:
    """Judge how a command ended; None if it ended well. ``said``: the last line that it wrote to stderr."""
    if ran.status is None:
        return "timed out", f"it ran for {ran.seconds:.1f} s, and was ended", (said,) if said else ()
    if ran.status != 0:
        how = f"signal {-ran.status}" if ran.status < 0 else f"exit status {ran.status}"
        return "errored", f"{how}{': ' if said else ''}{said}", ()
    return None


def judge_answer(
    case: SuiteCase, answer: Answer, commitments: Mapping[str, str] | None, reference: Prepared | None = None
) -> Found:
    """Judge what one run left. ``commitments``: those of an exact case; ``reference``: of a case not in the catalogue.

    Raises:
        SuiteBroken: this machine does not give the numbers of the suite, or a natural case cannot be judged here.
    """
    if answer.problems:
        return "malformed", answer.problems[0], tuple(answer.problems[1:])
    if answer.state != "done":
        return answer.state, answer.reason, ()
    arrays = answer.tensors.arrays
    if problems := misfits(case, answer):
        return "malformed", problems[0], tuple(problems[1:])
    if commitments is None:
        return _with_torch(case, arrays, reference)
    differing = [name for name, array in arrays.items() if commitment(array) != commitments[name]]
    if not differing:
        return "equal", f"all numbers of {len(commitments)} tensors are the reference's", ()
    return _with_torch(case, arrays, reference, differing)


def misfits(case: SuiteCase, answer: Answer) -> list[str]:
    """One line for each tensor that cannot be read or has another shape or dtype; names are told by step and kind."""
    found, wanted = answer.tensors, case.outputs
    lines = [f"{name}: {problem}" for name, problem in found.problems.items()]
    lines += structure([*found.arrays, *found.problems], [*wanted])
    for name, array in found.arrays.items():
        dtype, shape = wanted.get(name, (dtype_name(array), array.shape))
        if array.shape != shape:
            hint = ", transposed: layouts are (out, in)?" if array.shape == shape[::-1] else ""
            lines.append(f"{name}: shape {array.shape}, wanted {shape}{hint}")
        if dtype_name(array) != dtype:
            lines.append(f"{name}: dtype {dtype_name(array)}, wanted {dtype}")
    return lines


def _with_torch(
    case: SuiteCase, arrays: Mapping[str, Array], reference: Prepared | None, differing: Sequence[str] = ()
) -> Found:
    """Compare with the twin, which needs torch. Without torch an exact case has its verdict: ``differing`` tells."""
    try:
        from reference.conform.twin import judge_with_twin
    except ImportError as error:
        if not differing:
            raise SuiteBroken(f"{case.id} is no exact case: its judgement needs torch ({error})") from error
        return "differs", f"{len(differing)} of {len(arrays)} tensors differ, the first is {min(differing)}", ()
    return judge_with_twin(case, arrays, reference)


def _alike(judged: Sequence[Found], answers: Sequence[Answer]) -> bool:
    """Whether all runs have the same verdict and the same bits."""
    bits = [{name: array.tobytes() for name, array in answer.tensors.arrays.items()} for answer in answers]
    return len({verdict for verdict, *_ in judged}) == 1 and all(each == bits[0] for each in bits)


def _listed(judged: Sequence[Found]) -> str:
    return ", ".join(f"run {number} {each[0]}" for number, each in enumerate(judged, start=1))
