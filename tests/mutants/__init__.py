"""Planted bugs, each of which some test must notice: ``tox run -e mutants``, or ``python -m tests.mutants``."""
