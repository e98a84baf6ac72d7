"""Bugs in the faults that a role or a connection meets in other ways than by a kill or a lost message."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FLIGHT, _OF_FLIGHT = "faults/inject/call/flight.py", "tests/faults/test_flight.py"
_DELIVERY, _EFFECTS = "faults/inject/call/delivery.py", "faults/verdict/effects.py"
_ORIGIN = "faults/verdict/error_origin.py"
_PLANNED, _OF_PLANNED = "faults/verdict/planned_ends.py", "tests/faults/test_planned_ends.py"
_WAYS = "tests/faults/test_crash_ways.py::test_a_role_ends_in_the_way_that_the_crash_names"
_IN_ITS_WAY = f"{_OF_PLANNED}::test_only_the_planned_signal_or_status_is_the_plans"

_RAISED_BY_HANDLER = (
    "tests/faults/test_checks.py::TestEffect::test_a_process_that_its_handler_of_sigterm_ends_may_not_say_so"
)

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
        "flight-answered-counts",
        _EFFECTS,
        "            if not hit or hit & self._valued:",
        "            if not hit:",
        (
            "tests/faults/test_checks.py::TestEffect::test_a_caller_that_ends_by_a_call_in_flight_may_not_record_its_end",
        ),
        "a call in flight that its caller got an answer to passes as hurt",
    ),
    Mutant(
        "flight-excuses-a-planned-error",
        _ORIGIN,
        '    if fault.kind == "Raise" and fault.side != "flight":',
        '    if fault.kind == "Raise":',
        ("tests/faults/test_error_origin.py::test_a_call_in_flight_excuses_what_a_lost_connection_does",),
        "a program that ends by the error of a call in flight is called wrong",
    ),
    Mutant(
        "flight-and-raise-alike",
        _ORIGIN,
        "found[fault.kind, fault.place, fault.side, fault.error,",
        "found[fault.kind, fault.place, fault.error,",
        ("tests/faults/test_error_origin.py::test_a_call_in_flight_excuses_what_a_lost_connection_does",),
        "of a call in flight and a planned error only the last one excuses anything",
    ),
    Mutant(
        "crash-by-any-signal",
        _PLANNED,
        " or end.text in {str(Killed(number)) for number in signals})",
        " or True)",
        (_IN_ITS_WAY,),
        "a role that dies by another signal than the plan's passes",
    ),
    Mutant(
        "a-report-of-an-abort-never-crashes",
        "faults/plan/crash_ways.py",
        "{sent, signal.SIGSEGV} if sent == signal.SIGABRT else {sent}",
        "{sent}",
        (_IN_ITS_WAY,),
        "a role that faulthandler ends while it reports the plan's SIGABRT is judged wrong",
    ),
    Mutant(
        "crash-with-any-status",
        _PLANNED,
        '        return fault.how == "term" or end.text',
        "        return status is not None or end.text",
        (_IN_ITS_WAY,),
        "a role that exits with another status than the plan's passes, and one that ends in order is called wrong",
    ),
    Mutant(
        "every-crash-a-kill",
        "faults/inject/process/own_end.py",
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
        "faults/inject/process/gil_holder.py",
        "    library = ctypes.PyDLL(None)",
        "    library = ctypes.CDLL(None)",
        ("tests/faults/test_hold.py::test_a_role_runs_no_python_while_another_one_holds_it",),
        "a role that is held goes on to run Python",
    ),
    Mutant(
        "hold-without-a-witness",
        "faults/inject/process/gil_holder.py",
        "        if kept >= seconds:",
        "        if held >= seconds:",
        ("tests/faults/test_hold.py::test_a_hold_that_lets_other_threads_run_is_no_effect",),
        "a role that ran Python all the time passes as held",
    ),
    Mutant(
        "sigterm-that-ends-its-process-not-seen",
        _EFFECTS,
        '        if fault.how == "term" and _is_own(fired) and self._ended_at_once(fired.role):',
        '        if fault.how == "term" and _is_own(fired) and self._killed(fired.role, fired):',
        (_RAISED_BY_HANDLER,),
        "a role whose handler of SIGTERM raises is said to be unhurt, if it ends before its RPC thread runs again",
    ),
    Mutant(
        "anybodys-sigterm-needs-no-effect",
        _EFFECTS,
        "_is_own(fired) and self._ended_at_once(fired.role):",
        "self._ended_at_once(fired.role):",
        (_RAISED_BY_HANDLER,),
        "a SIGTERM to another role needs no effect if that one fails",
    ),
    Mutant(
        "hold-of-a-role-that-ended-not-seen",
        _EFFECTS,
        "        return end is not None and not end.returned and end.time - self._run.start < time",
        "        return False",
        ("tests/faults/test_checks.py::TestEffect::test_a_role_that_ends_while_it_is_held_cannot_say_so",),
        "a role that ended while it was held is said to have run",
    ),
)
