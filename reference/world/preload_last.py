"""Freeze what the forkserver has imported, last of all. Import this nowhere else."""

import gc

gc.freeze()  # children share the memory of these objects; a collection in a child would copy its pages
gc.enable()  # `preload_first` has disabled it
