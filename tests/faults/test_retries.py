"""A client that asks again after an indefinite error, with request numbers and without, under every fault of calls."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from faults.inject.message.transports import small_files_only
from faults.ledger.record import Run
from faults.plan import Fault, Plan
from faults.run.cells import INJECTIONS
from faults.script.script import run_script
from faults.verdict.checks import Judgement

EXAMPLES = Path(__file__).parents[2] / "examples" / "retries"
# What the customer prints if each payment counts once, 1, 1 + 10, 1 + 10 + 100; and the bank at its end.
ANSWERS = ["paid 1, the balance is 1", "paid 10, the balance is 11", "paid 100, the balance is 111"]
RIGHT = [*ANSWERS, "in the end the balance is 111"]

# Later than the caller waits (1 s): the request executes after it was sent again, or the answer comes too late.
LATER = {
    "Delay request beyond the time-out": {"kind": "Delay", "side": "request", "seconds": 1.5},
    "Delay reply beyond the time-out": {"kind": "Delay", "side": "reply", "seconds": 1.5},
}
FAULTS = {**INJECTIONS, **LATER}
# The faults after which a program may not be able to finish: the callee's own error, and its death.
ENDING = ("Raise request", "Raise reply", "Raise flight", "Crash before", "Crash after")
# The faults by which a call executes twice, or executes without its caller hearing of it.
TWICE = ("Drop reply", "Duplicate", *LATER)

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a process that is killed leaves its files there
    monkeypatch.setenv("TP_SOCKET_IFNAME", "lo")
    monkeypatch.delenv("PYTHONPATH", raising=False)


def plan_of(injection: str) -> Plan:
    """Hit the second of three payments."""
    return Plan((Fault(site="__main__:pay", role="customer", nth=2, **FAULTS[injection]),))


def run(program: str, plan: Plan, place: Path) -> tuple[Run, Judgement]:
    with small_files_only():  # no transport that spins
        return run_script([sys.executable, str(EXAMPLES / f"{program}.py")], plan, place / "run", deadline=90)


def said(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().out.splitlines() if "the balance is" in line]


@pytest.mark.parametrize("program", ["naive", "once"])
def test_both_are_right_without_a_fault(program: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    _, judgement = run(program, Plan(), tmp_path)
    assert (judgement.verdict, said(capfd)) == ("returned", RIGHT)


@pytest.mark.parametrize("injection", FAULTS)
def test_with_numbers_each_payment_counts_once(
    injection: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the program cannot finish, what it has said until then is right, and its error comes from the fault."""
    found, judgement = run("once", plan_of(injection), tmp_path)
    expected = ("clean error", ANSWERS[:1]) if injection in ENDING else ("returned", RIGHT)
    assert (judgement.verdict, said(capfd)) == expected, f"{judgement}\n{found.timeline}"
    asked_again = 4 if injection.startswith("Drop") or injection in LATER else 2 if injection in ENDING else 3
    assert len([call for call in found.timeline.of("invoke") if call.details["site"] == "__main__:pay"]) == asked_again


@pytest.mark.parametrize("injection", TWICE)
def test_without_numbers_a_payment_counts_twice(
    injection: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run returns, and only the comparison with the healthy one shows that it is wrong."""
    found, judgement = run("naive", plan_of(injection), tmp_path)
    assert judgement.verdict == "returned", f"{judgement}\n{found.timeline}"
    assert said(capfd)[-1] == "in the end the balance is 121"


@pytest.mark.parametrize("injection", ["Drop request", "Delay reply", "Raise reply"])
def test_without_numbers_a_payment_counts_once_if_it_executed_once(
    injection: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """After the other faults of this sort both programs do the same."""
    found, judgement = run("naive", plan_of(injection), tmp_path)
    expected = ("clean error", ANSWERS[:1]) if injection in ENDING else ("returned", RIGHT)
    assert (judgement.verdict, said(capfd)) == expected, f"{judgement}\n{found.timeline}"


@pytest.mark.parametrize("program", ["naive", "once", "layers"])
def test_each_program_can_be_read_at_once(program: str) -> None:
    assert len((EXAMPLES / f"{program}.py").read_text().splitlines()) < 100
