"""Names and limits of a trace's tensors: which texts are names, what a name says, their order of cause, missing ones.

Names are like ``initial/weight``, ``0003/loss/trainer1``, ``0003/gradient/weight``, ``0003/parameter/weight``.
Steps count from 0000. The last part is the tutorial's own name for the tensor. Imports no torch.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

# The longest name in characters.
LONGEST = 1000
# The most dimensions and elements of a tensor that every version of numpy and torch supports.
DIMENSIONS, ELEMENTS = 32, 2**59
_STEP = re.compile(r"[0-9]{4,18}")


def misnamed(name: str) -> str | None:
    """Say why this is no tensor's name; None if it is one.

    A name is printable parts separated by slashes, none of which means a folder.
    """
    if len(name) > LONGEST or not name.isprintable():
        return f"a tensor's name is printable and has at most {LONGEST} characters"
    parts = name.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        return "a tensor's name has no empty part, '.' or '..'"
    if parts[1:2] == ["loss"] and not _STEP.fullmatch(parts[0]):
        return "a loss has a name like '0003/loss/trainer1'"
    return None


def step_of(name: str) -> int | None:
    """The step whose loss has this name; None if the name is no loss's."""
    parts = name.split("/", 2)
    return int(parts[0]) if len(parts) == 3 and parts[1] == "loss" and _STEP.fullmatch(parts[0]) else None


# What a twin that follows another run records, and another implementation may, too: what each layer puts out in a role,
# and the part of the gradients that comes of a role or micro-batch.
DETAILS = ("output", "part")

# Within a step: layers, what is chosen and earned, then the loss, then gradients, then what the optimizer made of them.
_STAGES = (
    *("output", "actions", "log_probs", "steps", "result", "sum", "rewards"),
    *("loss", "part", "gradient", "parameter", "buffer"),
)

# Layers whose names come before those of layers that they follow.
_LAST_LAYERS = ("decoder", "fc")


def in_causal_order(names: Iterable[str]) -> list[str]:
    """Sort names: ``initial/…``, then step by step the stages.

    Within a stage the names decide, 2 before 10. A backward pass goes the other way: gradients of the last layer come
    first, so that the first wrong one is where the mistake is. Outputs of layers stay in the order of ``names``, in
    which a twin has computed them.
    """
    given = list(names)
    forward = sorted(given, key=_by_layer)
    others = [name for name in forward if place_of(name)[1] not in ("output", "gradient")]
    outputs = [name for name in given if place_of(name)[1] == "output"]
    backward = [name for name in reversed(forward) if place_of(name)[1] == "gradient"]
    return sorted([*others, *outputs, *backward], key=_by_stage)


def _by_stage(name: str) -> tuple[int, int]:
    step, stage = place_of(name)
    return step, _STAGES.index(stage) if stage in _STAGES else len(_STAGES)


def _by_layer(name: str) -> tuple[bool, list[tuple[int, str]]]:
    own = own_name(name)
    numbers = [(int(each), "") if each.isdecimal() else (-1, each) for each in re.split(r"(\d+)", own)]
    return own.startswith(_LAST_LAYERS), numbers


def place_of(name: str) -> tuple[int, str]:
    """A tensor's step, -1 before the first one, and its stage, such as ``gradient``."""
    first, _, rest = name.partition("/")
    if not first.isdecimal():
        return -1, first
    return int(first), rest.partition("/")[0]


def own_name(name: str) -> str:
    """A tensor's name without step and stage: ``0003/gradient/0.weight`` is ``0.weight``."""
    return (
        name.split("/", 2)[2] if name.count("/") >= 2 and name.partition("/")[0].isdecimal() else name.partition("/")[2]
    )


def parameter_before(step: int, own: str) -> str:
    """The name of a parameter as it is before this step."""
    return f"{step - 1:04d}/parameter/{own}" if step > 0 else f"initial/{own}"


def structure(yours: Collection[str], reference: Collection[str]) -> list[str]:
    """Say which names are missing or not wanted, one line for each reason."""
    missing, extra = set(reference) - set(yours), set(yours) - set(reference)
    if not missing and not extra:
        return []
    if line := counted_from_one(yours, reference):
        return [line]
    lines = _by_kind("yours lacks", missing, reference)
    return lines + _by_kind("yours has, and the reference does not,", extra, yours)


def counted_from_one(yours: Collection[str], reference: Collection[str]) -> str:
    """The line for a trace whose every step has the number of the next one; empty if it is no such trace."""
    mine, wanted = ({name for name in each if place_of(name)[1] not in DETAILS} for each in (yours, reference))
    steps = sorted({place_of(name)[0] for name in wanted} - {-1})
    if not steps or {_one_earlier(name) for name in mine} != wanted:
        return ""
    return f"yours lacks step {steps[0]:04d} and has a step {steps[-1] + 1:04d}: counted from 1?"


def _one_earlier(name: str) -> str:
    first, slash, rest = name.partition("/")
    return f"{int(first) - 1:04d}{slash}{rest}" if first.isdecimal() else name


def _by_kind(verb: str, names: set[str], wanted: Collection[str]) -> list[str]:
    kinds = _grouped(names)
    every = _grouped(wanted)
    lines = []
    for kind, found in sorted(kinds.items()):
        steps, all_steps = sorted({place_of(name)[0] for name in found}), {place_of(n)[0] for n in every.get(kind, ())}
        whole, first = found == set(every.get(kind, ())), in_causal_order(sorted(found))[0]
        if len(found) == 1:
            lines.append(f"{verb} {first}")
        elif whole and len(all_steps) > 1:
            lines.append(f"{verb} {kind} in every step, {len(found)} tensors, the first is {first}")
        elif steps == [-1]:
            lines.append(f"{verb} {len(found)} tensors {kind}, the first is {first}")
        else:
            numbers = ", ".join(f"{step:04d}" for step in steps[:3]) + (", …" if len(steps) > 3 else "")
            word = "step" if len(steps) == 1 else "steps"
            lines.append(f"{verb} {len(found)} tensors {kind} of {word} {numbers}, the first is {first}")
    return lines


def _grouped(names: Collection[str]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(f"{place_of(name)[1]}/*" if "/" in name else "without '/'", set()).add(name)
    return found


def by_problem(problems: Iterable[tuple[str, str]]) -> list[str]:
    """Say each problem in one line, with the first name that has it. ``problems``: pairs of a name and its problem."""
    names: dict[str, list[str]] = {}
    for name, problem in problems:
        names.setdefault(problem, []).append(name)
    return [
        f"{each[0]}: {problem}" if len(each) == 1 else f"{len(each)} tensors: {problem}; the first is {each[0]}"
        for problem, each in names.items()
    ]
