"""Import in the forkserver what every role needs. Import this nowhere else."""

from __future__ import annotations

import numpy.random  # noqa: F401 (numpy itself imports it late: 7 ms a role)
import torch.distributed.rpc  # noqa: F401

import reference.world.role  # noqa: F401
from reference.world import role

role.watch_startup()
