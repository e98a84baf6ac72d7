"""The promises of the command lines' help."""

from __future__ import annotations

_BAD = "faults/test_cli.py::test_bad_input_is_one_line"

_FAULTS = {
    "the calls of a tutorial's healthy run: what can be hurt": ("faults/test_cli.py::test_list",),
    "one run of a tutorial under a plan, judged": (
        "faults/test_cli.py::test_a_run_that_passes_leaves_nothing",
        "faults/test_exit_statuses.py::test_run",
    ),
    "the same for a program of your own, unchanged": (
        "faults/test_script.py::test_spawned_processes",
        "faults/test_exit_statuses.py::test_run_of_an_rpc_script",
    ),
    "one run for every call site, kind, and first and last occurrence": (
        "faults/test_sweep.py::test_cells_by_hand",
        "faults/test_sweep.py::test_a_real_subjects_cells",
    ),
    "a folder for FAULTS_RUN=DIR torchrun ... my.py": (
        "faults/test_cli.py::test_prepare",
        "faults/test_autostart.py::test_torchrun_as_documented",
    ),
    "judge a stored run again": ("faults/test_exit_statuses.py::test_check", "faults/test_runs.py::test_every_verdict"),
    "PLAN is text or a file, of one fault at least": ("faults/test_cli.py::test_plans_are_texts_or_files", _BAD),
    "`--healthy` instead of it: a run without faults": (
        "faults/test_exit_statuses.py::test_run_of_a_tutorial_that_is_healthy",
        "faults/test_exit_statuses.py::test_run_of_a_script",
    ),
    "Options stand before `--script`, whole and once": (_BAD,),
    "Exit status 0: pass; 1: fail; 2: unknown, or bad input, which starts nothing; 130: interrupted.": (
        _BAD,
        "faults/test_exit_statuses.py::test_check",
        "faults/test_exit_statuses.py::test_check_of_what_is_unknown",
        "faults/test_exit_statuses.py::test_run",
        "faults/test_exit_statuses.py::test_run_of_a_script",
        "faults/test_exit_statuses.py::test_sweep",
        "faults/test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
        "faults/test_exit_statuses.py::test_an_interrupt_is_130_and_nothing_is_stored",
        "faults/test_exit_statuses.py::test_python_m_faults",
        "faults/test_exit_statuses.py::test_a_command_that_is_interrupted",
        "faults/test_cli.py::test_an_interrupt_leaves_nothing",
    ),
}

_PLAN = {
    "--plan PLAN the plan as text, or a file: one fault at least": (
        "faults/test_cli.py::test_plans_are_texts_or_files",
        "faults/test_cli.py::test_a_plan_from_a_file_and_a_folder_that_is_kept",
        _BAD,
    ),
    "--healthy no faults; instead of --plan": (
        _BAD,
        "faults/test_exit_statuses.py::test_run_of_a_tutorial_that_is_healthy",
    ),
}

_DIR = {
    "--dir DIR where runs are stored (default: nowhere, unless one fails)": (
        "faults/test_cli.py::test_a_run_that_passes_leaves_nothing",
        "faults/test_cli.py::test_a_run_that_fails_is_stored_and_can_be_checked",
        "faults/test_cli.py::test_a_plan_from_a_file_and_a_folder_that_is_kept",
        "faults/test_sweep.py::test_the_exit_status_and_the_table",
    ),
}

_SIZES = {
    "Sizes are small unless given; --timeout is 3 then": (
        "project/test_documented.py::test_sizes_are_small_unless_given",
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

COMMANDS: dict[str, dict[str, tuple[str, ...]]] = {
    "python -m faults --help": _FAULTS,
    "python -m faults list rnn --help": {**_DIR, **_SIZES},
    "python -m faults run rnn --help": {
        **_PLAN,
        **_DIR,
        **_SIZES,
        "--deadline X seconds until an overdue role is ended (default: by --timeout)": (
            "project/test_documented.py::test_a_tutorial_that_misses_its_deadline",
            "faults/test_runs.py::test_who_waits_for_ever_hangs",
        ),
    },
    "python -m faults run --help --script": {
        **_PLAN,
        **_DIR,
        "what follows --script is its command": (
            "faults/test_exit_statuses.py::test_what_follows_two_dashes_is_the_programs",
            "faults/test_exit_statuses.py::test_other_words_after_the_script_are_the_programs",
        ),
        "--deadline X seconds until the command is ended (default: 300, or beyond the bound)": (
            "faults/test_exit_statuses.py::test_run_of_a_script",
            "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
        ),
        "--bound X seconds within which it must end after the first fault, if it fails": (
            "project/test_documented.py::test_a_script_that_ends_beyond_its_bound",
            "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
        ),
    },
    "python -m faults sweep rnn --help": {
        **_DIR,
        **_SIZES,
        "Hurt each call of a healthy run once in every way, its first and its last occurrence": (
            "faults/test_sweep.py::test_cells_by_hand",
        ),
        "--budget X seconds; no cell begins later (default: no limit)": (
            "faults/test_sweep.py::test_the_budget",
            "faults/test_sweep.py::test_a_budget_that_is_spent_is_said",
        ),
        "--sites TEXT only sites that contain this (default: all)": (
            "faults/test_sweep.py::test_a_tutorial",
            "faults/test_cli.py::test_a_sweep_of_nothing",
        ),
        "--kinds KIND,... only these kinds, as the table names them, or their first words": (
            "faults/test_sweep.py::test_a_tutorial",
            "faults/test_sweep.py::test_the_exit_status_and_the_table",
            "faults/test_cli.py::test_a_sweep_of_nothing",
        ),
    },
    "python -m faults prepare --help": {
        **_PLAN,
        "DIR the run's folder; what an earlier run left in it goes": (
            "faults/test_cli.py::test_prepare",
            "faults/test_launch_scope.py::test_the_folder_holds_the_plan_and_nothing_of_an_earlier_run",
        ),
    },
    "python -m faults check --help": {"DIR a run's folder": ("faults/test_exit_statuses.py::test_check", _BAD)},
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
        "0: success; 1: a run failed or differs from its twin; 2: bad input, and no process was started; "
        "130: interrupted.": (
            "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
            "reference/test_cli.py::test_a_failed_run_says_who_failed_and_how",
            "reference/test_cli.py::test_verify_says_what_is_wrong",
            "reference/test_cli.py::test_ctrl_c_prints_no_traceback",
            "faults/test_exit_statuses.py::test_python_m_reference",
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
        "--long verify also runs that take minutes and must reach a goal": (
            "reference/test_cli.py::test_long_adds_rows_that_have_a_goal",
            "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
        ),
    },
}
