"""Run a tutorial and its twin, and compare their traces."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from reference import TUTORIALS, load
from reference.exact.exactness import NotExact
from reference.explain.explain import explain
from reference.outcome import Outcome, Raised, Returned, is_ended_with_another
from reference.rounding.bound import (
    TwinErrors,
    Undecided,
    bound_of,
    other_decision,
    twin_errors,
)
from reference.rounding.reordering import twins_for
from reference.system.text import one_line, shown
from reference.trace.case import Case, CaseError, listed
from reference.trace.progress import Report
from reference.trace.trace import Trace, TraceError, check_comparable, compare
from reference.world.launcher import launch

_IMAGES = {"model": "convnet", "trainers": 2, "batch_size": 4, "image_w": 8, "image_h": 8, "steps": 2}
_PIPELINE = {"model": "mlp", "steps": 2, "batch_size": 4, "num_split": 2, "image_w": 8, "image_h": 8, "num_classes": 10}
_EPISODES = {"observers": 2, "steps": 2, "n_steps": 20}

# The fields that differ from the defaults. A tutorial that is not listed only has its steps limited to two.
QUICK: Mapping[str, Mapping[str, Any]] = {
    "parameter_server": {"workers": 2, "steps": 3},
    "batch_parameter_server": _IMAGES,
    "sharded_parameter_server": {**_IMAGES, "servers": 2},
    "reinforce": _EPISODES,
    "batch_reinforce": _EPISODES,
    "pipeline": {**_PIPELINE, "rpc_threads": 16},
}


def quick(name: str, **different: Any) -> Any:
    """Make a tutorial's small case, with the fields ``different``.

    Its type is the tutorial's own `Case`, which only the name tells; so a type checker takes it for any.

    Raises:
        CaseError: there is no such tutorial, or a field is unknown or has an impossible value.
    """
    if name not in TUTORIALS:
        raise CaseError(f"unknown tutorial {shown(name)}, wanted one of {', '.join(TUTORIALS)}")
    kind = load(name).Case
    small = {"steps": min(2, kind().steps), **QUICK.get(name, {})}
    if different.get("arithmetic") == "exact":
        small |= kind.EXACT  # values that fit
    return kind.of({**small, **different})


_EXACT = {"arithmetic": "exact"}  # `case_of` gives the other fields values that fit
_SMALL = {"image_w": 8, "image_h": 8, "batch_size": 4}

# What `verify` runs: each tutorial with its own defaults, then with fields that differ from them. Of ResNet50, where a
# step takes seconds, it runs fewer steps than the default: three, of which the third has all that later ones have, and
# one of the pipeline, which has no momentum.
CASES: dict[str, tuple[Mapping[str, Any], ...]] = {
    "rpc_basics": ({},),
    "rref_dataflow": ({},),
    "dist_autograd": ({}, _EXACT),
    "parameter_server": ({}, {"workers": 3}, {"workers": 3, "steps": 4, **_EXACT}),
    "batch_parameter_server": (
        {"steps": 3},
        {"model": "convnet", "accumulation": "arrival", **_SMALL},
        _EXACT,
    ),
    "sharded_parameter_server": (
        {},
        {"model": "convnet", "servers": 5, **_SMALL},
        {"servers": 3, **_EXACT},
    ),
    "reinforce": ({}, {"observers": 3, "steps": 20, "dtype": "float64"}),
    "batch_reinforce": ({}, {"batch": False, "observers": 3, "n_steps": 100, "dtype": "float64"}),
    "rnn": ({}, {"dropout": 0.0}, {"dtype": "float64", "ninp": 16, "nhid": 32, "lr": 1.0}),
    "pipeline": (
        {"steps": 1},
        {"steps": 2, "num_split": 8, "batch_size": 16, "image_w": 64, "image_h": 64},
        _EXACT,
    ),
    "hybrid_ddp": (
        {},
        {"trainers": 4, "accumulation": "allreduce"},
        {"accumulation": "allreduce", **_EXACT},
    ),
}

# What `verify --long` runs in addition. Such a run must also reach its goal: the tutorial's `goal(trace)` judges that.
CASES_LONG: dict[str, tuple[Mapping[str, Any], ...]] = {
    "reinforce": ({"observers": 2, "steps": 200, "record": "ends"},),
}

# The deadline of one world in seconds.
DEADLINE = 600.0

# The verdicts of a run that is right.
RIGHT = ("equal", "within bound")


def exit_status(verdicts: Iterable[str]) -> int:
    """Return a command's exit status: 0 if all runs are right, 1 if one is not, 3 if nobody knows of one (unknown)."""
    others = {verdict for verdict in verdicts if verdict not in RIGHT}
    return 0 if not others else 3 if others == {"unknown"} else 1


@dataclass(frozen=True)
class Row:
    """One line of `verify`'s table. ``explanation``: of a run that is wrong, what may be the mistake."""

    case: Case
    roles: int
    seconds: float
    difference: str
    verdict: str
    explanation: Sequence[str] = ()


def case_of(name: str, given: Mapping[str, Any]) -> Case:
    """Make a tutorial's case with these fields; the others have their defaults, or values that fit exact arithmetic."""
    kind = load(name).Case
    exact = given.get("arithmetic") == "exact"
    case: Case = kind.exact(**given) if exact else kind(**given)
    return case


def prove(case: Case) -> None:
    """Run an exact case's twin, which proves that every order of its sums has one result.

    Raises:
        NotExact: some order may have another result.
    """
    if not case.is_exact:
        return
    module = load(case.tutorial())
    try:
        getattr(module, "rehearse", module.train_locally)(case)
    except NotExact as error:
        raise NotExact(f"{case.tutorial()}: {error}") from error


def changes(case: Case, *others: Case) -> str:
    """List the fields in which a case differs from its tutorial's defaults, or from one of the ``others``."""
    names = [item.name for item in listed(type(case))]
    differing = [n for n in names if any(getattr(case, n) != getattr(each, n) for each in (type(case)(), *others))]
    return " ".join(f"{name}={shlex.quote(str(getattr(case, name)))}" for name in differing)


def titled(case: Case, *others: Case) -> str:
    """Name a case: its tutorial, and `changes`."""
    return f"{case.tutorial()} {changes(case, *others)}".strip()


def trace_of(outcomes: Mapping[str, Outcome]) -> Trace:
    """Find the one trace among the outcomes.

    Raises:
        TraceError: a role did not return, or none or several returned a trace.
    """
    failed = [f"{name} {outcome}" for name, outcome in outcomes.items() if not isinstance(outcome, Returned)]
    if failed:
        raise TraceError("; ".join(failed))
    traces = [o.value for o in outcomes.values() if isinstance(o, Returned) and isinstance(o.value, Trace)]
    if len(traces) != 1:
        raise TraceError(f"{len(traces)} roles returned a trace, wanted one")
    return traces[0]


def culprits(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """Find the roles that failed by themselves, not because a peer was lost."""
    failed: dict[str, Outcome] = {n: o for n, o in outcomes.items() if not isinstance(o, Returned)}
    own = {n: o for n, o in failed.items() if not (_lost_a_peer(o) or is_ended_with_another(o))}
    return own or failed


def _lost_a_peer(outcome: Outcome) -> bool:
    return isinstance(outcome, Raised) and outcome.type.endswith("PeerLost")


# The errors of a case's twins, by the integers of the runs that they were computed for: a twin replays these alone.
KnownErrors = dict[tuple[tuple[str, bytes], ...], TwinErrors]


def judge(run: Trace, train_locally: Callable[..., Trace], known: KnownErrors | None = None) -> tuple[str, str]:
    """Compare a run with its twin and return (difference, verdict).

    ``known``: what earlier runs of the same case, with the same inputs, have shown of its twins, and where this run
    puts it: computing the twins takes nearly all of the time.

    A run is right if its bits are equal, or if its case is natural and the run is within its bound. An exact case whose
    operations round is refused, whatever the run did. The verdict is unknown if the twin cannot be computed, because
    memory or a number's range is too small for it.
    """
    if run.case.steps > len(run.tensors):  # the case comes from a file: its twin might never end
        return f"got {len(run.tensors)} tensors for {run.case.steps} steps, wanted at least one per step", "wrong"
    known = {} if known is None else known
    try:
        twin = train_locally(run.case, run)
        try:
            comparison = compare(run, twin)
        except TraceError as error:  # shapes may differ, because rounding may have decided how long an episode is
            return _judge_rounding(run, twin, str(error), train_locally, known)
        if comparison.equal:
            return str(comparison), "equal"
        return _judge_rounding(run, twin, str(comparison), train_locally, known)
    except NotExact as error:  # which says nothing about the run
        return str(error), "refused"
    except TraceError as error:
        return str(error), "wrong"
    except (ArithmeticError, MemoryError, RuntimeError, ValueError) as error:
        return one_line(f"the twin cannot be computed ({type(error).__name__}: {error})"), "unknown"


def _judge_rounding(
    run: Trace, twin: Trace, comparison: str, train_locally: Callable[..., Trace], known: KnownErrors
) -> tuple[str, str]:
    case: Any = run.case
    if case.is_exact or not hasattr(case, "dtype"):
        return comparison, "wrong"
    if name := next((name for name, tensor in twin.tensors.items() if not tensor.isfinite().all()), None):
        return f"{comparison}; the twin itself has NaN or infinity in {name}, so there is no bound", "unknown"
    try:
        if not other_decision(run, twin):  # before any further twin is computed, which takes long
            check_comparable(run.tensors, twin.tensors)
        integers = tuple((n, t.numpy().tobytes()) for n, t in run.tensors.items() if not t.is_floating_point())
        if integers not in known:
            known.clear()  # those of one order are kept: each has a whole trace in float64
            known[integers] = twin_errors(*twins_for(twin, run, train_locally))
        bound = bound_of(run, known[integers])
    except Undecided as error:
        return f"{comparison}; {error}", "unknown"
    return f"{comparison}; {bound}", bound.verdict


def played(
    case: Case, on_progress: Report | None = None, meanwhile: Callable[[], object] = str, *, goal: bool = False
) -> Callable[[], Row]:
    """Run ``case`` in a world of its own, and return what judges the run; ``goal``: also whether it reaches its goal.

    An exact case whose operations round is refused before anything runs. The row's ``seconds`` are the world's.
    ``meanwhile``: called while the world runs, such as to judge an earlier run.
    """
    module = load(case.tutorial())
    roles = module.roles(case)
    try:
        prove(case)
    except NotExact as error:
        return partial(Row, case, len(roles), 0.0, str(error), "refused")
    start = time.monotonic()
    with launch(roles, deadline=DEADLINE, on_progress=on_progress, isolated=True) as world:
        meanwhile()
        outcomes = world.wait()
        row = partial(Row, case, len(roles), max(world.ended.values()) - start)
    try:
        run = trace_of(outcomes)
    except TraceError:
        return partial(row, "; ".join(f"{name} {outcome}" for name, outcome in culprits(outcomes).items()), "failed")
    if not run.case.same_result_as(case):
        return partial(row, f"the trace is of another case: {run.case}", "wrong")
    return partial(_judged, run, row, goal)


def _judged(run: Trace, row: Callable[..., Row], goal: bool) -> Row:
    difference, verdict, explanation = judged(run)
    if goal:  # a run that misses it fails even if its bits are equal
        try:
            difference = f"{difference}; {load(run.case.tutorial()).goal(run)}"
        except TraceError as error:
            difference, verdict = f"{difference}; {error}", "missed"
    return row(difference, verdict, explanation)


def judged(run: Trace) -> tuple[str, str, Sequence[str]]:
    """Judge a run of a tutorial. Return `judge`'s difference and verdict, and if it is wrong, `explain`'s lines."""
    train_locally = load(run.case.tutorial()).train_locally
    difference, verdict = judge(run, train_locally)
    if verdict != "wrong":
        return difference, verdict, ()
    try:
        found = explain(run.tensors, train_locally(run.case, run))
    except TraceError:  # the twin cannot replay it
        return difference, verdict, ()
    # What differs "by rounding only" in general may be beyond the bound of its case.
    return difference, verdict, () if found.cause == "rounding" else found.lines


def cases(names: list[str], *, small: bool = False) -> list[Case]:
    """Make the cases that `verify` runs for these tutorials. ``small``: without those that train ResNet50."""
    found = [case_of(name, different) for name in names for different in CASES[name]]
    return [case for case in found if not (small and getattr(case, "model", None) == "resnet50")]


def long_cases(names: list[str]) -> list[Case]:
    """Make the cases that `verify --long` runs in addition, each with a goal."""
    return [case_of(name, different) for name in names for different in CASES_LONG.get(name, ())]
