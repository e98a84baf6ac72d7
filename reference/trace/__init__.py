"""Cases and traces: a run's input and output as plain data. A trace loads torch; a case does without."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from reference.trace.case import Case, CaseError, choice_field, flag_field, number_field, text_field

if TYPE_CHECKING:
    from reference.trace.recorder import Recorder
    from reference.trace.trace import Comparison, NoCase, Trace, TraceError, check_comparable, compare

__all__ = [
    "Case",
    "CaseError",
    "Comparison",
    "NoCase",
    "Recorder",
    "Trace",
    "TraceError",
    "check_comparable",
    "choice_field",
    "compare",
    "flag_field",
    "number_field",
    "text_field",
]


def __getattr__(name: str) -> Any:
    """Import what needs torch when it is first asked for. Raises AttributeError: this room offers no such name."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"reference.trace.{'recorder' if name == 'Recorder' else 'trace'}"), name)


def __dir__() -> list[str]:
    return __all__
