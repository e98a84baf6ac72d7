"""Bugs of slow lines: wrong words for tc, receipts for nothing, fields that do not go together."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SHAPING = "faults/inject/network/rules.py"
_TOLD = "tests/faults/test_shaping.py::test_netem_is_told_what_the_plan_says"
_MET = "tests/faults/test_shaping.py::test_each_part_of_a_slow_line_has_to_meet_a_packet"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "latency-in-milliseconds",
        _SHAPING,
        'f"{max(1, round(milliseconds * 1000))}us"',
        'f"{max(1, round(milliseconds))}us"',
        (_TOLD,),
        "the times of a line are a thousandth of the plan's",
    ),
    Mutant(
        "latency-rounded-to-nothing",
        _SHAPING,
        "max(1, round(milliseconds * 1000))",
        "round(milliseconds * 1000)",
        ("tests/faults/test_shaping.py::test_a_number_that_is_too_small_for_tc_is_never_nothing",),
        "a latency below half a microsecond is none",
    ),
    Mutant(
        "latency-without-its-rate",
        _SHAPING,
        '("parent", "1:1", "handle", "2:") if commands else ("root",)',
        '("root",)',
        ("tests/faults/test_shaping.py::test_a_rate_is_within_the_latency",),
        "the bucket cannot be added beside netem, so a line has no rate and latency at once",
    ),
    Mutant(
        "latency-drops-beyond-a-thousand",
        _SHAPING,
        '["netem", "limit", str(_MOST_HELD), "delay"',
        '["netem", "limit", "1000", "delay"',
        (_TOLD,),
        "a fast line that is late loses packets",
    ),
    Mutant(
        "latency-that-met-nothing",
        _SHAPING,
        "**lost} if all(proof.values()) else {}",
        "**lost}",
        (_MET,),
        "a line that no packet has passed is taken for an effect",
    ),
    Mutant(
        "reordering-that-met-nothing",
        _SHAPING,
        "**lost} if all(proof.values()) else {}",
        "**lost} if any(proof.values()) else {}",
        (_MET,),
        "packets that all keep their order pass as reordered",
    ),
    Mutant(
        "waiting-packets-not-counted",
        _SHAPING,
        'netem["packets"] + netem["qlen"]',
        'netem["packets"]',
        (_MET,),
        "a latency that outlasts the run is said to have met nothing",
    ),
    Mutant(
        "hardware-asked-for",
        "faults/inject/network/rules.py",
        'dev {INTERFACE} nud permanent" for each in others]',
        'dev {INTERFACE} nud permanent" for each in ()]',
        ("tests/faults/test_rules.py::test_each_role_knows_the_hardware_of_the_others",),
        "a role whose line takes 3 s is not found",
    ),
    Mutant(
        "jitter-beyond-the-latency",
        "faults/plan/kinds/networks.py",
        "jitter > latency",
        "jitter > 2 * latency",
        ("tests/faults/test_slow_lines.py::test_fields_that_do_not_go_together_are_refused_in_one_line",),
        "a plan asks for packets that arrive before they are sent",
    ),
    Mutant(
        "slow-in-no-way",
        "faults/plan/kinds/networks.py",
        "        if not any(name in given for name in self._WAYS):",
        "        if not any(name in given for name in self._WAYS) and len(given) > 2:",
        ("tests/faults/test_slow_lines.py::test_fields_that_do_not_go_together_are_refused_in_one_line",),
        "a Slow that slows nothing is a plan",
    ),
    Mutant(
        "netem-never-tried",
        "faults/inject/network/controller.py",
        "    return any(fault.latency_ms is not None for fault in plan.faults)",
        "    return False",
        ("tests/faults/test_netem.py::test_a_plan_needs_netem_if_a_fault_has_a_latency",),
        "a kernel without netem is noticed only when roles run",
    ),
    Mutant(
        "late-news-not-waited-for",
        "faults/plan/kinds/networks.py",
        "_LATE, _LATE_AT_START = 2, 20",
        "_LATE, _LATE_AT_START = 1, 20",
        ("tests/judge/test_bound.py::test_a_fault_lasts_its_seconds_and_the_late_packets_that_are_waited_for",),
        "a role that learns of an end by a late packet has hung",
    ),
    Mutant(
        "late-start-not-waited-for",
        "faults/plan/kinds/networks.py",
        "_LATE, _LATE_AT_START = 2, 20",
        "_LATE, _LATE_AT_START = 2, 2",
        ("tests/judge/test_bound.py::test_a_fault_lasts_its_seconds_and_the_late_packets_that_are_waited_for",),
        "roles that wait for each other at a late start have hung",
    ),
    Mutant(
        "latency-drawn-unasked",
        "faults/plan/kinds/networks.py",
        "            return [*without, *found] if program.latency else [None]",
        "            return [*without, *found]",
        ("tests/faults/test_strategies.py::test_a_latency_is_drawn_only_if_it_is_asked_for",),
        "property tests fail on machines without netem",
    ),
)
