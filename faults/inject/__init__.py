"""Puts the faults of a plan to work in a process: at calls, messages, processes and networks."""
