"""A program that launches a world in which ``a`` has paused ``b``, and waits: to be killed from outside.

    python -m tests.support.fault_launcher FOLDER

Prints, once ``b`` is stopped, the pids of the roles and of the guardian.
"""

from __future__ import annotations

import sys
from pathlib import Path

from faults.ledger import ledger
from reference.world import launch
from tests.support import roles_processes

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    before = roles_processes.planned(folder, "Pause role=b at=step:1@a seconds=600")
    with launch(["a", "b"], deadline=100, before=before) as world:
        world.call("a", roles_processes.step)
        guardian = ledger.read(folder).of("fired")[0].details["guardian"]
        print(*world.pids.values(), guardian, flush=True)
        world.wait()
