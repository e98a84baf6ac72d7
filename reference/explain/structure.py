"""Group what a trace lacks or has too much of, by step and kind, so that 200 missing names are one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from reference.explain.causal_order import in_causal_order, place_of


def structure(yours: Collection[str], reference: Collection[str]) -> list[str]:
    """Say which names are missing or not wanted, one line for each reason."""
    missing, extra = set(reference) - set(yours), set(yours) - set(reference)
    if not missing and not extra:
        return []
    if line := counted_from_one(yours, reference):
        return [line]
    lines = _by_kind("yours lacks", missing, reference)
    return lines + _by_kind("yours has, and the reference does not,", extra, extra)


def counted_from_one(yours: Collection[str], reference: Collection[str]) -> str:
    """The line for a trace whose every step has the number of the next one; empty if it is no such trace."""
    steps = sorted({place_of(name)[0] for name in reference} - {-1})
    if not steps or {_renumbered(name, -1) for name in yours} != set(reference):
        return ""
    return f"yours lacks step {steps[0]:04d} and has a step {steps[-1] + 1:04d}: counted from 1?"


def _renumbered(name: str, by: int) -> str:
    first, slash, rest = name.partition("/")
    return f"{int(first) + by:04d}{slash}{rest}" if first.isdigit() else name


def _by_kind(verb: str, names: set[str], wanted: Collection[str]) -> list[str]:
    kinds = _grouped(names)
    every = _grouped(wanted)
    lines = []
    for kind, found in sorted(kinds.items()):
        steps, all_steps = sorted({place_of(name)[0] for name in found}), {place_of(n)[0] for n in every.get(kind, ())}
        whole = found == set(every.get(kind, ()))
        if len(found) == 1:
            lines.append(f"{verb} {next(iter(found))}")
        elif whole and len(all_steps) > 1:
            lines.append(f"{verb} {kind}/* in every step, {len(found)} tensors")
        elif steps == [-1]:
            lines.append(f"{verb} {len(found)} tensors {kind}/*, the first is {min(found)}")
        else:
            numbers = ", ".join(f"{step:04d}" for step in steps[:3]) + (", …" if len(steps) > 3 else "")
            word = "step" if len(steps) == 1 else "steps"
            lines.append(
                f"{verb} {len(found)} tensors {kind}/* of {word} {numbers}, the first is {in_causal_order(found)[0]}"
            )
    return lines


def _grouped(names: Collection[str]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(place_of(name)[1], set()).add(name)
    return found
