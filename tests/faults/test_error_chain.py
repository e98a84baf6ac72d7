"""An error derives from stated causes, handled errors and errors of another role. A mistake derives from none."""

from __future__ import annotations

import pickle
import queue
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import Pipe

import pytest

from faults.tracebacks.error_chain import UNREAD, Piece, from_json, paths, pieces_in, pieces_of, to_json


class Closed(Exception):
    """An error of the program's own."""


def late() -> None:
    queue.Queue[int]().get(timeout=0.001)


def stated() -> None:
    try:
        late()
    except queue.Empty as error:
        raise Closed("no answer") from error


def answered() -> None:
    try:
        late()
    except queue.Empty:
        raise Closed("no answer")  # noqa: B904 (as people write it)


def mistaken() -> None:
    try:
        late()
    except queue.Empty:
        int("no number")


def doubted() -> None:
    try:
        late()
    except queue.Empty:
        assert not "so", "of all"


def denied() -> None:
    try:
        late()
    except queue.Empty:
        raise Closed("no answer") from None


def denied_within() -> None:
    try:
        denied()
    except Closed as error:
        raise ExceptionGroup("tills", [error, ValueError()]) from None


def names(play: Callable[[], None]) -> list[str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (each has its own)
        play()
    if play is not denied:
        text = "".join(traceback.format_exception(caught.value))
        assert [str(piece) for piece in pieces_in(text)[1:]] == [str(piece) for piece in pieces_of(caught.value)[1:]]
    return [piece.name for piece in pieces_of(caught.value)]


@pytest.mark.parametrize(
    ("play", "wanted"),
    [
        (late, ["Empty"]),
        (stated, ["Closed", "Empty"]),
        (answered, ["Closed", "Empty"]),
        (mistaken, ["ValueError"]),
        (doubted, ["AssertionError"]),
        (denied, ["Closed", "Empty"]),
    ],
)
def test_an_error_derives_from_stated_or_handled_errors_but_a_mistake_does_not(
    play: Callable[[], None], wanted: list[str]
) -> None:
    assert names(play) == wanted


def check(sold: int) -> None:
    if sold != 999:
        raise Closed("the books are wrong")


def recovered() -> None:
    try:
        late()
    except queue.Empty:
        check(3)


def passed_on() -> None:
    try:
        recovered()
    except Closed as error:
        raise ValueError(str(error)) from error


@pytest.mark.parametrize(
    ("play", "doubtful"),
    [
        (answered, [False, False]),
        (stated, [False, False]),
        (denied, [False, False]),
        (recovered, [False, True]),
        (passed_on, [False, False, True]),
    ],
)
def test_an_error_of_another_function_than_the_handling_one_is_doubtful(
    play: Callable[[], None], doubtful: list[bool]
) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 (each has its own)
        play()
    found = pieces_of(caught.value)
    assert [piece.doubtful for piece in found] == doubtful
    assert [piece.doubtful for piece in from_json(to_json(found))] == doubtful


def test_an_error_hidden_by_from_none_is_read_even_in_a_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        denied_within()
    assert [[piece.name for piece in each] for each in pieces_of(caught.value)[0].members] == [
        ["Closed", "Empty"],
        ["ValueError"],
    ]


THERE = """Traceback (most recent call last):
  File "shop.py", line 7, in main
    rpc.rpc_sync("till", pay)
RuntimeError: Closed: On WorkerInfo(id=1, name=till):
Closed('the till is shut')
Traceback (most recent call last):
  File "shop.py", line 3, in pay
    look()
RuntimeError: eof (this error originated at tensorpipe/core)

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "internal.py", line 209, in _run_function
    result = python_udf.func(*python_udf.args, **python_udf.kwargs)
  File "shop.py", line 5, in pay
    raise Closed("the till is shut") from error
__mp_main__.Closed: the till is shut


At:
  internal.py(236): _handle_exception
"""


def test_an_error_of_another_role_is_that_roles() -> None:
    found = pieces_in(THERE)
    assert [str(piece) for piece in found] == [
        "Closed: the till is shut",
        "RuntimeError: eof (this error originated at tensorpipe/core)",
    ]
    met = THERE.replace(
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    )
    assert [piece.name for piece in pieces_in(met)] == ["Closed", "RuntimeError"]
    mistake = met.replace('raise Closed("the till is shut") from error', "sold[0]")
    assert [piece.name for piece in pieces_in(mistake)] == ["Closed"]
    assert [piece.doubtful for piece in pieces_in(met)] == [False, False]
    checked = met.replace('"shop.py", line 5, in pay', '"shop.py", line 5, in check')
    assert [piece.doubtful for piece in pieces_in(checked)] == [False, True]
    library = met.replace('"shop.py", line 5', '"/usr/lib/python3.11/json.py", line 5')
    assert [piece.name for piece in pieces_in(library)] == ["Closed"]


@pytest.mark.parametrize(("name", "code"), [("_queue.Empty", "return inbox.get(timeout=1.5)"), ("Sold", "raise Sold")])
def test_an_error_of_another_role_that_has_no_text_is_read(name: str, code: str) -> None:
    text = (
        'Traceback (most recent call last):\n  File "shop.py", line 7, in main\n    rpc.rpc_sync("till", pay)\n'
        f"{name}: On WorkerInfo(id=1, name=till):\n{name}()\nTraceback (most recent call last):\n"
        f'  File "shop.py", line 3, in pay\n    {code}\n{name}\n\n\nAt:\n  internal.py(236): _handle_exception\n\n'
    )
    (found,) = pieces_in(text)
    assert (found.name, found.text, found.place) == (name.rpartition(".")[2], "", "shop.py:3")
    assert (found.raised, found.waited) == (name == "Sold", True if name != "Sold" else None)


def test_a_quoted_text_and_a_callback_are_seen_through() -> None:
    quoted = (
        "Traceback (most recent call last):\n"
        '  File "shop.py", line 7, in main\n'
        r"RuntimeError: KeyError: 'On WorkerInfo(id=1, name=till):\nKeyError(\'x\')\nTraceback (most recent call last):"
        r'\n  File "shop.py", line 3, in pay\n    sold["x"]\nKeyError: \'x\'\n'
        "'\n"
    )
    assert pieces_in(quoted) == [Piece(("KeyError", "LookupError", "Exception"), "x")]
    said = "Got the following error when running the callback: Closed: no\n\nAt:\n  x.py(3): f"
    called = f"Traceback (most recent call last):\nRuntimeError: {said}\n"
    assert pieces_in(called) == [Piece(("Closed",), "no")]


def test_an_error_says_where_it_was_raised_and_whether_by_a_statement_of_the_program() -> None:
    def last(play: Callable[[], object]) -> tuple[str, bool]:
        with pytest.raises(Exception) as caught:  # noqa: PT011 (each has its own)
            play()
        found = pieces_of(caught.value)[0]
        assert pieces_in("".join(traceback.format_exception(caught.value)))[0].place == found.place
        return "/".join(found.place.rpartition(":")[0].split("/")[-2:]), found.raised

    ours, other = Pipe()
    other.close()
    assert last(stated) == ("faults/test_error_chain.py", True)
    assert last(mistaken) == ("faults/test_error_chain.py", False)
    assert last(lambda: pickle.loads(b"")) == ("faults/test_error_chain.py", False)
    assert last(ours.recv) == ("multiprocessing/connection.py", False)


class Limited(queue.Queue[int]):
    """A program's own queue, which raises by itself."""

    def get(self, block: bool = True, timeout: float | None = None) -> int:
        raise queue.Empty


@pytest.mark.parametrize(
    ("play", "wanted"),
    [
        (lambda: queue.Queue[int]().get(timeout=0.001), True),
        (lambda: queue.Queue[int]().get(True, 0.001), True),
        (lambda: queue.SimpleQueue[int]().get(timeout=0.001), True),
        (lambda: queue.Queue[int]().get_nowait(), False),
        (lambda: queue.Queue[int]().get(block=False), False),
        (lambda: queue.Queue[int]().get(*[False]), False),
        (lambda: queue.Queue[int]().get(timeout=0), False),
        (lambda: queue.SimpleQueue[int]().get_nowait(), False),
        (lambda: queue.SimpleQueue[int]().get(*[False]), None),
        (lambda: Limited().get(), None),
    ],
)
def test_an_empty_queue_says_whether_it_was_waited_for(play: Callable[[], object], wanted: bool | None) -> None:
    with pytest.raises(queue.Empty) as caught:
        play()
    assert pieces_of(caught.value)[0].waited is wanted
    assert from_json(to_json(pieces_of(caught.value)))[0].waited is wanted


SLEEP = [sys.executable, "-c", "import time; time.sleep(9)"]


def test_a_process_that_ran_before_was_waited_for_and_a_command_may_be_anybodys() -> None:
    with pytest.raises(subprocess.TimeoutExpired) as run:
        subprocess.run(SLEEP, timeout=0.01)
    with subprocess.Popen(SLEEP) as process:
        with pytest.raises(subprocess.TimeoutExpired) as waited:
            process.wait(0.01)
        process.kill()
    assert [pieces_of(each.value)[0].waited for each in (run, waited)] == [None, True]


def grouped() -> None:
    try:
        raise ExceptionGroup("tills", [ValueError("sold\nout"), ExceptionGroup("more", [KeyError("x"), Closed("no")])])
    except* ValueError as errors:
        raise Closed("no answer") from errors


def named(pieces: Sequence[Piece]) -> list[object]:
    return [(piece.name, *(named(each) for each in piece.members)) for piece in pieces]


@pytest.mark.parametrize("told", ["{}", "-- Process 0 terminated with the following error:\n{}\n"])
def test_a_group_is_read_with_what_each_of_its_errors_derives_from(told: str) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        grouped()
    answered = [("Closed",), ("ExceptionGroup", [("ValueError",)])]
    rest = [("ExceptionGroup", [("ExceptionGroup", [("KeyError",)], [("Closed",)])])]
    found = pieces_in(told.format("".join(traceback.format_exception(caught.value))))
    assert named(found) == named(pieces_of(caught.value)) == [("ExceptionGroup", answered, rest)]
    assert from_json(to_json(found)) == found
    assert [[piece.text for piece in path] for path in paths(found)] == [["no answer", "sold\nout"], ["x"], ["no"]]


def test_a_group_is_read_where_another_error_derives_from_it() -> None:
    with pytest.raises(Closed) as caught:
        raise Closed("no answer") from ExceptionGroup("tills", [ValueError(str(number)) for number in range(20)])
    assert [[str(piece) for piece in path] for path in paths(pieces_of(caught.value))] == [
        ["Closed: no answer", f"ValueError: {number}"] for number in range(20)
    ]
    shown = paths(
        pieces_in("".join(traceback.format_exception(caught.value)))
    )  # Python shows 15, and says that there are more
    assert [UNREAD in path for path in shown] == [False] * 15 + [True]


def test_pieces_survive_a_ledger() -> None:
    pieces = [Piece(("Closed", "Exception"), "no", "shop.py:3", raised=True), Piece(("Empty", "Exception"), "")]
    assert from_json(to_json(pieces)) == pieces
    assert to_json(from_json(to_json(pieces))) == to_json(pieces)
    assert from_json(None) == []


def test_an_error_whose_text_cannot_be_made_is_known_by_its_type() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise ValueError("no text")

    assert pieces_of(Mute())[0].bases == ("Mute", "RuntimeError", "Exception")
