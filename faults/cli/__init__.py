"""The command ``python -m faults``."""
