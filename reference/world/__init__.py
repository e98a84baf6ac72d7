"""Worlds: the only way processes start. `launch` here, `run_rank` as one rank of torchrun."""

from reference.outcome import WorldError
from reference.world.world import World, launch, run_rank

__all__ = ["World", "WorldError", "launch", "run_rank"]
