"""The promises of the pages about smaller plans and about pairs of faults."""

from __future__ import annotations

_OF_SHRINK, _OF_SMALLER, _OF_PAIRS = "faults/test_shrink.py", "faults/test_smaller.py", "faults/test_pairs.py"
_EXAMPLE = "project/test_documented.py::test_the_example_of_shrink"
_REAL = f"{_OF_SHRINK}::test_a_till_that_pays_twice_needs_one_lost_answer"
_FOUND = f"{_OF_PAIRS}::test_a_pair_finds_what_no_single_fault_finds"
_REFUSED = (
    f"{_OF_SHRINK}::test_a_plan_that_does_not_fail_is_refused",
    f"{_OF_SHRINK}::test_a_plan_of_which_nothing_is_known_gives_3",
)

SHRINK: dict[str, tuple[str, ...]] = {
    "as long as it fails in the same way, and prints the smallest one, ready to paste": (_EXAMPLE, _REAL),
    "Each run is told in one line on standard error, when it has ended": (_REAL,),
    "with the same options for its results": (_EXAMPLE,),
    "there is nothing to shrink: one line says what the verdict was instead, and the exit status is 2": _REFUSED,
    "Smaller plans, each at most once, and only valid ones": (
        f"{_OF_SHRINK}::test_no_smaller_plan_fails_and_the_verdict_stays",
        f"{_OF_SMALLER}::test_every_step_is_a_valid_plan_that_is_smaller",
    ),
    "with the same verdict, by a check that failed in the first run, too, and after at least one of its faults": (
        f"{_OF_SHRINK}::test_a_shrink_does_not_slip_to_another_bug",
        f"{_OF_SHRINK}::test_a_run_that_fails_before_any_fault_does_not_count",
    ),
    "half of them is left out, then a quarter, …, then single faults": (
        f"{_OF_SMALLER}::test_halves_come_before_single_faults",
    ),
    "one of the calls that the fault has hit, as the ledgers tell; of more than eight, eight of them, evenly spread": (
        f"{_OF_SMALLER}::test_a_fault_of_several_calls_becomes_a_fault_of_one_that_it_hit",
        f"{_OF_SMALLER}::test_of_many_calls_some_are_tried_evenly_spread",
    ),
    "`how`, `error` and `text` are left out, and `at` of a network's fault": (
        f"{_OF_SMALLER}::test_fields_are_left_out_and_values_are_lowered",
    ),
    "It becomes 0 by itself if nothing is drawn from it any more": (
        f"{_OF_SMALLER}::test_a_seed_that_decides_nothing_is_left_out",
    ),
    "After a step that helps, all others are tried again, until none does": (
        f"{_OF_SHRINK}::test_a_change_that_helps_others_is_followed_by_another_round",
        f"{_OF_SHRINK}::test_no_smaller_plan_fails_and_the_verdict_stays",
    ),
    "`--budget X` begins no run after so many seconds": (f"{_OF_SHRINK}::test_no_run_begins_after_the_budget",),
    "So it does if you interrupt it": (f"{_OF_SHRINK}::test_an_interrupted_shrink_tells_its_smallest_plan",),
    "each fault is first tried alone, because a run that does not hang is short": (
        f"{_OF_SHRINK}::test_few_runs_of_a_plan_that_hangs_hang",
    ),
    "`--leaks trace` is needed if only a run with it is `leaked`": (
        f"{_OF_SHRINK}::test_what_only_a_trace_shows_is_shrunk_with_a_trace",
    ),
    "the report says that the plan does not fail in every run": (
        f"{_OF_SHRINK}::test_a_plan_that_fails_only_sometimes_is_told_so",
    ),
    "The exit status is 1, because the program fails": (_REAL, _EXAMPLE),
}

PAIRS: dict[str, tuple[str, ...]] = {
    "No single fault shows this": ("project/test_documented.py::test_the_example_of_pairs", _FOUND),
    "and one in the call that only its recovery makes": (
        f"{_OF_PAIRS}::test_the_call_that_only_a_recovery_makes_is_hurt_first",
        f"{_OF_PAIRS}::test_a_retry_elsewhere_is_found_too",
    ),
    "It is hurt in every way of `--kinds` that was not seen to fail at that site": (
        f"{_OF_PAIRS}::test_a_retry_is_not_hurt_in_a_way_that_fails_alone",
    ),
    "a cell that ends the program by an error (`clean error`, `detected`) after one that it survives": (
        f"{_OF_PAIRS}::test_a_fault_that_ends_the_program_after_one_that_it_survived_comes_last",
    ),
    "come before those with a `Delay`, a `Duplicate` or an `Order`": (
        f"{_OF_PAIRS}::test_losing_kinds_come_before_those_that_lose_nothing_and_one_site_before_two",
    ),
    "Each pair is run once, with the earlier call first in the plan": (
        f"{_OF_PAIRS}::test_what_the_program_survives_is_combined_each_two_once",
        f"{_OF_PAIRS}::test_the_earlier_call_is_first_in_the_plan",
    ),
    "A line tells how many they are, and why": (
        f"{_OF_PAIRS}::test_every_two_cells_are_combined_or_left_out_for_a_reason",
        f"{_OF_PAIRS}::test_two_cells_that_tell_nothing_together_are_left_out",
        f"{_OF_PAIRS}::test_every_part_runs_all_cells_and_its_own_pairs",
    ),
    "otherwise the pair is `not fired`, which is neither a pass nor a defect of the program": (
        f"{_OF_PAIRS}::test_a_pair_is_harmless_only_if_both_are",
    ),
    "`--budget X` counts the cells and the pairs together": (f"{_OF_PAIRS}::test_cells_and_pairs_have_one_budget",),
    "A retry at a site that was not chosen is not hurt": (
        f"{_OF_PAIRS}::test_a_retry_of_a_site_that_was_not_chosen_is_not_hurt",
    ),
    "`--part I/N` divides the pairs. Each part runs all cells": (
        f"{_OF_PAIRS}::test_every_part_runs_all_cells_and_its_own_pairs",
        f"{_OF_PAIRS}::test_each_pair_is_in_one_part_whichever_of_the_two_comes_first",
    ),
    "`--json` has `pair`, an array of two cells, in place of `cell`, and `not_combined`": (_FOUND,),
}

# Of the help of `shrink`; `documented_commands` adds the options that other commands have, too.
SHRUNK = {
    "--plan PLAN the plan, as text or as a file, with at least one fault": (
        f"{_OF_SHRINK}::test_bad_input_is_one_line_and_starts_nothing",
        "faults/test_cli.py::test_plans_are_texts_or_files",
    ),
    "then under smaller plans, as long as it fails in the same way, and print the smallest one": (_REAL, _EXAMPLE),
    "--budget X seconds after which no run begins (default: no limit)": (
        f"{_OF_SHRINK}::test_no_run_begins_after_the_budget",
    ),
}
