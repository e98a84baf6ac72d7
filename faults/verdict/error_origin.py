"""Tell where an error comes from: which errors the faults of a plan excuse, once they have fired.

| after | the plan excuses |
|---|---|
| `Delay`, `Order`, `Pause`, `Hold`, `Slow` | a time-out, RPC's or the program's own; the error that `Order` raises |
| `Duplicate` | the error that the callee raised in handling the call that came twice |
| `Raise` of request or reply | the error that the plan raises, and errors that derive from it |
| `Corrupt` | an error that names corrupted data (`detections`), and errors that derive from it |
| all others | RPC's own error, a time-out, and errors that derive from one of these |

An error derives from another one if it has the other among its causes (`causes`), or quotes the other's type and text,
or quotes those of a call that failed by the other. A lost connection and a time-out are excused, too, if another role
has ended and that role's end is excused by itself.

An error that may come from the plan, or from the program itself, is unknown:
- after such a `Raise`, a time-out or a lost connection if no role has ended by the raised error: the role that caught
  it may have left others waiting;
- after a `Corrupt` another error that the program states by `raise` or `assert`;
- an error that quotes a text without its type;
- a sentence of the program's own that only seems to speak of a time-out or a loss.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.plan.plan import Fault
from faults.tracebacks.error_chain import TEXT, UNREAD, Piece, from_json, paths
from faults.verdict import proof
from faults.verdict.detections import detects
from faults.verdict.message_evidence import UNREADABLE

# The value of `proof.first_effects`, which is computed once for each error.
FirstEffects = Mapping[int, Event | None]

GENTLE = ("Delay", "Order", "Pause", "Hold", "Slow")

# Errors that end a wait with a limit: those of sockets, asyncio and futures are TimeoutErrors, too.
_TIMEOUTS = {"TimeoutError", "BrokenBarrierError", "TimeoutExpired"}
# Files that raise such an error in a wait for a thread, process or role. A socket's may concern any server.
_WAITS = re.compile(r"/lib/python\d[\d.]*t?/(concurrent|asyncio|multiprocessing|threading\.py)\b|/torch/")
# Errors of a queue, which need no wait: `get_nowait` raises them at once.
_QUEUES = {"Empty", "Full"}
# The words of RPC, torch and the tutorials for a time-out.
_TIMED_OUT = re.compile(
    r"RPCErr:1\b|timed out after \d+(\.\d+)? ?(ms|milliseconds|s|seconds?)\b|Timed out waiting \d+ ?ms"
    r"|[Ww]ait timeout|Socket Timeout|Timeout waiting for key"
    r"|RRef creation via rpc\.remote\(\) timed out|Followers \[.*\] timed out in _all_gather"
    r"|collective operation timeout|(?:^|[:;,'\"(] ?)nothing for \d+(\.\d+)? s(?: from \S|['\")]|$)",
    re.MULTILINE,
)
# Words that may speak of a time-out; they may also speak of an expired cache entry, or a loss not finite after 3 s.
_LATE = re.compile(
    r"\btimed?[ -]?out\b"
    r"|\b(no|not|nothing|nobody|silent)\b.{0,80}\b(for|after|in|within) \d+(\.\d+)? ?(s|ms|sec|seconds?|minutes?)\b",
    re.IGNORECASE,
)

# Errors of torch and of this project for a lost peer. `_LOST` has torch's words in a RuntimeError: transports differ.
_LOSSES = {"DistNetworkError", "PeerLost"}
# Files whose ConnectionError concerns a peer. A socket's may concern any server.
_LINKS = re.compile(r"/lib/python\d[\d.]*t?/multiprocessing/|/torch/(distributed|multiprocessing)/")
# Files whose EOFError concerns a peer. An EOFError of `input`, `pickle` or `torch.load` is the program's own.
_CHANNELS = re.compile(r"/lib/python\d[\d.]*t?/(multiprocessing|asyncio)/|/torch/(distributed|multiprocessing)/")
_LOST = re.compile(
    r"RPCErr:\d|this error originated at tensorpipe|EOF: end of file|\b(EPIPE|ECONN(RESET|ABORTED|REFUSED)): "
    r"|pair\.cc:\d+\] |Connection was likely closed|process_vm_readv"
    r"|RRef creation via rpc\.remote\(\) timed out|Followers \[.*\] timed out in _all_gather"
)
# Words that may speak of a lost connection to a peer; they may also speak of another connection.
_GONE = re.compile(
    r"connection (refused|reset|closed|lost)|pipe closed|broken pipe|\b(EPIPE|ECONN(RESET|ABORTED|REFUSED))\b",
    re.IGNORECASE,
)


def excused(run: Run, pieces: Sequence[Piece], time: float, *, follows: bool = False) -> bool | None:
    """Whether an error at ``time`` comes from the plan. None: it may, but the ledgers do not tell.

    ``follows``: another role has ended, and that end is excused. An exception group comes from the plan if all its
    members do.
    """
    effects = proof.first_effects(run)
    found = {_known(run, effects, path, time, follows=follows) for path in paths(pieces)}
    return False if False in found else None if None in found else True


def _known(run: Run, effects: FirstEffects, pieces: Sequence[Piece], time: float, *, follows: bool) -> bool | None:
    """Decide `excused` for pieces without groups. Pieces that it only may derive from make it unknown at best."""
    sure = _comes(run, effects, _sure(pieces), time, follows=follows)
    if sure is not False:
        return sure
    return None if _comes(run, effects, pieces, time, follows=follows) is not False else False


def _sure(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if not piece.doubtful]


def _comes(run: Run, effects: FirstEffects, pieces: Sequence[Piece], time: float, *, follows: bool) -> bool | None:
    """Decide `excused` for pieces without groups and without doubtful pieces."""
    near = _silence(pieces) if follows else False
    if near:
        return True
    seen = {n for n, event in effects.items() if event is not None and event.time <= time}
    # An `Order` whose calls did not meet raises in the waiting call, and has not fired.
    seen |= {n for n, fault in enumerate(run.plan.faults) if fault.kind == "Order" and _out_of_turn(pieces)}
    known = _best(_excuses(run, number, pieces) for number in _unlike(run, seen))
    # A message's fault that left no evidence may have caused the error.
    silent = _unlike(run, (n for n, e in effects.items() if e is None and run.plan.faults[n].place == "message"))
    unclear = near is None or UNREAD in pieces or any(_excuses(run, n, pieces) is not False for n in silent)
    return None if known is False and unclear else known


def _unlike(run: Run, numbers: Iterable[int]) -> Iterable[int]:
    """Keep one of all faults that excuse the same errors, because a plan may have thousands."""
    found: dict[tuple[object, ...], int] = {}
    for number in numbers:
        fault = run.plan.faults[number]
        asked = number if fault.kind == "Duplicate" else None
        found[fault.kind, fault.place, fault.side, fault.error, fault.text, asked] = number
    return found.values()


def _best(found: Iterable[bool | None]) -> bool | None:
    """Return True if one value is, otherwise None if one is, otherwise False."""
    every = set(found)
    return True if True in every else None if None in every else False


def _excuses(run: Run, number: int, pieces: Sequence[Piece]) -> bool | None:
    fault = run.plan.faults[number]
    if fault.kind in GENTLE:
        return _best([*map(is_timeout, pieces), fault.kind == "Order" and _out_of_turn(pieces)])
    if fault.kind == "Corrupt":
        own = _of_failed(run, lambda piece: detects(piece) is True)
        return _best([*map(detects, pieces), _derives(pieces, own)])
    if fault.kind == "Duplicate":
        return _derives(pieces, _of_the_second(run, number))
    if fault.kind == "Raise" and fault.side != "flight":
        planned = _planned(fault)
        found = _derives(pieces, [*planned, *_of_failed(run, lambda piece: _derives([piece], planned) is True)])
        return None if found is False and _silence(pieces) is not False else found
    textless = None if fault.place == "message" and any(map(_is_textless, pieces)) else False
    return _best(
        [_silence(pieces), textless, _derives(pieces, _of_failed(run, lambda piece: _silence([piece]) is True))]
    )


def _is_textless(piece: Piece) -> bool:
    """Whether it may be what Python 3.11.2 makes of torch's error for a lost message: see `message_evidence`."""
    return piece.name == "RuntimeError" and not piece.text and not piece.raised


def _out_of_turn(pieces: Sequence[Piece]) -> bool:
    return any(piece.name == "OutOfTurn" for piece in pieces)


def _silence(pieces: Sequence[Piece]) -> bool | None:
    """Whether one of them is an error of waiting for a peer that is slow or lost. None: one may be."""
    return _best(found for piece in pieces for found in (is_timeout(piece), is_loss(piece)))


def is_timeout(piece: Piece) -> bool | None:
    """Whether it ended a wait that reached its limit: by its type, or if the type does not tell, by its text."""
    if not _QUEUES.isdisjoint(piece.bases):
        return piece.waited
    if not _TIMEOUTS.isdisjoint(piece.bases):
        return _waits(piece)
    return _told(piece, _TIMED_OUT, _LATE)


def _waits(piece: Piece) -> bool | None:
    """Whether an error of a time-out's type ended a wait for other roles. None: it may concern a server or a command
    outside the run."""
    if "TimeoutExpired" in piece.bases:
        return True if piece.waited else None
    return True if not piece.place or piece.raised or _WAITS.search(piece.place) else None


def is_loss(piece: Piece) -> bool | None:
    """Whether it reports a lost peer, in the words of RPC, Python or a launcher."""
    if not _LOSSES.isdisjoint(piece.bases) or UNREADABLE in piece.text:
        return True
    if "EOFError" in piece.bases:
        return _CHANNELS.search(piece.place) is not None
    if "ConnectionError" in piece.bases:
        return True if _LINKS.search(piece.place) else _told(piece, _LOST, _GONE) or None
    return _told(piece, _LOST, _GONE)


def _told(piece: Piece, exact: re.Pattern[str], words: re.Pattern[str]) -> bool | None:
    """Whether its text matches ``exact``. None: it matches ``words``, so it may be a sentence of the program's own."""
    if not _speaks(piece):
        return False
    return True if exact.search(piece.text) else None if words.search(piece.text) else False


def _speaks(piece: Piece) -> bool:
    """Whether the text of such an error counts. That of a `KeyError` does not: it quotes the missing key."""
    kind = getattr(builtins, piece.name, RuntimeError)
    return kind is Exception or (isinstance(kind, type) and issubclass(kind, RuntimeError | OSError))


def _planned(fault: Fault) -> list[Piece]:
    """Return the error that a `Raise` raises, in both forms that tracebacks print: a KeyError quotes its text."""
    text = "injected" if fault.text is None else fault.text
    return [Piece((fault.error or "FaultError",), each.strip("' \n")[:TEXT]) for each in (text, repr(text))]


def _of_failed(run: Run, own: Callable[[Piece], bool]) -> Iterator[Piece]:
    """Yield the errors of this run's calls that failed by an error for which ``own`` is true."""
    for event in run.timeline.of("fail", "info"):
        known = from_json(event.details.get("causes"))
        failed = [path for path in map(_sure, paths(known)) if any(map(own, path))]
        for path in failed:
            yield from path
        if len(failed) == len(paths(known)):
            yield from known  # the groups too


def _of_the_second(run: Run, number: int) -> Iterable[Piece]:
    """Yield what the callee raised in a call that came twice: the second time, or in the answer to its caller."""
    doubled = {_call(e, e.role) for e in run.timeline.of("invoke") if number in e.details.get("faults", ())}
    for event in run.timeline.of("refused", "fail", "info"):
        caller = event.details.get("caller", event.role)
        if _call(event, caller) in doubled:
            known = from_json(event.details.get("causes"))
            yield from known
            for path in paths(known):
                yield from path


def _call(event: Event, caller: str) -> tuple[object, ...]:
    return caller, *event.call


def _derives(pieces: Sequence[Piece], known: Iterable[Piece]) -> bool | None:
    return _best(_says(piece, each) for each in known for piece in pieces)


def _says(piece: Piece, known: Piece) -> bool | None:
    """Whether it is the known error, or quotes its type and text. None: it quotes only the text, which another error
    may have, too."""
    same = piece.name == known.name
    if same and piece.text == known.text and (piece.text or piece.place == known.place):
        return True
    if known.text not in piece.text or not (known.text or same):
        return False
    if known.text and re.search(rf"\b{re.escape(known.name)}\b", piece.text):
        return True
    return None if same or _speaks(piece) else False
