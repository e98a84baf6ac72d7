"""Measure what RPC, Monarch and Ray do when a peer raises, is slow, stalls or dies, and print it as a table.

    python benchmarks/peer_failures.py [--engines RPC Ray]

Each engine plays in a process of its own: a caller, and one peer for each trouble. An engine that is not installed is
left out. The numbers are in docs/migrating.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from faults.run.leftovers import adopting
from reference.system.processes import is_stopped, wait_until

PEERS = ("raises", "slow", "limited", "paused", "stalls", "dies", "healthy")
# Seconds: a slow call, the limit of a call, a long stall; how long a program may take to end, and to do anything else.
SLOW, LIMIT, STALL = 2.0, 0.5, 45.0
END, HANGS = 30, 200
Call = Callable[..., Any]


class Peer:
    """What is called. It counts the calls that it has executed."""

    def __init__(self) -> None:
        self.executed = 0

    def pid(self) -> int:
        return os.getpid()

    def work(self, seconds: float) -> int:
        time.sleep(seconds)
        self.executed += 1
        return self.executed

    def fail(self) -> None:
        raise KeyError("no such row")

    def die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


# --- The engines: each yields call(peer, limit, method, *arguments), and ends as its manual says ----------------------

HERE = Peer()


def ask(method: str, *arguments: Any) -> Any:
    return getattr(HERE, method)(*arguments)


def join(rank: int, name: str, store: str) -> None:
    from torch.distributed import rpc

    options = rpc.TensorPipeRpcBackendOptions(init_method=store)
    rpc.init_rpc(name, rank=rank, world_size=1 + len(PEERS), rpc_backend_options=options)


def serve(rank: int, name: str, store: str) -> None:
    from torch.distributed import rpc

    join(rank, name, store)
    rpc.shutdown()


@contextmanager
def rpc_peers() -> Iterator[Call]:
    from torch.distributed import rpc

    with tempfile.TemporaryDirectory() as folder:
        store, fork = f"file://{folder}/store", multiprocessing.get_context("fork")
        for rank, name in enumerate(PEERS, start=1):
            fork.Process(target=serve, args=(rank, name, store), daemon=True).start()
        join(0, "caller", store)
        yield lambda peer, limit, *asked: rpc.rpc_sync(peer, ask, args=asked, timeout=limit or -1.0)
        rpc.shutdown()


@contextmanager
def monarch_peers(handled: bool = True) -> Iterator[Call]:
    actor = import_module("monarch.actor")
    if handled:
        actor.unhandled_fault_hook = lambda failure: None  # type: ignore[attr-defined]

    class MonarchPeer(Peer, actor.Actor):  # type: ignore[name-defined, misc]
        @actor.endpoint  # type: ignore[untyped-decorator]
        def ask(self, method: str, *arguments: Any) -> Any:
            return getattr(Peer, method)(self, *arguments)

    processes = actor.this_host().spawn_procs({"peer": len(PEERS)})
    peers = {name: processes.slice(peer=place).spawn(name, MonarchPeer) for place, name in enumerate(PEERS)}
    yield lambda peer, limit, *asked: peers[peer].ask.call_one(*asked).get(timeout=limit)
    processes.stop().get()


@contextmanager
def ray_peers() -> Iterator[Call]:
    ray: Any = import_module("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    peers = {name: ray.remote(Peer).options(num_cpus=0).remote() for name in PEERS}
    yield lambda peer, limit, method, *rest: ray.get(getattr(peers[peer], method).remote(*rest), timeout=limit)
    ray.shutdown()


ENGINES = {
    "RPC": ("torch", rpc_peers),
    "Monarch": ("monarch", monarch_peers),
    "Monarch, no hook": ("monarch", lambda: monarch_peers(handled=False)),
    "Ray": ("ray", ray_peers),
}


# --- The troubles -----------------------------------------------------------------------------------------------------


def play(engine: str) -> None:
    """Meet each trouble, and print a line of JSON for each. SIGALRM ends the program where it hangs."""
    signal.alarm(HANGS)
    with ENGINES[engine][1]() as call:

        def tell(what: str, peer: str, limit: float | None, *asked: Any) -> None:
            signal.alarm(HANGS)
            begun = time.monotonic()
            try:
                found = f"answers {call(peer, limit, *asked)}"
            except Exception as error:
                found = f"`{type(error).__name__}`: {short(str(error))}"
            note(what, f"{time.monotonic() - begun:.1f} s: {found}")

        pids = {peer: call(peer, None, "pid") for peer in PEERS}
        tell("raises `KeyError`", "raises", None, "fail")
        tell("raises: the next call", "raises", None, "work", 0)
        tell(f"takes {SLOW:g} s", "slow", None, "work", SLOW)
        tell(f"takes {SLOW:g} s, limit {LIMIT:g} s", "limited", LIMIT, "work", SLOW)
        tell(f"takes {SLOW:g} s, limit {LIMIT:g} s: the next call", "limited", None, "work", 0)
        stop(pids["paused"])
        tell(f"stopped, limit {LIMIT:g} s", "paused", LIMIT, "work", 0)
        os.kill(pids["paused"], signal.SIGCONT)
        tell(f"stopped, limit {LIMIT:g} s, goes on: the next call", "paused", None, "work", 0)
        stop(pids["stalls"])
        threading.Timer(STALL, os.kill, (pids["stalls"], signal.SIGCONT)).start()
        tell(f"stopped for {STALL:g} s", "stalls", None, "work", 0)
        tell(f"stopped for {STALL:g} s: the next call", "stalls", None, "work", 0)
        tell("is killed in a call", "dies", None, "die")
        tell("is killed in a call: the next call", "dies", None, "work", 0)
        tell("is killed in a call: another peer's call", "healthy", None, "work", 0)
        note(ENDING, str(time.monotonic()))
        signal.alarm(END)


ENDING = "ending"


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    if not wait_until(lambda step: is_stopped(pid), END):
        raise TimeoutError(f"process {pid} was not stopped after {END:g} s")


def short(text: str) -> str:
    """The last line that is not empty, at most 100 characters of it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:100] if lines else ""


def note(what: str, found: str) -> None:
    print(json.dumps([what, found]), flush=True)


# --- The table --------------------------------------------------------------------------------------------------------


def measured(engine: str) -> dict[str, str]:
    """Let an engine play in a process of its own; returns what it found by trouble, its end, and what it left."""
    with adopting() as left, tempfile.TemporaryFile("w+") as output:
        command = [sys.executable, __file__, "--play", engine]
        status = subprocess.call(command, stdout=output, start_new_session=True)
        ended = time.monotonic()
        output.seek(0)
        found = dict(json.loads(line) for line in output if line.startswith('["'))
        if ENDING not in found:
            end = f"nothing for {HANGS} s" if status == -signal.SIGALRM else f"before its last call: status {status}"
        elif status == -signal.SIGALRM:
            end = f"none within {END} s"
        else:
            end = f"{ended - float(found[ENDING]):.1f} s: status {status}"
        found.pop(ENDING, None)
        found["the program's end"] = end
        found["left 2 s later"] = f"{len(left())} processes"
    return found


def table(found: dict[str, dict[str, str]]) -> str:
    rows = list(dict.fromkeys(what for each in found.values() for what in each))
    lines = [f"| | {' | '.join(found)} |", f"|---|{'---|' * len(found)}"]
    lines += [f"| {row} | {' | '.join(each.get(row, '') for each in found.values())} |" for row in rows]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--play", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        play(options.play)
        return
    present = [engine for engine in options.engines if find_spec(ENGINES[engine][0])]
    print(table({engine: measured(engine) for engine in present}))


if __name__ == "__main__":
    main()
