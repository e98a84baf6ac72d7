"""Check the arguments of `launch`, prepare the world's folder, and fork one role."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker, util
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from reference import loaded
from reference.outcome import WorldError
from reference.system import isolated_network, temporary_folders
from reference.system.interrupts import held
from reference.system.private_folder import make_private
from reference.world import wire
from reference.world.role import RoleConfig, main
from reference.world.role_handle import RoleHandle

# The longest deadline (seconds): eleven days, well within what the kernel's clocks can wait.
LONGEST = 1e6

_NAME = re.compile(r"[A-Za-z0-9_:-]{1,127}")
_context = multiprocessing.get_context("forkserver")


def check_deadline(deadline: float, what: str = "a deadline") -> None:
    """Raises WorldError unless it is a number of seconds that can be waited for."""
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline <= LONGEST:
        raise WorldError(f"{what} is a positive number of seconds, at most {LONGEST:.0e}, got {deadline!r}")


def check_main() -> None:
    """Every role imports the launching script again: it must be a file, and must not launch by being imported."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise WorldError("launched while a role imports this script: launch below `if __name__ == '__main__':`")
    main = sys.modules["__main__"]
    if not hasattr(main, "__spec__"):
        main.__spec__ = None  # `python -m pdb` has taken it away (until Python 3.13), and multiprocessing asks for it
    script = getattr(main, "__file__", None)
    if script is not None and main.__spec__ is None and not Path(script).exists():
        raise WorldError(f"a script that launches must be a file that roles can import, got {script}")


def check(names: Sequence[str], deadline: float, threads: int, options: Mapping[str, Any] | None) -> None:
    """Refuse what could not start. Raises WorldError."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise WorldError(f"roles are a mapping or a list of names, got {names!r}")
    if not names:
        raise WorldError("a world needs at least one role, got none")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise WorldError(f"a role's name is 1 to 127 letters, digits, '_', ':' or '-', got {name!r}")
    if len(set(names)) != len(names):
        raise WorldError(f"role names must differ, got {', '.join(names)}")
    check_deadline(deadline)
    if not isinstance(threads, int) or threads < 1:
        raise WorldError(f"threads must be at least 1, got {threads!r}")
    if options is not None and not isinstance(options, Mapping):
        raise WorldError(f"options are a mapping, got {options!r}")
    # torch takes 0 for "no limit" in calls, and then for "no time" at the start (0.11).
    timeout = (options or {}).get("rpc_timeout", 1)
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise WorldError(f"rpc_timeout must be a positive number of seconds, got {timeout!r}")


def prepare_folder(folder: str | os.PathLike[str] | None, names: Sequence[str]) -> Path:
    """The world's folder, without what an earlier world left in it. Raises WorldError: it cannot be one."""
    if folder is None:
        return temporary_folders.make("world-")
    place = Path(folder)
    try:
        make_private(place)
    except OSError as error:
        raise WorldError(f"folder {place} cannot be made: {error.strerror or error}") from error
    try:
        _renew(place, names)
    except OSError as error:
        raise WorldError(f"folder {place} cannot be a world's: {error.strerror or error}") from error
    return place.resolve()


def _renew(place: Path, names: Sequence[str]) -> None:
    meeting = place / "rendezvous"
    stale = [place / f"{name}.{kind}" for name in names for kind in ("log", "stacks")]
    if stranger := _stranger(meeting, stale):
        raise WorldError(f"{place} has {stranger.name}, which no world has written: wanted a folder without it")
    for each in (meeting, *stale):
        each.unlink(missing_ok=True)
    # Before torch's store makes it for everybody to read: in a folder of the caller's, others may be able to.
    os.close(os.open(meeting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _stranger(meeting: Path, stale: Sequence[Path]) -> Path | None:
    """A file that has the name of a world's, and is the user's own. A role leaves its log and its stacks, both, and
    whoever has met another there has left both before."""
    worlds = {each.stem for each in meeting.parent.glob("*.stacks") if each.with_suffix(".log").exists()}
    if meeting.exists() and meeting.stat().st_size and not worlds:
        return meeting
    return next((each for each in stale if each.stem not in worlds and os.path.lexists(each)), None)


class _OfFiles(wire.Pickler):
    """Refuses functions and classes of a `__main__` that no role can import, as an interactive Python's."""

    def persistent_id(self, value: object) -> None:
        if isinstance(value, FunctionType | type) and value.__module__ == "__main__":
            script = getattr(sys.modules["__main__"], "__file__", None)
            place = "in no file, but in an interactive Python or in -c" if script is None else f"in {script}"
            raise pickle.PicklingError(f"{value.__qualname__} stands {place}, which no role can import")


def _can_be_imported(main: ModuleType) -> bool:
    """Whether multiprocessing has each role import it: a file, or a module, but no package's ``__main__.py``."""
    spec = main.__spec__
    return getattr(main, "__file__", None) is not None if spec is None else not f".{spec.name}".endswith(".__main__")


def pickled(what: str, value: object) -> bytes:
    """``value`` as bytes for another process. Raises WorldError naming ``what`` cannot be sent."""
    try:
        return wire.dumps(value, wire.Pickler if _can_be_imported(sys.modules["__main__"]) else _OfFiles)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise WorldError(
            f"{what}: cannot be sent to another process ({error}); wanted a function at the top of a module"
        ) from error


# Modules besides that every role will import, for who knows of some: 30 ms a role, else.
also_preloaded: list[str] = []


def preloaded() -> list[str]:
    """What the forkserver imports, once: of the tutorials those that are loaded here, which take it up to 2 s.

    ``torch._dynamo`` takes a second of these; torch imports it when a process makes its first optimizer, or logs its
    first error with a traceback.
    """
    tutorials = loaded()
    optimizing = ["torch._dynamo"] if tutorials else []
    first = ["reference.system.preload_first", "reference.world.preload_roles"]
    return [*first, *optimizing, *tutorials, *also_preloaded, "reference.world.preload_last", "__main__"]


_server: Any = forkserver._forkserver
# The ids of forkservers that have forked a role, so have imported what they are to; None: there is none.
_serving: set[int | None] = {None}


@contextmanager
def _forkserver() -> Iterator[None]:
    """Start the forkserver, if there is none. One that is interrupted while it starts, for which it takes up to 2 s, is
    ended: it would fork a role for nobody."""
    _context.set_forkserver_preload(preloaded())
    resource_tracker.ensure_running()  # it unblocks signals
    with held():  # until it has said so (`preload_first`), Ctrl-C would end it with a traceback
        forkserver.ensure_running()
        temporary_folders.claim(Path(util.get_temp_dir()))  # where its socket is
    try:
        yield
    except KeyboardInterrupt:
        if _server._forkserver_pid not in _serving:
            os.kill(_server._forkserver_pid, signal.SIGKILL)
        raise


def network() -> isolated_network.Network:
    """The network of isolated roles, made while the forkserver begins to import."""
    try:
        with _forkserver():
            return isolated_network.network()
    except OSError as error:
        raise WorldError(f"the process server cannot be started: {error.strerror or error}") from error


def start(config: RoleConfig) -> RoleHandle:
    """Fork one role from the forkserver."""
    try:
        ours, theirs = _context.Pipe()
    except OSError as error:
        raise WorldError(f"{config.name} cannot be started: {error.strerror or error}") from error
    try:
        process = _context.Process(target=main, args=(config, theirs), name=config.name)
        with _forkserver():
            process.start()
        _serving.add(_server._forkserver_pid)
    except (EOFError, ConnectionError) as error:
        ours.close()
        raise WorldError(
            "the process server ended while it started: there is no room for its processes, or a script does not "
            "launch below `if __name__ == '__main__':`"
        ) from error
    except OSError as error:
        ours.close()
        raise WorldError(f"{config.name} cannot be started: {error.strerror or error}") from error
    finally:
        theirs.close()
    return RoleHandle(config.name, process, ours, config.stacks)
