"""The promises of README.md."""

from __future__ import annotations

README: dict[str, tuple[str, ...]] = {
    "Both need Python 3.11 or newer": ("project/test_documented.py::test_the_needed_python_is_the_documented_one",),
    "and exit status 0 only if every line holds": (
        "reference/test_cli.py::test_one_bad_row_fails_verify_even_before_a_good_one",
        "faults/test_exit_statuses.py::test_python_m_reference_gives_the_status_of_its_command",
    ),
    "The first ends with": (
        "reference/test_published_defaults.py::test_the_readmes_table_has_rows_that_verify_runs",
        "reference/test_published_defaults.py::test_verify_begins_with_the_defaults_of_each_tutorial",
    ),
    "plain data; defaults are the tutorial's numbers": (
        "reference/test_published_defaults.py::test_every_field_of_a_case_has_the_default_of_the_table",
    ),
    "all eleven tutorials": (
        "reference/test_cli.py::test_verify_without_names_runs_everything",
        "reference/test_case.py::test_every_tutorial_is_verified",
        "project/test_documented.py::test_the_readme_names_every_tutorial",
    ),
    "the tutorials, one module each": ("reference/test_case.py::test_the_tutorial_of_a_case_is_its_module",),
    "python -m reference list": ("reference/test_cli.py::test_list_names_every_tutorial",),
    "python -m reference run parameter_server --steps 300 --workers 2": (
        "project/test_documented.py::test_documented_commands_start",
        "reference/test_cli.py::test_options_make_the_case",
    ),
    "--save run.safetensors": ("reference/test_cli.py::test_a_real_run_saves_what_the_twin_computes",),
    "every option, its default and its unit": ("reference/test_cli.py::test_help_of_a_tutorial_names_every_field",),
    "python -m reference verify parameter_server": ("reference/test_cli.py::test_a_real_verify_is_equal",),
    "also: reinforce reaches CartPole's threshold": (
        "reference/test_cli.py::test_long_adds_rows_that_have_a_goal",
        "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
        "reference/test_reinforce.py::test_the_goal_is_the_environments_threshold",
        "reference/test_reinforce.py::test_a_long_run_that_misses_its_goal_does_not_hold",
    ),
    "the tutorial's table of times, and pipeline.png": (
        "reference/test_timing.py::test_the_table_has_one_row_per_number_of_splits",
        "reference/test_timing.py::test_a_finished_table_is_printed_and_drawn",
    ),
    "its table, and batch_reinforce.png": (
        "reference/test_timing.py::test_the_table_has_both_modes_from_one_observer_on",
        "reference/test_timing.py::test_a_finished_table_is_printed_and_drawn",
    ),
    "torchrun --nproc-per-node 3 -m reference run batch_parameter_server": (
        "reference/test_cli.py::test_torchrun_plays_one_role_a_process",
        "reference/test_cli.py::test_under_torchrun_the_case_fits_the_processes",
    ),
    "Exit status 0: success; 1: a run failed or differs from its twin; 2: bad input, in one line, and no process was "
    "started": (
        "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
        "reference/test_cli.py::test_unknown_words_are_named",
        "reference/test_cli.py::test_what_was_wanted_is_named",
        "reference/test_cli.py::test_an_impossible_deadline_is_refused",
        "reference/test_cli.py::test_a_file_that_cannot_be_written_is_refused",
        "reference/test_cli.py::test_a_wrong_number_of_processes_is_refused",
        "reference/test_cli.py::test_a_failed_run_says_who_failed_and_how",
        "reference/test_cli.py::test_a_real_verify_with_a_wrong_twin_is_wrong",
        "reference/test_cli.py::test_verify_says_what_is_wrong",
        "reference/test_timing.py::test_bad_options_of_a_table_start_nothing",
        "reference/test_timing.py::test_a_run_that_fails_ends_the_table",
        "faults/test_exit_statuses.py::test_python_m_reference_gives_the_status_of_its_command",
        "faults/test_exit_statuses.py::test_a_verdict_that_cannot_be_printed_is_no_pass",
    ),
    "130: interrupted, by Ctrl-C, SIGTERM or SIGHUP": (
        "faults/test_exit_statuses.py::test_an_interrupted_command_ends_with_130_and_leaves_no_process",
        "reference/test_interrupts.py::test_a_start_that_is_interrupted_leaves_nothing",
    ),
    "Options are written whole, and once.": (
        "reference/test_cli.py::test_ctrl_c_prints_no_traceback",
        "faults/test_exit_statuses.py::test_python_m_reference_gives_the_status_of_its_command",
        "reference/test_cli.py::test_bad_input_is_one_line_with_status_2",
        "reference/test_cli.py::test_unknown_words_are_named",
    ),
    "the calls of a healthy run, which faults can hit": (
        "faults/test_cli.py::test_list_shows_the_sites_of_a_healthy_run",
        "faults/test_census.py::test_a_real_runs_calls_are_counted",
    ),
    "one run per call and fault: a table of verdicts": (
        "faults/test_sweep.py::test_each_site_has_a_cell_per_kind_and_occurrence",
        "faults/test_sweep.py::test_a_real_subjects_calls_give_its_cells",
        "faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status",
    ),
    "# your own program, unchanged": (
        "faults/test_script.py::test_spawned_processes_run_under_a_plan",
        "faults/test_script.py::test_a_script_gets_the_folder_and_its_own_python_path",
    ),
    "`equal` and `within bound` pass": (
        "reference/test_numpy_forms.py::test_a_numpy_form_is_within_the_bound_for_many_seeds",
        "reference/test_clusters.py::test_tutorials_run_on_two_hosts",
        "reference/test_trace.py::test_the_header_names_the_tutorial_and_the_case",
        "reference/test_trace.py::test_a_foreign_case_is_loaded_by_its_type",
        "reference/test_trace.py::test_compare_notices_every_bit",
    ),
    "A run ends with a verdict": (
        "faults/test_checks.py::test_each_run_has_its_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
        "faults/test_runs.py::test_a_role_that_waits_forever_hangs",
    ),
    "a fault that never happened proves nothing": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
        "faults/test_script.py::test_a_plan_for_a_program_without_rpc_is_unknown",
    ),
    "Exit status 0: pass; 1: a defect; 2: bad input; 3: `unknown`": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_check_of_an_unknown_run_gives_3",
        "faults/test_exit_statuses.py::test_a_run_without_rpc_is_unknown",
        "faults/test_exit_statuses.py::test_run_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_a_run_of_a_wrong_tutorial_gives_1",
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
        "faults/test_exit_statuses.py::test_a_run_of_an_rpc_script_gives_the_status_of_its_verdict",
        "faults/test_exit_statuses.py::test_a_sweep_fails_by_one_defect_and_is_unknown_by_one_unknown_run",
        "faults/test_exit_statuses.py::test_a_sweep_of_a_wrong_tutorial_gives_1",
        "faults/test_exit_statuses.py::test_python_m_faults_gives_the_status_of_its_command",
        "faults/test_cli.py::test_bad_input_is_one_line",
    ),
    "The first line says how many faults were planned": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_several_faults_are_counted",
        "faults/test_exit_statuses.py::test_check_of_a_healthy_run_says_that_nothing_was_planned",
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
    ),
    "A run without faults is asked for by `--healthy` instead of `--plan`": (
        "faults/test_cli.py::test_bad_input_is_one_line",
        "faults/test_exit_statuses.py::test_a_healthy_run_of_a_tutorial_gives_0",
    ),
    "Faults of the network need root and Debian's `iproute2` and `nftables`": (
        "faults/test_network.py::TestRefusals::test_a_missing_program_is_named_with_its_package",
        "faults/test_network.py::TestRefusals::test_a_network_that_is_not_permitted_is_refused",
    ),
    "# bits equal in 103 tensors": ("project/test_documented.py::test_the_python_of_the_readme",),
    '# {"ps": Returned(...), "worker1": Returned(...)}': ("project/test_documented.py::test_the_python_of_the_readme",),
    "`launch` starts one process per role": ("reference/test_world.py::test_a_role_that_returns_gives_its_value",),
    "`Returned`, `Raised`, `Killed`, `Exited`, or `Overdue` with the stacks of all threads": (
        "reference/test_world.py::test_every_end_has_its_outcome_and_survivors_hear_of_it",
        "reference/test_world.py::test_a_role_that_raises_gives_type_message_and_remote_traceback",
        "reference/test_world.py::test_an_overdue_role_leaves_the_stacks_of_all_threads",
        "reference/test_outcome.py::test_every_other_outcome_says_how_the_role_ended",
    ),
    "until the next launching process of the same user removes them": (
        "reference/test_world.py::TestNothingIsLeft::test_a_killed_process_leaves_no_folder_once_the_next_one_launches",
        "reference/test_temporary_folders.py::test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next",
    ),
    "No process is left behind, even if the launching process is killed": (
        "reference/test_world.py::TestNothingIsLeft::test_nothing_is_left_after_an_exception_in_the_block",
        "reference/test_world.py::TestNothingIsLeft::test_nothing_is_left_after_leaving_without_waiting",
        "reference/test_world.py::TestNothingIsLeft::test_nothing_is_left_of_what_a_role_had_started",
        "reference/test_world.py::TestNothingIsLeft::test_nothing_is_left_when_the_launching_process_is_killed",
        "reference/test_world.py::TestNothingIsLeft::test_no_stopped_role_is_left_when_the_launching_process_is_killed",
        "reference/test_world.py::TestNothingIsLeft::test_nothing_is_left_when_the_launching_process_is_interrupted",
        "reference/test_world.py::TestNothingIsLeft::test_nothing_is_left_by_a_forkserver_that_is_killed",
    ),
    "10 s after another role has ended, if all the others have ended or can only wait": (
        "reference/test_grace.py::test_a_stopped_role_is_ended_once_the_others_have_ended_or_wait",
        "reference/test_grace.py::test_a_stopped_role_that_goes_on_within_the_grace_is_not_ended",
        "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
    ),
    "So is a role that is stuck in the start of RPC, because threads or memory are short": (
        "reference/test_grace.py::test_a_world_that_is_short_of_threads_ends",
        "reference/test_grace.py::test_a_role_that_is_stuck_in_torchs_start_is_ended_and_says_where",
        "reference/test_grace.py::test_a_role_that_is_stuck_does_not_hear_of_a_loss",
    ),
    "a role that still answers there has 60 s": (
        "reference/test_grace.py::test_a_start_in_which_all_roles_wait_for_each_other_ends_although_they_answer",
        "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
    ),
    "while another role still plays, while no role has ended, or while a debugger holds the role": (
        "reference/test_world.py::test_a_stopped_role_is_overdue_with_stacks",
        "reference/test_grace.py::test_a_stopped_role_is_left_alone_while_others_may_go_on",
        "reference/test_grace.py::test_a_role_that_a_debugger_has_is_not_given_up",
    ),
    "60 s for `launch`, an hour for `python -m reference run`": (
        "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
        "reference/test_cli.py::test_steps_in_between_are_recorded_if_they_are_saved",
    ),
    '`world.call("a", function, *args)` and `world.run(roles)` give them work': (
        "reference/test_world.py::TestCalls::test_calls_pass_arguments_and_return_values",
        "reference/test_world.py::TestCalls::test_run_plays_all_at_once",
    ),
    "until the world's own deadline (60 s unless you say otherwise)": (
        "project/test_documented.py::test_idle_roles_end_at_their_worlds_deadline",
        "project/test_documented.py::test_limits_that_are_not_given_have_the_documented_defaults",
    ),
    '`trace.save("x.safetensors")` writes a trace': (
        "reference/test_trace.py::test_files_keep_every_bit",
        "reference/test_trace.py::test_a_save_that_fails_half_way_leaves_nothing",
    ),
    "The trace holds that order, and the twin replays it: `train_locally(case, trace)`": (
        "reference/test_parameter_server.py::test_several_workers_equal_the_replay_of_their_order",
        "reference/test_batch_parameter_server.py::TestOrders::test_arrival_gives_the_bits_of_its_replay",
        "reference/test_parameter_server.py::test_a_twin_of_several_workers_needs_their_order",
    ),
    "the plugin is there once the package is installed": (
        "faults/test_pytest_plugin.py::test_installed_or_not_it_is_there_once_and_torch_is_not",
    ),
    "an account of what each test leaves, and reports that show plan, events, logs and stacks": (
        "faults/test_pytest_plugin.py::test_each_kind_of_leak_is_named_and_released_things_are_none",
        "faults/test_pytest_plugin.py::test_a_failing_test_shows_plan_timeline_logs_and_stacks",
    ),
    "plants some 950 bugs": ("project/test_documented.py::test_as_many_mutants_as_the_readme_says",),
    "a test has to notice each bug, and the report says which one did": (
        "project/test_mutants.py::test_every_mutant_can_be_planted",
        "project/test_mutants.py::test_every_killer_exists",
        "project/test_mutants.py::test_only_a_failing_body_or_leak_check_kills_a_mutant",
    ),
    "ten rounds in random order with random seeds, and how many of a thousand tests failed": (
        "project/test_soak.py::test_the_seed_decides_order_and_examples",
        "project/test_soak.py::test_failures_are_counted_and_named_with_their_seeds",
        "project/test_soak.py::test_the_summary_of_no_failures",
    ),
    "`Trace.load` refuses a file that is no trace in one printable line": (
        "properties/test_hostile.py::test_what_no_trace_holds_is_refused_when_it_is_read",
        "properties/test_hostile.py::test_a_file_is_a_trace_or_refused_in_one_line",
    ),
    "`unknown` says that the twin of the file's case cannot be computed here": (
        "properties/test_hostile.py::test_a_twin_that_cannot_be_computed_is_unknown",
        "properties/test_hostile.py::test_more_steps_than_tensors_are_wrong_at_once",
    ),
    "a hundred times as many generated examples": (
        "project/test_documented.py::test_a_soak_makes_a_hundred_times_the_examples",
    ),
    "on the oldest versions that this allows": (
        "project/test_documented.py::test_the_oldest_versions_are_those_that_are_allowed",
    ),
    "`tox run -e ci`, which is all of these but the last four, and `-e lint` and `-e verify`": (
        "project/test_documented.py::test_ci_runs_what_the_pages_say",
    ),
    "Tests on hosts or networks of their own need root; without root they are skipped, and say why": (
        "project/test_documented.py::test_tests_of_networks_say_why_they_are_skipped",
        "faults/test_network.py::TestRefusals::test_a_network_that_is_not_permitted_is_refused",
    ),
    "so every order of their sums, with FMA or without, gives the same numbers": (
        "reference/test_exactness.py::test_another_order_of_every_sum_gives_the_same_numbers",
        "reference/test_exactness.py::test_the_batch_servers_twin_computes_the_rational_numbers",
        "reference/test_exactness.py::test_a_product_is_accepted_exactly_if_its_sums_fit",
    ),
    "So does every order of their factors": (
        "reference/test_exactness_flat.py::test_generated_exact_cases_have_one_result_as_flat_sums",
        "reference/test_exactness_flat.py::test_a_loss_is_the_sum_of_the_products_of_all_factors",
    ),
    "A zero has no sign in an exact case": ("reference/test_trace.py::test_a_zero_has_no_sign_in_an_exact_case",),
    "If they are not, 16 further twins run": (
        "reference/test_rounding.py::test_further_twins_are_computed_only_where_bits_differ",
        "reference/test_reordering.py::test_every_sum_runs_in_another_order",
    ),
    "tensor by tensor, in the 2-norm and by the largest element": (
        "reference/test_rounding.py::test_one_wrong_element_that_a_2_norm_does_not_see_is_found",
        "reference/test_rounding.py::test_ratios_are_those_computed_by_hand",
    ),
    "`returned` | every role returned, and there is no twin": (
        "faults/test_script_outcomes.py::test_a_role_that_misses_a_shutdown_of_all_has_vanished",
        "faults/test_script.py::test_a_role_is_judged_even_if_its_parent_ignores_its_exit_code",
    ),
    "`clean error` | roles ended by an error that comes from the plan": (
        "faults/test_error_origin.py::test_after_a_fault_that_loses_nothing_only_a_time_out_is_excused",
        "faults/test_error_origin.py::TestDuplicate::test_an_error_of_the_program_is_not_excused_by_a_duplicate",
    ),
    "`run` and `verify` refuse a case without that proof before they start a process": (
        "reference/test_exactness.py::test_verify_refuses_before_anything_runs",
        "reference/test_exactness.py::test_a_refusal_is_bad_input",
        "reference/test_batch_parameter_server.py::test_an_exact_case_that_is_too_large_is_refused",
        "reference/test_pipeline.py::test_an_exact_case_that_is_none_is_refused",
        "reference/test_case.py::test_exact_arithmetic_needs_exact_numbers",
    ),
    "No tolerance is set by hand": (
        "reference/test_rounding.py::test_reordered_sums_are_within_the_bound",
        "reference/test_rounding.py::test_one_ulp_is_wrong_where_bits_are_due",
    ),
    "A run is `unknown`, and does not pass, if rounding decides an agent's action": (
        "reference/test_rounding.py::test_an_undecided_run_is_neither_right_nor_wrong",
        "reference/test_rounding.py::test_a_run_of_another_length_is_undecided_where_correct_twins_have_it_too",
    ),
    "so much that a tensor of the last parameters or buffers may be rounding alone": (
        "reference/test_rounding.py::test_a_result_that_may_be_rounding_alone_is_not_judged",
        "reference/test_rounding.py::test_a_run_that_ends_with_what_rounding_has_decided_is_undecided",
    ),
    "names the tensors in which one element may be off by 1 % of the tensor's scale": (
        "reference/test_rounding.py::test_what_is_checked_only_roughly_is_named",
        "reference/test_rounding.py::test_one_element_of_many_is_checked_roughly_where_rounding_hits_one_alone",
    ),
    "have a network of their own, which nobody outside reaches": (
        "reference/test_isolation.py::test_the_commands_of_tutorials_isolate_every_world",
        "reference/test_isolation.py::test_nobody_outside_reaches_a_role_of_an_isolated_world",
    ),
    "add whole numbers, whose sums have the same bits in every form": (
        "reference/test_rounding.py::test_what_has_no_dtype_to_choose_has_the_same_bits_in_every_form",
        "reference/test_rounding.py::test_what_has_no_dtype_to_choose_rounds_nowhere",
    ),
}
