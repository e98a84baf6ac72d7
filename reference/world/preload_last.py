"""Import in the forkserver what every role needs, and freeze all that it has imported. Import this nowhere else."""

from __future__ import annotations

import gc

import numpy.random  # noqa: F401 (numpy itself imports it late: 7 ms a role)
import torch.distributed.rpc  # noqa: F401

from reference.world import role

role.watch_startup()
gc.freeze()  # children share the memory of these objects; a collection in a child would copy its pages
gc.enable()  # `preload_first` has disabled it
