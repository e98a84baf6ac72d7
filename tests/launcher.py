"""A program that launches a world and waits: to be interrupted or killed from outside.

    python -m tests.launcher

Prints the pids of its roles once all of them are up: two hang, the third waits to shut down.
"""

from __future__ import annotations

import threading

from reference.world import launch
from tests import plays

if __name__ == "__main__":
    up = threading.Event()
    roles = {"a": plays.announce_and_wait, "b": plays.wait_for_ever, "c": plays.nothing}
    with launch(roles, deadline=100, on_progress=lambda role, record: up.set()) as world:
        if up.wait(60):
            print(*world.pids.values(), flush=True)
            world.wait()
