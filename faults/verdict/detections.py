"""Tell which errors name corrupted data: what a program says that checks its data and finds them changed."""

from __future__ import annotations

from collections.abc import Sequence

from faults.ledger.ledger import Event
from faults.ledger.record import Run
from faults.tracebacks.data_words import is_named_for_it, names_corrupted_data, names_no_number
from faults.tracebacks.error_chain import Piece, from_json, paths


def detects(piece: Piece) -> bool | None:
    """Whether this error says that data are corrupted. None: the program states an error that does not say so.

    The program states it by `raise` or `assert`. torch's own checks of numbers count, too ('probability tensor contains
    either `inf`, `nan` or element < 0'). What fails by itself, such as an index that is out of range, says nothing.
    """
    if piece.raised or piece.name == "AssertionError":
        return True if names_corrupted_data(piece.text) or any(map(is_named_for_it, piece.bases)) else None
    of_torch = "/torch/" in piece.place or "RuntimeError" in piece.bases
    return of_torch and names_no_number(piece.text)


def delivered(run: Run) -> list[Event]:
    """Return the effects of corruptions: a changed tensor was handed to its receiver."""
    numbers = {number for number, fault in enumerate(run.plan.faults) if fault.kind == "Corrupt"}
    return [event for event in run.timeline.of("effective") if event.details.get("fault") in numbers]


def detected(run: Run, pieces: Sequence[Piece], time: float) -> bool:
    """Whether an error at ``time`` names corrupted data, after such data were delivered."""
    first = min((event.time for event in delivered(run)), default=None)
    if first is None or time < first:
        return False
    return all(any(detects(each) for each in path if not each.doubtful) for path in paths(pieces))


def reported(run: Run) -> bool:
    """Whether the program noticed the corrupted data and went on: a call failed by an error that names them, or a role
    logged a warning that does."""
    first = min((event.time for event in delivered(run)), default=None)
    if first is not None and any(event.time >= first for event in run.timeline.of("warned")):
        return True
    return any(detected(run, from_json(each.details.get("causes")), each.time) for each in run.timeline.of("fail"))
