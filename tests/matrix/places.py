"""The faults of the matrix: the call and the roles of a tutorial, and the fault of a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The place in a tutorial for each fault, chosen by hand: the call that carries its gradients, parameters or
    actions, once training runs, and the two roles that it joins.

    ``nth``: which call of ``site`` by ``caller``; ``other``: another caller of it; ``step``: the role that announces
    steps; ``message``: a type that ``sender``, by default the caller, sends for calls that its ledger records;
    ``late``: the sender of late messages, if it is another role, because calls with gradients pass the faulty agent;
    ``kbit``: the rate of a slow ``callee``, so small that packets have to wait; ``tensors``: how a `Corrupt` changes a
    tensor of which message, by the fields that differ from those of the call; empty if no call of the tutorial carries
    a tensor; ``fetch`` and ``gradient``: which fetch of an RRef, and which gradient of distributed autograd; empty if
    there is none.
    """

    site: str
    nth: int
    caller: str
    callee: str
    message: str = "PYTHON_CALL"
    sender: str = ""
    late: str = ""
    other: str = ""
    step: str = ""
    kbit: int = 200
    tensors: str = ""
    fetch: str = ""
    gradient: str = ""


REMOTE = "PYTHON_REMOTE_CALL"

PLACES: Mapping[str, Place] = {
    "rpc_basics": Place(
        "reference.rpc_basics:scaled_sum",
        4,
        "caller",
        "dest_worker",
        tensors="side=request change=bit",
        fetch="role=caller nth=1",
    ),
    "rref_dataflow": Place(
        "reference.rref_dataflow:add",
        2,
        "worker0",
        "worker3",
        message=REMOTE,
        kbit=50000,
        tensors="side=reply change=zeros",
        fetch="role=worker3 nth=2",
    ),
    "dist_autograd": Place(
        "reference.dist_autograd:gradient",
        5,
        "worker0",
        "worker1",
        message=REMOTE,
        step="worker0",
        tensors="side=reply change=zeros",
        fetch="role=worker0 nth=5",
        gradient="role=worker0 nth=5",
    ),
    "parameter_server": Place(
        "reference.parameter_server:ParameterServer.apply_gradients",
        nth=2,
        caller="worker1",
        callee="ps",
        other="worker2",
        step="ps",
        tensors="side=request change=nan",
        fetch="role=worker1 nth=2",
    ),
    "batch_parameter_server": Place(
        "reference.batch_parameter_server:BatchUpdateParameterServer.update_and_fetch_model",
        nth=2,
        caller="trainer1",
        callee="ps",
        sender="ps",
        other="trainer2",
        step="trainer1",
        tensors="nth=1 side=reply change=nan",
    ),
    "sharded_parameter_server": Place(
        "reference.sharded_parameter_server:ParameterServerShard.push_and_fetch",
        nth=3,
        caller="trainer1",
        callee="ps1",
        sender="ps1",
        other="trainer2",
        step="trainer1",
        tensors="side=request change=nan",
    ),
    "reinforce": Place(
        "reference.reinforce:Agent.select_action", 20, "observer1", "agent", sender="agent", step="agent"
    ),
    "batch_reinforce": Place(
        "reference.batch_reinforce:Agent.select_action_batch",
        nth=20,
        caller="observer1",
        callee="agent",
        sender="agent",
        step="agent",
        tensors="site=reference.batch_reinforce:Observer.run_episode role=agent nth=1 side=reply change=nan",
    ),
    "rnn": Place(
        "reference.rnn:EmbeddingTable.forward",
        2,
        "trainer",
        "ps",
        message=REMOTE,
        step="trainer",
        tensors="side=reply change=nan",
        gradient="role=trainer nth=2",
    ),
    "pipeline": Place(
        "reference.pipeline:SequentialShard.forward",
        nth=5,
        caller="master",
        callee="worker1",
        late="worker1",
        step="master",
        tensors="side=reply change=nan",
        fetch="role=worker1 nth=2",
        gradient="role=master nth=2",
    ),
    "hybrid_ddp": Place(
        "reference.hybrid_ddp:EmbeddingServer.update",
        nth=2,
        caller="trainer1",
        callee="ps",
        sender="ps",
        other="trainer2",
        step="trainer1",
        tensors="site=reference.hybrid_ddp:EmbeddingServer.lookup side=reply change=nan",
        gradient="role=trainer1 nth=2",
    ),
}

_CALL = "site={site} role={caller} nth={nth}"
_AT_CALL = "at=call:{site}#{nth}@{caller}"
_LINK = "role={caller} peer={callee} " + _AT_CALL

# Column: the plan of its cells, by the place of the fault.
KINDS: Mapping[str, Mapping[str, str]] = {
    "call": {
        "Delay request": f"Delay {_CALL} side=request seconds=0.2",
        "Delay reply": f"Delay {_CALL} side=reply seconds=0.2",
        "Hold": f"Hold {_CALL} side=request seconds=0.2",
        "Raise request": f"Raise {_CALL} side=request",
        "Raise reply": f"Raise {_CALL} side=reply",
        "Raise flight": f"Raise {_CALL} side=flight",
        "Drop request": f"Drop {_CALL} side=request",
        "Drop reply": f"Drop {_CALL} side=reply",
        "Duplicate": f"Duplicate {_CALL}",
        "Crash before": f"Crash {_CALL} when=before",
        "Crash after": f"Crash {_CALL} when=after",
        "Corrupt": "Corrupt {corrupt}",
        "Order": "Order site={site} roles={other},{caller} nth={nth} seconds=1",
    },
    "engine": {
        "Drop to_here": "Drop site=torch:to_here {fetch} side=reply",
        "Corrupt to_here": "Corrupt site=torch:to_here {fetch} side=reply change=nan",
        "Delay backward": "Delay site=torch:backward {gradient} side=request seconds=0.2",
        "Corrupt backward": "Corrupt site=torch:backward {gradient} side=request change=nan",
    },
    "message": {
        "Delay message": "Delay message={message} role={late} seconds=0.05",
        "Drop message": "Drop message={message} role={sender} times=1",
    },
    "process": {
        "Crash at call": f"Crash role={{caller}} {_AT_CALL}",
        "Crash at step": "Crash role={callee} at=step:1@{step}",
        "Pause at call": f"Pause role={{callee}} {_AT_CALL} seconds=0.2",
        "Pause at step": "Pause role={caller} at=step:1@{step} seconds=0.2",
    },
    "network": {
        "Partition out": f"Partition {_LINK} direction=out",
        "Partition in": f"Partition {_LINK} direction=in",
        "Partition healed": f"Partition {_LINK} direction=both seconds=0.2",
        "Reset": f"Reset {_LINK}",
        "Lossy": f"Lossy {_LINK} direction=both percent=50 seconds=0.3",
        "Slow": f"Slow role={{callee}} {_AT_CALL} kbit_per_second={{kbit}}",
        "Slow latency": f"Slow role={{callee}} {_AT_CALL} latency_ms=20 jitter_ms=10",
    },
}


def plan_of(tutorial: str, kind: str) -> str:
    """Return the cell's plan as text."""
    plan = next(plans[kind] for plans in KINDS.values() if kind in plans)
    at = PLACES[tutorial]
    sender = at.sender or at.caller
    roles = {"sender": sender, "late": at.late or sender}
    engine = {"fetch": at.fetch or "nth=1", "gradient": at.gradient or "nth=1"}
    return plan.format(**{**vars(at), **roles, **engine, "corrupt": _corrupted(at)})


def _corrupted(at: Place) -> str:
    """Return the fields of a `Corrupt`: those of the call, and the place's own instead."""
    words = [*_CALL.format(**vars(at)).split(), *(at.tensors or "side=request change=bit").split()]
    return " ".join(f"{name}={value}" for name, value in dict(word.split("=", 1) for word in words).items())
