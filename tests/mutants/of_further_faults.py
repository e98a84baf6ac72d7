"""Bugs in the faults that a role or a connection meets in other ways than by a kill or a lost message."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FLIGHT, _OF_FLIGHT = "faults/inject/call/flight.py", "tests/faults/test_flight.py"
_DELIVERY = "faults/inject/call/delivery.py"
_WAYS = "tests/faults/test_crash_ways.py::test_a_role_ends_in_the_way_that_the_crash_names"

MUTANTS = (
    Mutant(
        "flight-answered-after-the-call",
        _FLIGHT,
        "    send()\n    failed: Future[Any] = Future()\n    question.",
        "    failed: Future[Any] = Future()\n    send().",
        (f"{_OF_FLIGHT}::test_the_caller_fails_while_the_callee_executes",),
        "the caller of a call in flight fails only when the callee has executed",
    ),
    Mutant(
        "flight-executed-by-nobody",
        _DELIVERY,
        "        if flights:\n",
        "        if flights:\n            function = lambda: None  # noqa: E731\n",
        (f"{_OF_FLIGHT}::test_the_caller_fails_while_the_callee_executes",),
        "the callee of a call in flight does not execute it",
    ),
    Mutant(
        "flight-lost-where-the-future-is-passed-on",
        _FLIGHT,
        "    future.set_result(RemoteException(text, RuntimeError))",
        "    future.set_exception(RuntimeError(text))",
        (f"{_OF_FLIGHT}::test_the_error_stays_where_the_future_is_passed_on",),
        "an asynchronous function that answers with a call in flight returns the error instead of raising it",
    ),
    Mutant(
        "flight-of-a-remote-unsaid",
        "faults/inject/call/calls.py",
        '            self.ledger.write("failed", fault=number, kind="Raise", why=flight.REMOTE)',
        "            del number",
        (f"{_OF_FLIGHT}::test_a_remote_passes_unhurt_and_the_ledger_says_why",),
        "nothing says why a `remote` does not fail in flight",
    ),
    Mutant(
        "every-crash-a-kill",
        "faults/inject/process/target.py",
        "    status, number = status_of(how), signal_of(how)",
        "    status, number = None, signal.SIGKILL",
        (_WAYS,),
        "a role is killed by SIGKILL, whatever way the plan names",
    ),
    Mutant(
        "sigterm-in-a-call-ignored-counts",
        _DELIVERY,
        'fault.how == "term" and has_signal(os.getpid(), IGNORED, signal.SIGTERM):',
        "fault.how is fault.kind:",
        (_WAYS,),
        "a callee that ignores SIGTERM passes as hurt",
    ),
    Mutant(
        "hold-without-the-gil",
        "faults/inject/process/hold.py",
        "    library = ctypes.PyDLL(None)",
        "    library = ctypes.CDLL(None)",
        ("tests/faults/test_hold.py::test_a_callee_runs_no_python_while_it_is_held",),
        "a role that is held goes on to run Python",
    ),
    Mutant(
        "hold-without-a-witness",
        "faults/inject/process/hold.py",
        "    if kept >= seconds:",
        "    if held >= seconds:",
        ("tests/faults/test_hold.py::test_a_hold_that_lets_other_threads_run_is_no_effect",),
        "a role that ran Python all the time passes as held",
    ),
)
