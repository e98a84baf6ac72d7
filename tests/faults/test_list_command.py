"""`list --script`: what a program calls and announces, and a plan for each that can be pasted."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.cli.list_command import print_calls
from faults.cli.main import main
from faults.ledger import Event, Timeline
from faults.plan import Plan


def listed(out: str) -> list[str]:
    """The plans that the command has printed."""
    lines = out.partition("plans, of which")[2].splitlines()
    return [line.strip() for line in lines if line.startswith("  ") and not line.strip().startswith("#   up to")]


def test_a_call_without_a_name_leaves_the_other_plans(capsys: pytest.CaptureFixture[str]) -> None:
    """A program may try to send a lambda, which fails before it leaves."""
    call = {"nth": 1, "to": "shop", "via": "rpc", "timeout": 1.0}
    events = [Event("till", "invoke", n, {"site": site, **call}) for n, site in enumerate(("m:<lambda>", "m:pay"))]
    print_calls("my.py", Timeline((Event("till", "up", 0), *events), {}, ("till",)), 3.0)
    assert listed(capsys.readouterr().out) == [
        "# none for m:<lambda>: no plan can name it: a fault: 'site' must be 'module:qualified.name', got 'm:<lambda>'",
        "Delay site=m:pay role=till nth=1 side=request seconds=0.2",
        "Hold site=m:pay role=till nth=1 side=request seconds=0.2",
        "Raise site=m:pay role=till nth=1 side=request",
        "Drop site=m:pay role=till nth=1 side=request",
        "Duplicate site=m:pay role=till nth=1",
        "Crash site=m:pay role=till nth=1 when=before",
        "Corrupt site=m:pay role=till nth=1 side=request change=zeros",
        "#   needs tensors, and a program that checks its data",
        "Pause role=till at=up@till seconds=0.5",
        "Hold role=till at=up@till seconds=0.2",
        "Crash role=till at=up@till",
        "# none for m:<lambda> by till: no plan can name it: 'at' must be 'up@ROLE', 'step:N@ROLE', "
        "'call:SITE#N@ROLE', 'writing:N@ROLE', 'written:N@ROLE', 'valid:N@ROLE' or 'shutdown@ROLE', "
        "got 'call:m:<lambda>#1@till'",
        "Crash role=till at='call:m:pay#1@till'",
    ]


def test_calls_to_several_callees_are_counted_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    calls = enumerate(("ps1", "ps2", "ps1"), 1)
    events = [Event("a", "invoke", nth, {"site": "m:f", "nth": nth, "to": to, "via": "rpc"}) for nth, to in calls]
    print_calls("my.py", Timeline(tuple(events), {}, ("a",)), 3.0)
    assert "ps1 (a 2), ps2 (a 1)" in capsys.readouterr().out


def test_a_programs_brackets_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """So Hydra writes lists."""
    print_calls("train.py paths=[/data] layers=[a,b]", Timeline((), {}, ()), 3.0)
    assert "train.py paths=[/data] layers=[a,b]: calls of a healthy run" in " ".join(capsys.readouterr().out.split())


def test_what_torch_sends_has_a_plan_that_can_hit_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Fetches and gradients of a tutorial are listed, although it calls no function for them."""
    assert main(["list", "dist_autograd"]) == 0
    plans = listed(capsys.readouterr().out)
    assert "Drop site=torch:to_here role=worker0 nth=1 side=request" in plans
    assert "Delay site=torch:backward role=worker0 nth=1 side=request seconds=0.2" in plans
    assert "Crash role=worker0 at='call:torch:backward#1@worker0'" in plans
    assert all(Plan.parse(plan).faults for plan in plans if not plan.startswith("#"))


@pytest.mark.usefixtures("plain_over_tcp")
def test_a_script_that_fails_by_itself_is_judged_instead(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.py").write_text("raise SystemExit(3)\n")
    assert main(["list", "--dir", str(tmp_path / "run"), "--script", str(tmp_path / "bad.py")]) == 3
    out = capfd.readouterr().out
    assert "the command exited with status 3" in out
    assert "plans" not in out
