"""Crashes by other signals than SIGKILL, and by an exit status: what each looks like, and what counts as its effect."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from faults.judge.facts import Facts, how_all_ended
from faults.plan import Fault, Plan, PlanError
from faults.run.runs import run
from faults.script.script import run_script
from tests.support import roles_endings

SELL = f"{roles_endings.__name__}:sell"
IN_CALL = f"Crash site={SELL} nth=1 when=before"
AT_CALL = f"Crash role=shop at=call:{SELL}#2@till"
POLITE = Path(__file__).parents[1] / "scripts" / "polite.py"


@pytest.mark.parametrize(
    ("plan", "handler", "verdict", "end"),
    [
        (f"{IN_CALL} how=segv", "", "failed loudly", "was killed by SIGSEGV"),
        (f"{IN_CALL} how=exit:3", "", "failed loudly", "exited with status 3"),
        (f"{AT_CALL} how=abort", "", "failed loudly", "was killed by SIG(ABRT|SEGV)"),
        ("Crash role=shop at=shutdown@shop how=exit:0", "", "failed loudly", "exited with status 0"),
        (f"{AT_CALL} how=term", "", "failed loudly", "was killed by SIGTERM"),
        (f"{AT_CALL} how=term", "ask", "unchecked", "returned"),
        (f"{IN_CALL} how=term", "ask", "unchecked", "returned"),
        (f"{IN_CALL} how=term", "leave", "failed loudly", "exited with status 3"),
        (f"{IN_CALL} how=term", "fail", "failed loudly", "raised RuntimeError: asked to end"),
        (f"{IN_CALL} how=term", "ignore", "not fired", "returned"),
        (f"{AT_CALL} how=term", "ignore", "not fired", "returned"),
    ],
)
def test_a_role_ends_in_the_way_that_the_crash_names(
    plan: str, handler: str, verdict: str, end: str, tmp_path: Path
) -> None:
    """A program that ends in order when it is asked to makes no mistake; one that ignores it was not hurt."""
    found, judgement = run(roles_endings.subject(handler), Plan.parse(plan), tmp_path, deadline=60)
    assert judgement.verdict == verdict, str(judgement)
    assert re.fullmatch(end, found.ends["shop"].text)
    assert ("shop ignores SIGTERM" in str(found.timeline)) is (handler == "ignore")


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "verdict", "end"),
    [("polite", "unchecked", "returned"), ("plain", "failed loudly", "was killed by the plan, by SIGTERM")],
)
def test_a_role_of_a_script_ends_in_the_way_that_the_crash_names(
    how: str, verdict: str, end: str, tmp_path: Path
) -> None:
    plan = Plan.parse("Crash role=shop at=call:__main__:sell#2@till how=term")
    found, judgement = run_script([sys.executable, str(POLITE), how], plan, tmp_path / "run", deadline=60)
    assert judgement.verdict == verdict, str(judgement)
    assert how_all_ended(Facts(found))["shop"] == end, str(judgement)


def test_a_role_exits_at_a_moment_of_its_own_only() -> None:
    with pytest.raises(PlanError, match=r"^Crash: how='exit:1' needs a moment of shop itself, got at='up@till'$"):
        Fault(kind="Crash", role="shop", at="up@till", how="exit:1")
    assert Fault(kind="Crash", role="shop", at="up@till", how="abort").how == "abort"
