"""A program that launches an isolated world and waits: to be killed from outside.

    python -m tests.support.isolated_launcher

Prints one line of JSON once its roles are up.
"""

from __future__ import annotations

import json
import sys

from reference.world import launch
from tests.support import roles_isolation as plays

if __name__ == "__main__":
    with launch(["a", "b"], deadline=100, isolated=True) as world:
        found = {
            "isolated": world.isolated,
            "sum": world.call("a", plays.sum_at, "b", 1 << 22),
            "user": [*plays.user(), *world.call("a", plays.user)],
            "pids": list(world.pids.values()),
        }
        print(json.dumps(found), flush=True)
        sys.stdin.read()
