"""The table that a sweep prints, from its report."""

from __future__ import annotations

from typing import Any

from faults.cli.sweep_table import WIDTH, lines_of, sign
from faults.judge.rules import DEFECTS, LOUD, SUCCESSES, UNKNOWN
from faults.ledger.record import COMMAND


def run(kind: str, verdict: str = "equal", occurrence: str = "first", site: str = "shop:Till.pay", **more: Any) -> Any:
    cell = {"site": site, "kind": kind, "occurrence": occurrence, "call": "till#1"}
    told = {"seconds": 1.23, "checks": [], "ends": {"till": "returned"}, "plan": f"{kind} {occurrence} {site}"}
    return {"cell": cell, "verdict": verdict, "passed": verdict in SUCCESSES, **told, **more}


def report(*runs: Any, **more: Any) -> dict[str, Any]:
    return {"program": "my.py", "runs": list(runs), "not_run": 0, "not_hurt": [], **more}


def lines(*runs: Any, **more: Any) -> list[str]:
    return list(lines_of(report(*runs, **more)))


def test_the_verdict_comes_first_and_a_role_says_more_than_the_command() -> None:
    ends = {"till": "raised Late: no", "shop": "raised Lost:  till is\n gone", COMMAND: "exited with status 1"}
    failed = run("Drop reply", LOUD, ends=ends)
    assert lines(failed)[1:3] == [
        "shop:Till.pay",
        "failed loudly      1.2 s  Drop reply till#1             shop raised Lost: till is gone",
    ]


def test_what_failed_counts_more_than_the_ends() -> None:
    checks = [{"holds": False, "text": "1; 2 is not 3"}, {"holds": True, "text": "fine"}]
    assert lines(run("Drop reply", "wrong", checks=checks))[2].endswith("  1; 2 is not 3")


def test_sites_stand_together_and_cells_in_their_order() -> None:
    """They are run each site first."""
    runs = [run(kind, site=site) for kind in ("Drop reply", "Duplicate") for site in ("m:g", "m:f")]
    assert [line[26:] or line for line in lines(*runs)[1:7]] == [
        *("m:g", "Drop reply till#1", "Duplicate till#1"),
        *("m:f", "Drop reply till#1", "Duplicate till#1"),
    ]


def test_the_table_has_a_row_for_each_site_and_a_column_for_each_kind() -> None:
    runs = [
        run("Drop request", LOUD),
        run("Drop request", "hung", "last"),
        run("Delay reply"),
        run("Duplicate", "wrong", site="shop:open"),
    ]
    head, words, first, second, meaning, counts = lines(*runs)[-6:]
    assert head.split() == ["Delay", "Drop", "Dupli"]
    assert words.split() == ["site", "reply", "reque"]
    assert first.split() == ["Till.pay", "=", "!", "HU"]
    assert second.split() == ["open", "WR"]
    assert meaning == "first and last call: ! failed loudly, HU hung, = equal, WR wrong"
    assert counts == "1 equal, 1 failed loudly, 1 hung, 1 wrong"


def test_no_line_is_wider_than_a_terminal() -> None:
    """Not even with all kinds, long names, and errors that have control characters."""
    from faults.run.sweep import VARIANTS

    site = f"shop:{'Till.pay' * 20}"
    runs = [run(kind, "needless failure", site=site, ends={"a": "raised \x1b[31m" * 30}) for kind in VARIANTS]
    unhurt = [{"site": f"{site}{number}", "kind": "Order", "reason": "why"} for number in range(50)]
    found = lines(*runs, not_hurt=unhurt, not_run=3, missing=["1/2"] * 40, program="x" * 200)
    assert max(map(len, found)) <= WIDTH
    assert all(line.isprintable() for line in found)


def test_what_was_not_run_and_what_is_missing_is_said_after_the_table() -> None:
    found = lines(run("Duplicate"), not_run=12, missing=["2/3"])
    assert found[-3:] == [
        "missing parts, of which nothing is known: 2/3",
        "12 more were not run: nothing is known of them",
        "1 equal",
    ]


def test_what_is_not_hurt_for_one_reason_is_one_line() -> None:
    reason = "a alone calls it"
    unhurt = [{"site": f"m:{name}", "kind": "Order", "reason": reason} for name in "fg"]
    assert "not hurt (a alone calls it): Order of f, Order of g" in lines(run("Duplicate"), not_hurt=unhurt)


def test_a_moment_is_named_by_itself() -> None:
    at = run("Pause at", site="up by ps")
    at["cell"]["call"] = "up@ps"
    assert lines(at)[2].endswith("Pause at up@ps")


def test_a_pair_names_both_calls() -> None:
    cells = [run(kind)["cell"] for kind in ("Drop reply", "Duplicate")]
    both = {**run("Drop reply"), "pair": cells}
    del both["cell"]
    assert lines(run("Drop reply"), both)[3:5] == [
        "my.py: 1 run under 2 faults",
        "equal              1.2 s  Drop reply of Till.pay by till#1 + Duplicate of Till.pay by till#1",
    ]


def test_each_verdict_has_a_sign_of_its_own() -> None:
    verdicts = (*DEFECTS, *SUCCESSES, LOUD, UNKNOWN)
    assert len({sign(verdict) for verdict in verdicts}) == len(verdicts)
