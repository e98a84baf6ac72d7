"""Roles that end before they begin: their script cannot be imported, or their function cannot be unpickled there."""

from __future__ import annotations

import multiprocessing
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from reference.outcome import Exited, Outcome, Raised
from reference.world import WorldError, launch
from reference.world.role_handle import BEFORE_ITS_ROLE
from reference.world.start import check_main
from tests.support import roles_plain

ROOT = Path(__file__).parents[2]
UNGUARDED = """
from reference.world import launch
def play(): return 7
with launch({"a": play}) as world:
    print(world.wait()["a"])
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="multiprocessing takes another folder then")
def test_a_temporary_folder_with_a_name_that_no_socket_can_have_is_told(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 90)
    place.mkdir()
    command = [sys.executable, "-m", "reference", "run", "rpc_basics"]
    environment = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    said = rf"error: .* cannot be started: TMPDIR is \d+ bytes too long for the name of a socket: {place}\S*\n"
    assert re.fullmatch(said, done.stderr)


def test_a_system_without_pidfds_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("reference.system.processes.pidfd_open", refuse)
    with pytest.raises(
        WorldError, match=r"^no world can start here: wanted Linux 5\.3 or newer, and a container that "
    ):
        launch({"a": roles_plain.nothing})


def test_a_daemonic_process_is_told_that_it_cannot_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """multiprocessing only asserts that it starts no process."""
    monkeypatch.setattr(type(multiprocessing.current_process()), "daemon", True)
    with pytest.raises(WorldError, match=r"^a worker of multiprocessing\.Pool cannot launch: wanted one of Process"):
        launch({"a": roles_plain.nothing})


def opening(function: Callable[..., object], *args: object) -> Outcome:
    """The end of a role that executes this while multiprocessing opens what it is sent."""
    with launch({"a": roles_plain.nothing}, options={"_channels": roles_plain.Unopened(function, *args)}) as world:
        return world.wait()["a"]


def test_an_error_is_reported_and_not_only_its_status() -> None:
    outcome = opening(int, "seven")
    assert isinstance(outcome, Raised)
    assert str(outcome) == "raised ValueError: invalid literal for int() with base 10: 'seven'"
    assert "spawn.py" in outcome.traceback


@pytest.mark.parametrize(("function", "status"), [(sys.exit, 1), (os._exit, 3)])
def test_an_exit_says_where_it_was(function: Callable[..., object], status: int) -> None:
    outcome = opening(function, 3)
    assert outcome == Exited(status, BEFORE_ITS_ROLE)
    began = f"exited with status {status} while it imported the launching script, as every role does: "
    assert str(outcome) == f"{began}launch below `if __name__ == '__main__':`"


def test_a_function_that_a_role_does_not_find_says_where_it_must_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The function is put into its module after the role's process has imported the module."""
    monkeypatch.setattr(roles_plain, "late", roles_plain.nothing, raising=False)
    monkeypatch.setattr(roles_plain.nothing, "__qualname__", "late")
    with launch({"a": roles_plain.nothing}) as world:
        outcome = world.wait()["a"]
    assert isinstance(outcome, Raised)
    assert outcome.type == "reference.outcome.WorldError"
    assert outcome.message.startswith("its function cannot be found in a role's process (")
    assert outcome.message.endswith(
        "; wanted at the top of a module, or of the script outside `if __name__ == '__main__':`"
    )


@pytest.mark.parametrize(
    ("name", "file", "why"),
    [
        ("__main__", None, r"typed stands in no file, but in an"),
        ("__main__", "/shop/__main__.py", r"typed stands in /shop/__main__\.py, which no role can import\)"),
        ("shop.__main__", "/shop/__main__.py", r"typed stands in /shop/__main__\.py, which no role can import\)"),
    ],
    ids=["interactive", "folder", "package"],
)
def test_a_function_that_no_role_can_import_starts_nothing(
    name: str, file: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an interactive Python, or of a package's main module, which multiprocessing lets no role import."""
    monkeypatch.setattr("reference.world.launcher.start", lambda config: pytest.fail("a process was started"))
    main = ModuleType("__main__")
    if file:
        main.__spec__, main.__file__ = ModuleSpec(name, None), file
    exec("def typed(): pass", vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    with pytest.raises(WorldError, match=rf"^a: cannot be sent to another process \({why}"):
        launch({"a": main.typed})


def test_a_main_without_a_spec_can_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m pdb` takes it away, and multiprocessing asks for it."""
    main = ModuleType("__main__")
    main.__file__ = roles_plain.__file__
    del main.__spec__
    monkeypatch.setitem(sys.modules, "__main__", main)
    check_main()
    assert main.__spec__ is None


@pytest.mark.long
def test_a_script_without_a_guard_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(UNGUARDED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "script.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=True)
    wanted = "launched while a role imports this script: launch below `if __name__ == '__main__':`"
    assert done.stdout.startswith(f"raised reference.outcome.WorldError: {wanted}")


def test_a_role_without_room_for_a_thread_says_so() -> None:
    """The error comes before the role has RPC or a log, and does not blame the script's import."""
    outcome = opening(resource.setrlimit, resource.RLIMIT_AS, (1, 1))
    assert str(outcome) == "raised RuntimeError: can't start new thread"
