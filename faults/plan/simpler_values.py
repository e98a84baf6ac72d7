"""List simpler values of a fault's fields: lower numbers, shorter times, earlier moments, the first of the words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from faults.plan.fields import words_of
from faults.plan.places import Moment

# The round numbers that times and shares are lowered to.
_ROUND = tuple(digit * 10.0**power for power in range(-1, 6) for digit in (1, 2, 5))
# Another message is another place, and a lower chance only makes a failure rarer. So does a shorter wait for a turn.
_AS_THEY_ARE = ("message", "chance_percent")
# A faster connection is a smaller fault.
_RATES = (1_000, 10_000, 100_000)


def simpler(kind: str, name: str, value: Any) -> Iterator[Any]:
    """Yield simpler values of the field ``name``, the simplest first. The last of them is the nearest one."""
    if name == "kbit_per_second":
        yield from _nearest([rate for rate in reversed(_RATES) if rate > value])
    elif name == "at":
        yield from _earlier(Moment.parse(value))
    elif name == "roles":
        yield from (value[:place] + value[place + 1 :] for place in reversed(range(len(value))))
    elif name in _AS_THEY_ARE or isinstance(value, bool) or (kind, name) == ("Order", "seconds"):
        return
    elif isinstance(value, int):
        yield from _lower(value)
    elif isinstance(value, float):
        yield from _nearest([each for each in _ROUND if each < value])
    elif value in (words := words_of(kind, name)):
        yield from words[: words.index(value)]


def _lower(number: int) -> Iterator[int]:
    """Yield the first number, the middle one, and the one before, as far as they are lower."""
    yield from dict.fromkeys(each for each in (1, (number + 1) // 2, number - 1) if 1 <= each < number)


def _nearest(values: Sequence[Any]) -> list[Any]:
    """Return the first value, the middle one and the last."""
    places = (0, len(values) // 2, len(values) - 1)
    return list(dict.fromkeys(values[place] for place in places)) if values else []


def _earlier(moment: Moment) -> Iterator[str]:
    """Yield the same moment with a lower number. A moment without a number has none that is earlier."""
    for number in _lower(moment.number) if moment.number else ():
        yield str(replace(moment, number=number))
