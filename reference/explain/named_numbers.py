"""The numbers of a case by which a program may multiply or divide by mistake, and what they are called."""

from __future__ import annotations

from typing import Any


def named_numbers(case: Any) -> list[tuple[int, str]]:
    """The whole numbers of a case, from 2, by which a program may multiply or divide by mistake."""
    fields = (
        ("trainers", "trainers"),
        ("workers", "workers"),
        ("observers", "observers"),
        ("num_split", "micro-batches"),
        ("contexts", "passes"),
        ("batch_size", "rows of a batch"),
        ("sequence", "tokens of a sequence"),
        ("num_classes", "classes"),
        ("outputs", "outputs"),
        ("batches", "batches of an epoch"),
        ("bag", "rows of a bag"),
        ("n_steps", "steps of an episode"),
    )
    found = {name: (getattr(case, name), what) for name, what in fields if getattr(case, name, 0) > 1}
    products = (
        ("batch_size", "num_classes"),
        ("batch_size", "outputs"),
        ("batch_size", "sequence"),
        ("batch_size", "trainers"),
    )
    for left, right in products:
        if left in found and right in found:
            number, what = found[left][0] * found[right][0], f"{found[left][1]} * {found[right][1]}"
            found[f"{left}*{right}"] = (number, what)
    rows, splits = getattr(case, "batch_size", 0), getattr(case, "num_split", 1)
    if splits > 1 and rows % splits == 0 and rows > splits:
        found["micro_batch"] = (rows // splits, "rows of a micro-batch")
    return list(found.values())
