"""Run ``compare``: compare two traces on disk, and explain their first difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from reference.cli.options import BadInput, Parser
from reference.trace.case import Case
from reference.trace.trace import NoCase, Trace, TraceError


def run_compare(arguments: Sequence[str]) -> int:
    """Exit status 0: equal, or equal but for rounding in a natural case; 1: they differ.

    Without a case nobody knows whether rounding may be, so it gives 1.
    """
    about = "Compare two traces that --save has written, or two answers of the conformance kit, which have no case."
    parser = Parser(prog="python -m reference compare", description=about)
    parser.add_argument("yours", metavar="A", help="your trace, or answer")
    parser.add_argument("reference", metavar="B", help="the reference's trace, or another answer")
    options = parser.parse_args(arguments)
    (case, yours), (other, tensors) = _load(options.yours), _load(options.reference)
    if case and other and (lines := case_differences(case, other)):
        print("traces of different cases: " + "; ".join(lines))
        return 1
    from reference.explain.explain import explain  # loads the twins

    found = explain(yours, Trace(other, tensors) if case and other else tensors)
    if not found.cause:
        print(f"equal: all numbers of {len(tensors)} tensors")
        return 0
    print("\n".join(found.lines))
    return 0 if found.cause == "rounding" and case and other else 1


def _load(path: str) -> tuple[Case | None, dict[str, torch.Tensor]]:
    """Load a trace's case, if it has one, and its tensors."""
    if not Path(path).exists():
        raise BadInput(f"{path}: no such file")
    try:
        trace = Trace.load(path)
        return trace.case, trace.tensors
    except NoCase as found:
        return None, found.tensors
    except (TraceError, OSError) as error:
        raise BadInput(str(error) if isinstance(error, TraceError) else f"{path}: {error.strerror or error}") from error


def case_differences(yours: Case, reference: Case) -> list[str]:
    """One text for each field that decides the result and differs."""
    if type(yours) is not type(reference):
        return [f"yours is of {yours.tutorial()}, the reference's of {reference.tutorial()}"]
    return [
        f"{name} is {getattr(yours, name)!r} in yours, {getattr(reference, name)!r} in the reference's"
        for name in yours.differing(reference)
    ]
