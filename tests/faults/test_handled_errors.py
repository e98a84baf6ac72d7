"""An `except` block that handles an error is told from a `finally` block: `sys.exc_info` shows both alike."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from faults.script.handled_errors import is_handled

ROOT = Path(__file__).parents[2]

found: list[bool | None] = []


def look() -> None:
    """Return what a program's own function sees if it ends the process."""
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
def test_the_source_tells_whether_an_error_is_handled(program: Callable[[], None], handled: bool | None) -> None:
    found.clear()
    with suppress(ValueError, KeyError):
        program()
    assert found == [handled]


def test_without_a_source_handling_is_unknown() -> None:
    found.clear()
    with suppress(ValueError):
        exec("try:\n    int('no data')\nfinally:\n    look()", {"look": look})
    assert found == [None]
    assert is_handled(ValueError("never raised")) is None


# The code that tells at the end whether the last SystemExit was caught, and a program in which a handler exits.
_TELLS = """
import asyncio, atexit, sys
from contextlib import ExitStack, suppress
from faults.script.handled_errors import was_caught
met = []
def leave():
    try:
        sys.exit(2)
    except SystemExit as error:
        met.append(error)
        raise
atexit.register(lambda: print(was_caught(met[-1])))
def nothing():
    pass
def passes():
    try:
        leave()
    finally:
        nothing()
def raises_again():
    try:
        leave()
    except BaseException:
        raise
def in_a_generator():
    yield 1
    leave()
async def in_a_coroutine():
    leave()
async def catches_in_a_coroutine():
    with suppress(SystemExit):
        leave()
def catches():
    try:
        passes()
    except SystemExit:
        return 3
def catches_in_a_with_statement():
    with suppress(SystemExit):
        passes()
def main(work):
    with ExitStack():
        work()
"""


@pytest.mark.parametrize(
    ("program", "caught"),
    [
        ("leave()", False),
        ("passes()", False),
        ("main(leave)", False),
        ("main(passes)", False),
        ("main(raises_again)", False),
        ("list(in_a_generator())", False),
        ("asyncio.run(in_a_coroutine())", False),
        ("eval('main(leave)')", False),
        ("catches()", True),
        ("main(catches)", True),
        ("main(catches_in_a_with_statement)", True),
        ("asyncio.run(catches_in_a_coroutine())", True),
        ("with suppress(SystemExit): list(in_a_generator())", True),
        ("with suppress(SystemExit): main(leave)", True),
    ],
)
def test_an_error_was_caught_where_a_frame_that_it_has_met_returned(program: str, caught: bool) -> None:
    command = [sys.executable, "-S", "-c", f"{_TELLS}\n{program}"]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert (said.stdout, said.returncode) == (f"{caught}\n", 0 if caught else 2)
