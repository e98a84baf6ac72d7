"""Play one role as one rank of torchrun, without a launcher and a world of this package."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import register_rendezvous_handler, rendezvous

from reference.outcome import WorldError
from reference.system.text import shown
from reference.world.bounded_shutdown import losses_named, shutdown
from reference.world.role import prepare_process
from reference.world.rpc_agent import chosen_options, listen_on_loopback, listen_towards, start_agent
from reference.world.start import check
from reference.world.world import Function

# Where the ranks of one start meet; torch's own `env` is where those of all starts do.
_SCHEME = "reference-torchrun"
# Between two looks whether the other ranks have come (seconds).
_LOOK_SECONDS = 0.01


def run_rank(
    roles: Mapping[str, Function],
    *,
    deadline: float = 3600,
    before: Callable[[str], object] | None = None,
    options: Mapping[str, Any] | None = None,
    threads: int = 1,
) -> tuple[str, object]:
    """Play in this process, which ``torchrun`` has started, the role of its rank: (role, the value that it returned).

    Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Roles have ranks in their order. If LOCAL_WORLD_SIZE says that
    all ranks are on one machine, RPC and gloo listen on loopback only. Otherwise they listen only on the interface
    towards MASTER_ADDR, unless TP_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name another one. torchrun chooses itself where
    its own store listens. When a rank dies, torchrun ends the other ranks of its machine; ranks on other machines
    notice it themselves.

    Raises:
        WorldError: torchrun has not started this process, or the number of processes is not that of the roles.
        PeerLost: another rank ended before its role's function had returned; or not all ranks finished within
            ``deadline`` seconds after this one. RPC is still up then, and may keep Python from ending: a program that
            torchrun is to start again leaves by `os._exit`.
        TimeoutError: not all ranks came within the time that torchrun's store waits for a key.
    """
    rank, size = _rank_and_size()
    names = list(roles)
    check(names, deadline, threads, options)
    if size != len(names):
        raise WorldError(f"torchrun started {size} processes, wanted {len(names)}: {', '.join(names)}")
    name = names[rank]
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        listen_on_loopback()
    else:
        listen_towards(os.environ["MASTER_ADDR"])
    prepare_process(name, threads)
    if before is not None:
        before(name)
    start_agent(name, rank, size, f"{_SCHEME}://", chosen_options(roles, name, options))
    with losses_named():
        value = roles[name]()
    shutdown(timeout=deadline)
    return name, value


def _meeting(url: str, **how: Any) -> Iterator[tuple[Store, int, int]]:
    """Give each start of all ranks names of its own in torchrun's store, which outlives them.

    Otherwise ranks that torchrun has started again may find there the addresses of those that are gone, and wait for
    them forever.
    """
    for store, rank, size in rendezvous(url.replace(_SCHEME, "env", 1), **how):
        yield PrefixStore(f"start {_agreed_start(store, rank, size)}", store), rank, size


register_rendezvous_handler(_SCHEME, _meeting)


def _agreed_start(store: Store, rank: int, size: int) -> str:
    """Agree on a name for this start with those ranks that are here now; return it.

    Each torchrun counts the starts of its own machine, so their numbers may differ. Here each other rank writes a word
    that it has drawn, the first one repeats all words beside its own, which is the name, and each other one confirms
    the name once it finds its word there. What the ranks of an earlier start have written has other words.

    Raises:
        TimeoutError: not all ranks came within the time that the store waits for a key.
    """
    word, others = secrets.token_hex(8), range(1, size)
    if rank:
        store.set(f"word {rank}", word)
    limit: float = store.timeout.total_seconds()  # type: ignore[attr-defined]
    due = time.monotonic() + limit
    while time.monotonic() < due:
        if rank:
            name, *words = _value(store, "words").split(" ")
            if word in words:
                store.set(f"confirmed {name} {rank}", "")
                return name
        else:
            store.set("words", " ".join([word, *(_value(store, f"word {each}") for each in others)]))
            if not others or store.check([f"confirmed {word} {each}" for each in others]):
                return word
        time.sleep(_LOOK_SECONDS)
    missing = [each for each in others if not store.check([f"confirmed {word} {each}"])] if rank == 0 else [0]
    raise TimeoutError(f"waited {limit:g} s for rank {', '.join(map(str, missing))}")


def _value(store: Store, key: str) -> str:
    return store.get(key).decode() if store.check([key]) else ""


def _rank_and_size() -> tuple[int, int]:
    """Read this process's rank and the number of ranks. Raises WorldError: torchrun has not set usable ones."""
    for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if number_in(variable) is None:
            given = shown(os.environ.get(variable))
            raise WorldError(f"not started by torchrun: {variable} is {given}, wanted a number")
    if "MASTER_ADDR" not in os.environ:
        raise WorldError("not started by torchrun: MASTER_ADDR is not set")
    rank, size, port = (int(os.environ[variable]) for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    if rank >= size or not 0 < port < 65536:
        raise WorldError(f"not started by torchrun: rank {rank} of {size}, port {port}")
    return rank, size


def number_in(variable: str) -> int | None:
    """The whole number of at most nine digits in an environment variable; None if it has none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
