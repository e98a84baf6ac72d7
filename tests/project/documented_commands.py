"""The promises of the command lines' help."""

from __future__ import annotations

from tests.project.documented_shrinks import SHRUNK

_BAD = "faults/test_cli.py::test_bad_input_is_one_line"

_FAULTS = {
    "list the RPC calls of a tutorial's healthy run, which faults can hit": (
        "faults/test_cli.py::test_list_shows_the_sites_of_a_healthy_run",
    ),
    "list those of your own program, with a plan for each call and moment": (
        "faults/test_list_command.py::test_a_script_is_listed_with_plans_that_fire",
    ),
    "run a tutorial once under a plan, and judge the run": (
        "faults/test_cli.py::test_a_run_that_passes_leaves_nothing",
        "faults/test_exit_statuses.py::test_run_gives_the_status_of_the_verdict",
    ),
    "run your own program, unchanged, once under a plan, and judge the run": (
        "faults/test_script.py::test_spawned_processes_run_under_a_plan",
        "faults/test_exit_statuses.py::test_a_run_of_an_rpc_script_gives_the_status_of_its_verdict",
    ),
    "do so with your own program, and check its results": (
        "faults/test_sweep_script.py::test_a_payment_that_is_made_twice_is_found",
    ),
    "run a tutorial once for each call site, kind of fault, and first and last call": (
        "faults/test_sweep.py::test_each_site_has_a_cell_per_kind_and_occurrence",
        "faults/test_sweep.py::test_a_real_subjects_calls_give_its_cells",
    ),
    "make a plan smaller under which a tutorial fails": (
        "faults/test_shrink.py::test_a_till_that_pays_twice_needs_one_lost_answer",
    ),
    "make a plan smaller under which your own program fails": (
        "project/test_documented.py::test_the_example_of_shrink",
    ),
    "prepare a folder for programs that are started with FAULTS_RUN=DIR": (
        "faults/test_cli.py::test_prepare_writes_the_plan_and_prints_the_variable",
        "faults/test_autostart.py::test_torchrun_runs_under_a_plan_as_documented",
    ),
    "judge a stored run again": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "PLAN is a text or a file with at least one fault": ("faults/test_cli.py::test_plans_are_texts_or_files", _BAD),
    "`--healthy` in its place: a run without faults": (
        "faults/test_exit_statuses.py::test_a_healthy_run_of_a_tutorial_gives_0",
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
    ),
    "Write options in full, each at most once, and before `--script`.": (_BAD,),
    "Exit status 0: pass; 1: fail; 2: bad input (then no process was started); 3: unknown; 130: interrupted.": (
        _BAD,
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_check_of_an_unknown_run_gives_3",
        "faults/test_exit_statuses.py::test_run_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
        "faults/test_exit_statuses.py::test_a_sweep_fails_by_one_defect_and_is_unknown_by_one_unknown_run",
        "faults/test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
        "faults/test_exit_statuses.py::test_an_interrupt_is_130_and_nothing_is_stored",
        "faults/test_exit_statuses.py::test_python_m_faults_gives_the_status_of_its_command",
        "faults/test_exit_statuses.py::test_an_interrupted_command_ends_with_130_and_leaves_no_process",
        "faults/test_cli.py::test_an_interrupt_leaves_nothing",
    ),
}

_PLAN = {
    "--plan PLAN the plan, as text or as a file, with at least one fault": (
        "faults/test_cli.py::test_plans_are_texts_or_files",
        "faults/test_cli.py::test_a_plan_may_come_from_a_file_and_dir_keeps_the_run",
        _BAD,
    ),
    "--healthy run without faults; instead of --plan": (
        _BAD,
        "faults/test_exit_statuses.py::test_a_healthy_run_of_a_tutorial_gives_0",
    ),
}

_LEAKS = {
    "--leaks {count,trace} trace RRefs and autograd contexts, to name the holders of those that are left": (
        "faults/test_traced_scripts.py::test_a_leak_of_a_script_is_named_with_its_holder_and_lines",
        "faults/test_traced_scripts.py::test_every_role_of_a_tutorial_is_traced_if_that_was_asked_for",
        "faults/test_traced_scripts.py::test_a_new_run_in_the_folder_is_traced_only_if_it_asks_for_that",
    ),
}

_DIR = {
    "--dir DIR folder for the files of runs (default: kept only if a run fails)": (
        "faults/test_cli.py::test_a_run_that_passes_leaves_nothing",
        "faults/test_cli.py::test_a_run_that_fails_is_stored_and_can_be_checked",
        "faults/test_cli.py::test_a_plan_may_come_from_a_file_and_dir_keeps_the_run",
        "faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status",
    ),
}

_SIZES = {
    "gives up (default: 3.0)": (
        "project/test_documented.py::test_sizes_are_small_unless_given",
        "faults/test_cli.py::test_the_help_names_the_defaults_of_the_small_case",
    ),
}

_RUN = {
    "--save FILE save the trace there, as safetensors (default: not saved)": (
        "reference/test_cli.py::test_a_real_run_saves_what_the_twin_computes",
        "reference/test_cli.py::test_a_failed_run_saves_nothing",
    ),
    "without --save: ends": ("reference/test_cli.py::test_steps_in_between_are_recorded_if_they_are_saved",),
    "--deadline X seconds for the whole run; under torchrun, for the shutdown (default: 3600)": (
        "reference/test_cli.py::test_options_make_the_case",
        "reference/test_cli.py::test_under_torchrun_the_case_fits_the_processes",
        "reference/test_shutdown_barrier.py::test_a_rank_that_has_not_finished_is_waited_for_until_the_deadline",
    ),
}

_PICTURE = {
    "--picture FILE save the table's picture there (default: NAME.png, which is replaced only after asking)": (
        "reference/test_timing.py::test_an_earlier_picture_is_replaced_only_if_the_user_says_so",
        "reference/test_timing.py::test_a_finished_table_is_printed_and_drawn",
        "reference/test_timing.py::test_bad_options_of_a_table_start_nothing",
    ),
}

_REPORTS = {
    "--json FILE write the verdicts to a file": (
        "faults/test_json_report.py::test_a_run_is_told_whole",
        "faults/test_sweep_script.py::test_a_run_can_be_checked_by_a_command",
    ),
    "--junit FILE write the verdicts to a file, as JUnit's XML": (
        "faults/test_json_report.py::test_junit_says_why_a_run_failed",
        "faults/test_sweep_script.py::test_a_run_can_be_checked_by_a_command",
    ),
}

_CHECKED = {
    "--check CMD after each run that returns: a command that ends with status 0 if the results are right": (
        "faults/test_results.py::test_a_command_judges_by_its_status",
        "faults/test_sweep_script.py::test_a_run_can_be_checked_by_a_command",
    ),
    "--writes PATH a file that the program writes and --check reads; it is moved into the run's folder": (
        "faults/test_results.py::test_a_command_judges_by_its_status",
        "faults/test_sweep_script.py::test_a_command_checks_every_run",
    ),
}

_ORDER = {
    "--order record in which order calls execute, so that `replay` keeps this order": (
        "faults/test_calls.py::test_the_order_of_calls_is_recorded_without_any_effect",
        "faults/test_replay_command.py::test_a_run_happens_again_in_the_same_order",
        "faults/test_replay_command.py::test_a_tutorial_happens_again",
    ),
}

_REPEATED = {
    "Exit status 0: facts and verdicts are the same; 1: they differ; 3: one verdict is not known": (
        "faults/test_replay_command.py::test_a_run_happens_again_in_the_same_order",
        "faults/test_replay_command.py::test_a_run_that_ends_otherwise_is_told",
    ),
    "DIR the folder of the run to repeat": (
        "faults/test_replay_command.py::test_what_cannot_happen_again_is_refused_in_one_line",
    ),
}

_SWEPT = {
    **_DIR,
    **_REPORTS,
    "once for each site, each kind of fault, and the first and the last call": (
        "faults/test_sweep.py::test_each_site_has_a_cell_per_kind_and_occurrence",
    ),
    "--budget X seconds after which no run begins (default: no limit)": (
        "faults/test_sweep.py::test_no_cell_begins_after_the_budget",
        "faults/test_sweep.py::test_a_spent_budget_is_reported",
    ),
    "--sites TEXT only call sites that contain this text, or that match it if it has *, ? or [ (default: all)": (
        "faults/test_sweep_options.py::test_sites_are_chosen_by_a_part_of_their_name_or_by_a_pattern",
        "faults/test_cli.py::test_a_sweep_without_a_cell_is_refused",
    ),
    "--kinds KIND,... only these kinds, by their names in the table, such as 'Delay request'": (
        "faults/test_sweep.py::test_a_tutorial_is_equal_under_every_harmless_cell",
        "faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status",
        "faults/test_cli.py::test_a_sweep_without_a_cell_is_refused",
    ),
    "--pairs afterwards hurt two calls at once, the most telling pairs first (default: one at a time)": (
        "faults/test_pairs.py::test_a_pair_finds_what_no_single_fault_finds",
        "faults/test_pairs.py::test_the_call_that_only_a_recovery_makes_is_hurt_first",
    ),
    "--part I/N only part I of N: each cell is in one part, the same on every machine; with --pairs each pair": (
        "faults/test_pairs.py::test_every_part_runs_all_cells_and_its_own_pairs",
        "faults/test_sweep_options.py::test_each_cell_is_in_one_part",
        "faults/test_sweep_options.py::test_a_part_does_not_depend_on_the_other_cells",
    ),
}

_OF_RESULTS = {
    **_CHECKED,
    "--same-output the standard output has the healthy run's lines, in any order": (
        "faults/test_same_output.py::test_lines_are_compared_without_their_order",
    ),
    "--ignore REGEX with --same-output: what this matches does not count": (
        "faults/test_same_output.py::test_lines_are_compared_without_their_order",
    ),
    "--same-file PATH a file that the program writes has the healthy run's bytes, or the same tensors": (
        "faults/test_same_file.py::test_files_of_torch_are_compared_by_their_tensors",
    ),
    "--deadline X seconds until a run's command is killed (default: ten times those of the healthy run": (
        "faults/test_sweep_script.py::test_a_run_has_ten_times_the_healthy_runs_seconds_and_at_least_sixty",
    ),
    "--bound X seconds from the first fault to the end of a program that fails": (
        "project/test_documented.py::test_a_script_that_ends_beyond_its_bound",
    ),
}

COMMANDS: dict[str, dict[str, tuple[str, ...]]] = {
    "python -m faults --help": _FAULTS,
    "python -m faults list rnn --help": {**_DIR, **_SIZES},
    "python -m faults list --help --script": {
        **_DIR,
        "Run a program of your own once without faults, and list what it calls and announces, with a plan for each.": (
            "faults/test_list_command.py::test_a_script_is_listed_with_plans_that_fire",
            "faults/test_list_command.py::test_a_script_that_fails_by_itself_is_judged_instead",
        ),
        "--deadline X seconds until the command is killed (default: 300, or more where the bound is later)": (
            "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
        ),
    },
    "python -m faults run rnn --help": {
        **_PLAN,
        **_LEAKS,
        **_ORDER,
        **_DIR,
        **_SIZES,
        **_REPORTS,
        "--deadline X seconds until a role that still runs is killed (default: computed from --timeout)": (
            "project/test_documented.py::test_a_tutorial_that_misses_its_deadline",
            "faults/test_runs.py::test_a_role_that_waits_forever_hangs",
        ),
    },
    "python -m faults run --help --script": {
        **_PLAN,
        **_LEAKS,
        **_ORDER,
        **_DIR,
        **_REPORTS,
        **_CHECKED,
        "All words after --script are the program's command": (
            "faults/test_exit_statuses.py::test_words_after_two_dashes_belong_to_the_program",
            "faults/test_exit_statuses.py::test_other_words_after_the_script_belong_to_the_program",
        ),
        "--deadline X seconds until the command is killed (default: 300, or more where the bound is later)": (
            "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
            "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
        ),
        "--bound X seconds from the first fault to the end of a program that fails": (
            "project/test_documented.py::test_a_script_that_ends_beyond_its_bound",
            "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
        ),
    },
    "python -m faults sweep rnn --help": {**_SWEPT, **_SIZES},
    "python -m faults sweep --help --script": {**_SWEPT, **_OF_RESULTS},
    "python -m faults shrink rnn --help": {
        **SHRUNK,
        **_DIR,
        **_SIZES,
        **_REPORTS,
        **_LEAKS,
        "--deadline X seconds until a role that still runs is killed": (
            "faults/test_runs.py::test_a_role_that_waits_forever_hangs",
        ),
    },
    "python -m faults shrink --help --script": {
        **SHRUNK,
        **_DIR,
        **_REPORTS,
        **_LEAKS,
        **_OF_RESULTS,
    },
    "python -m faults prepare --help": {
        **_PLAN,
        **_LEAKS,
        **_ORDER,
        "DIR the run's folder; files of an earlier run are removed": (
            "faults/test_cli.py::test_prepare_writes_the_plan_and_prints_the_variable",
            "faults/test_launch_scope.py::test_the_folder_holds_the_plan_and_nothing_of_an_earlier_run",
        ),
    },
    "python -m faults replay --help": _REPEATED,
    "python -m faults replay --help --script": {
        **_REPEATED,
        **_DIR,
        **_CHECKED,
        "--deadline X seconds until the command is killed (default: 300, or more where the bound is later)": (
            "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
        ),
        "--bound X seconds from the first fault to the end of a program that fails": (
            "project/test_documented.py::test_a_script_that_ends_beyond_its_bound",
        ),
    },
    "python -m faults check --help": {
        **_REPORTS,
        "--ended STATUS record in the folder that all programs, started with FAULTS_RUN, have ended": (
            "faults/test_outside_end.py::test_a_run_that_has_ended_is_no_longer_unknown",
            "faults/test_outside_end.py::test_a_status_is_a_number_up_to_255",
        ),
        "DIR the run's folder": ("faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict", _BAD),
    },
    "python -m reference --help": {
        "list list the tutorials": ("reference/test_cli.py::test_list_names_every_tutorial",),
        "train a tutorial on real RPC processes; `run NAME --help` gives every option, default and unit": (
            "reference/test_cli.py::test_a_real_run_saves_what_the_twin_computes",
            "reference/test_cli.py::test_help_of_a_tutorial_names_every_field",
        ),
        "run tutorials and compare every tensor with the single-process twin": (
            "reference/test_cli.py::test_a_real_verify_is_equal",
            "reference/test_cli.py::test_a_real_verify_with_a_wrong_twin_is_wrong",
        ),
        "compare explain the first difference of two traces that `run --save` has written": (
            "reference/test_compare.py::test_a_mistake_is_explained_with_status_1",
        ),
        "conform write a suite of cases for other implementations, run one on it and judge its results": (
            "reference/test_conform.py::test_each_program_in_numpy_passes",
        ),
        "0: success; 1: a run failed or differs from its twin; 2: bad input, and no process was started; "
        "130: interrupted.": (
            "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
            "reference/test_cli.py::test_a_failed_run_says_who_failed_and_how",
            "reference/test_cli.py::test_verify_says_what_is_wrong",
            "reference/test_cli.py::test_ctrl_c_prints_no_traceback",
            "faults/test_exit_statuses.py::test_python_m_reference_gives_the_status_of_its_command",
        ),
    },
    "python -m reference run pipeline --help": {
        **_RUN,
        "--splits N,N,… time each of these numbers of micro-batches, as a table": (
            "reference/test_timing.py::test_the_table_has_one_row_per_number_of_splits",
        ),
        "--small with --splits: 16 images of 64 by 64": (
            "reference/test_timing.py::test_the_table_has_one_row_per_number_of_splits",
            "reference/test_timing.py::test_bad_options_of_a_table_start_nothing",
        ),
        **_PICTURE,
    },
    "python -m reference run batch_reinforce --help": {
        **_RUN,
        **_PICTURE,
        "--compare-batching time both modes with 1, 2, … observers, as a table": (
            "reference/test_timing.py::test_the_table_has_both_modes_from_one_observer_on",
        ),
        "--max-observers N with --compare-batching: the most observers (default: 10)": (
            "reference/test_timing.py::test_the_table_has_both_modes_from_one_observer_on",
            "reference/test_timing.py::test_bad_options_of_a_table_start_nothing",
        ),
    },
    "python -m reference verify --help": {
        "NAME a tutorial to verify (default: all)": (
            "reference/test_cli.py::test_verify_without_names_runs_everything",
        ),
        "--long add runs that take minutes and must reach a goal": (
            "reference/test_cli.py::test_long_adds_rows_that_have_a_goal",
            "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
        ),
    },
}
