"""Compare a run with its twin."""

from reference.verify.verify import judge, prove, quick

__all__ = ["judge", "prove", "quick"]
