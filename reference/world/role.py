"""One role, inside its own process: start RPC, play, report, shut down."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing.forkserver
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch
import torch.distributed.rpc as rpc

from reference.outcome import Exited, Outcome, Raised, Returned, WorldError, chain_of
from reference.system import files, network_namespace
from reference.trace.progress import StepHandler
from reference.training.rng import seed_for
from reference.world.link import Link, Phase, die_with_parent, first_frame, loads, parts, raised
from reference.world.rpc_agent import Meeting, listen_on_loopback, start_agent

_begun: list[bool] = []


def watch_startup() -> None:
    """Report errors of the processes that this forkserver forks: it calls `sys.excepthook` if an error ends one."""
    sys.excepthook = partial(_report, sys.excepthook)


def _report(
    hook: Callable[..., object], kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    inherited = multiprocessing.forkserver.get_inherited_fds()
    # The one descriptor that a role is sent is its end of the pipe to the launcher.
    if inherited and len(inherited) == 1 and not _begun:
        with suppress(Exception):
            pipe = Connection(inherited[0])
            pipe.send_bytes(first_frame("ended", raised(error)))
    hook(kind, error, trace)


# The launcher sends this signal to an overdue role: write every thread's stack, then end.
STACKS_SIGNAL = signal.SIGUSR2


@dataclass(frozen=True)
class RoleConfig:
    """What the launcher tells one role's process at its start. Callables are pickles, which the role unpickles.

    ``maps``: whether any role of the world has device maps. ``network``: the paths for `network_namespace.enter`; none
    for a role that stays in its launcher's network.
    """

    name: str
    rank: int
    world_size: int
    folder: Path
    launcher: int
    function: bytes | None
    before: tuple[bytes, ...]
    options: Mapping[str, Any]
    maps: bool
    threads: int
    progress: bool
    network: tuple[str, ...]


def main(config: RoleConfig, pipe: Connection) -> None:
    """Run one role: the target of its process, which ends with a status that tells whether the role returned."""
    _begun.append(True)  # from now on the role reports its own end
    os.setsid()  # so Ctrl-C reaches only the launcher, and the role can be ended with all processes that it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the forkserver ignores it
    refused = _isolate(config)  # while this process has only one thread
    die_with_parent()
    files.occupy_streams()  # otherwise the log would replace what has their numbers
    link = Link(pipe, config.launcher)
    link.send("here")
    outcome = refused or _prepare(config, link) or _play(config, link)
    link.end(outcome)
    for stream in ("stdout", "stderr"):
        try:
            getattr(sys, stream).flush()
        except (AttributeError, ValueError):  # the role has closed or replaced it
            pass
        except OSError:  # the disk is full: Python's own end must not flush it again, and fail
            setattr(sys, stream, None)
    if not isinstance(outcome, Returned):
        # No shutdown, not even an ungraceful one, because it waits for handlers that may wait forever.
        os._exit(outcome.code if isinstance(outcome, Exited) else 1)


def _prepare(config: RoleConfig, link: Link) -> Raised | None:
    try:
        link.listen()
        _open_log(config)
        listen_on_loopback()
        prepare_process(config.name, config.threads)
        if config.progress:
            logging.getLogger("reference").addHandler(StepHandler(partial(link.send, "progress")))
    except (OSError, RuntimeError) as error:  # no space for a log, or no thread can be started
        return raised(error)
    return None


def _isolate(config: RoleConfig) -> Raised | None:
    try:
        network_namespace.enter(config.network)
    except OSError as error:
        why = error.strerror or error
        text = f"{config.name} cannot enter its world's network ({why}): wanted isolated=False, or a script that starts"
        return raised(WorldError(f"{text} no thread when it is imported"))
    return None


def _play(config: RoleConfig, link: Link) -> Outcome:
    try:
        with _peers_blamed(link):  # before `before`, which may enter another network
            meeting = Meeting(config.folder / files.RENDEZVOUS, config.rank, config.world_size)
        for each in config.before:
            _found("before", each)(config.name)
        link.enter(Phase.JOINING)
        with _peers_blamed(link):
            place = (config.name, config.rank, config.world_size, meeting.init_method())
            start_agent(*place, config.options, None if config.maps else meeting)
        link.enter(Phase.RUNNING)
        value = None
        if config.function is None:
            _serve(link)
        else:
            value = _found("its function", config.function)()
        link.send("value", attached=_parts_of(Returned(value)))
        link.enter(Phase.FINISHED)
        with _peers_blamed(link):
            rpc.shutdown()  # without a timeout: the launcher ends it when a peer is lost, and at the deadline
            meeting.leave()
        return Returned()
    except SystemExit as leaving:
        return Exited(_exit_code(leaving))
    except BaseException as error:
        outcome = raised(error)
        with suppress(Exception):
            sys.excepthook(type(error), error, error.__traceback__)  # as if nobody had caught it
        return outcome


def _found(what: str, sent: bytes) -> Any:
    """Unpickle what the launcher has sent by its name. Raises WorldError: this process cannot find it."""
    try:
        return loads(sent)
    except (AttributeError, ImportError) as error:
        wanted = "wanted at the top of a module, or of the script outside `if __name__ == '__main__':`"
        raise WorldError(f"{what} cannot be found in a role's process ({error}); {wanted}") from error


def _parts_of(outcome: Outcome) -> list[bytes | memoryview]:
    """Pickle what a function returned. Raises WorldError: it cannot be sent to the launcher."""
    try:
        return parts(outcome)
    except Exception as error:
        why = raised(error).message
        raise WorldError(f"the result cannot be sent to another process ({why}); wanted data") from error


@contextmanager
def _peers_blamed(link: Link) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        link.await_peer_death(error)
        raise


def _exit_code(leaving: SystemExit) -> int:
    """The exit status that Python itself would use."""
    if leaving.code is None or isinstance(leaving.code, int):
        return int(leaving.code or 0) & 0xFF
    print(leaving.code, file=sys.stderr)  # noqa: T201 (what sys.exit("text") promises)
    return 1


def _serve(link: Link) -> None:
    """Do the work that `World.call` sends, one call at a time, until the launcher says stop."""
    while True:
        kind, *content = link.calls.get()
        if kind == "stop":
            return
        number, work = content
        outcome = _work(work)
        try:
            answer = _parts_of(outcome)
        except WorldError as error:
            answer = parts(raised(error))
        link.send("answer", number, attached=answer)


def _work(work: bytes) -> Outcome:
    try:
        function, args = _found("the call's function or an argument", work)
        return Returned(function(*args))
    except Exception as error:
        outcome = raised(error)
        _let_go(error)
        return outcome


def _let_go(error: BaseException) -> None:
    """Forget the frames of work that failed.

    A future of torch keeps its exception, the exception keeps its frames, and often a frame keeps the future. The
    garbage collector does not see this cycle. It would keep everything that the work held, such as RRefs, and so
    objects on other roles.
    """
    for each in chain_of(error):
        each.__traceback__ = None


def _open_log(config: RoleConfig) -> None:
    """Send everything that this process writes to its log, including C++ warnings and crash reports."""
    log = os.open(files.log_of(config.folder, config.name), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable(file=2)
    signal.signal(STACKS_SIGNAL, signal.SIG_DFL)
    # After the last stack comes the signal's default action, which ends the process. None of this needs the GIL.
    stacks_path = files.stacks_of(config.folder, config.name)
    stacks = os.open(stacks_path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)  # no earlier life's
    faulthandler.register(STACKS_SIGNAL, file=stacks, all_threads=True, chain=True)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
        force=True,
    )


def prepare_process(name: str, threads: int) -> None:
    """Seed the random states by the role's name, set the number of threads per operator, and allow as many open files
    as the system does: with 1,024, the usual limit, a process talks to some 110 others."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    seed = seed_for(0, name)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would prepare CUDA, too: 5 ms per role
    torch.set_num_threads(threads)
    # Distributed autograd computes all gradients except the first to arrive in these threads. With several threads all
    # micro-batches of a pipeline end together, and the stage before cannot begin (docs/benchmarks.md).
    with suppress(RuntimeError):  # the caller of `run_rank` has set the number already
        torch.set_num_interop_threads(threads)
