"""The verdict that each cell of the matrix must have, and for an error, the expected ends of roles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.matrix.places import PLACES

EQUAL, ERROR, WRONG, NEEDLESS = "equal", "failed loudly", "wrong", "needless failure"

# A timeout (seconds) so long that no role gives up, even on a busy machine.
PATIENT = 10.0


@dataclass(frozen=True)
class Expected:
    """``ends``: role to a pattern of its end; ``trace``: a pattern of what the check of the trace says; ``reason``: why
    there is no such cell, or why it differs. ``verdict``: empty if there is no such cell; ``timeout``: seconds that
    roles wait for each other."""

    verdict: str
    ends: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    timeout: float = 1.0
    trace: str = ""


Row = dict[str, Expected]


def equal(*kinds: str) -> Row:
    return dict.fromkeys(kinds, Expected(EQUAL, timeout=PATIENT))


def error(*kinds: str, reason: str = "", timeout: float = 1.0, **ends: str) -> Row:
    return dict.fromkeys(kinds, Expected(ERROR, ends, reason, timeout))


def needless(*kinds: str, reason: str, **ends: str) -> Row:
    return dict.fromkeys(kinds, Expected(NEEDLESS, ends, reason, PATIENT))


def other_trace(*kinds: str) -> Row:
    """Expect a run that returns another trace, which its twin shows."""
    return dict.fromkeys(
        kinds, Expected(WRONG, reason=_UNCHECKED, timeout=PATIENT, trace=r"ULPs in|holds NaN|integers differ")
    )


def none(*kinds: str, reason: str) -> Row:
    return dict.fromkeys(kinds, Expected("", reason=reason))


_UNCHECKED = "the tutorial does not check its data: it returns another trace, and the twin shows it"
# The reason where a fault does what torch does not.
AS_PUBLISHED = "torch sends no call twice, and the tutorial does not look for it"

LATE = r"RPCErr:1:RPC ran for more than set timeout"
LOST = r"RPCErr:2:Send attempt failed intentionally"
UNMADE = r"RRef creation via rpc.remote\(\) timed out"
TORN = r"EOF: end of file"
KILLED = r"^was killed by SIGKILL$"
# `ps` executes the report before or after trainer1 ends its context, which it does when the answer is lost.
LATE_REPORT = r"the report of trainer1 failed: RuntimeError: Could not find autograd context with id: \d+; "
# The text depends on the transport or channel, and on which role notices the loss first.
GONE = (
    r"(eof|EOF|EPIPE: broken pipe|ECONNRESET|ECONNABORTED|ECONNREFUSED|pipe closed|[Cc]onnection refused"
    r"|process_vm_readv: No such process|inThreadPool\(\) INTERNAL ASSERT FAILED)"
)
REMOTE_GONE = rf"({LATE}|{GONE}|On WorkerInfo)"  # `rpc.remote` itself does not raise: the fetch waits

CRASHES = ("Crash before", "Crash after", "Crash at step")
PARTITIONS = ("Partition out", "Partition in")
# These faults lose nothing, or the message is sent again, or executes twice: the result is the twin's.
HARMLESS = (
    *("Delay request", "Delay reply", "Hold", "Duplicate", "Delay message", "Pause at call", "Pause at step"),
    *("Partition healed", "Lossy", "Slow", "Slow latency", "Order"),
)
_ONE_CALLER = none("Order", reason="one role makes all calls")
_ONE_THREAD = none(
    "Order", reason="the agent has one RPC thread: a call that waits there for its turn keeps the others out"
)
_NO_TENSOR = "no call carries a tensor: states and actions are NumPy arrays and numbers"
# The cells that a tutorial has not, by the field of its `Place` that is empty.
_LACKING: Mapping[str, Row] = {
    "step": none("Crash at step", "Pause at step", reason="no step is announced"),
    "tensors": none("Corrupt", reason=_NO_TENSOR),
    "fetch": none("Drop to_here", "Corrupt to_here", reason="no role fetches an RRef's value from another"),
    "gradient": none("Delay backward", "Corrupt backward", reason="no gradient crosses RPC by distributed autograd"),
}

_IN_REMOTE = none("Raise flight", reason="the call is a `remote`, which has no future that could fail")

# The cells of every tutorial whose row does not say otherwise.
_USUAL = {
    **equal(*HARMLESS),
    **other_trace("Corrupt"),
    **error("Drop to_here"),
    **other_trace("Corrupt to_here"),
    **equal("Delay backward"),
    **other_trace("Corrupt backward"),
}
_ROWS: Mapping[str, Row] = {
    "rpc_basics": {
        **error("Raise request", "Raise reply", caller=r"RuntimeError: FaultError: .*dest_worker"),
        **error("Raise flight", caller=TORN),
        **error("Drop request", "Drop reply", *PARTITIONS, caller=LATE),
        **error(*CRASHES, dest_worker=KILLED, caller=GONE),
        **error("Crash at call", caller=KILLED, dest_worker=r"PeerLost: caller was killed"),
        **error("Drop message", caller=LOST, dest_worker=r"PeerLost: caller raised"),
        **error("Reset", caller=GONE),
        **error("Drop to_here", caller=LATE),
    },
    "rref_dataflow": {
        **error("Raise request", "Raise reply", worker0=r"FaultError: On WorkerInfo.*worker4"),
        **_IN_REMOTE,
        # Either worker0's own limit ends it, or worker4's equal one, of which worker4 tells worker0.
        **error("Drop request", "Drop reply", *PARTITIONS, "Reset", worker0=rf"({LATE}|{GONE})"),
        **needless(
            "Duplicate",
            worker0=r"Misrouted: step 1: worker3 received 4 payloads, wanted 2",
            reason="the tutorial counts what crosses the network, and a second fetch is one too many",
        ),
        **error(*CRASHES, worker3=KILLED, worker0=REMOTE_GONE),
        **error("Crash at call", worker0=KILLED, worker1=r"PeerLost: .*worker0 was killed"),
        **error(
            "Delay message",
            worker0=r"NotMeasured: worker3 counted -?\d+ bytes.*is this TCP",
            timeout=3.0,
            reason="the faulty agent does not take the tutorial's own transport, and the tutorial's error says so",
        ),
        **error("Drop message", worker0=UNMADE),
        **error("Drop to_here", worker0=rf"({LATE}|{GONE})"),  # as above
    },
    "dist_autograd": {
        **error("Raise request", "Raise reply", worker0=r"RuntimeError: FaultError: .*worker1"),
        **error("Raise flight", worker0=TORN),
        **error("Drop request", "Drop reply", *PARTITIONS, worker0=LATE),
        **error(*CRASHES, worker1=KILLED, worker0=GONE),
        **error("Crash at call", worker0=KILLED, worker1=r"PeerLost: worker0 was killed"),
        **error("Drop message", worker0=UNMADE),
        **error("Reset", worker0=GONE),
        **error("Drop to_here", worker0=LATE),
    },
    "parameter_server": {
        **error("Raise request", "Raise reply", worker1=r"FaultError: .*ps", ps=r"MissingWorker: .*from worker1"),
        **error("Raise flight", worker1=TORN, ps=r"MissingWorker: .*from worker1"),
        # The two roles wait equally long. The first to give up ends the world, and its network with it.
        **error(
            *("Drop request", "Drop reply", *PARTITIONS),
            worker1=rf"({LATE}|{GONE})",
            ps=r"MissingWorker: .*from worker1",
        ),
        **error(*CRASHES, ps=KILLED, worker1=GONE),
        **error("Crash at call", worker1=KILLED, ps=r"MissingWorker: .*from worker1 \(sent 1 of 3\)"),
        **error("Drop message", worker1=LOST, ps=r"MissingWorker: .*from worker1 \(sent 0 of 3\)"),
        **error("Reset", worker1=GONE, ps=r"MissingWorker: .*from worker1"),
        **error("Drop to_here", worker1=rf"({LATE}|{GONE})"),  # as above
    },
    "batch_parameter_server": {
        **error("Raise request", "Raise reply", ps=r"RoundFailed: round \d: trainer1 failed: .*FaultError"),
        **error("Raise flight", ps=rf"RoundFailed: round \d: trainer1 failed: .*{TORN}"),
        **error("Drop request", "Drop reply", *PARTITIONS, ps=r"RoundFailed: round \d: nothing for .* from trainer1"),
        **error(*CRASHES, ps=KILLED, trainer1=r"PeerLost: ps was killed"),
        **error("Crash at call", trainer1=KILLED, ps=rf"RoundFailed: round 1: trainer1 failed: {GONE}"),
        **error("Drop message", ps=rf"RoundFailed: round 0: trainer1 failed: .*{LOST}"),
        **error("Reset", ps=rf"RoundFailed: round 1: trainer1 failed: {GONE}"),
    },
    "sharded_parameter_server": {
        **error("Raise request", "Raise reply", ps1=r"RoundFailed: round \d: trainer1 failed: .*ps1: .*FaultError"),
        **error("Raise flight", ps1=rf"RoundFailed: round \d: trainer1 failed: .*ps1: {TORN}"),
        **error("Drop request", "Drop reply", *PARTITIONS, ps1=r"RoundFailed: round \d: nothing for .* from trainer1"),
        **error(*CRASHES, ps1=KILLED, trainer1=r"PeerLost: ps1 was killed"),
        **error("Crash at call", trainer1=KILLED, ps1=rf"RoundFailed: round \d: trainer1 failed: {GONE}"),
        **error("Drop message", ps1=rf"(RoundFailed: round \d: trainer1 failed: .*)?{LOST}"),
        **error("Reset", ps1=rf"RoundFailed: round \d: trainer1 failed: .*{GONE}"),
    },
    "reinforce": {
        **needless(
            "Duplicate",
            agent=r"RuntimeError: The size of tensor a \(\d+\) must match the size of tensor b \(\d+\)",
            reason=f"{AS_PUBLISHED}: its second execution chooses an action that gets no reward",
        ),
        **error("Raise request", "Raise reply", agent=r"ParticipantFailed: observer1 failed: FaultError"),
        **error("Raise flight", agent=rf"ParticipantFailed: observer1 failed: .*{TORN}"),
        **error("Drop request", "Drop reply", *PARTITIONS, agent=r"Participant(Failed|Silent): .*observer1"),
        **error(*CRASHES, agent=KILLED, observer1=r"PeerLost: agent was killed"),
        **error("Crash at call", observer1=KILLED, agent=rf"ParticipantFailed: observer1 failed: {GONE}"),
        **error("Drop message", agent=rf"ParticipantFailed: observer1 failed: .*{LOST}"),
        **error("Reset", agent=rf"ParticipantFailed: observer1 failed: {GONE}"),
    },
    "batch_reinforce": {
        **error("Raise request", "Raise reply", agent=r"AgentFailed: observer1 failed: .*FaultError"),
        **error("Raise flight", agent=rf"AgentFailed: observer1 failed: .*{TORN}"),
        **error("Drop request", "Drop reply", *PARTITIONS, agent=r"AgentFailed: .*observer1"),
        **error(*CRASHES, agent=KILLED, observer1=r"PeerLost: agent was killed"),
        **error("Crash at call", observer1=KILLED, agent=rf"AgentFailed: observer1 failed: {GONE}"),
        **error("Drop message", agent=rf"AgentFailed: observer1 failed: .*{LOST}"),
        **error("Reset", agent=rf"AgentFailed: observer1 failed: {GONE}"),
        **error(
            "Corrupt",
            timeout=PATIENT,
            agent=r"AgentFailed: .*no action can be chosen with probabilities \[nan",
        ),
    },
    "rnn": {
        **error("Raise request", "Raise reply", trainer=r"RuntimeError: FaultError: .*ps", ps=r"PeerLost: trainer"),
        **error("Raise flight", trainer=TORN, ps=r"PeerLost: trainer"),
        **error("Drop request", "Drop reply", *PARTITIONS, trainer=LATE),
        **error(*CRASHES, ps=KILLED, trainer=GONE),
        **error("Crash at call", trainer=KILLED, ps=r"PeerLost: trainer was killed"),
        **error("Drop message", trainer=UNMADE),
        **error("Reset", trainer=GONE),
    },
    "pipeline": {
        **error("Raise request", "Raise reply", master=r"RuntimeError: FaultError: .*worker"),
        **_IN_REMOTE,
        # Either master's own limit ends it, or worker2's equal one, of which worker2 tells master.
        **error("Drop request", "Drop reply", *PARTITIONS, master=LATE),
        **error(*CRASHES, worker1=KILLED, master=REMOTE_GONE),
        **error("Crash at call", master=KILLED, worker1=r"PeerLost: master was killed"),
        **error("Drop message", master=LOST),
        **error("Reset", master=REMOTE_GONE),
        **error("Drop to_here", master=LATE),
    },
    "hybrid_ddp": {
        **error("Raise request", "Raise reply", ps=r"StepFailed: step \d: trainer1 failed: .*FaultError"),
        **error("Raise flight", ps=rf"StepFailed: step \d: ({LATE_REPORT})?trainer1 failed: .*{TORN}"),
        **error("Drop request", "Drop reply", ps=r"StepFailed: step \d: nothing for .* from trainer1"),
        **error(*PARTITIONS, ps=r"StepFailed: step \d: .*trainer1"),
        **error(*CRASHES, ps=KILLED, trainer1=r"PeerLost: ps was killed"),
        **error("Crash at call", trainer1=KILLED, ps=rf"StepFailed: step 1: .*trainer1 failed: {GONE}"),
        **error("Drop message", ps=rf"StepFailed: step 0: trainer1 failed: .*{LOST}"),
        **error("Reset", ps=rf"StepFailed: step 1: .*trainer1 failed: {GONE}"),
    },
}


def _whole(name: str) -> Row:
    place, row = PLACES[name], {**_USUAL, **_ROWS[name]}
    for needed, lacking in _LACKING.items():
        if not getattr(place, needed):
            row |= lacking
    if not place.other:
        row |= _ONE_THREAD if place.callee == "agent" else _ONE_CALLER
    return row


VERDICTS: Mapping[str, Row] = {name: _whole(name) for name in _ROWS if name in PLACES}
