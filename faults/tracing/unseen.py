"""Find objects that something holds which Python does not see: a context variable, `atexit`, a signal handler, C code.

Python counts the references to each object. An object to which only values of RRefs lead has those that come from such
objects; a value has one more, from the RRef in C++. Where the count is higher, something else refers to it.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Set
from typing import Any

from faults.ledger.stock import Ident
from faults.tracing.references import LEAVES, OBJECTS, referents


def held_unseen(values: Mapping[int, tuple[Any, Ident]], wanted: Set[int], seen: Set[int]) -> list[Any]:
    """Return the objects to which ``values`` lead and something unseen refers. Objects in ``seen`` are passed by.

    ``values``: the values of RRefs that this role owns, each of them in one tuple, by their identities, and in no other
    variable of the callers; ``wanted``: identities. The result is empty if the values lead to none of them.
    """
    below, known = _below(values, seen)
    if wanted.isdisjoint(map(id, below)):
        return []
    return [each for each, count in zip(below, _references(below), strict=True) if count > known[id(each)]]


def _below(values: Mapping[int, tuple[Any, Ident]], seen: Set[int]) -> tuple[list[Any], dict[int, int]]:
    """Return the objects to which ``values`` lead, and by identity how many of the references to each are known.

    What is left out beyond `OBJECTS` has references that count as unseen.
    """
    found = [value for key, (value, _) in values.items() if key not in seen and not isinstance(value, LEAVES)]
    # Two references to each value are known: that of the RRef in C++, and that of the tuple.
    known = defaultdict(int, {id(value): 2 for value in found})
    for each in found:
        if len(seen) + len(known) > OBJECTS:
            break
        for part in referents(each):
            key = id(part)
            if key not in known and key not in seen and not isinstance(part, LEAVES):
                found.append(part)
            known[key] += 1
    return found, known


def _references(objects: list[Any]) -> list[int]:
    """Return how many references there are to each object, without those of the list and of this function."""
    objects.append(object())
    counts = [sys.getrefcount(each) for each in objects]
    objects.pop()
    return [count - counts[-1] for count in counts[:-1]]
