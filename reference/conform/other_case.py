"""Find the case that an answer belongs to, if it is not the one that was asked."""

from __future__ import annotations

from collections.abc import Mapping

from reference.conform.catalogue import chosen
from reference.conform.suite import SuiteCase
from reference.conform.tensor_file import Array
from reference.conform.twin_judge import prepared


def other_case(case: SuiteCase, arrays: Mapping[str, Array]) -> str:
    """Return the id of the core case of this tutorial whose outputs these are, bit for bit; empty if there is none."""
    for entry in chosen("core", f"{case.id.rpartition('-')[0]}-*"):
        if entry.id != case.id and _are(arrays, prepared(entry.id).outputs):
            return entry.id
    return ""


def _are(arrays: Mapping[str, Array], wanted: Mapping[str, Array]) -> bool:
    return arrays.keys() == wanted.keys() and all(
        (array.dtype, array.shape, array.tobytes()) == (wanted[name].dtype, wanted[name].shape, wanted[name].tobytes())
        for name, array in arrays.items()
    )
