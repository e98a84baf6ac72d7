"""Processes that are forks of one that has imported what takes long, in place of new ones: the pytest of a trial, and
its forkserver. `inheritance` makes them what a new process would have been."""
