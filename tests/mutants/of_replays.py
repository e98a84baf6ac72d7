"""Bugs in the recorded order of calls, in orders of calls by number, and in the plan that repeats a run."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_REPLAY, _OF_REPLAY = "faults/run/replay.py", "tests/faults/test_replay.py"
_SAME = "faults/run/same_run.py"
_OCCURRENCE, _OF_OCCURRENCE = "faults/inject/call/envelope.py", "tests/faults/test_occurrence.py"
_GATE, _OF_GATE = "faults/inject/call/order_gate.py", "tests/faults/test_order_gate.py"
_CORRUPTED = "faults/inject/call/corruption.py"
_FACTS = f"{_OF_REPLAY}::test_the_plan_of_a_run_gives_the_same_facts"
_RECORDED = "tests/faults/test_calls.py::test_the_order_of_calls_is_recorded_without_any_effect[rpc_sync-b]"

MUTANTS = (
    Mutant(
        "order-of-any-number",
        _OCCURRENCE,
        '        return f"{role}#{nth}" in (fault.roles or ())',
        "        return True",
        (f"{_OF_OCCURRENCE}::test_an_order_of_calls_concerns_these_calls",),
        "a call that an order does not name waits for a turn that it does not have",
    ),
    Mutant(
        "order-of-one-number",
        _GATE,
        '(f"{caller}#{nth}", 0) if',
        '(f"{caller}#{nth}", nth) if',
        (f"{_OF_GATE}::test_an_order_of_calls_holds_across_their_numbers",),
        "the second call of one role does not wait for the first one of another",
    ),
    Mutant(
        "order-with-two-occurrences",
        "faults/plan/plan.py",
        "            if chosen:\n",
        "            if not chosen:\n                return\n            if False:\n",
        ("tests/faults/test_plan.py::test_an_order_of_calls_has_no_other_occurrence",),
        "a plan says nth=2 of calls that have numbers, and nobody knows which of both holds",
    ),
    Mutant(
        "order-recorded-for-hurt-calls",
        "faults/inject/call/delivery.py",
        "        if self.envelope.ordered:\n",
        "        if self.envelope.ordered and self.faults:\n",
        (_RECORDED,),
        "a replay orders only the calls that a fault has hit",
    ),
    Mutant(
        "order-recorded-only-if-hurt",
        "faults/inject/call/calls.py",
        "if not faults and not watched and not ordered:",
        "if not faults and not watched:",
        (_RECORDED,),
        "a call that no fault hits is not recorded at its callee",
    ),
    Mutant(
        "order-needs-a-ledger",
        "faults/inject/call/delivery.py",
        "    if CalleeState.open is None and not envelope.faults:",
        "    if CalleeState.open is None and envelope is None:",
        ("tests/faults/test_calls.py::test_an_order_is_recorded_only_at_roles_with_a_ledger",),
        "to record an order breaks calls of a role without a ledger",
    ),
    Mutant(
        "replay-of-overlapping-calls",
        _REPLAY,
        "if latest <= each.begun and each.ended <= following:",
        "if latest <= each.begun:",
        (f"{_OF_REPLAY}::test_only_calls_that_executed_alone_have_an_order",),
        "a call that needs another one, which has to wait for it, waits forever",
    ),
    Mutant(
        "replay-of-the-last-only",
        _REPLAY,
        "latest = max(latest, each.ended)",
        "latest = each.ended",
        (f"{_OF_REPLAY}::test_only_calls_that_executed_alone_have_an_order",),
        "a call within a long one has an order",
    ),
    Mutant(
        "replay-of-one-caller",
        _REPLAY,
        "for each in calls}) > 1:",
        "for each in calls}) > 0:",
        (f"{_OF_REPLAY}::test_each_site_and_role_has_its_own_order",),
        "calls that a single role makes one by one are held back",
    ),
    Mutant(
        "replay-of-any-role",
        _REPLAY,
        "found.setdefault((event.role, str(",
        'found.setdefault(("", str(',
        (
            f"{_OF_REPLAY}::test_each_site_and_role_has_its_own_order",
            f"{_OF_REPLAY}::test_calls_keep_the_order_in_which_they_executed",
        ),
        "calls of one role wait for those of another role, which never meet them",
    ),
    Mutant(
        "replay-without-threads",
        "faults/run/call_threads.py",
        "most[role] > max(1, count)",
        "most[role] > count + 1",
        (f"{_OF_REPLAY}::test_an_order_needs_a_thread_for_each_call_at_once",),
        "a replay of a role with one thread waits for a call that cannot execute",
    ),
    Mutant(
        "threads-for-callers-alone",
        "faults/run/call_threads.py",
        "most[pair] = max(most[pair], open_calls[pair])",
        "most[pair] = 1",
        (f"{_OF_REPLAY}::test_an_order_needs_a_thread_for_each_call_at_once",),
        "calls that one role has sent at once keep all threads, and the one that is due cannot execute",
    ),
    Mutant(
        "broken-order-is-the-same",
        _SAME,
        "told = [difference(first, again), _broken_orders(again)]",
        "told = [difference(first, again)]",
        (f"{_OF_REPLAY}::test_an_order_that_was_not_kept_is_a_difference",),
        "a replay whose order failed is told to be the same",
    ),
    Mutant(
        "no-verdict-is-the-same",
        _SAME,
        "    if not first.complete:\n",
        "    if first.complete is None:\n",
        (f"{_OF_REPLAY}::test_a_run_without_an_end_has_no_verdict_to_compare",),
        "an interrupted run has the verdict of its replay",
    ),
    Mutant(
        "unchecked-results-are-the-same",
        _SAME,
        '    if first.trace == "wrong" and again.trace is None:',
        '    if first.trace == "wrong" and again.trace:',
        (f"{_OF_REPLAY}::test_results_that_were_checked_in_the_first_run_only",),
        "a run with wrong results is repeated, and nobody looks at the results",
    ),
    Mutant(
        "replay-by-chance",
        _REPLAY,
        "replace(fault, every=False, chance_percent=None, **exact)",
        "replace(fault, **({} if fault.chance_percent else {'every': False, **exact}))",
        (f"{_OF_REPLAY}::test_faults_are_fixed_to_the_calls_that_they_hit",),
        "a replay draws again, by another number in the plan, and hits other calls",
    ),
    Mutant(
        "replay-of-restarted-roles",
        _REPLAY,
        "    elif _restarted(run.timeline):",
        "    elif not run.timeline:",
        (f"{_OF_REPLAY}::test_a_role_that_counts_its_calls_anew_has_no_order",),
        "the first calls of a role's second life wait for calls of its first one",
    ),
    Mutant(
        "replay-of-unrecorded-orders",
        _REPLAY,
        '    if not run.timeline.of("ordering"):',
        '    if not run.timeline.of("executing"):',
        (f"{_OF_REPLAY}::test_faults_are_fixed_to_the_calls_that_they_hit",),
        "the calls that faults hit are ordered, although others executed between them",
    ),
    Mutant(
        "replay-with-numbers",
        "faults/run/same_run.py",
        'for name, value in details if name != "fault"}',
        "for name, value in details}",
        (f"{_OF_REPLAY}::test_runs_differ_by_what_fired_and_not_by_numbers_or_orders",),
        "a replay whose plan has one fault less is told to differ",
    ),
    Mutant(
        "replay-misses-nothing",
        "faults/run/same_run.py",
        "missing, new = facts(first) - facts(again), facts(again) - facts(first)",
        "missing, new = facts(first) - facts(first), facts(again) - facts(first)",
        (f"{_OF_REPLAY}::test_runs_differ_by_what_fired_and_not_by_numbers_or_orders",),
        "a replay in which a fault did not fire is told to be the same",
    ),
    Mutant(
        "corrupt-by-number",
        _CORRUPTED,
        "own = _deed(self._envelope.faults[number])",
        'own = f"{number}"',
        (_FACTS,),
        "a replay changes another bit than the run that it repeats",
    ),
)
