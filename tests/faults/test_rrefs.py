"""What a role remembers of RRefs that it has sent: the last ones, because a long run sends any number."""

from __future__ import annotations

import pytest

from faults.tracing import rrefs
from faults.tracing.rrefs import RRefs

LINE = (RRefs.count.__code__, 1)


class Sent:
    """Stands for an RRef, which only a world can make: what is asked of one is its text and its owner."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __str__(self) -> str:
        return f"UserRRef(RRefId = GloballyUniqueId(created_on=0, local_id={self.number}))"

    def owner_name(self) -> str:
        return "b"


def test_the_rrefs_that_were_sent_last_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """To send one again renews it."""
    monkeypatch.setattr(rrefs, "REMEMBERED", 3)
    seen, things = RRefs(), [Sent(number) for number in range(4)]
    for thing in things:
        seen.get(thing, "made", (LINE,))
    remembered = []
    for number in (0, 1, 2, 0, 3):
        seen.pickling()
        seen.send(things[number])
        seen.sent_to("b", (LINE,))
        assert [ident for ident, _ in seen.sent] == list(seen.made)
        remembered.append([each for _, each in seen.made])
    assert remembered == [[0], [0, 1], [0, 1, 2], [1, 2, 0], [2, 0, 3]]
