"""Whether an error is handled, or passes: what `sys.exc_info` shows looks the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from faults.handled import is_handled

found: list[bool | None] = []


def look() -> None:
    """What a program's own function sees that ends the process."""
    error = sys.exc_info()[1]
    assert error is not None
    found.append(is_handled(error))


def answers() -> None:
    try:
        int("no data")
    except ValueError:
        look()


def cleans_up_in_its_answer() -> None:
    try:
        int("no data")
    except ValueError:
        try:
            int("1")
        finally:
            look()


def answers_to_what_its_callee_has_let_pass() -> None:
    try:
        with suppress(KeyError):
            int("no data")
    except ValueError:
        look()


def lets_it_pass() -> None:
    try:
        int("no data")
    finally:
        look()


def lets_it_pass_though_it_answers_to_others() -> None:
    try:
        int("no data")
    except KeyError:
        look()
    finally:
        with suppress(KeyError):
            look()


def fails_in_its_answer() -> None:
    try:
        try:
            int("no data")
        except ValueError as error:
            raise KeyError("data") from error
    finally:
        look()


def raises_it_again() -> None:
    try:
        int("no data")
    except ValueError:
        try:
            raise
        finally:
            look()


@contextmanager
def looking() -> Iterator[None]:
    try:
        yield
    finally:
        look()


def is_left_by_it() -> None:
    with looking():
        int("no data")


class Looking:
    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None:
        look()


def is_left_by_who_may_answer() -> None:
    with Looking():
        int("no data")


@pytest.mark.parametrize(
    ("program", "handled"),
    [
        (answers, True),
        (cleans_up_in_its_answer, True),
        (answers_to_what_its_callee_has_let_pass, True),
        (lets_it_pass, False),
        (lets_it_pass_though_it_answers_to_others, False),
        (fails_in_its_answer, False),
        (is_left_by_it, False),
        (is_left_by_who_may_answer, None),
        (raises_it_again, None),
    ],
)
def test_by_the_source_of_the_frame_that_the_error_has_reached(
    program: Callable[[], None], handled: bool | None
) -> None:
    found.clear()
    with suppress(ValueError, KeyError):
        program()
    assert found == [handled]


def test_without_a_source_nobody_can_tell() -> None:
    found.clear()
    with suppress(ValueError):
        exec("try:\n    int('no data')\nfinally:\n    look()", {"look": look})
    assert found == [None]
    assert is_handled(ValueError("never raised")) is None
