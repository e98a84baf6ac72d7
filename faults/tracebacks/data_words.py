"""Tell which texts name corrupted data: a changed value, or a value that is no number."""

from __future__ import annotations

import re

_NO_NUMBER = re.compile(r"\bnans?\b|\binf(s|inity)?\b|\bnon-?finite\b|\bnot (all )?finite\b", re.IGNORECASE)
_CHANGED = re.compile(
    r"\bcorrupt(ed|ion)?\b|\bcheck-?sums?\b|\bcrc(-?\d+)?\b|\bdigests?\b|\bintegrity\b|\bgarbled\b"
    r"|\bhash(es)? (mismatch|differs?|do(es)? not match)|\b(wrong|other|different) hash\b",
    re.IGNORECASE,
)
# The same in a type's name, where words are not separated.
_TYPES = re.compile(r"Corrupt|Check-?[Ss]um|C[Rr][Cc](?![a-z])|Digest|Integrity|Garbled|N[Aa]N(?![a-z])|N(on|ot)Finite")


def names_no_number(text: str) -> bool:
    """Whether the text speaks of NaN or infinity."""
    return _NO_NUMBER.search(text) is not None


def names_corrupted_data(text: str) -> bool:
    """Whether the text speaks of changed data, of a checksum, or of a value that is no number."""
    return names_no_number(text) or _CHANGED.search(text) is not None


def is_named_for_it(kind: str) -> bool:
    """Whether an exception's type has a name such as ``ChecksumError``."""
    return _TYPES.search(kind) is not None
