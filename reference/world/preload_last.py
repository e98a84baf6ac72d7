"""Freeze what the forkserver has imported, last of all. Import this nowhere else."""

import gc

gc.freeze()  # what is here now is shared by all children; do not copy its pages for a collection
