"""Compare an implementation's tensors with the twin's, as `verify` compares a run's. Imports torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from reference import load
from reference.conform.inputs import Prepared, prepare, tensor_of
from reference.conform.suite import CATALOGUE, SuiteBroken, SuiteCase
from reference.conform.tensor_file import Array
from reference.explain.explain import explain
from reference.trace.trace import Trace, ulps
from reference.verify.verify import judge

# The verdicts of `verify`, in the suite's words.
_WORDS = {"equal": "equal", "within bound": "within bound", "wrong": "differs", "unknown": "unknown"}


@lru_cache(maxsize=8)
def prepared(case_id: str) -> Prepared:
    """Run the twin of a case of this version's catalogue. Raises KeyError: there is no such case."""
    return prepare(next(entry for entry in CATALOGUE if entry.id == case_id))


def judge_with_twin(
    case: SuiteCase, arrays: Mapping[str, Array], reference: Prepared | None = None
) -> tuple[str, str, Sequence[str]]:
    """Return verdict, reason and details for tensors that have the wanted names, shapes and dtypes.

    The optional ones do not decide the verdict, and help to explain a difference.

    ``reference``: that of which the inputs were made; without it, that of the catalogue's case.

    Raises:
        SuiteBroken: this machine draws other inputs than the suite has, so its twin says nothing.
    """
    if reference is None:
        reference = prepared(case.id)
        check_inputs(case, reference)
    given = {name: tensor for name, tensor in reference.twin.tensors.items() if name not in case.outputs}
    names = [name for name in (*case.outputs, *case.optional) if name in arrays]  # layers as they are computed
    tensors = {name: tensor_of(arrays[name]) for name in names}
    run = Trace(reference.case, {**given, **{name: tensors[name] for name in case.outputs}})
    difference, verdict = judge(run, load(reference.entry.tutorial).train_locally, reference.errors)
    if verdict not in _WORDS:
        raise SuiteBroken(f"{case.id}: {verdict}: {difference}")
    if verdict == "wrong":
        start = {name: tensor for name, tensor in given.items() if name in reference.inputs}
        told = {name: reference.twin.tensors[name] for name in (*start, *case.outputs)}
        found = explain({**start, **tensors}, Trace(reference.case, told), start)
        if found.cause == "rounding":  # beyond the bound of this case all the same
            return "differs", _told(verdict, difference, run, reference), ()
        first, *others = found.lines or [difference]
        return "differs", first, tuple(others)
    return _WORDS[verdict], _told(verdict, difference, run, reference), ()


def _told(verdict: str, difference: str, run: Trace, reference: Prepared) -> str:
    """Say why a verdict is the right one; an implementation's tensors are counted without its inputs."""
    names = reference.outputs
    if verdict == "equal":
        return f"all bits of {len(names)} tensors are the reference's"
    differing = sum(ulps(run.tensors[name], reference.twin.tensors[name]) > 0 for name in names)
    why = ": sums in another order, or fused operations" if verdict == "within bound" else ""
    _, counted, reason = difference.partition(" tensors differ; ")
    return f"{differing} of {len(names)} tensors have other bits{why}; {reason}" if counted else difference


def check_inputs(case: SuiteCase, reference: Prepared) -> None:
    """Raise SuiteBroken unless the suite's inputs are those of this machine's twin, bit for bit."""
    if case.inputs.keys() != reference.inputs.keys():
        raise SuiteBroken(f"{case.id}: the suite has other inputs than this version")
    for name, array in reference.inputs.items():
        if case.inputs[name].tobytes() != array.tobytes():
            raise SuiteBroken(f"{case.id}: this torch draws another {name} than the one that exported the suite")
