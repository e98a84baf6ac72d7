"""What a graceful shutdown does in all processes together: all come, RRefs are deleted, and no call is open any more.

These are the steps of torch's own graceful shutdown, each within a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch.distributed.rpc as rpc
from torch._C._distributed_rpc import _delete_all_user_and_unforked_owner_rrefs, _get_current_rpc_agent

from reference.outcome import PeerLost
from reference.system.time_limit import TimeLimit
from reference.world import peer_states, shutdown_barrier
from reference.world.last_count import LastCount
from reference.world.peer_states import PeerState

# Seconds after which a wait for the last calls looks for dead processes, for the first time; then after twice as many.
FIRST_LOOK = 0.5
# Seconds in which that wait ends if the process that is gone has only left before this one, as it may.
GRACE = 2.0


def shut_down_together(limit: TimeLimit) -> None:
    """Come to the common shutdown, and wait until no process needs another one any more.

    Raises:
        PeerLost: a process is gone, or does not answer, or does not come to the shutdown, or calls are still open at
            the end of the limit.
    """
    shutdown_barrier.wait_for_all_ranks(limit)
    # It waits twice: until RRefs of this process are confirmed, and until those of others are deleted.
    _delete_all_user_and_unforked_owner_rrefs(timeout=timedelta(seconds=limit.left_to_wait() / 3))
    count = LastCount(_get_current_rpc_agent(), shutdown_barrier.here(), limit)
    try:
        _await(count, limit)
    except BaseException as error:
        count.give_up()
        if isinstance(error, RuntimeError) and not isinstance(error, PeerLost):
            raise PeerLost(_give_up(limit, peer_states.first_line(error))) from error
        raise


def _await(count: LastCount, limit: TimeLimit) -> None:
    pause = FIRST_LOOK
    while not count.ends_within(min(pause, limit.left_to_wait())):
        if limit.over():
            count.give_up()
            raise PeerLost(_give_up(limit, "calls are open"))
        if (lost := _lost(limit)) and not count.ends_within(min(GRACE, limit.left_to_wait())):
            raise PeerLost(lost)
        pause *= 2


def _lost(limit: TimeLimit) -> str | None:
    """Look for a process that is gone: the first rank at all, and tells them; every other one at the first."""
    barrier, own = shutdown_barrier.here(), rpc.get_worker_info().name
    first = own == barrier.names[0]
    asked = barrier.names if first else barrier.names[:1]
    dead = [
        each
        for each in peer_states.ask(shutdown_barrier.state, asked, own, min(1.0, limit.left_to_wait()))
        if each.gone
    ]
    text = "; ".join(str(each) for each in dead)
    if first and text:
        shutdown_barrier.inform(text, limit.left() / 2)
    return barrier.news or text


def _give_up(limit: TimeLimit, otherwise: str) -> str:
    """Say why not all calls ended, and tell the others: a process does not answer, or waits for answers."""
    barrier, own = shutdown_barrier.here(), shutdown_barrier.state()
    states = [own, *peer_states.ask(shutdown_barrier.state, barrier.names, own.name, limit.left() / 2)]
    if barrier.news and any(each.gone for each in states):
        return barrier.news  # others that have given up tell why before they are gone
    silent = "; ".join(str(each) for each in states if each.error)
    why = f"timed out after {limit.seconds:g} s" if limit.over() else "failed"
    why = f"shutdown {why}: {silent or _open_calls(states) or otherwise}"
    shutdown_barrier.inform(barrier.news or f"{own.name}'s {why}", limit.left() / 2)
    return f"the {why}"


def _open_calls(states: Sequence[PeerState]) -> str:
    return "; ".join(
        f"{each.name} waits for the answer{'s' * (each.open_calls > 1)} of {each.open_calls} "
        f"call{'s' * (each.open_calls > 1)}"
        for each in states
        if each.open_calls
    )
