"""Check the arguments of `launch`, prepare the world's folder, and fork one role."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import resource
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from reference import TUTORIALS
from reference.outcome import WorldError
from reference.system import isolated_network, temporary_folders
from reference.system.files import RENDEZVOUS, log_of, roles_of, stacks_of
from reference.system.interrupts import held
from reference.system.processes import no_pidfds, status_of_ended
from reference.system.temporary_folders import make_private
from reference.system.text import shown
from reference.world import link
from reference.world.role import RoleConfig, main
from reference.world.role_handle import RoleHandle

# The longest deadline in seconds: eleven days, which every clock of the kernel can wait for.
LONGEST = 1e6

# The files that the first role has open at the start, at most: its own, and for each role the store's connection and
# the sockets of two pipes.
_OWN_FILES, _FILES_OF_EACH = 40, 9

_NAME = re.compile(r"[A-Za-z0-9_:-]{1,127}")
_context = multiprocessing.get_context("forkserver")


def check_deadline(deadline: float, what: str = "a deadline") -> None:
    """Raises WorldError unless ``deadline`` is a number of seconds that can be waited for."""
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline <= LONGEST:
        raise WorldError(f"{what} is a positive number of seconds, at most {LONGEST:.0e}, got {shown(deadline)}")


def check_main() -> None:
    """Check the system, and the launching script. Every role imports the script again, so it must be a file and must
    not launch at import."""
    if reason := no_pidfds():
        raise WorldError(f"no world can start here: {reason}")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise WorldError("launched while a role imports this script: launch below `if __name__ == '__main__':`")
    if multiprocessing.current_process().daemon:
        raise WorldError("a worker of multiprocessing.Pool cannot launch: wanted one of ProcessPoolExecutor, no daemon")
    main = sys.modules["__main__"]
    if not hasattr(main, "__spec__"):
        main.__spec__ = None  # `python -m pdb` removes it (until Python 3.13), but multiprocessing reads it
    script = getattr(main, "__file__", None)
    if script is not None and main.__spec__ is None and not Path(script).exists():
        raise WorldError(f"a script that launches must be a file that roles can import, got {script}")


def check(names: Sequence[str], deadline: float, threads: int, options: Mapping[str, Any] | None) -> None:
    """Raises WorldError if a world with these arguments could not start."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise WorldError(f"roles are a mapping or a list of names, got {shown(names)}")
    if not names:
        raise WorldError("a world needs at least one role, got none")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise WorldError(f"a role's name is 1 to 127 letters, digits, '_', ':' or '-', got {shown(name)}")
    if len(set(names)) != len(names):
        raise WorldError(f"role names must differ, got {', '.join(names)}")
    wanted, most = _OWN_FILES + _FILES_OF_EACH * len(names), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= most < wanted:  # torch's agent would end its process by SIGABRT
        raise WorldError(f"{len(names)} roles take {wanted} open files in one process, got {most} (ulimit -H -n)")
    check_deadline(deadline)
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise WorldError(f"threads must be at least 1, got {shown(threads)}")
    if options is not None and not isinstance(options, Mapping):
        raise WorldError(f"options are a mapping, got {shown(options)}")
    # To torch 0 means "no limit" in calls, but "no time" at the start (0.11).
    check_deadline((options or {}).get("rpc_timeout", 1), "rpc_timeout")


def prepare_folder(folder: str | os.PathLike[str] | None, names: Sequence[str]) -> Path:
    """Make the world's folder, or empty it of an earlier world's files. Raises WorldError: it cannot be used."""
    if folder is None:
        try:
            return temporary_folders.make("world-")
        except OSError as error:
            raise WorldError(f"no temporary folder can be made: {error.strerror or error}") from error
    if not os.fspath(folder):
        raise WorldError("folder is a path, got ''")
    place = Path(folder)
    meeting = place / RENDEZVOUS
    stale = [file_of(place, name) for name in names for file_of in (log_of, stacks_of)]
    try:
        make_private(place)
        if stranger := _stranger(meeting, stale):
            raise WorldError(f"{place} has {stranger.name}, which no world has written: wanted a folder without it")
        for each in stale:
            each.unlink(missing_ok=True)
        new_rendezvous(place)
    except OSError as error:
        raise WorldError(f"folder {place} cannot be a world's: {error.strerror or error}") from error
    return place.resolve()


def new_rendezvous(place: Path) -> None:
    """Make the file in which the roles of one life of the world find each other."""
    meeting = place / RENDEZVOUS
    meeting.unlink(missing_ok=True)
    # Made here, because torch's store would let everybody read it, and a caller's folder may be open to others.
    os.close(os.open(meeting, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _stranger(meeting: Path, stale: Sequence[Path]) -> Path | None:
    """Find a file that has the name of a world's file, but is the user's own: no role has left both of its files."""
    roles = roles_of(meeting.parent)
    if meeting.exists() and meeting.stat().st_size and not roles:
        return meeting
    return next((each for each in stale if each.stem not in roles and os.path.lexists(each)), None)


class _OfFiles(link.Pickler):
    """Refuses functions and classes of a `__main__` that no role can import, such as an interactive Python's."""

    def persistent_id(self, value: object) -> None:
        if isinstance(value, FunctionType | type) and value.__module__ == "__main__":
            script = getattr(sys.modules["__main__"], "__file__", None)
            place = "in no file, but in an interactive Python or in -c" if script is None else f"in {script}"
            raise pickle.PicklingError(f"{value.__qualname__} stands {place}, which no role can import")


def _can_be_imported(main: ModuleType) -> bool:
    """Whether multiprocessing lets each role import ``main``: a file or a module, but no package's ``__main__.py``."""
    spec = main.__spec__
    return getattr(main, "__file__", None) is not None if spec is None else not f".{spec.name}".endswith(".__main__")


def pickled(what: str, value: object) -> bytes:
    """Pickle ``value`` for another process. Raises WorldError, which names ``what``: it cannot be sent.

    Python has no class of its own for what cannot be pickled, and some objects raise whatever they like.
    """
    try:
        return link.dumps(value, link.Pickler if _can_be_imported(sys.modules["__main__"]) else _OfFiles)
    except Exception as error:
        raise WorldError(
            f"{what}: cannot be sent to another process ({error}); wanted data, or a function at the top of a module"
        ) from error


# Further modules that every role will import: a caller may add some here. Otherwise each role takes 30 ms for them.
also_preloaded: list[str] = []


def preloaded() -> list[str]:
    """The modules that the forkserver imports once, which takes up to 2 s: of the tutorials, those loaded here.

    ``torch._dynamo`` takes one of these seconds. torch would import it in each role, with the first optimizer or the
    first logged error with a traceback.
    """
    tutorials = [name for each in TUTORIALS if (name := f"reference.{each}") in sys.modules]
    optimizing = ["torch._dynamo"] if tutorials else []
    ours = [*optimizing, *tutorials, *also_preloaded]
    return ["reference.system.preload_first", *ours, "reference.world.preload_last"]


_server: Any = forkserver._forkserver
# The ids of forkservers that have forked a role, and so have finished their imports. None stands for no forkserver.
_serving: set[int | None] = {None}


def _forget_the_parents() -> None:
    """Forget, in a forked child, the forkserver and the temporary folder of its parent, which end with that one."""
    link.leave_forkserver()
    modules = _server._preload_modules
    _server.__init__()
    _server._preload_modules = modules
    multiprocessing.process.current_process()._config.pop("tempdir", None)  # type: ignore[attr-defined]


os.register_at_fork(after_in_child=_forget_the_parents)


@contextmanager
def _forkserver() -> Iterator[None]:
    """Start the forkserver if there is none.

    Its start takes up to 2 s. If that is interrupted, end it, because it would still fork a role that nobody wants.
    """
    _context.set_forkserver_preload(preloaded())
    resource_tracker.ensure_running()  # it unblocks signals
    with held():  # Ctrl-C would end the forkserver with a traceback, until `preload_first` has run there
        temporary_folders.claim_sockets()
        forkserver.ensure_running()
    try:
        yield
    except KeyboardInterrupt:
        with _server._lock:
            if _server._forkserver_pid not in _serving:
                os.kill(_server._forkserver_pid, signal.SIGKILL)
                status_of_ended(_server._forkserver_pid)  # until then a next launch would take it for running
        raise


def network() -> isolated_network.Network:
    """Make or return the network of isolated roles, while the forkserver begins its imports."""
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
            # Who asks multiprocessing for its children, or starts one, would read a role's status in a second thread.
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
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
    return RoleHandle(config.name, process, ours, stacks_of(config.folder, config.name))
