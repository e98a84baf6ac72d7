"""Faults of processes: a crash and a pause, by signals."""
