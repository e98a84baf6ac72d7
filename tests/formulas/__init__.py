"""Compute each tutorial's whole trace from its formula: a third opinion beside the run and its twin.

The twin shares helpers with the run, so a wrong formula in a helper is in both. A module here shares nothing with
either: plain torch or NumPy on the case's plain numbers. `trace(case, given)` gives every tensor of the trace by name;
``given`` holds what only a run can know, the order of its events.
"""
