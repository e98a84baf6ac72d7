"""Planted bugs, each of which some test has to notice: ``tox run -e mutants``, or ``python -m tests.mutants``."""
