"""Processes like that of ``python -m pytest``, at the price of a fork: a script that has imported what takes long.

It imports nothing of this project, only the modules that its arguments name: what it forks reads the project from the
copy in which it runs. Arguments that end with .py are run, for what they import: torchvision beside any build of torch.
The first argument is a list of sockets. For each, a forked process serves jobs, one at a time: it reads a JSON line
with ``place``, ``arguments`` for pytest, ``environment``, ``log``, and answers with the id of the process that does the
job, and then with its exit status, negative for a signal.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import sys
import tempfile
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from tests.preforked import spare_forkserver
else:
    import spare_forkserver

_kept: list[object] = []


def main() -> None:
    gc.disable()  # collections would find nothing in what is imported
    _kept.extend(_preloaded(name) for name in sys.argv[2:])
    gc.collect()
    gc.freeze()  # what is imported stays: collections in the forked processes need not look at it again
    gc.enable()
    sockets = [int(number) for number in sys.argv[1].split(",")]
    servers = [_forked_server(each, sockets) for each in sockets]
    for each in sockets:
        os.close(each)  # so that the other end notices a server's end
    for pid in servers:
        os.waitpid(pid, 0)


def _forked_server(connection: int, sockets: list[int]) -> int:
    """Fork a process that serves the jobs of one socket, until its other end is closed."""
    pid = os.fork()
    if pid == 0:
        os.dup2(connection, 0)
        os.dup2(connection, 1)
        for each in sockets:
            os.close(each)
        _serve()
        os._exit(0)
    return pid


def _serve() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become_pytest(**job)
        _say(pid)
        _say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _preloaded(name: str) -> object:
    """Import a module or run a file. Keep the result, because a library of torch's schemas ends with its object."""
    with suppress(ImportError):  # then the tests say so
        return runpy.run_path(name) if name.endswith(".py") else importlib.import_module(name)
    return None


def _say(number: int) -> None:
    os.write(1, f"{number}\n".encode())


def _become_pytest(place: str, arguments: list[str], environment: dict[str, str], log: str) -> NoReturn:
    """Run pytest in the new process, which leads a session of its own."""
    os.setsid()
    os.chdir(place)
    nothing, told = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for source, target in ((nothing, 0), (told, 1), (told, 2)):
        os.dup2(source, target)
    spare_forkserver.offer()
    os.environ.clear()
    os.environ.update(environment, PYTHONPATH=place)
    _take_all_cores()
    # Beside the copy, with which it goes: what is left to the end of Python stays.
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.dirname(place)  # noqa: PTH120 (as text)
    sys.path[0] = place  # as for -m
    sys.argv = ["pytest", *arguments]
    status = 1
    try:
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # End at once: taking apart what is imported takes longer than most tests do, and the report is written.
        os._exit(status)


def _take_all_cores() -> None:
    """Give torch its default number of threads: the spare has loaded it with one thread per operator."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


if __name__ == "__main__":
    main()
