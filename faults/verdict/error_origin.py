"""Tell where an error comes from: which errors the faults of a plan excuse, once they have fired.

| after | excused is |
|---|---|
| `Delay`, `Order`, `Pause`, `Slow` | a time-out, RPC's or the program's own; what `Order` itself raises |
| `Duplicate` | what the callee has raised in handling the call that came twice |
| `Raise` | what the plan raises, and what derives from it |
| all others | RPC's own error, a time-out; and what derives from one of these |

What derives from an error: what has it among its causes (`causes`), or quotes its type and text, or those of a call
that has failed by it. A lost connection and a time-out are also excused where another role has ended, whose end is
excused by itself.

What may come from the plan, and may as well be the program's own, is unknown: after a `Raise` a time-out or a lost
connection where no role has ended by it, since whoever caught the error may have left others waiting; an error that
quotes a text without its type; and a sentence of the program's own that only seems to speak of a time-out or a loss.
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
from faults.verdict.message_evidence import UNREADABLE

# What `proof.bites` gives, which is asked for once an error.
Bites = Mapping[int, Event | None]

GENTLE = ("Delay", "Order", "Pause", "Slow")

# Types by which a wait with a limit ends: sockets', asyncio's and futures' are TimeoutError too.
_TIMEOUTS = {"TimeoutError", "BrokenBarrierError", "TimeoutExpired"}
# Who raises one for whoever waits for another thread, process or role; that of a socket may be of any server.
_WAITS = re.compile(r"/lib/python\d[\d.]*t?/(concurrent|asyncio|multiprocessing|threading\.py)\b|/torch/")
# Of a queue, which may not have been waited for: `get_nowait` raises it at once.
_QUEUES = {"Empty", "Full"}
# What RPC, torch and the tutorials say of one, word for word.
_TIMED_OUT = re.compile(
    r"RPCErr:1\b|timed out after \d+(\.\d+)? ?(ms|milliseconds|s|seconds?)\b|Timed out waiting \d+ ?ms"
    r"|[Ww]ait timeout|Socket Timeout|Timeout waiting for key"
    r"|RRef creation via rpc\.remote\(\) timed out|Followers \[.*\] timed out in _all_gather"
    r"|collective operation timeout|(?:^|[:;,'\"(] ?)nothing for \d+(\.\d+)? s(?: from \S|['\")]|$)",
    re.MULTILINE,
)
# What a sentence says that may speak of one: so of a cache entry that has timed out, of a loss not finite after 3 s.
_LATE = re.compile(
    r"\btimed?[ -]?out\b"
    r"|\b(no|not|nothing|nobody|silent)\b.{0,80}\b(for|after|in|within) \d+(\.\d+)? ?(s|ms|sec|seconds?|minutes?)\b",
    re.IGNORECASE,
)

# Types of a peer that is gone, of torch's and of ours; and what torch says in a RuntimeError. Transports differ.
_LOSSES = {"DistNetworkError", "PeerLost"}
# Whose ConnectionError is of a peer; that of a socket may be of any server.
_LINKS = re.compile(r"/lib/python\d[\d.]*t?/multiprocessing/|/torch/(distributed|multiprocessing)/")
# Whose EOFError speaks of a peer; that of `input`, of `pickle` or `torch.load` is the program's.
_CHANNELS = re.compile(r"/lib/python\d[\d.]*t?/(multiprocessing|asyncio)/|/torch/(distributed|multiprocessing)/")
_LOST = re.compile(
    r"RPCErr:\d|this error originated at tensorpipe|EOF: end of file|\b(EPIPE|ECONN(RESET|ABORTED|REFUSED)): "
    r"|pair\.cc:\d+\] |Connection was likely closed|process_vm_readv"
    r"|RRef creation via rpc\.remote\(\) timed out|Followers \[.*\] timed out in _all_gather"
)
# What a sentence says that may speak of a connection to a peer, or of another.
_GONE = re.compile(
    r"connection (refused|reset|closed|lost)|pipe closed|broken pipe|\b(EPIPE|ECONN(RESET|ABORTED|REFUSED))\b",
    re.IGNORECASE,
)


def excused(run: Run, pieces: Sequence[Piece], time: float, *, follows: bool = False) -> bool | None:
    """Whether an error at ``time`` comes from the plan. None: it may, and nobody can tell.

    ``follows``: another role has ended, and that end is excused. A group comes from it if all that it holds does.
    """
    bites = proof.bites(run)
    found = {_known(run, bites, path, time, follows=follows) for path in paths(pieces)}
    return False if False in found else None if None in found else True


def _known(run: Run, bites: Bites, pieces: Sequence[Piece], time: float, *, follows: bool) -> bool | None:
    """`excused`, of pieces without groups: by what it may derive from it only may be."""
    sure = _comes(run, bites, _sure(pieces), time, follows=follows)
    if sure is not False:
        return sure
    return None if _comes(run, bites, pieces, time, follows=follows) is not False else False


def _sure(pieces: Sequence[Piece]) -> list[Piece]:
    return [piece for piece in pieces if not piece.doubtful]


def _comes(run: Run, bites: Bites, pieces: Sequence[Piece], time: float, *, follows: bool) -> bool | None:
    """`excused`, of pieces without groups and doubts."""
    near = _silence(pieces) if follows else False
    if near:
        return True
    bitten = {n for n, event in bites.items() if event is not None and event.time <= time}
    # An `Order` that some call waits for in vain raises, and has not fired.
    bitten |= {n for n, fault in enumerate(run.plan.faults) if fault.kind == "Order" and _out_of_turn(pieces)}
    known = _best(_excuses(run, number, pieces) for number in _unlike(run, bitten))
    # A message's fault that left no evidence may have made it.
    silent = _unlike(run, (n for n, e in bites.items() if e is None and run.plan.faults[n].place == "message"))
    unclear = near is None or UNREAD in pieces or any(_excuses(run, n, pieces) is not False for n in silent)
    return None if known is False and unclear else known


def _unlike(run: Run, numbers: Iterable[int]) -> Iterable[int]:
    """One of all faults that excuse the same errors: a plan may have thousands."""
    found: dict[tuple[object, ...], int] = {}
    for number in numbers:
        fault = run.plan.faults[number]
        found[fault.kind, fault.error, fault.text, number if fault.kind == "Duplicate" else None] = number
    return found.values()


def _best(found: Iterable[bool | None]) -> bool | None:
    """True where one is, else None where one is."""
    every = set(found)
    return True if True in every else None if None in every else False


def _excuses(run: Run, number: int, pieces: Sequence[Piece]) -> bool | None:
    fault = run.plan.faults[number]
    if fault.kind in GENTLE:
        return _best([*map(is_timeout, pieces), fault.kind == "Order" and _out_of_turn(pieces)])
    if fault.kind == "Duplicate":
        return _derives(pieces, _of_the_second(run, number))
    if fault.kind == "Raise":
        planned = _planned(fault)
        found = _derives(pieces, [*planned, *_of_failed(run, lambda piece: _derives([piece], planned) is True)])
        return None if found is False and _silence(pieces) is not False else found
    return _best([_silence(pieces), _derives(pieces, _of_failed(run, lambda piece: _silence([piece]) is True))])


def _out_of_turn(pieces: Sequence[Piece]) -> bool:
    return any(piece.name == "OutOfTurn" for piece in pieces)


def _silence(pieces: Sequence[Piece]) -> bool | None:
    """Whether one is met by whoever waits for a peer that is slow, or gone. None: one may be."""
    return _best(found for piece in pieces for found in (is_timeout(piece), is_loss(piece)))


def is_timeout(piece: Piece) -> bool | None:
    """A wait that has reached its limit, by its type or, where its type does not tell, by what it says."""
    if not _QUEUES.isdisjoint(piece.bases):
        return piece.waited
    if not _TIMEOUTS.isdisjoint(piece.bases):
        return _waits(piece)
    return _told(piece, _TIMED_OUT, _LATE)


def _waits(piece: Piece) -> bool | None:
    """Whether an error of a time-out's type has ended a wait for others. None: it may be of a server, or of a command,
    that has nothing to do with the run."""
    if "TimeoutExpired" in piece.bases:
        return True if piece.waited else None
    return True if not piece.place or piece.raised or _WAITS.search(piece.place) else None


def is_loss(piece: Piece) -> bool | None:
    """A peer that is gone, as RPC, Python or a launcher says it."""
    if not _LOSSES.isdisjoint(piece.bases) or UNREADABLE in piece.text:
        return True
    if "EOFError" in piece.bases:
        return _CHANNELS.search(piece.place) is not None
    if "ConnectionError" in piece.bases:
        return True if _LINKS.search(piece.place) else _told(piece, _LOST, _GONE) or None
    return _told(piece, _LOST, _GONE)


def _told(piece: Piece, exact: re.Pattern[str], words: re.Pattern[str]) -> bool | None:
    """Whether its text says so. None: a sentence of the program's own that may say so."""
    if not _speaks(piece):
        return False
    return True if exact.search(piece.text) else None if words.search(piece.text) else False


def _speaks(piece: Piece) -> bool:
    """Whether the text of such an error counts: not of a `KeyError`, which quotes whatever key it missed."""
    kind = getattr(builtins, piece.name, RuntimeError)
    return kind is Exception or (isinstance(kind, type) and issubclass(kind, RuntimeError | OSError))


def _planned(fault: Fault) -> list[Piece]:
    """What a `Raise` raises, as tracebacks print it: a KeyError quotes its text."""
    text = "injected" if fault.text is None else fault.text
    return [Piece((fault.error or "FaultError",), each.strip("' \n")[:TEXT]) for each in (text, repr(text))]


def _of_failed(run: Run, own: Callable[[Piece], bool]) -> Iterator[Piece]:
    """The errors of the calls of this run that have failed by such an error as ``own`` tells."""
    for event in run.timeline.of("fail", "info"):
        known = from_json(event.details.get("causes"))
        failed = [path for path in map(_sure, paths(known)) if any(map(own, path))]
        for path in failed:
            yield from path
        if len(failed) == len(paths(known)):
            yield from known  # the groups too


def _of_the_second(run: Run, number: int) -> Iterable[Piece]:
    """What the callee has raised in a call that came twice: the second time, or in the answer to its caller."""
    hurt = {_call(e, e.role) for e in run.timeline.of("invoke") if number in e.details.get("faults", ())}
    for event in run.timeline.of("refused", "fail", "info"):
        caller = event.details.get("caller", event.role)
        if _call(event, caller) in hurt:
            known = from_json(event.details.get("causes"))
            yield from known
            for path in paths(known):
                yield from path


def _call(event: Event, caller: str) -> tuple[object, ...]:
    return caller, *event.call


def _derives(pieces: Sequence[Piece], known: Iterable[Piece]) -> bool | None:
    return _best(_says(piece, each) for each in known for piece in pieces)


def _says(piece: Piece, known: Piece) -> bool | None:
    """Whether it is the known error, or quotes its type and text. None: its text alone, which others may have too."""
    same = piece.name == known.name
    if same and piece.text == known.text and (piece.text or piece.place == known.place):
        return True
    if known.text not in piece.text or not (known.text or same):
        return False
    if known.text and re.search(rf"\b{re.escape(known.name)}\b", piece.text):
        return True
    return None if same or _speaks(piece) else False
