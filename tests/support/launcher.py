"""A program that launches a world and waits: to be interrupted or killed from outside.

    python -m tests.support.launcher

Prints the pids of its roles once all of them are up: two hang, the third waits to shut down.
"""

from __future__ import annotations

import threading

from reference.world import launch
from tests.support import roles_plain

if __name__ == "__main__":
    up = threading.Event()
    roles = {"a": roles_plain.announce_and_wait, "b": roles_plain.wait_for_ever, "c": roles_plain.nothing}
    with launch(roles, deadline=100, on_progress=lambda role, record: up.set()) as world:
        if up.wait(60):
            print(*world.pids.values(), flush=True)
            world.wait()
