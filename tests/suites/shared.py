"""Two suites at once; each step waits for the other's word through a named pipe. Run by test_pytest_plugin.py."""

import multiprocessing.shared_memory
import os
import subprocess
from pathlib import Path

from reference.world import launch
from tests.support import roles_plugin as plays


def say(word):
    Path(word).write_text("x")


def await_(word):
    assert Path(word).read_text() == "x"


def test_first():
    await_("go")
    child = subprocess.Popen(["sleep", "60"])
    memory = multiprocessing.shared_memory.SharedMemory(f"planted_{os.urandom(4).hex()}", create=True, size=8)
    with launch(["a", "b"]) as world:
        assert world.call("a", plays.ask, "b") == 42
        say("made")
        await_("done")
    memory.close()
    memory.unlink()
    child.kill()
    child.wait()


def test_second():
    say("go")
    await_("made")
    with launch(["a", "b"]) as world:
        assert world.call("a", plays.ask, "b") == 42


def test_second_is_accounted_for():
    """The accounts of the one before are closed."""
    say("done")
