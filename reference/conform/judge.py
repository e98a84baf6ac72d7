"""Judge an implementation's results, case by case. An exact case is judged by its commitments, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reference.conform.answer import Answer, commitment, read_answer
from reference.conform.suite import Suite, SuiteCase, matching
from reference.conform.tensor_file import dtype_name
from reference.system.files import Unusable, content_of
from reference.system.json_objects import finite, integer, like, many, maybe, named, read_object, some, text
from reference.system.text import BadInput, one_line
from reference.trace.names import by_problem, counted_from_one, in_causal_order, misnamed, structure

if TYPE_CHECKING:
    from reference.conform.inputs import Prepared  # with torch

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
    details: Sequence[str] = ()
    seconds: float = 0.0


# Verdict, reason and details of one answer.
Found = tuple[str, str, Sequence[str]]


@dataclass(frozen=True)
class Ran:
    """One run of one case; ``status`` as in `Ended`."""

    status: int | None
    seconds: float


# The fields of ``run.json``.
_RUNS = some(many(like({"status": maybe(integer), "seconds": finite})))
_INDEX = {
    "suite": text,
    "command": many(text),
    "seconds": finite,
    "cases": some(named(_RUNS)),
}


def judge_suite(suite: Suite, out: Path, patterns: Sequence[str] = ()) -> list[Judged]:
    """Judge the cases that ran, by `matching`.

    Raises:
        BadInput: ``out`` has no results of this suite, or no case that ran matches one of the patterns.
        Unusable: what a command wrote to stderr cannot be read.
        SuiteBroken: the suite, or this machine, does not give the numbers with which the suite was exported.
    """
    ran = results(suite, out)
    return [judge_case(suite, out, suite.cases[name], ran[name]) for name in matching(ran, patterns)]


def results(suite: Suite, out: Path) -> dict[str, list[Ran]]:
    """Read which cases ran, from the ``run.json`` that `run_suite` left.

    Raises:
        BadInput: there is none, it is of another suite, or a case's folder is missing.
    """
    if not (out / "run.json").exists():
        raise BadInput(f"{out}: no run.json, which `conform run` writes there when all its cases have ended")
    try:
        index = read_object(out / "run.json", _INDEX)
    except Unusable as error:
        raise BadInput(f"{out}: run.json is none of this version's `conform run` ({error.strerror})") from error
    ran = {name: [Ran(**each) for each in runs] for name, runs in index["cases"].items()}
    if index["suite"] != suite.version:
        raise BadInput(f"{out}: results of suite {index['suite']}, wanted {suite.version}")
    if strangers := sorted(set(ran) - set(suite.cases)):
        raise BadInput(f"{out}: results of cases that the suite lacks: {', '.join(strangers)}")
    for name, runs in ran.items():
        for number in range(1, len(runs) + 1):
            if not (out / name / str(number) / "out").is_dir():
                raise BadInput(f"{out}: {name}/{number}/out is missing")
    return ran


def judge_case(suite: Suite, out: Path, case: SuiteCase, runs: Sequence[Ran]) -> Judged:
    """Judge one case. If its runs differ from each other, and not all are right or all unknown, it is unstable."""
    answers, judged = [], []
    for number, ran in enumerate(runs, start=1):
        folder = out / case.id / str(number)
        found = ended_badly(ran, _last_line(folder / "stderr.txt"))
        if found is None:
            answer = read_answer(case, folder / "out")
            answers.append(answer)
            found = judge_answer(case, answer, suite.commitments.get(case.id))
        judged.append(found)
    worst = next((each for each in judged if each[0] not in RIGHT), max(judged, key=lambda each: each[0]))
    seconds = sum(ran.seconds for ran in runs)
    undecided = all(verdict == "unknown" for verdict, *_ in judged)  # such as natural cases without torch
    if worst[0] not in RIGHT and not undecided and not _alike(case, judged, answers):
        listed = ", ".join(f"run {number} {verdict}" for number, (verdict, *_) in enumerate(judged, start=1))
        return Judged(case.id, "unstable", f"its {len(runs)} runs differ: {listed}", (), seconds)
    return Judged(case.id, *worst, seconds)


def _last_line(file: Path) -> str:
    """The last line of a file that is not empty; empty if there is none."""
    lines = content_of(file).decode(errors="replace").splitlines() if file.exists() else []
    return one_line(next((line for line in reversed(lines) if line.strip()), ""), 400)


def _alike(case: SuiteCase, judged: Sequence[Found], answers: Sequence[Answer]) -> bool:
    """Whether all runs have the same verdict, and the same bits in all but optional tensors."""
    bits = [
        {name: array.tobytes() for name, array in answer.tensors.arrays.items() if name not in case.optional}
        for answer in answers
    ]
    return len({verdict for verdict, *_ in judged}) == 1 and all(each == bits[0] for each in bits)


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
        SuiteBroken: this machine does not give the numbers of the suite.
    """
    if answer.problems:
        return "malformed", answer.problems[0], tuple(answer.problems[1:])
    if answer.state != "done":
        return answer.state, answer.reason, ()
    if problems := misfits(case, answer):
        return "malformed", problems[0], tuple(problems[1:])
    if commitments is None:
        return _with_torch(case, answer, reference)
    arrays = answer.tensors.arrays
    differing = [name for name, wanted in commitments.items() if commitment(arrays[name]) != wanted]
    if not differing:
        return "equal", f"all numbers of {len(commitments)} tensors are the reference's", ()
    return _with_torch(case, answer, reference, differing)


def misfits(case: SuiteCase, answer: Answer) -> list[str]:
    """One line for each way in which tensors are not as listed, with the first tensor of which it is true."""
    found, wanted = answer.tensors, case.outputs | case.optional
    readable = {*found.arrays, *(name for name in found.problems if not misnamed(name))}
    missing = structure(readable - set(case.optional), [*case.outputs])
    problems = [*found.problems.items()]
    shifted = counted_from_one(readable, case.outputs)  # equal names are other steps, perhaps of other shapes
    for name, array in found.arrays.items():
        dtype, shape = wanted.get(name, (dtype_name(array), array.shape))
        if array.shape != shape and not shifted:
            hint = ", transposed" if array.shape == shape[::-1] else ""
            problems.append((name, f"shape {array.shape}, wanted {shape}{hint}"))
        if dtype_name(array) != dtype:
            problems.append((name, f"dtype {dtype_name(array)}, wanted {dtype}"))
    return missing + by_problem(problems)


def _with_torch(case: SuiteCase, answer: Answer, reference: Prepared | None, differing: Sequence[str] = ()) -> Found:
    """Compare with the twin, which needs torch. Without torch an exact case has its verdict: ``differing`` tells."""
    try:
        from reference.conform.twin import judge_with_twin
    except ImportError as error:
        if not differing:
            return "unknown", f"no exact case, so its judgement needs torch and the extra tutorials ({error})", ()
        first = in_causal_order(differing)[0]
        return "differs", f"{len(differing)} of {len(case.outputs)} tensors differ, the first is {first}", ()
    return judge_with_twin(case, answer.tensors.arrays, reference)
