"""Starts a thread whenever it is imported, and launches an isolated world. Run by test_isolated_network.py."""

import threading

from reference.world import launch
from tests.support.roles_plain import nothing

threading.Thread(target=threading.Event().wait, daemon=True).start()

if __name__ == "__main__":
    with launch({"a": nothing}, isolated=True) as world:
        print(world.isolated, world.wait()["a"])
