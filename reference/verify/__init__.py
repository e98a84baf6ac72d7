"""Compare a run with its twin."""

from reference.verify.small_cases import quick
from reference.verify.verify import judge, prove

__all__ = ["judge", "prove", "quick"]
