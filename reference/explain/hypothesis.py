"""One mistake that a program may have, and the numbers that it would give."""

from __future__ import annotations

from dataclasses import dataclass

from reference.explain.view import Candidate


@dataclass(frozen=True)
class Hypothesis:
    """``id`` is permanent; ``text`` says what a program does that has this mistake; ``terms``: as for `close`."""

    id: str
    text: str
    candidate: Candidate
    terms: float = 0.0
