"""Where an error comes from: which errors the faults of a plan excuse, once they have fired.

| after | excused is |
|---|---|
| `Delay`, `Order`, `Pause`, `Slow` | a time-out, RPC's or the program's own; what `Order` itself raises |
| `Duplicate` | what the callee has raised in handling the call that came twice |
| all others | RPC's own error, a time-out, what the plan raises; and what derives from one of these |

What derives from an error: what has it among its causes (`causes`), or quotes it, or a call that has failed by it.
A lost connection is also excused where another role has ended, whose end is excused by itself.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence

from faults import proof
from faults.causes import Piece, from_json
from faults.ledger import Event
from faults.messages import UNREADABLE
from faults.plan import Fault
from faults.record import Run

GENTLE = ("Delay", "Order", "Pause", "Slow")

# Types by which a wait with a limit ends: sockets', asyncio's and futures' are TimeoutError too.
_TIMEOUTS = {"TimeoutError", "Empty", "Full", "BrokenBarrierError", "TimeoutExpired"}
# It says so; or that there was nothing for so many seconds.
_TIMED_OUT = re.compile(
    r"RPCErr:1\b|\btimed?[ -]?out\b"
    r"|\b(no|not|nothing|nobody|silent)\b.{0,80}\b(for|after|in|within) \d+(\.\d+)? ?(s|ms|sec|seconds?|minutes?)\b",
    re.IGNORECASE,
)

# Types of a peer that is gone, of Python's and torch's; and what torch says in a RuntimeError. Transports differ.
_LOSSES = {"ConnectionError", "EOFError", "DistNetworkError", "PeerLost"}
_LOST = re.compile(
    r"RPCErr:\d|this error originated at tensorpipe|EOF: end of file|EPIPE|ECONN(RESET|ABORTED|REFUSED)|pipe closed"
    r"|connection (refused|reset|closed|was likely closed)|broken pipe|process_vm_readv"
    r"|RRef creation via rpc\.remote\(\) timed out|Followers \[.*\] timed out in _all_gather",
    re.IGNORECASE,
)


def excused(run: Run, pieces: Sequence[Piece], time: float, *, follows: bool = False) -> bool | None:
    """Whether an error at ``time`` comes from the plan. None: it would, from a message fault that left no evidence.

    ``follows``: another role has ended, and that end is excused.
    """
    if follows and any(is_loss(piece) for piece in pieces):
        return True
    bitten = {n for n, event in proof.bites(run).items() if event is not None and event.time <= time}
    # An `Order` that some call waits for in vain raises, and has not fired.
    bitten |= {n for n, fault in enumerate(run.plan.faults) if fault.kind == "Order" and _out_of_turn(pieces)}
    if any(_excuses(run, number, pieces) for number in bitten):
        return True
    silent = [n for n, event in proof.bites(run).items() if event is None and run.plan.faults[n].place == "message"]
    return None if any(_excuses(run, number, pieces) for number in silent) else False


def _excuses(run: Run, number: int, pieces: Sequence[Piece]) -> bool:
    fault = run.plan.faults[number]
    if fault.kind in GENTLE:
        return any(map(is_timeout, pieces)) or (fault.kind == "Order" and _out_of_turn(pieces))
    if fault.kind == "Duplicate":
        return any(_says(piece, known) for piece in pieces for known in _of_the_second(run, number))
    return any(_is_own(piece, fault) or _says_failed(run, piece, fault) for piece in pieces)


def _out_of_turn(pieces: Sequence[Piece]) -> bool:
    return any(piece.name == "OutOfTurn" for piece in pieces)


def is_timeout(piece: Piece) -> bool:
    """A wait that has reached its limit, by its type or, where its type does not tell, by what it says."""
    return not _TIMEOUTS.isdisjoint(piece.bases) or (_speaks(piece) and _TIMED_OUT.search(piece.text) is not None)


def is_loss(piece: Piece) -> bool:
    """A peer that is gone, as RPC, Python or a launcher says it."""
    if not _LOSSES.isdisjoint(piece.bases) or UNREADABLE in piece.text:
        return True
    return _speaks(piece) and _LOST.search(piece.text) is not None


def _speaks(piece: Piece) -> bool:
    """Whether the text of such an error counts: not of a `KeyError`, which quotes whatever key it missed."""
    kind = getattr(builtins, piece.name, RuntimeError)
    return kind is Exception or (isinstance(kind, type) and issubclass(kind, RuntimeError | OSError))


def _is_own(piece: Piece, fault: Fault) -> bool:
    return is_timeout(piece) or is_loss(piece) or _is_planned(piece, fault)


def _is_planned(piece: Piece, fault: Fault) -> bool:
    """What a `Raise` raises, also where another error only quotes it."""
    if fault.kind != "Raise":
        return False
    name, text = fault.error or "FaultError", "injected" if fault.text is None else fault.text
    return text in piece.text and (name in piece.bases or name in piece.text)


def _says_failed(run: Run, piece: Piece, fault: Fault) -> bool:
    """Whether it quotes a call of this run that has failed by an excused error."""
    for event in run.timeline.of("fail", "info"):
        known = from_json(event.details.get("causes"))
        if any(_is_own(each, fault) for each in known) and any(_says(piece, each) for each in known):
            return True
    return False


def _of_the_second(run: Run, number: int) -> Iterable[Piece]:
    """What the callee has raised in a call that came twice: the second time, or in the answer to its caller."""
    hurt = {_call(e, e.role) for e in run.timeline.of("invoke") if number in e.details.get("faults", ())}
    for event in run.timeline.of("refused", "fail", "info"):
        caller = event.details.get("caller", event.role)
        if _call(event, caller) in hurt:
            yield from from_json(event.details.get("causes"))


def _call(event: Event, caller: str) -> tuple[object, ...]:
    return caller, event.details.get("site"), event.details.get("nth")


def _says(piece: Piece, known: Piece) -> bool:
    """Whether it is the known error, or quotes it."""
    if piece.name == known.name and piece.text == known.text:
        return True
    return len(known.text) > 3 and known.text in piece.text
