"""Compare a run with its twin."""

from reference.exact.exactness import NotExact
from reference.verify.verify import judge, prove, quick

__all__ = ["NotExact", "judge", "prove", "quick"]
