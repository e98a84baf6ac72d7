"""Judge an implementation's results, case by case. An exact case is judged by its commitments, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from reference.conform.answer import Answer, read_answer
from reference.conform.commitment import commitment
from reference.conform.run_results import Ran, folder_of, last_line, results
from reference.conform.suite import Suite, SuiteBroken, SuiteCase
from reference.conform.tensor_file import Array, dtype_name
from reference.explain.structure import structure

if TYPE_CHECKING:
    from reference.conform.case_file import Prepared  # with torch

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
    if ran.outside:
        return "malformed", ran.outside, ()
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
        problems = [*_of_another_case(case, arrays), *problems]
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
        from reference.conform.twin_judge import judge_with_twin
    except ImportError as error:
        if not differing:
            raise SuiteBroken(f"{case.id} is no exact case: its judgement needs torch ({error})") from error
        return "differs", f"{len(differing)} of {len(arrays)} tensors differ, the first is {min(differing)}", ()
    return judge_with_twin(case, arrays, reference)


def _of_another_case(case: SuiteCase, arrays: Mapping[str, Array]) -> list[str]:
    """The line for an answer to another case of the tutorial; none without torch, which computes the others."""
    try:
        from reference.conform.other_case import other_case
    except ImportError:
        return []
    found = other_case(case, arrays)
    return [f"it is the answer to {found}"] if found else []


def _alike(judged: Sequence[Found], answers: Sequence[Answer]) -> bool:
    """Whether all runs have the same verdict and the same bits."""
    bits = [{name: array.tobytes() for name, array in answer.tensors.arrays.items()} for answer in answers]
    return len({verdict for verdict, *_ in judged}) == 1 and all(each == bits[0] for each in bits)


def _listed(judged: Sequence[Found]) -> str:
    return ", ".join(f"run {number} {each[0]}" for number, each in enumerate(judged, start=1))
