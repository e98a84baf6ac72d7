"""Each row of the table of origins, with errors that it excuses, and errors that it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faults.ledger import Event, Timeline
from faults.ledger.record import Run
from faults.plan import Plan
from faults.tracebacks.error_chain import Piece, to_json
from faults.verdict.error_origin import excused

CALL = "site=shop:pay role=a nth=1"
DELAY = f"Delay {CALL} side=reply seconds=1"
PAUSE = "Pause role=b at=up@a seconds=1"
HOLD = "Hold role=b at=up@a seconds=1"
ORDER = "Order site=shop:pay roles=a,c seconds=5"
TWICE = f"Duplicate {CALL}"
DROP = f"Drop {CALL} side=request"
RAISE = f"Raise {CALL} side=request error=KeyError text='no sale'"
FAULT = f"Raise {CALL} side=reply"
FLIGHT = f"Raise {CALL} side=flight"
CRASH = "Crash role=b at=up@a"
RESET = "Reset role=a peer=b"
LOST_MESSAGE = "Drop message=PYTHON_CALL role=a times=1"
LATE_MESSAGE = "Delay message=PYTHON_CALL role=a seconds=0.5"


def error(kind: str, text: str = "", *bases: str) -> Piece:
    return Piece((kind, *(bases or ("Exception",))), text)


LATE = error(
    "RuntimeError", "RPCErr:1:RPC ran for more than set timeout (1000 ms) and will now be marked with an error"
)
GONE = error("RuntimeError", "eof (this error originated at tensorpipe/transport/shm/connection_impl.cc:259)")
EMPTY = Piece(("Empty", "Exception"), "", waited=True)
POLLED = Piece(("Empty", "Exception"), "", "/usr/lib/python3.11/queue.py:168", waited=False)
SIZE = error("RuntimeError", "The size of tensor a (21) must match the size of tensor b (20) at dimension 0")
SILENT = error("RoundFailed", "round 1: nothing for 1.0 s from trainer1", "RuntimeError")
NOT_RUN = error("RuntimeError", "till failed: PredecessorFailed: number 3 cannot run: nothing for 1.5 s from number 2")
CLOSED = error("Closed", "the shop is closed")
TWICE_REFUSED = error("AssertionError", "paid twice")

LIB = "/usr/lib/python3.11"
REFUSED = "[Errno 111] Connection refused"


def socketed(kind: str, place: str, *, raised: bool = False, waited: bool | None = None) -> Piece:
    """An error of Python or of the program, whose text says equally little."""
    parents = ("ConnectionError", "OSError", "Exception") if kind.startswith("Connection") else ("Exception",)
    text = REFUSED if kind.startswith("Connection") else "timed out after 0.5 seconds"
    return Piece((kind, *parents), text, place, raised=raised, waited=waited)


NOTHING: tuple[Event, ...] = ()


def fired(time: float = 1.0) -> Event:
    return Event("b", "fired", time, {"fault": 0, "caller": "a", "site": "shop:pay", "nth": 1})


def other_fired() -> Event:
    return Event("b", "fired", 1.0, {"fault": 1, "caller": "a", "site": "shop:pay", "nth": 1})


def call(event: str, *causes: Piece, role: str = "a", nth: int = 1, **details: object) -> Event:
    said = {"error": str(causes[0]), "causes": to_json(list(causes))} if causes else {}
    return Event(role, event, 1.5, {"site": "shop:pay", "nth": nth, "via": "rpc", **said, **details})


def comes(
    plan: str, *pieces: Piece, events: tuple[Event, ...] = (fired(),), time: float = 2.0, follows: bool = False
) -> bool | None:
    run = Run("shop", Plan.parse(plan), Timeline(events, {}, ("a", "b")))
    return excused(run, pieces, time, follows=follows)


@pytest.mark.parametrize("plan", [DELAY, PAUSE, HOLD, ORDER])
@pytest.mark.parametrize(
    ("piece", "right"),
    [
        (LATE, True),
        (EMPTY, True),
        (POLLED, False),
        (error("Full"), None),  # the frames do not tell whether it ended a wait
        (SILENT, True),
        (error("TimeoutError", "too slow"), True),
        (error("Late", "the answer timed out"), None),
        (error("RuntimeError", "loss is not finite after 3 s of training"), None),
        (error("RuntimeError", "cache entry timed out of range"), None),
        (error("RuntimeError", "sold nothing for 3 s of May"), None),
        (error("RuntimeError", "cache entry 7 timed out after 30 reads, but is still in use"), None),
        (error("RuntimeError", "the client socket has timed out after 30000ms while trying to connect"), True),
        (error("RuntimeError", "Followers ['b'] timed out in _all_gather after 8.00 seconds. The first"), True),
        (error("Late", "no answer: nothing for 3 s"), True),
        (NOT_RUN, True),
        (error("RuntimeError", "Connection closed by peer"), False),
        (error("RuntimeError", "Wait timeout"), True),
        (GONE, False),
        (SIZE, False),
        (CLOSED, False),
        (error("TypeError", "got an unexpected keyword argument 'timeout'"), False),
        (error("KeyError", "timeout"), False),
        (error("AssertionError", "12"), False),
    ],
    ids=str,
)
def test_after_a_fault_that_loses_nothing_only_a_time_out_is_excused(plan: str, piece: Piece, right: bool) -> None:
    assert comes(plan, piece) is right


@pytest.mark.parametrize(
    ("piece", "late", "lost"),
    [
        (socketed("TimeoutError", "/home/me/shop.py:7", raised=True), True, True),
        (socketed("TimeoutError", f"{LIB}/concurrent/futures/_base.py:458"), True, True),
        (socketed("TimeoutError", f"{LIB}/asyncio/tasks.py:456"), True, True),
        (socketed("BrokenBarrierError", f"{LIB}/threading.py:668"), True, True),
        (socketed("TimeoutError", f"{LIB}/multiprocessing/pool.py:770"), True, True),
        (socketed("TimeoutExpired", f"{LIB}/subprocess.py:2038", waited=True), True, True),
        (socketed("TimeoutExpired", f"{LIB}/subprocess.py:2038"), None, None),
        (socketed("TimeoutError", f"{LIB}/socket.py:836"), None, None),
        (socketed("TimeoutError", "/home/me/shop.py:7"), None, None),  # a socket's error, in a line of its own
        (socketed("ConnectionResetError", f"{LIB}/multiprocessing/connection.py:384"), False, True),
        (socketed("ConnectionRefusedError", f"{LIB}/socket.py:836"), False, None),
        (socketed("ConnectionRefusedError", "/home/me/shop.py:7", raised=True), False, None),
    ],
    ids=lambda value: f"{value.name}@{value.place}" if isinstance(value, Piece) else str(value),
)
def test_a_server_that_is_no_peer_is_not_lost_by_the_plan(piece: Piece, late: bool | None, lost: bool | None) -> None:
    """A program that recovered from the fault may find a wrong port, or a slow command, of its own."""
    assert (comes(DELAY, piece), comes(DROP, piece)) == (late, lost)
    assert comes(DROP, CLOSED, piece, GONE) is True


def test_a_call_in_flight_excuses_what_a_lost_connection_does() -> None:
    for piece, right in ((GONE, True), (LATE, True), (SIZE, False), (error("FaultError", "injected"), False)):
        assert comes(FLIGHT, piece) is right
    assert comes(f"{FLIGHT}; {FAULT}", GONE, events=(fired(), other_fired())) is True


def test_an_out_of_turn_error_comes_from_the_plan() -> None:
    out = error("OutOfTurn", "Order: nothing from c within 5.0 s, wanted before a", "RuntimeError")
    assert comes(ORDER, out) is True
    assert comes(ORDER, out, events=NOTHING) is True  # before the order is complete, which is when it fires
    assert comes(ORDER, LATE, events=NOTHING) is False
    assert comes(DELAY, error("OutOfTurn", "no")) is False


def test_an_order_holds_calls_before_it_fires_and_if_it_never_does() -> None:
    held = Event("a", "invoke", 0.5, {"site": "shop:pay", "nth": 1, "via": "rpc", "faults": [0]})
    assert comes(ORDER, LATE, events=(held,)) is True
    assert comes(ORDER, LATE, events=(held,), time=0.4) is False
    assert comes(ORDER, SIZE, events=(held,)) is False


class TestDuplicate:
    SENT = call("invoke", faults=[0])

    def test_an_error_of_the_callee_in_handling_a_duplicate_is_excused(self) -> None:
        refused = call("refused", TWICE_REFUSED, role="b", caller="a")
        assert comes(TWICE, TWICE_REFUSED, events=(self.SENT, fired(), refused)) is True
        told = error("RuntimeError", "b says: AssertionError: paid twice")
        assert comes(TWICE, told, events=(self.SENT, fired(), refused)) is True
        short = error("RuntimeError", "the seats that were paid twice: 7")
        assert comes(TWICE, short, events=(self.SENT, fired(), refused)) is None
        assert comes(TWICE, CLOSED, TWICE_REFUSED, events=(self.SENT, fired(), refused)) is True

    def test_the_answer_to_the_caller_of_a_duplicate_is_excused(self) -> None:
        assert comes(TWICE, TWICE_REFUSED, events=(self.SENT, fired(), call("fail", TWICE_REFUSED))) is True

    def test_an_error_of_another_call_is_not_excused_by_a_duplicate(self) -> None:
        other = call("fail", SIZE, nth=2)
        assert comes(TWICE, SIZE, events=(self.SENT, fired(), other)) is False

    @pytest.mark.parametrize("piece", [SIZE, LATE, GONE, EMPTY], ids=str)
    def test_an_error_of_the_program_is_not_excused_by_a_duplicate(self, piece: Piece) -> None:
        assert comes(TWICE, piece, events=(self.SENT, fired())) is False


@pytest.mark.parametrize("plan", [DROP, CRASH, RESET])
@pytest.mark.parametrize(
    ("pieces", "right"),
    [
        ((LATE,), True),
        ((GONE,), True),
        ((SILENT,), True),
        ((error("UnicodeDecodeError", "'utf-8' codec can't decode byte 0x80 in position 47"),), True),
        ((CLOSED, GONE), True),
        ((error("RuntimeError", f"trainer1 failed: {GONE.text}"),), True),
        ((error("RuntimeError", "[gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:6"),), True),
        ((error("RuntimeError", "account not found in 2 s bucket"),), None),
        ((error("RuntimeError", "Connection closed"),), None),
        ((error("RuntimeError", "Connection closed"), GONE), True),
        ((SIZE,), False),
        ((CLOSED,), False),
        ((error("KeyError", "ECONNRESET"),), False),
        ((error("RuntimeError", "retry_on must be a list of errno names, got 'ECONNRESET'"),), None),
        ((error("RuntimeError", "ECONNRESET: connection reset by peer"),), True),
        ((error("EOFError", "Ran out of input"),), False),
        ((error("AttributeError", "'NoneType' object has no attribute 'grad'"),), False),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else str(value),
)
def test_errors_that_derive_from_a_loss_are_excused(plan: str, pieces: tuple[Piece, ...], right: bool) -> None:
    assert comes(plan, *pieces) is right


def test_an_error_without_a_text_may_come_from_a_lost_message_unless_the_program_raised_it() -> None:
    """Python 3.11.2 makes it of torch's error for a lost message that is no text."""
    textless, fetch = error("RuntimeError"), "Drop message=PYTHON_RREF_FETCH_CALL role=a times=1"
    assert comes(fetch, textless, events=()) is None
    assert comes(fetch, replace(textless, raised=True), events=()) is False
    assert comes(fetch, error("ValueError"), events=()) is False
    assert comes(DROP, textless) is False


@pytest.mark.parametrize(
    ("held", "right"),
    [
        (((LATE,), (CLOSED, GONE)), True),
        (((LATE,), (SIZE,)), False),
        (((LATE,), ()), None),
        (((LATE,), (error("RuntimeError", "no answer within 3 s"),)), None),
        (((LATE,), (error("RuntimeError", "no answer within 3 s"),), (SIZE,)), False),
    ],
)
def test_a_group_is_excused_if_all_that_it_holds_is(held: tuple[tuple[Piece, ...], ...], right: bool | None) -> None:
    group = Piece(("ExceptionGroup", "Exception"), "RPCErr:1 of many", members=held)
    assert comes(DROP, group) is right
    assert comes(DROP, CLOSED, group) is right
    assert comes(DROP, CLOSED, Piece(group.bases, "", members=((group,), (GONE,)))) is right
    told = error("RuntimeError", "a failed: AssertionError: 3 rows")
    other = Piece(group.bases, "tills", members=((LATE,), (error("AssertionError", "3 rows"),)))
    assert comes(DROP, told, events=(fired(), call("fail", other))) is False


def test_a_doubtful_cause_makes_an_error_unknown() -> None:
    doubtful = replace(GONE, doubtful=True)
    assert comes(DROP, CLOSED, doubtful) is None
    assert comes(DROP, CLOSED, replace(SIZE, doubtful=True)) is False
    assert comes(DROP, LATE, replace(SIZE, doubtful=True)) is True
    group = Piece(("ExceptionGroup", "Exception"), "", members=((LATE,), (GONE,)))
    assert comes(DROP, CLOSED, replace(group, doubtful=True)) is None
    told = error("RuntimeError", "till 1 has given up: Closed: the shop is closed")
    assert comes(DROP, told, events=(fired(), call("fail", CLOSED, doubtful))) is False


def test_a_planned_error_is_excused_by_type_and_text() -> None:
    assert comes(RAISE, error("KeyError", "no sale", "LookupError")) is True
    assert comes(RAISE, error("KeyError", "no such sale", "LookupError")) is False
    assert comes(RAISE, error("ValueError", "no sale")) is False
    assert comes(FAULT, error("FaultError", "injected", "RuntimeError")) is True
    assert comes(DROP, error("FaultError", "injected", "RuntimeError")) is False
    assert comes(RAISE, error("RuntimeError", "a failed: KeyError: 'no sale'")) is True
    assert comes(FAULT, error("RuntimeError", "a failed: FaultError('injected')")) is True


@pytest.mark.parametrize(
    ("pieces", "right"),
    [
        ((CLOSED, error("FaultError", "injected", "RuntimeError")), True),
        ((error("AssertionError", "nothing was injected"),), False),
        ((error("FaultError", "never injected", "RuntimeError"),), None),
        ((error("RuntimeError", "nothing was injected"),), None),  # or it reports the failed call in its own words
        ((LATE,), None),  # or it waits for the role that caught the plan's error
        ((SILENT,), None),
        ((GONE,), None),
        ((error("RuntimeError", "2 batches timed out, 7 rows are wrong"),), None),
        ((error("EOFError", "Ran out of input"),), False),
        ((SIZE,), False),
        ((CLOSED,), False),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else str(value),
)
def test_after_an_error_of_the_plan_others_are_its_own_or_unknown(
    pieces: tuple[Piece, ...], right: bool | None
) -> None:
    assert comes(FAULT, *pieces) is right


def test_a_text_that_is_empty_or_a_letter_is_no_quotation() -> None:
    """The plan may raise any type. An error of this type with another text does not come from the plan."""
    for text, other in (("", "7 rows are wrong"), ("x", "max() of nothing")):
        plan = f"Raise {CALL} side=request error=ValueError text='{text}'"
        assert comes(plan, error("ValueError", text)) is True
        assert comes(plan, error("ValueError", other)) is None
        assert comes(plan, error("RuntimeError", other)) is not True


def test_an_end_of_file_is_a_loss_where_a_channel_raises_it() -> None:
    def end(place: str) -> Piece:
        return Piece(("EOFError", "Exception"), "", place)

    for place in ("/usr/lib/python3.11/multiprocessing/connection.py:383", "/opt/torch/distributed/rpc/api.py:1"):
        assert comes(CRASH, end(place)) is True
    for place in ("/home/me/shop.py:7", "/x/site-packages/torch/serialization.py:1", ""):
        assert comes(CRASH, end(place)) is False


def test_an_error_that_quotes_a_failed_call_is_excused() -> None:
    told = error("RuntimeError", "till 1 has given up: Closed: the shop is closed")
    assert comes(DROP, told, events=(fired(), call("fail", CLOSED, GONE))) is True
    assert comes(DROP, told, events=(fired(), call("fail", CLOSED))) is False
    assert comes(FAULT, told, events=(fired(), call("fail", CLOSED, error("FaultError", "injected")))) is True
    assert comes(FAULT, told, events=(fired(), call("fail", CLOSED, GONE))) is False


def test_an_error_that_quotes_a_text_without_its_type_is_unknown() -> None:
    told = error("RuntimeError", "till 1 has given up: the shop is closed")
    assert comes(DROP, told, events=(fired(), call("fail", CLOSED, GONE))) is None
    assert comes(DROP, error("KeyError", told.text), events=(fired(), call("fail", CLOSED, GONE))) is False


def test_an_error_before_anything_has_fired_is_not_excused() -> None:
    assert comes(DROP, LATE, time=0.9) is False
    assert comes(DROP, LATE, events=NOTHING) is False
    assert comes("seed=0", LATE) is False


def test_a_lost_peer_is_excused_by_the_end_of_another_role() -> None:
    assert comes(DELAY, GONE, follows=True) is True
    assert comes(DELAY, SIZE, follows=True) is False
    assert comes(DELAY, error("RuntimeError", "Connection closed"), follows=True) is None
    assert comes(DELAY, error("PeerLost", "b raised", "RuntimeError"), follows=True) is True
    for piece in (GONE, LATE, SILENT, EMPTY):
        assert comes(FAULT, piece, follows=True) is True
        assert comes(TWICE, piece, follows=True) is True
    assert comes(FAULT, SIZE, follows=True) is False


class TestMessages:
    REFUSED = error("RuntimeError", "RPCErr:2:Send attempt failed intentionally for ")

    def test_the_call_that_shows_it_is_its_firing(self) -> None:
        seen = call("fail", self.REFUSED, seconds=0.1)
        assert comes(LOST_MESSAGE, self.REFUSED, events=(seen,)) is True
        assert (
            comes(LOST_MESSAGE, self.REFUSED, events=(seen,), time=1.4) is True
        )  # the error is written when its caller goes on
        assert comes(LOST_MESSAGE, SIZE, events=(seen,)) is False

    def test_without_evidence_of_the_fault_an_error_is_unknown(self) -> None:
        assert comes(LOST_MESSAGE, LATE, events=NOTHING) is None
        assert comes(LATE_MESSAGE, LATE, events=NOTHING) is None
        assert comes(LATE_MESSAGE, GONE, events=NOTHING) is False
        assert comes(LOST_MESSAGE, SIZE, events=NOTHING) is False
