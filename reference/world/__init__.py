"""Worlds: the only way processes start. `launch` starts them on this machine; `run_rank` plays one rank of torchrun.

`shutdown` ends RPC within a limit, in any other program. (In a world RPC is ended by whoever started it.)
"""

from reference.outcome import WorldError
from reference.world.bounded_shutdown import shutdown
from reference.world.launcher import launch
from reference.world.torchrun import run_rank
from reference.world.world import Lost, World

__all__ = ["Lost", "World", "WorldError", "launch", "run_rank", "shutdown"]
