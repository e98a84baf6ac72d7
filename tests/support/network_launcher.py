"""A program that has a world on a network of its own, and waits to be killed from outside.

python -m tests.support.network_launcher FOLDER

Prints the pids of the roles, once a fault is in place.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from faults.inject.network.network import Network
from faults.plan import Plan
from reference.world import launch
from tests.support import roles_network

PLAN = "Partition role=a direction=both at=step:1@b"

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / "plan.json").write_text(Plan.parse(PLAN).to_json())
    before = partial(roles_network.enter_network, folder)
    with Network(["a", "b"], folder) as network, launch(["a", "b"], before=before, options=network.options) as world:
        world.call("b", roles_network.announce, 1)
        print(*world.pids.values(), flush=True)
        sys.stdin.read()
