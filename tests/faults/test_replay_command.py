"""`replay` makes a stored run happen again: a program of the user's own, or a tutorial."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from faults.cli.main import main
from faults.ledger.record import is_ordered
from faults.plan import Plan
from tests.faults.test_script import _plain  # noqa: F401 (the fixture)
from tests.support.suite_runs import ROOT

RIVALS = ROOT / "examples/replay/rivals.py"
DELAY = "seed=2; Delay site=__main__:pay side=reply chance_percent=50.0 seconds=0.01"
LATE = "Delay site=__main__:pay role=till1 nth=2 side=reply seconds=0.01"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rivals(first: str, later: str) -> list[str]:
    return ["--script", sys.executable, str(RIVALS), first, later]


def paid(said: str) -> str:
    return re.findall(r"^paid (.*)$", said, re.MULTILINE)[-1]


@pytest.mark.long
def test_a_run_happens_again_in_the_same_order(capfd: pytest.CaptureFixture[str]) -> None:
    """In the second run the other till sends its payments first, and they wait."""
    assert main(["run", "--plan", DELAY, "--order", "--dir", "first", *rivals("till1", "after")]) == 0
    order = paid(capfd.readouterr().out)
    assert order == "till1:1 till1:10 till2:1 till2:10"
    assert main(["replay", "first"]) == 0
    plan = Plan.parse(capfd.readouterr().out)
    assert plan.faults[-1].roles == ("till1#1", "till1#2", "till2#1", "till2#2")
    assert all(fault.role and fault.nth and fault.chance_percent is None for fault in plan.faults[:-1])
    assert main(["replay", "first", "--dir", "again", *rivals("till2", "beside")]) == 0
    said = capfd.readouterr().out
    assert (paid(said), said.splitlines()[-1]) == (order, "replay: the same facts, and the same verdict: unchecked")


@pytest.mark.long
def test_a_run_that_ends_otherwise_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    """The second program has no second payment, which the fault would hit."""
    assert main(["run", "--plan", LATE, "--dir", "first", *rivals("till1", "after")]) == 0
    Path("one.py").write_text(RIVALS.read_text().replace("(1, 10)", "(1,)"))
    capfd.readouterr()
    assert main(["replay", "first", "--dir", "again", "--script", sys.executable, "one.py", "till1", "after"]) == 1
    said = capfd.readouterr()
    assert said.out.splitlines()[-1] == (
        "replay: missing: shop effective kind=Delay site=__main__:pay caller=till1 nth=2, "
        "shop fired kind=Delay site=__main__:pay caller=till1 nth=2"
    )
    note = "not repeated: the order of calls: the run did not record it (wanted --order)"
    assert note in said.err.splitlines()


@pytest.mark.long
def test_a_tutorial_happens_again(capfd: pytest.CaptureFixture[str]) -> None:
    plan = "seed=1; Raise site=reference.rpc_basics:reseed side=reply nth=2 error=ValueError"
    assert main(["run", "rpc_basics", "--plan", plan, "--order", "--dir", "first"]) == 0
    verdict = capfd.readouterr().out.splitlines()[-1].removeprefix("verdict: ")
    assert main(["replay", "first", "rpc_basics", "--dir", "again"]) == 0
    assert capfd.readouterr().out.splitlines()[-1] == f"replay: the same facts, and the same verdict: {verdict}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["nowhere"],
            "error: nowhere is not a run's folder: nowhere/plan.json cannot be read: No such file or directory",
        ),
        (
            ["first"],
            "error: first has nothing to repeat: wanted a fault that fired, or calls of several roles",
        ),
        ([], "error: the following arguments are required: DIR"),
        (["first", "nobody"], "error: unknown tutorial 'nobody'"),
        (["first", "--script"], "error: --script what? wanted a Python file or a command"),
    ],
)
def test_what_cannot_happen_again_is_refused_in_one_line(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", "first", "--healthy"]) == 0
    assert main(["replay", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)


def test_a_run_does_not_replace_the_one_that_it_repeats(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "first", "--plan", LATE]) == 0
    ledger = '{"event": "start", "schema": 2, "time": 1.0, "wall": 1.0, "process": 1, "pid": 1}\n'
    fired = '{"event": "fired", "time": 2.0, "process": 1, "fault": 0, "kind": "Delay", "site": "__main__:pay", '
    Path("first/shop.jsonl").write_text(f'{ledger}{fired}"caller": "till1", "nth": 2}}\n')
    assert main(["replay", "first", "--dir", "first", *rivals("till1", "after")]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == "error: --dir first is the folder of the run to repeat: wanted another one"
    assert Path("first/shop.jsonl").read_text().endswith('"nth": 2}\n')


@pytest.mark.parametrize("command", ["prepare", "run"])
def test_the_order_is_recorded_only_if_that_is_asked_for(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A later run in the folder does not record it because an earlier one did."""
    words = {"prepare": ["prepare", "runs"], "run": ["run", "--dir", "runs", "--script", sys.executable, "-c", "0"]}
    for asked in (["--order"], []):
        main([*words[command][:1], "--healthy", *asked, *words[command][1:]])
        assert is_ordered("runs") == bool(asked)
