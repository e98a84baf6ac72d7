"""Run ``compare``: compare two traces on disk, and explain their first difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reference.cli.options import BadInput, Parser
from reference.trace.case import Case
from reference.trace.trace import Trace, TraceError


def run_compare(arguments: Sequence[str]) -> int:
    """Exit status 0: equal, or equal but for rounding in a natural case; 1: they differ."""
    parser = Parser(prog="python -m reference compare", description="Compare two traces that --save has written.")
    parser.add_argument("yours", metavar="A", help="your trace")
    parser.add_argument("reference", metavar="B", help="the reference's trace")
    options = parser.parse_args(arguments)
    yours, reference = _load(options.yours), _load(options.reference)
    if lines := case_differences(yours.case, reference.case):
        print("traces of different cases: " + "; ".join(lines))
        return 1
    from reference.explain.explain import explain  # loads the twins

    found = explain(yours.tensors, reference)
    if not found.cause:
        print(f"equal: all numbers of {len(reference.tensors)} tensors")
        return 0
    print("\n".join(found.lines))
    return 0 if found.cause == "rounding" else 1


def _load(path: str) -> Trace:
    if not Path(path).exists():
        raise BadInput(f"{path}: no such file")
    try:
        return Trace.load(path)
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
