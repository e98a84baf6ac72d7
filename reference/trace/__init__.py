"""Cases and traces: a run's input and output as plain data."""

from reference.trace.case import Case, CaseError
from reference.trace.trace import Comparison, Recorder, Trace, TraceError, check_comparable, compare

__all__ = ["Case", "CaseError", "Comparison", "Recorder", "Trace", "TraceError", "check_comparable", "compare"]
