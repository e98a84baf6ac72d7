"""Explain the difference of a trace: what came before it and is equal, its size, and the mistake that gives it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from reference import load
from reference.explain.causes import causes
from reference.explain.difference import close, difference_of, same_bits
from reference.explain.other_twins import other_twins
from reference.explain.stages import Cause, Failed, Place, Stages, stages_of, until_other_actions
from reference.rounding.bound import Undecided
from reference.system.text import one_line
from reference.trace.names import DETAILS, by_problem, counted_from_one, in_causal_order, place_of, structure
from reference.trace.trace import Named, Trace, ulps

# How long causes are tried (seconds): the twin of a large case runs for minutes.
SECONDS = 60.0
# What the tensors of a stage are, as a sentence says it.
WORDS = {
    "initial": "initial parameters",
    "output": "outputs of layers",
    "loss": "losses",
    "part": "parts of the gradients",
    "gradient": "gradients",
    "parameter": "updated parameters",
    "buffer": "buffers",
    "log_probs": "log-probabilities",
    "steps": "actions and log-probabilities",
    "reward": "rewards of episodes",
}


@dataclass(frozen=True)
class Explanation:
    """``place``: the step and kind of the stage that fails first, if it was found.

    ``cause``: a general cause's id, ``structure``, ``nan``, ``rounding``, ``drift``, ``undecided``, ``failed``,
    ``unexplained``, or ``differs`` without a case whose twin can follow; empty if nothing differs.
    """

    cause: str
    lines: Sequence[str]
    place: Place | None = None

    def __str__(self) -> str:
        return "\n".join(self.lines)


def explain(yours: Named, reference: Trace | Named, given: Collection[str] = ()) -> Explanation:
    """Explain how ``yours`` differs from the twin's trace. Of names that one side lacks, it says so and goes on.

    Of a ``reference`` without a case it says only what differs, and by how much. Of one with a case ``yours`` may have
    details, too, with the shapes and dtypes of a twin that follows. ``given``: the tensors that ``yours`` has not
    computed, which are not counted.
    Raises nothing that comes of the numbers: an explanation that fails says so.
    """
    case, wanted = (reference.case, reference.tensors) if isinstance(reference, Trace) else (None, reference)
    exact = case is not None and (case.is_exact or not hasattr(case, "dtype"))  # or of whole numbers
    details = {name: tensor for name, tensor in yours.items() if case and place_of(name)[1] in DETAILS}
    yours = {name: tensor for name, tensor in yours.items() if name not in details}
    lines = [*structure(yours, wanted), *_misshapen(yours, wanted)]
    if counted_from_one(yours, wanted):  # equal names are other steps
        return Explanation("structure", lines)
    common = {name: _shaped(tensor, wanted[name]) for name, tensor in yours.items() if name in wanted}
    names = in_causal_order(name for name, tensor in common.items() if tensor is not None)
    both = {name: tensor for name in names if (tensor := common[name]) is not None}
    counted = [name for name in names if name not in given]
    every = {**both, **details}
    order = in_causal_order(every)
    differing = [name for name in names if not same_bits(both[name], wanted[name])]
    far = [name for name in differing if exact or not close(both[name], wanted[name])]
    more = "" if exact else " by more than rounding"
    spoilt = next((n for n in order if not_finite(every[n]) and not (n in both and not_finite(wanted[n]))), None)
    if spoilt:
        before = {*order[: order.index(spoilt)]} - {*given}
        wrong = [name for name in far if name in before]
        plain = Explanation("nan", [*lines, *_nan(spoilt, every[spoilt], len(before), wrong, more)])
        lines += _nan(spoilt, every[spoilt], len(before), (), more)
        # Its own step is not explained: twins that follow may have NaN there, too.
        every = {name: tensor for name, tensor in every.items() if place_of(name)[0] < place_of(spoilt)[0]}
        counted, far = ([name for name in some if name in every] for some in (counted, far))
        if not far:
            return plain
    if not differing:
        return Explanation("structure" if lines else "", lines)
    if not far:
        text = f"{len(differing)} of {len(counted)} tensors differ by rounding only, the first is {differing[0]}: "
        return Explanation(
            "structure" if lines else "rounding", [*lines, text + "sums in another order, or fused operations?"]
        )
    # A case comes from a file: its twin might never end. With "ends", steps follow from numbers that are not recorded.
    if case is None or case.steps > (1 if case.record == "ends" else len(wanted)):
        found = Explanation("differs", [*_distance(far[0], both[far[0]], wanted[far[0]], exact)])
    else:
        try:
            found = _explained(Trace(case, every), wanted, exact)
        except Exception as error:
            if spoilt:  # an agent's twin cannot act by its parameters after the last ones that are given
                return plain
            found = Explanation("failed", [one_line(f"The explanation failed: {type(error).__name__}: {error}")])
    if found.place:  # what is before this stage is right
        later = {*order[next(n for n, name in enumerate(order) if place_of(name) == found.place) :]}
        far = [name for name in far if name in later] or far
    where = f" before step {place_of(spoilt)[0]:04d}" if spoilt else ""
    told = f"{len(far)} of {len(counted)} tensors{where} differ{more}, the first is {far[0]}."
    return Explanation("nan" if spoilt else found.cause, [*lines, told, *found.lines], found.place)


def _explained(run: Trace, wanted: Named, exact: bool) -> Explanation:
    train = load(run.case.tutorial()).train_locally
    try:
        stages = stages_of(run, train)
    except Undecided as error:
        return Explanation("undecided", [f"Single stages cannot be judged: {error}"])
    if not stages.wrong:
        text = (
            "Each stage follows from your own earlier numbers, up to rounding. Together they differ, by another order "
            "of events or by rounding that adds up."
        )
        return Explanation("drift", [text])
    stages = until_other_actions(stages, wanted)
    place = place_of(stages.wrong[0])
    failed = Failed(stages, place, train)
    cause, told = _cause(failed)
    return Explanation(cause, [*_located(stages, exact), *told], place)


def _located(stages: Stages, exact: bool) -> Iterator[str]:
    """Say which stage fails first, which ones hold, and where later ones fail by themselves."""
    (step, kind), names = next(iter(stages.places.items()))
    where = f"{WORDS.get(kind, kind)}{'' if step < 0 else f' of step {step:04d}'}"
    yield (
        f"The first stage that fails: {where}. {len(names)} of {len(stages.names((step, kind)))} tensors are not what "
        "the reference computes of your own numbers before them."
    )
    mine, right = stages.run.tensors[names[0]], stages.followed.tensors[names[0]]
    yield from _distance(names[0], mine, right, exact)
    places = [place_of(name) for name in in_causal_order(stages.run.tensors)]
    kinds = list(dict.fromkeys(kind for step, kind in places if step >= 0 and step != stages.acted))
    holding = [WORDS.get(each, each) for each in kinds if each not in {k for _, k in stages.places}]
    until = "" if stages.acted is None else " that is compared"
    if holding:
        yield f"At your own numbers {', '.join(holding)} are right in every step{until}."
    for each in dict.fromkeys(k for _, k in stages.places if k in kinds):
        yield _when(stages, each, until)
    if stages.acted is not None:
        text = "actions are not the reference's. They lead to other states: after them only updates are compared."
        yield f"In step {stages.acted:04d} {text}"


def _distance(name: str, mine: torch.Tensor, right: torch.Tensor, exact: bool) -> Iterator[str]:
    if mine.shape != right.shape:  # which has been told
        return
    real = right.is_floating_point()
    distance = ulps(mine, right, False) if real else 0
    yield difference_of(name, mine, right, distance, exact=exact or not real)


def _when(stages: Stages, kind: str, until: str) -> str:
    """Say in which steps a kind of tensor fails. ``until``: an addition, if not every step is compared."""
    wrong, every = [step for step, each in stages.places if each == kind], stages.steps(kind)
    word = WORDS.get(kind, kind)
    if wrong == every:
        return f"{word} fail in every step{until}." if len(every) > 1 else f"{word} fail in the only step{until}."
    if wrong == [step for step in every if step >= wrong[0]]:
        return f"{word} hold before step {wrong[0]:04d}, and fail from there on."
    told = ", ".join(f"{step:04d}" for step in wrong[:5]) + (", …" if len(wrong) > 5 else "")
    return f"{word} fail in step{'s' * (len(wrong) > 1)} {told} alone."


def _cause(failed: Failed) -> tuple[str, list[str]]:
    """Try every cause, and other twins if none fits. Bits count more than a value within rounding."""
    found: dict[str, list[Cause]] = {"bits": [], "rounding": []}
    broken, due = list[str](), time.monotonic() + SECONDS
    short = failed.right[failed.first].dtype == torch.bfloat16
    for some in (causes, other_twins):
        for each in some(failed):
            if time.monotonic() > due:
                broken.append(f"Not tried after {SECONDS:g} s: {each.text}")
                continue
            try:
                how = failed.fits(each)
            except Exception as error:
                broken.append(one_line(f"Not tried: {each.text} ({type(error).__name__}: {error})"))
                continue
            if how and each.id not in [other.id for other in found[how]]:
                found[how].append(each)
        for how, said in (("bits", "bit for bit"), ("rounding", "up to rounding")):
            if found[how] and (how == "bits" or not short):  # in bfloat16 many a cause is within rounding
                either = "; or: ".join(each.text for each in found[how])  # the numbers cannot tell between them
                return found[how][0].id, [f"It is, {said}: {either}", *broken]
    return "unexplained", ["None of the mistakes that are tried gives these numbers.", *broken]


def _nan(name: str, mine: torch.Tensor, before: int, wrong: Sequence[str], more: str) -> list[str]:
    count = int((~mine.isfinite()).sum())
    line = f"NaN or infinity begins in {name}: {count} of {mine.numel()} numbers, where the reference has none."
    told = f"; {len(wrong)} of them differ{more}, the first is {wrong[0]}" if wrong else ""
    return [line, f"The {before} tensors before it have none{told}."]


def _misshapen(yours: Named, reference: Named) -> list[str]:
    problems = []
    for name in in_causal_order(set(yours) & set(reference)):
        mine, wanted = yours[name], reference[name]
        if mine.shape != wanted.shape:
            hint = ": one number, but with a dimension" if mine.numel() == wanted.numel() == 1 else ""
            problems.append((name, f"yours has shape {tuple(mine.shape)}, the reference's {tuple(wanted.shape)}{hint}"))
        if mine.dtype != wanted.dtype:
            problems.append((name, f"yours is {mine.dtype}, the reference's {wanted.dtype}"))
    return by_problem(problems)


def _shaped(mine: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor | None:
    """Yours in the reference's dtype, and in its shape where only a dimension of 1 is too many; None: incomparable."""
    mine = mine.to(wanted.dtype) if mine.dtype != wanted.dtype else mine
    if mine.shape == wanted.shape:
        return mine
    if [n for n in mine.shape if n != 1] == [n for n in wanted.shape if n != 1]:
        return mine.reshape(wanted.shape)
    return mine if mine.dim() == wanted.dim() == 2 and mine.shape == wanted.t().shape else None


def not_finite(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and not bool(tensor.isfinite().all())
