"""Prove that an exact case is exact: check every operation of its twin by a rule for its operator."""
