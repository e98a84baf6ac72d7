"""An `Awaited` object: calls wait for it, and a wait in vain says for what."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from reference.rpc.awaited import Awaited


def test_calls_that_come_too_early_are_answered_when_it_is_set() -> None:
    awaited = Awaited[str]("server")
    with ThreadPoolExecutor(3) as threads:
        early = [threads.submit(awaited.get, 20) for _ in range(3)]
        awaited.set("here")
        assert [each.result(20) for each in early] == ["here"] * 3
    assert awaited.get(0) == "here"


def test_a_call_that_waits_in_vain_says_for_what_and_how_long() -> None:
    awaited = Awaited[str]("server")
    with pytest.raises(TimeoutError, match=r"^no server on this role after 0\.01 s$"):
        awaited.get(0.01)


def test_what_was_withdrawn_is_waited_for_again() -> None:
    awaited = Awaited[str]("server")
    awaited.set("of the first run")
    awaited.set(None)
    with pytest.raises(TimeoutError):
        awaited.get(0)
