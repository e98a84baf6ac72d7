"""A client that asks again after an indefinite error, with request numbers and without, under every fault of calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.ledger.run_files import RESULTS
from faults.script.results import OUTPUT
from tests.support.retries import ENDING, FAULTS, LATER, ONCE, TWICE, run, verdict_of

# What the customer prints if each payment counts once, 1, 1 + 10, 1 + 10 + 100; and the bank at its end.
ANSWERS = ["paid 1, the balance is 1", "paid 10, the balance is 11", "paid 100, the balance is 111"]
RIGHT = [*ANSWERS, "in the end the balance is 111"]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("plain")]


def said(place: Path) -> list[str]:
    return [line for line in (place / "run" / RESULTS / OUTPUT).read_text().splitlines() if "the balance is" in line]


def counted_once(injection: str) -> list[str]:
    """Return what is said if each payment counts once, until the fault's error where that ends the program."""
    return ANSWERS[:1] if injection in ENDING else RIGHT


@pytest.mark.parametrize("injection", FAULTS)
def test_with_numbers_each_payment_counts_once(injection: str, tmp_path: Path) -> None:
    """Where the program cannot finish, what it has said until then is right, and its error comes from the fault."""
    found, judgement = run("once", injection, tmp_path)
    assert judgement.verdict == verdict_of(injection), f"{judgement}\n{found.timeline}"
    assert said(tmp_path) == counted_once(injection), found.timeline
    asked_again = 4 if injection.startswith("Drop") or injection in LATER else 2 if injection in ENDING else 3
    assert len([call for call in found.timeline.of("invoke") if call.details["site"] == "__main__:pay"]) == asked_again


@pytest.mark.parametrize("injection", [*TWICE, *ONCE])
def test_without_numbers_a_payment_counts_as_often_as_it_executed(injection: str, tmp_path: Path) -> None:
    """Where it counts twice, the run returns, and only the comparison with the healthy one shows that it is wrong."""
    found, judgement = run("naive", injection, tmp_path)
    assert judgement.verdict == verdict_of(injection), f"{judgement}\n{found.timeline}"
    wanted = ["in the end the balance is 121"] if injection in TWICE else counted_once(injection)
    assert said(tmp_path)[-len(wanted) :] == wanted, found.timeline
