"""What a role remembers of RRefs that it has got and sent: of these the last ones, because a run sends any number."""

from __future__ import annotations

import gc
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from torch.futures import Future

from faults.tracing import rrefs
from faults.tracing.rrefs import RRefs

LINE = (RRefs.count.__code__, 1)


class Sent:
    """Stands for an RRef, which only a world can make: what is asked of one is its text and its owner."""

    itself: Sent

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
        seen.sent_to(f"r{number}", (LINE,))
        assert list(seen.sent) == [((0, each), f"r{each}") for _, each in seen.made]
        remembered.append([each for _, each in seen.made])
    assert remembered == [[0], [0, 1], [0, 1, 2], [1, 2, 0], [2, 0, 3]]


def test_an_rref_that_the_program_fetches_itself_is_placed_by_that_line_alone() -> None:
    seen, thing, answer = RRefs(), Sent(0), Future[Sent]()
    seen.arrive(thing)
    answer.set_result(thing)
    seen.answered((LINE,), answer)
    assert [each.how for each in seen.living(0).values()] == ["fetched"]


def test_the_type_of_a_value_is_that_of_its_own_rref() -> None:
    seen, things, values = RRefs(), [Sent(0), Sent(1)], [Future[int](), {1}]
    for number, thing in enumerate(things):
        seen.get(thing, "made", (LINE,))
        seen.value(thing, values[number], partial(values.__getitem__, number))
    assert [seen.type_of((0, number)) for number in range(3)] == [Future, set, None]


def test_nothing_is_kept_of_a_value_that_is_no_more() -> None:
    seen, thing, values = RRefs(), Sent(0), [Sent(1)]
    known = seen.get(thing, "made", (LINE,))
    assert known is not None
    before = sys.getrefcount(known.ident)  # not in an assertion, which keeps what it shows
    seen.value(thing, values[0], lambda: values[0])
    assert len(seen.values()) == 1
    values.clear()
    after = sys.getrefcount(known.ident)
    assert after == before


class Pushed(OrderedDict[Any, Any]):
    """Each time that something is remembered, another thread remembers more."""

    def __init__(self, more: Callable[[], object]) -> None:
        super().__init__()
        self.more = more

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key, value)
        thread = threading.Thread(target=self.more)
        if threading.current_thread() is threading.main_thread():
            thread.start()
            thread.join()


def test_an_rref_that_is_sent_may_be_forgotten_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rrefs, "REMEMBERED", 1)
    seen, things = RRefs(), [Sent(0), Sent(1)]

    def send(number: int) -> None:
        seen.pickling()
        seen.send(things[number])
        seen.sent_to("b", (LINE,))

    for thing in things:
        seen.get(thing, "fetched", (LINE,))
    seen.sent = Pushed(partial(send, 1))
    send(0)
    assert list(seen.sent) == [((0, 1), "b")]


def test_rrefs_may_go_while_they_are_listed() -> None:
    """One that only garbage holds goes when the collector runs, as it may at each item (Python 3.11)."""
    seen, things = RRefs(), [Sent(number) for number in range(3000)]
    for thing in things:
        seen.get(thing, "made", (LINE,))
    before = gc.get_threshold()
    gc.collect()
    lost = Sent(len(things))
    lost.itself = lost
    seen.get(lost, "made", (LINE,))
    del lost
    gc.set_threshold(500)
    try:
        assert len(seen.living(0)) >= 3000
    finally:
        gc.set_threshold(*before)
