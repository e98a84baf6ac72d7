"""Tell which files of a folder belong to a run, lock it, and let a new run take the place of an earlier one.

The files of an earlier run wait in a folder of their own, and are put back if the new run fails before one of its
roles has begun a ledger, or if the new run's launcher is killed. A launcher may be killed at any time, so that each
step is one renaming, and the name of a folder tells what is in it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from faults.ledger.ledger import SUFFIX
from faults.ledger.record import PLAN, RUN, SCRATCH, TRACE, RecordError, read
from faults.plan.plan import Plan, PlanError
from reference.system.files import RENDEZVOUS, check_room, content_of, lock, log_of, plain, roles_of, stacks_of
from reference.system.temporary_folders import PRIVATE

# The folders that the code which asks has occupied itself: a sweep makes its runs below its own folder.
_own: ContextVar[frozenset[Path]] = ContextVar("_own", default=frozenset())


@contextmanager
def reserved(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a folder, and keep other commands out of it and of all below it, until the block ends or this process does.

    Missing folders are made for this user alone. After an error those that are empty are removed.

    Raises:
        PlanError: the folder has no name or is a file; or a run is going on: its launcher lives, there, below or in a
            folder above; or a process has a ledger open, there or below.
        OSError: the folder cannot be made, this user may not read it, or the disk is full.
    """
    place = _named(folder)
    with ExitStack() as stack:
        for each in (*reversed(place.parents), place):
            is_new = _make(each)
            if each == place or each not in _own.get():
                stack.enter_context(_locked(each, alone=each == place))
            if is_new:
                stack.push(partial(_remove_after_error, each))
        check_room(place)
        # `os.walk` passes over a folder that another program removes meanwhile.
        files = (Path(folder, name) for folder, _, names in os.walk(place) for name in names)
        if any(map(_is_written, (each for each in files if each.suffix == SUFFIX))):
            raise _busy(place)
        own = _own.get()
        _own.set(own | {place})
        stack.callback(_own.set, own)
        yield place


def inherit(folder: str | os.PathLike[str]) -> None:
    """Let this process make runs below a folder that the process which has started it has `reserved`."""
    _own.set(_own.get() | {_named(folder)})


def _make(place: Path) -> bool:
    """Make a folder; False if it is there. Raises OSError."""
    try:
        place.mkdir(mode=PRIVATE)
    except FileExistsError:
        return False
    return True


def _named(folder: str | os.PathLike[str]) -> Path:
    """Resolve the folder's name. Raises PlanError: it cannot name a folder."""
    if not os.fspath(folder):
        raise PlanError("a run's folder has no name: wanted a folder, got ''")
    try:
        place = Path(folder).resolve()
    except RuntimeError as error:  # until Python 3.12
        raise PlanError(f"{folder} is a loop of links: wanted a folder for the run") from error
    if place.exists() and not place.is_dir():
        raise PlanError(f"{place} is a file: wanted a folder for the run")
    return place


@contextmanager
def _locked(place: Path, *, alone: bool) -> Iterator[None]:
    """Lock a folder, or share its lock. A folder above that this user may not read cannot be locked. Raises PlanError:
    another process has locked it."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        if alone:
            raise
        yield
        return
    try:
        if not lock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH):
            raise _busy(place)
        yield
    finally:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child that was forked meanwhile has the folder open, too
        os.close(handle)


def _busy(place: Path) -> PlanError:
    return PlanError(f"a run is going on in {place}: wanted a folder of its own for each run")


def _remove_after_error(place: Path, error: type[BaseException] | None, *_: object) -> None:
    if error is not None:
        with suppress(OSError):  # something is in it
            place.rmdir()


def _is_written(ledger: Path) -> bool:
    """Whether a process has opened it for writing, and has neither closed it nor ended (`Ledger` locks it)."""
    with suppress(OSError):
        how = os.O_RDWR if os.access(ledger, os.W_OK) else os.O_RDONLY  # NFS wants O_RDWR for LOCK_EX
        handle = os.open(ledger, how | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return not lock(handle, fcntl.LOCK_EX)
        finally:
            os.close(handle)
    return False


# Marks the folder of a run. A plan alone does not: it may be a user's own file.
MARK = ".faults-run"
# Some files of the run whose other files are in their places: they are on their way out or back.
MOVING = ".faults-moving"
# All files of an earlier run. Those in the run's folder are the new run's, which is not over.
EARLIER = ".faults-earlier"
# Files that nobody needs any more.
REPLACED = ".faults-replaced"
# The folder of a script's output and of the files that it wrote (`faults.script.results`).
RESULTS = "faults-results"
# The folder of the checkpoints of a world that may be started again.
CHECKPOINTS = "faults-checkpoints"
# The page that `report` writes unless it is told another name.
PAGE = "faults-report.html"

_BEGIN = b'{"event": "start"'
# The end of a file's name to which a script's process writes its exit status (`faults.script.process_end`).
STATUS = ".status"
_SIGN = re.compile(r"\+\.\d+\.status|\+\.stacks")


@contextmanager
def replaceable(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """`reserved`, for a folder whose run may be replaced.

    Raises:
        PlanError: the folder holds a file with a run's name that no run wrote.
    """
    with reserved(folder) as place:
        _recover(place)
        if stranger := _stranger(place):
            raise PlanError(
                f"{place} has {stranger.name}, which no run has written: wanted an empty folder, or one of a run"
            )
        yield place


@contextmanager
def renewed(plan: Plan, folder: str | os.PathLike[str], *, trace: bool = False) -> Iterator[Path]:
    """Yield the folder with ``plan`` and no files of an earlier run. Until the block ends, no other run begins there.
    ``trace``: the roles trace their RRefs and autograd contexts.

    An error within the block before any role has begun its ledger leaves the folder as it was. If this process is
    killed within the block, the next run puts the earlier one back first, unless `record.write` has completed this one.

    Raises:
        PlanError: the folder has no name or is a file; or it holds a file with a run's name that no run wrote; or a run
            is going on there.
        OSError: the folder cannot be made or written.
    """
    with replaceable(folder) as place:
        _set_aside(place)
        try:
            (place / MARK).touch()
            if trace:
                (place / TRACE).touch()
            (place / PLAN).write_bytes(f"{plan.to_json()}\n".encode())  # UTF-8 in every locale
            yield place
        except BaseException:
            if any(place.glob(f"[!+]*{SUFFIX}")):  # `+`: the network's ledger, which is there before any role
                _replace(place)
            else:
                _put_back(place)
            raise
        _replace(place)


def remove_numbered(folder: Path) -> None:
    """Remove the folders of an earlier sweep's or shrink's runs, ``0000`` and on, from a folder. Others stay."""
    for each in folder.glob("[0-9][0-9][0-9][0-9]*"):
        if re.fullmatch(r"\d{4}|[1-9]\d{4,5}", each.name) and (each / MARK).exists() and not each.is_symlink():
            shutil.rmtree(each)


def statuses(folder: Path) -> dict[int, int | None]:
    """Return the exit status of each process of a script that has begun to play a role; None if it left none, or has
    not ended."""
    contents = {pid: content_of(path) for pid, path in beginners(folder).items()}
    return {pid: status[-1] if status else None for pid, status in contents.items()}


def beginners(folder: Path) -> dict[int, Path]:
    """Return the file for the status of each process of a script that has begun to play a role."""
    return {int(each.name.removesuffix(STATUS).rpartition(".")[2]): each for each in folder.glob(f"+.*{STATUS}")}


def _stranger(place: Path) -> Path | None:
    """Return a file with a run's name that no run wrote; None if a new run may replace what is there."""
    ledgers = list(place.glob(f"*{SUFFIX}"))
    for each in ledgers:
        if not _is_ledger(each):
            return each
    for each in _signs(place):
        if not _SIGN.fullmatch(each.name):
            return each
    if (place / MARK).exists() or (ledgers and (place / PLAN).exists()) or _is_run(place):
        return None
    return next(iter(_files(place)), None)


def _is_ledger(path: Path) -> bool:
    """Whether a role has begun this ledger; the role may have been killed in the middle of its first line."""
    with suppress(OSError), open(path, "rb", opener=plain) as file:
        return _BEGIN.startswith(file.read(len(_BEGIN)))
    return False


def _is_run(place: Path) -> bool:
    with suppress(RecordError):
        return read(place).complete
    return False


def _files(place: Path) -> list[Path]:
    """Return the files of a run: those that it wrote, and those with its roles' output."""
    ledgers = sorted(place.glob(f"*{SUFFIX}"))
    named = [place / name for name in (PLAN, RUN, SCRATCH, TRACE, PAGE, "network.json")]
    files = [each for each in (*named, *ledgers, *_printed(place, ledgers), *_signs(place)) if each.is_file()]
    return [*files, *filter(Path.is_dir, [place / RESULTS, place / CHECKPOINTS])]


def _printed(place: Path, ledgers: list[Path]) -> list[Path]:
    """Return the logs and stacks of a world's roles, and the file where they met. A log without stacks is the user's
    own."""
    roles = roles_of(place).intersection(each.stem for each in ledgers)
    printed = [file_of(place, role) for role in sorted(roles) for file_of in (log_of, stacks_of)]
    return [*printed, place / RENDEZVOUS] if printed else []


def _signs(place: Path) -> list[Path]:
    return [each for pattern in ("+.*.status", "+.stacks") for each in sorted(place.glob(pattern))]


def _set_aside(place: Path) -> None:
    """Move the files of an earlier run to `EARLIER`. After an error all files are back in their places."""
    try:
        _move(place, EARLIER)
    except BaseException:
        _recover(place)
        raise


def _move(place: Path, name: str) -> None:
    """Move all files of a run to the folder ``name``, which is there only when all are in it."""
    files = _files(place)
    if files:
        (place / MOVING).mkdir()
        for each in files:
            each.rename(place / MOVING / each.name)
        (place / MOVING).rename(place / name)


def _move_back(place: Path) -> None:
    for each in (place / MOVING).iterdir():
        each.rename(place / each.name)
    (place / MOVING).rmdir()


def _recover(place: Path) -> None:
    """Put the earlier run's files back if a launcher was killed before its own run was over."""
    if (place / REPLACED).is_dir():
        shutil.rmtree(place / REPLACED)
    if (place / MOVING).is_dir():
        _move_back(place)
    if (place / EARLIER).is_dir():
        if _is_run(place):
            _replace(place)
        else:
            _put_back(place)


def _put_back(place: Path) -> None:
    """Remove the new run's files, and put the earlier run's files back."""
    _move(place, REPLACED)
    shutil.rmtree(place / REPLACED, ignore_errors=True)
    if (place / EARLIER).is_dir():
        (place / EARLIER).rename(place / MOVING)
        _move_back(place)
    else:
        (place / MARK).unlink(missing_ok=True)


def _replace(place: Path) -> None:
    """Remove the earlier run's files."""
    if (place / EARLIER).is_dir():
        (place / EARLIER).rename(place / REPLACED)
        shutil.rmtree(place / REPLACED, ignore_errors=True)
