"""Processes that are forks of one that has imported what takes long, in place of new ones: pytest, its forkserver, and
Python as any command starts it. `inheritance` makes them what a new process would have been."""
