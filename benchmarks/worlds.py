"""Measure how long a world takes: its start, one call from the first role to the last, and a graceful shutdown.

    python benchmarks/worlds.py --transports --isolated --json worlds.json

Five questions: `launch` against ``torch.multiprocessing.spawn`` with the same four roles; worlds of growing size;
`launch`'s transports against torch's default ones; isolated worlds against others;
and by ``--ends`` how long a world takes to end after a death, and after its last return.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import measure
import torch.distributed.rpc as rpc
from measure import BenchmarkError
from torch.multiprocessing.spawn import ProcessContext, spawn

from reference.world import launch

HERE = Path(__file__).resolve().parent

COMPARED = 4  # the number of roles in the compared worlds
ANSWER = 42

# Options that override `rpc_agent.LOCAL_OPTIONS`: None is torch's own default.
TORCH_OPTIONS: Mapping[str, Any] = {"_transports": None, "_channels": None}


def answer() -> int:
    """Runs on the last role."""
    return ANSWER


def ask(last: str) -> int:
    """Runs on the first role."""
    return int(rpc.rpc_sync(last, answer, timeout=30))


def wait_for_shutdown() -> None:
    """Runs on the other roles."""


def names(size: int) -> list[str]:
    return [f"w{rank}" for rank in range(size)]


def launched(size: int, deadline: float, options: Mapping[str, Any] | None = None, *, isolated: bool = False) -> float:
    """Seconds of one world by `launch`, until no process is left."""
    first, *others = names(size)
    roles: dict[str, Callable[[], object]] = {first: partial(ask, others[-1])}
    started = time.monotonic()
    roles |= dict.fromkeys(others, wait_for_shutdown)
    with launch(roles, deadline=deadline, options=options, isolated=isolated) as world:
        if isolated and not world.isolated:
            raise BenchmarkError("the kernel does not allow isolated worlds here")
        values = measure.returned(world)
    took = time.monotonic() - started
    if values[first] != ANSWER:
        raise BenchmarkError(f"the call gave {values[first]!r}, wanted {ANSWER}")
    return took


def spawned_role(rank: int, size: int, rendezvous: str) -> None:
    """The same role as its own program would write it, with torch's defaults."""
    warnings.filterwarnings("ignore", message=r"(?s).*ProcessGroupGloo", category=UserWarning)
    options = rpc.TensorPipeRpcBackendOptions(init_method=rendezvous)
    rpc.init_rpc(names(size)[rank], rank=rank, world_size=size, rpc_backend_options=options)
    if rank == 0 and ask(names(size)[-1]) != ANSWER:
        raise BenchmarkError(f"the call gave something else than {ANSWER}")
    rpc.shutdown()


def spawned(size: int, deadline: float) -> float:
    """Seconds of one world by ``torch.multiprocessing.spawn``, until no process is left."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="spawn-") as folder:
        args = (size, f"file://{folder}/rendezvous")
        context = spawn(spawned_role, args=args, nprocs=size, join=False)
        try:
            join(context, started + deadline)
        finally:
            for process in context.processes:
                process.kill()
                process.join()
        return time.monotonic() - started


def join(context: ProcessContext, due: float) -> None:
    """Wait for all processes of a spawn until ``due`` (monotonic seconds)."""
    while not context.join(timeout=max(0.0, due - time.monotonic())):
        if time.monotonic() >= due:
            raise BenchmarkError("the spawned world missed its deadline")


def compare(repeats: int, deadline: float) -> dict[str, Any]:
    """Compare `launch` with spawn; the first world of each, which fills the caches, is not counted."""
    ways: measure.Ways = {
        "launch": partial(launched, COMPARED, deadline),
        "spawn": partial(spawned, COMPARED, deadline),
    }
    first = measure.interleaved(ways, 1, unit="s", title="first world by ")
    samples = measure.interleaved(ways, repeats, unit="s", title=f"{COMPARED} roles by ")
    return {
        "roles": COMPARED,
        "first": {name: each[0] for name, each in first.items()},
        "seconds": {name: measure.spread(each) for name, each in samples.items()},
        "spawn/launch": measure.ratios(samples["spawn"], samples["launch"]),
    }


def memory(size: int, deadline: float) -> float:
    """MiB of each role that waits: its own, and its part of what it shares with other processes."""
    with launch(names(size), deadline=deadline) as world:
        world.call(names(size)[0], wait_for_shutdown)  # all have started RPC when one has
        shares = [Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() for pid in world.pids.values()]
    return sum(float(line.split()[1]) for lines in shares for line in lines if line.startswith("Pss:")) / 1024 / size


def turned_away() -> int:
    """The connections that this machine's listeners had no room for."""
    head, counts = (line.split() for line in Path("/proc/net/netstat").read_text().splitlines()[:2])
    return int(counts[head.index("ListenOverflows")])


def grow(sizes: Sequence[int], repeats: int, deadline: float) -> dict[str, Any]:
    """Seconds of a world by its number of roles, the connections that were turned away, and each role's memory."""
    ways = {str(size): partial(launched, size, deadline) for size in sizes}
    before = turned_away()
    samples = measure.interleaved(ways, repeats, unit="s", title="roles: ")
    print(f"{turned_away() - before} connections were turned away", file=sys.stderr)
    return {size: {**measure.spread(each), "MiB": memory(int(size), deadline)} for size, each in samples.items()}


def transports(repeats: int, deadline: float) -> dict[str, Any]:
    """Compare `launch`'s transports with torch's own, everything else equal."""
    ways: measure.Ways = {
        "ours": partial(launched, COMPARED, deadline),
        "torch's": partial(launched, COMPARED, deadline, TORCH_OPTIONS),
    }
    ways["torch's"]()  # not counted, because a world of ours has started before, too
    samples = measure.interleaved(ways, repeats, unit="s", title="transports: ")
    return {
        "roles": COMPARED,
        "seconds": {name: measure.spread(each) for name, each in samples.items()},
        "torch's/ours": measure.ratios(samples["torch's"], samples["ours"]),
    }


def first_launched(size: int, deadline: float, *, isolated: bool) -> float:
    """Seconds of the first world of a process, with the start of its forkserver."""
    program = f"import worlds; print(worlds.launched({size}, {deadline}, isolated={isolated}))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent)])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=deadline, check=False
    )
    if done.returncode != 0:
        raise BenchmarkError(f"the first world failed: {done.stderr[-2000:]}")
    return float(done.stdout)


def isolation(repeats: int, deadline: float) -> dict[str, Any]:
    """Compare isolated worlds with others, everything else equal: the first of a process, and later ones."""
    found: dict[str, Any] = {"roles": COMPARED}
    for which, measured in (("first", first_launched), ("later", launched)):
        ways: measure.Ways = {
            name: partial(measured, COMPARED, deadline, isolated=name == "isolated") for name in ("isolated", "open")
        }
        ways["isolated"]()  # not counted: the first fills caches
        samples = measure.interleaved(ways, repeats, unit="s", title=f"{which} world, ")
        found[which] = {name: measure.spread(each) for name, each in samples.items()}
        pairs = zip(samples["isolated"], samples["open"], strict=True)
        found[which]["difference"] = measure.spread([isolated - other for isolated, other in pairs])
    return found


def hang() -> None:
    """Runs on the role that is killed."""
    threading.Event().wait()


def returned_at() -> float:
    """Runs on the roles that end in order. Returns when (`time.monotonic`, which all processes share)."""
    return time.monotonic()


def death(deadline: float) -> float:
    """Seconds from SIGKILL of one role until the others, which wait in their shutdown, have their outcomes."""
    first, *others = names(COMPARED)
    playing: dict[str, Callable[[], object]] = {first: hang, **dict.fromkeys(others, wait_for_shutdown)}
    with launch(playing, deadline=deadline) as world:
        time.sleep(0.4)  # nothing tells that the others wait
        killed = time.monotonic()
        os.kill(world.pids[first], signal.SIGKILL)
        outcomes = world.wait()
        if any("PeerLost" not in str(outcomes[name]) for name in others):
            raise BenchmarkError(f"wanted three survivors that tell of the death, got {outcomes}")
        return max(world.ended.values()) - killed


def end(deadline: float) -> float:
    """Seconds from the last role's return until no process is left."""
    with launch(dict.fromkeys(names(COMPARED), returned_at), deadline=deadline) as world:
        values: Mapping[str, Any] = measure.returned(world)
    return time.monotonic() - max(float(each) for each in values.values())


def ends(repeats: int, deadline: float) -> dict[str, Any]:
    """How fast a world ends, after a death and in order."""
    ways: measure.Ways = {"a death": partial(death, deadline), "the last return": partial(end, deadline)}
    samples = measure.interleaved(ways, repeats, unit="s", title="from ")
    late = {name: statistics.quantiles(each, n=100)[98] for name, each in samples.items()}
    return {name: {**measure.spread(each), "99 %": late[name]} for name, each in samples.items()}


def show_comparison(result: Mapping[str, Any]) -> None:
    rows = [[f"{way}, seconds", *measure.cells(result["seconds"][way], 3)] for way in ("launch", "spawn")]
    rows.append(["spawn / launch, pairwise", *measure.cells(result["spawn/launch"], 1)])
    print(measure.table([f"a world of {result['roles']}", "median", "min", "max"], rows))
    print(f"first world, not counted: launch {result['first']['launch']:.2f} s (its process server starts), ", end="")
    print(f"spawn {result['first']['spawn']:.2f} s\n")


def show_sizes(result: Mapping[str, Any]) -> None:
    rows = [[size, *measure.cells(figures, 3), f"{figures['MiB']:.0f}"] for size, figures in result.items()]
    print(measure.table(["roles, by launch", "median s", "min", "max", "MiB of a role"], rows), end="\n\n")


def show_transports(result: Mapping[str, Any]) -> None:
    rows = [[f"{way}, seconds", *measure.cells(result["seconds"][way], 3)] for way in ("ours", "torch's")]
    rows.append(["torch's / ours, pairwise", *measure.cells(result["torch's/ours"], 2)])
    print(measure.table([f"transports, {result['roles']} roles", "median", "min", "max"], rows))


def show_ends(result: Mapping[str, Any]) -> None:
    rows = [[f"from {what}", *measure.cells(each, 4), f"{each['99 %']:.4f}"] for what, each in result.items()]
    print(measure.table([f"seconds to the end of {COMPARED} roles", "median", "min", "max", "99 %"], rows))


def show_isolation(result: Mapping[str, Any]) -> None:
    rows = [
        [f"{which}, {name}", *measure.cells(figures, 3)]
        for which in ("first", "later")
        for name, figures in result[which].items()
    ]
    print(measure.table([f"a process's world of {result['roles']}, seconds", "median", "min", "max"], rows))


def arguments() -> argparse.Namespace:
    several = partial(measure.count, least=2)  # a call needs two roles
    parser = measure.parser("Seconds to start a world, make one call and shut it down; 1 to 2 minutes on 2 cores.")
    parser.add_argument("--repeats", type=measure.count, default=5, help="counted worlds of each kind")
    parser.add_argument(
        "--sizes",
        type=several,
        nargs="*",
        default=[2, 3, 4, 8, 16, 32, 64],
        help="numbers of roles to start by launch; none for the comparison alone",
    )
    parser.add_argument("--transports", action="store_true", help="compare with torch's default transports, too")
    parser.add_argument("--isolated", action="store_true", help="compare isolated worlds with others, too")
    parser.add_argument("--ends", type=several, metavar="N", help="how fast N worlds end, after a death and in order")
    parser.add_argument("--deadline", type=measure.seconds, default=60.0, help="seconds after which a world has failed")
    return parser.parse_args()


def main() -> None:
    wanted = arguments()
    facts = measure.machine()
    results: dict[str, Any] = {"spawn": compare(wanted.repeats, wanted.deadline)}
    results["sizes"] = grow(wanted.sizes, wanted.repeats, wanted.deadline)
    if wanted.transports:
        results["transports"] = transports(wanted.repeats, wanted.deadline)
    if wanted.isolated:
        results["isolation"] = isolation(wanted.repeats, wanted.deadline)
    if wanted.ends:
        results["ends"] = ends(wanted.ends, wanted.deadline)
    print(measure.heading(facts))
    show_comparison(results["spawn"])
    if results["sizes"]:
        show_sizes(results["sizes"])
    if "transports" in results:
        show_transports(results["transports"])
    if wanted.isolated:
        show_isolation(results["isolation"])
    if wanted.ends:
        show_ends(results["ends"])
    measure.write(wanted.json, "worlds", facts, repeats=wanted.repeats, results=results)


if __name__ == "__main__":
    measure.run(main)
