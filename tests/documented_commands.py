"""The promises of the command lines' help."""

from __future__ import annotations

_BAD = "test_faults_cli.py::test_bad_input_is_one_line"

_FAULTS = {
    "the calls of a tutorial's healthy run: what can be hurt": ("test_faults_cli.py::test_list",),
    "one run of a tutorial under a plan, judged": (
        "test_faults_cli.py::test_a_run_that_passes_leaves_nothing",
        "test_exit_statuses.py::test_run",
    ),
    "the same for a program of your own, unchanged": (
        "test_script.py::test_spawned_processes",
        "test_exit_statuses.py::test_run_of_an_rpc_script",
    ),
    "one run for every call site, kind, and first and last occurrence": (
        "test_faults_sweep.py::test_cells_by_hand",
        "test_faults_sweep.py::test_a_real_subjects_cells",
    ),
    "a folder for FAULTS_RUN=DIR torchrun ... my.py": (
        "test_faults_cli.py::test_prepare",
        "test_autostart.py::test_torchrun_as_documented",
    ),
    "judge a stored run again": ("test_exit_statuses.py::test_check", "test_runs.py::test_every_verdict"),
    "PLAN is text or a file, of one fault at least": ("test_faults_cli.py::test_plans_are_texts_or_files", _BAD),
    "`--healthy` instead of it: a run without faults": (
        "test_exit_statuses.py::test_run_of_a_tutorial_that_is_healthy",
        "test_exit_statuses.py::test_run_of_a_script",
    ),
    "Options stand before `--script`, whole and once": (_BAD,),
    "Exit status 0: pass; 1: fail; 2: unknown, or bad input, which starts nothing; 130: interrupted.": (
        _BAD,
        "test_exit_statuses.py::test_check",
        "test_exit_statuses.py::test_check_of_what_is_unknown",
        "test_exit_statuses.py::test_run",
        "test_exit_statuses.py::test_run_of_a_script",
        "test_exit_statuses.py::test_sweep",
        "test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
        "test_exit_statuses.py::test_an_interrupt_is_130_and_nothing_is_stored",
        "test_exit_statuses.py::test_python_m_faults",
        "test_exit_statuses.py::test_a_command_that_is_interrupted",
        "test_faults_cli.py::test_an_interrupt_leaves_nothing",
    ),
}

_PLAN = {
    "--plan PLAN the plan as text, or a file: one fault at least": (
        "test_faults_cli.py::test_plans_are_texts_or_files",
        "test_faults_cli.py::test_a_plan_from_a_file_and_a_folder_that_is_kept",
        _BAD,
    ),
    "--healthy no faults; instead of --plan": (_BAD, "test_exit_statuses.py::test_run_of_a_tutorial_that_is_healthy"),
}

_DIR = {
    "--dir DIR where runs are stored (default: nowhere, unless one fails)": (
        "test_faults_cli.py::test_a_run_that_passes_leaves_nothing",
        "test_faults_cli.py::test_a_run_that_fails_is_stored_and_can_be_checked",
        "test_faults_cli.py::test_a_plan_from_a_file_and_a_folder_that_is_kept",
        "test_faults_sweep.py::test_the_exit_status_and_the_table",
    ),
}

_SIZES = {
    "Sizes are small unless given; --timeout is 3 then": ("test_documented.py::test_sizes_are_small_unless_given",),
}

_RUN = {
    "--save FILE write the trace there, as safetensors (default: nowhere)": (
        "test_cli.py::test_a_real_run_saves_what_the_twin_computes",
        "test_cli.py::test_a_failed_run_saves_nothing",
    ),
    "without --save: ends": ("test_cli.py::test_steps_in_between_are_recorded_if_they_are_saved",),
    "--deadline X seconds in all; under torchrun, of the shutdown (default: 3600)": (
        "test_cli.py::test_options_make_the_case",
        "test_cli.py::test_under_torchrun_the_case_fits_the_processes",
        "test_muster.py::test_one_that_is_not_done_is_waited_for_until_the_deadline",
    ),
}

_PICTURE = {
    "--picture FILE where the table's picture goes (default: NAME.png)": (
        "test_sweep.py::test_the_table_and_the_picture",
        "test_sweep.py::test_refused_before_anything_starts",
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
            "test_documented.py::test_a_tutorial_that_misses_its_deadline",
            "test_runs.py::test_who_waits_for_ever_hangs",
        ),
    },
    "python -m faults run --help --script": {
        **_PLAN,
        **_DIR,
        "what follows --script is its command": (
            "test_exit_statuses.py::test_what_follows_two_dashes_is_the_programs",
            "test_exit_statuses.py::test_other_words_after_the_script_are_the_programs",
        ),
        "--deadline X seconds until the command is ended (default: 300, or beyond the bound)": (
            "test_exit_statuses.py::test_run_of_a_script",
            "test_documented.py::test_limits_that_are_not_given",
        ),
        "--bound X seconds within which it must end after the first fault, if it fails": (
            "test_documented.py::test_a_script_that_ends_beyond_its_bound",
            "test_documented.py::test_limits_that_are_not_given",
        ),
    },
    "python -m faults sweep rnn --help": {
        **_DIR,
        **_SIZES,
        "Hurt each call of a healthy run once in every way, its first and its last occurrence": (
            "test_faults_sweep.py::test_cells_by_hand",
        ),
        "--budget X seconds; no cell begins later (default: no limit)": (
            "test_faults_sweep.py::test_the_budget",
            "test_faults_sweep.py::test_a_budget_that_is_spent_is_said",
        ),
        "--sites TEXT only sites that contain this (default: all)": (
            "test_faults_sweep.py::test_a_tutorial",
            "test_faults_cli.py::test_a_sweep_of_nothing",
        ),
        "--kinds KIND,... only these kinds, as the table names them, or their first words": (
            "test_faults_sweep.py::test_a_tutorial",
            "test_faults_sweep.py::test_the_exit_status_and_the_table",
            "test_faults_cli.py::test_a_sweep_of_nothing",
        ),
    },
    "python -m faults prepare --help": {
        **_PLAN,
        "DIR the run's folder; what an earlier run left in it goes": (
            "test_faults_cli.py::test_prepare",
            "test_scope.py::test_the_folder_holds_the_plan_and_nothing_of_an_earlier_run",
        ),
    },
    "python -m faults check --help": {"DIR a run's folder": ("test_exit_statuses.py::test_check", _BAD)},
    "python -m reference --help": {
        "list the tutorials": ("test_cli.py::test_list_names_every_tutorial",),
        "train one on real RPC processes; `run NAME --help` gives every option, default and unit": (
            "test_cli.py::test_a_real_run_saves_what_the_twin_computes",
            "test_cli.py::test_help_of_a_tutorial_names_every_field",
        ),
        "run them and hold every tensor against the single-process twin": (
            "test_cli.py::test_a_real_verify_is_equal",
            "test_cli.py::test_a_real_verify_with_a_wrong_twin_is_wrong",
        ),
        "0: done and right; 1: it failed or differs; 2: bad input, which starts nothing; 130: interrupted.": (
            "test_cli.py::test_bad_input",
            "test_cli.py::test_a_failed_run_says_who_failed_and_how",
            "test_cli.py::test_verify_says_what_is_wrong",
            "test_cli.py::test_ctrl_c_is_no_traceback",
            "test_exit_statuses.py::test_python_m_reference",
        ),
    },
    "python -m reference run pipeline --help": {
        **_RUN,
        "--splits N,N,… a table of so many micro-batches each": ("test_sweep.py::test_splits",),
        "--small with --splits: 16 images of 64 by 64": (
            "test_sweep.py::test_splits",
            "test_sweep.py::test_refused_before_anything_starts",
        ),
        **_PICTURE,
    },
    "python -m reference run batch_reinforce --help": {
        **_RUN,
        **_PICTURE,
        "--compare-batching run both modes with 1, 2, … observers: a table": (
            "test_sweep.py::test_both_modes_from_one_observer_on",
        ),
        "--max-observers N up to so many observers (default: 10)": (
            "test_sweep.py::test_both_modes_from_one_observer_on",
            "test_sweep.py::test_refused_before_anything_starts",
        ),
    },
    "python -m reference verify --help": {
        "NAME tutorials (default: all)": ("test_cli.py::test_verify_without_names_runs_everything",),
        "--long also the runs that take minutes, and what they must reach": (
            "test_cli.py::test_long_adds_rows_that_have_a_goal",
            "test_cli.py::test_bad_input",
        ),
    },
}
