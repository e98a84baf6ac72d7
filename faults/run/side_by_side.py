"""Run the cells of a sweep side by side: in worker processes, each of which runs one cell after the other.

Two runs cannot share a process, because each adopts and ends all that its own process is left with.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

from faults.ledger.run_files import inherit
from faults.run.sweep import Cells, Result, Runner, SweepFailed, in_folder, run_cell
from reference.system import interrupts, temporary_folders
from reference.system.processes import end_with_parent

# The forkserver has imported what the healthy run of a tutorial needed.
_CONTEXT = multiprocessing.get_context("forkserver")
# Seconds that an interrupted worker has to end what it runs, before it is killed.
_PATIENCE = 20.0


def side_by_side(
    run: Runner,
    todo: Sequence[Cells],
    folder: Path,
    *,
    jobs: int,
    due: float | None,
    done: int,
    on_start: Callable[[int], object],
) -> Generator[Result, None, None]:
    """Run each of ``todo`` as `sweep` does, up to ``jobs`` at once, and yield the results as they come.

    ``folder``: this process has reserved it, or nobody has.

    Raises:
        SweepFailed: a worker process has ended.
        Exception: any error of a run.
    """
    with ExitStack() as stack:
        idle: list[_Worker] = []
        for _ in range(min(jobs, len(todo))):
            idle.append(_Worker(run, folder))
            stack.callback(idle[-1].close)
        for worker in idle:
            stack.push(worker.interrupt)  # all of them before the first is waited for
        busy: dict[Any, _Worker] = {}
        for number, cells in enumerate(todo, done):
            while not idle:
                yield from _results(busy, idle)
            if number and due is not None and time.monotonic() >= due:
                break
            on_start(number - done)
            worker = idle.pop()
            worker.begin(cells, in_folder(folder, number))
            busy[worker.connection] = worker
        while busy:
            yield from _results(busy, idle)


def _results(busy: dict[Any, _Worker], idle: list[_Worker]) -> Iterator[Result]:
    """Wait until a worker is done, and yield the results of all that are."""
    for connection in wait(list(busy)):
        worker = busy.pop(connection)
        result = worker.result()
        idle.append(worker)
        yield result


class _Worker:
    """A process that runs cells, and this end of the connection to it."""

    def __init__(self, run: Runner, folder: Path) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        # It has the shared forkserver's socket. If the workers claimed it, it would be free when one of them ends.
        temporary_folders.claim_sockets()
        with interrupts.held():
            self._process = _CONTEXT.Process(target=_serve, args=(run, folder, theirs))
            self._process.start()
        theirs.close()

    def begin(self, cells: Cells, place: Path) -> None:
        with suppress(BrokenPipeError):  # `result` says so
            self.connection.send((cells, place))

    def result(self) -> Result:
        """Return what the process sends. Raises the error that it sends; SweepFailed: it has ended."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError):  # OSError: it ended within what it sent
            self._process.join()
            raise SweepFailed(f"a worker of the sweep ended with status {self._process.exitcode}") from None
        if isinstance(found, Exception):
            raise found
        result: Result = found
        return result

    def interrupt(self, error: object, *more: object) -> None:
        """Interrupt what the process runs, if an error ends the sweep."""
        if error is not None and not self.connection.poll():  # it has not ended, so the id is its own
            with suppress(ProcessLookupError):  # unless it ends now
                os.kill(self._process.pid or 0, signal.SIGINT)

    def close(self) -> None:
        """Wait until the process, which has nothing more to do, has ended. Its own end of the connection says so, even
        if the shared forkserver, which would tell its status, has ended before."""
        with suppress(EOFError, OSError):
            self.connection.send(None)
            while self.connection.poll(_PATIENCE):
                self.connection.recv()
            self._process.kill()
        self._process.join()
        self.connection.close()


def _serve(run: Runner, folder: Path, connection: Connection) -> None:
    """Run cells until there are no more, or the other end is closed (in the worker)."""
    with suppress(EOFError, ConnectionError, KeyboardInterrupt):
        _fork_server()
        end_with_parent(signal.SIGTERM)  # which interrupts the run: without the sweep nobody wants it
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the forkserver ignores it
        interrupts.listen()
        inherit(folder)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts.SIGNALS)
        while asked := connection.recv():
            cells, place = asked
            try:
                found: Result | Exception = run_cell(run, cells, place)
            except Exception as error:
                found = _sendable(error)
            connection.send(found)


def _fork_server() -> None:
    """Fork this worker's own forkserver from it, which need not import what the worker has from the shared one."""
    server: Any = forkserver._forkserver
    shared = server._forkserver_alive_fd
    with mock.patch.object(util, "spawnv_passfds", _forked):
        forkserver.ensure_running()
    os.close(shared)  # the shared one ends when nobody has it open, so with the sweep


def _forked(path: bytes, args: Sequence[str], passed: Sequence[int]) -> int:
    """Run ``python -c CODE`` in a fork of this process, which keeps the passed files open, and no others."""
    if pid := os.fork():
        return pid
    try:
        for number in (int(each.name) for each in Path("/proc/self/fd").iterdir()):
            if number > 2 and number not in passed:
                with suppress(OSError):  # that of the list itself
                    os.close(number)
        run: Callable[..., None] = exec
        run(args[args.index("-c") + 1], {})
    finally:
        os._exit(1)


def _sendable(error: Exception) -> Exception:
    """Return the error, or one with its text if its class does not let it be read back from a pipe."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return SweepFailed(str(error))
    return error
