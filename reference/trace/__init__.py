"""Cases and traces: plain data in, plain data out."""

from reference.trace.case import Case, CaseError
from reference.trace.trace import Comparison, Recorder, Trace, TraceError, check_comparable, compare

__all__ = ["Case", "CaseError", "Comparison", "Recorder", "Trace", "TraceError", "check_comparable", "compare"]
