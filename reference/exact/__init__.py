"""Proof that an exact case is exact: every operation of its twin, by rules for each operator."""
