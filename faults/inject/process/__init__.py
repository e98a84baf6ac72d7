"""Faults of processes: a crash, a pause, and a hold of the GIL."""
