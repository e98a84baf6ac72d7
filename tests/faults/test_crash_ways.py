"""Crashes by other signals than SIGKILL, and by an exit status: what each looks like, and what counts as its effect."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.plan import Fault, Plan, PlanError
from faults.plan.crash_ways import signal_of, status_of
from faults.script.script import run_script
from tests.support import roles_endings
from tests.support.roles_endings import crashed

SELL = f"{roles_endings.__name__}:sell"
IN_CALL = f"Crash site={SELL} nth=1 when=before"
AT_CALL = f"Crash role=shop at=call:{SELL}#2@till"
POLITE = Path(__file__).parents[1] / "scripts" / "polite.py"


@pytest.mark.parametrize(
    ("plan", "handler", "verdict", "end"),
    [
        (f"{IN_CALL} how=segv", "", "clean error", "was killed by SIGSEGV"),
        (f"{IN_CALL} how=exit:3", "", "clean error", "exited with status 3"),
        (f"{AT_CALL} how=abort", "", "clean error", "was killed by SIGABRT"),
        ("Crash role=shop at=shutdown@shop how=exit:0", "", "clean error", "exited with status 0"),
        (f"{AT_CALL} how=term", "", "clean error", "was killed by SIGTERM"),
        (f"{AT_CALL} how=term", "ask", "returned", "returned"),
        (f"{IN_CALL} how=term", "ask", "returned", "returned"),
        (f"{IN_CALL} how=term", "leave", "clean error", "exited with status 3"),
        (f"{IN_CALL} how=term", "fail", "unknown", "raised RuntimeError: asked to end"),
        (f"{IN_CALL} how=term", "ignore", "not fired", "returned"),
        (f"{AT_CALL} how=term", "ignore", "not fired", "returned"),
    ],
)
def test_a_role_ends_in_the_way_that_the_crash_names(
    plan: str, handler: str, verdict: str, end: str, tmp_path: Path
) -> None:
    """A program that ends in order when it is asked to makes no mistake; one that ignores it was not hurt."""
    assert crashed(plan, tmp_path, handler)[:2] == (verdict, end)


@pytest.mark.long
@pytest.mark.parametrize(
    ("plan", "how", "verdict", "end"),
    [
        ("Crash role=shop at=call:__main__:sell#2@till how=term", "polite", "returned", "returned"),
        (
            "Crash role=shop at=call:__main__:sell#2@till how=term",
            "plain",
            "clean error",
            "was killed by a signal, after the plan's SIGTERM",
        ),
        ("Crash site=__main__:sell nth=2 when=before how=exit:3", "plain", "clean error", "exited with status 3"),
        (
            "Crash site=__main__:sell nth=2 when=before how=segv",
            "plain",
            "clean error",
            "was killed by a signal, after the plan's SIGSEGV",
        ),
    ],
)
def test_a_role_of_a_script_ends_in_the_way_that_the_crash_names(
    plan: str, how: str, verdict: str, end: str, tmp_path: Path
) -> None:
    found, judgement = run_script([sys.executable, str(POLITE), how], Plan.parse(plan), tmp_path / "run", deadline=60)
    assert (judgement.verdict, found.ends["shop"].text) == (verdict, end), str(judgement)


def test_a_way_is_a_signal_or_a_status() -> None:
    found = [(signal_of(how), status_of(how)) for how in (None, "segv", "abort", "term", "exit:0", "exit:255")]
    assert found == [(9, None), (11, None), (6, None), (15, None), (None, 0), (None, 255)]


@pytest.mark.parametrize("how", ["kill", "exit", "exit:", "exit:256", "exit:-1", "exit:01", "SEGV"])
def test_any_other_way_is_refused(how: str) -> None:
    with pytest.raises(PlanError, match=r"^Crash: 'how' must be 'segv', 'abort', 'term' or 'exit:N' with N from 0 to"):
        Fault(kind="Crash", role="shop", at="up@shop", how=how)


def test_a_role_exits_at_a_moment_of_its_own_only() -> None:
    with pytest.raises(PlanError, match=r"^Crash: how='exit:1' needs a moment of shop itself, got at='up@till'$"):
        Fault(kind="Crash", role="shop", at="up@till", how="exit:1")
    assert Fault(kind="Crash", role="shop", at="up@till", how="abort").how == "abort"
