"""The promises of the manual of faults: docs/faults.md and its pages."""

from __future__ import annotations

_BAD = "faults/test_cli.py::test_bad_input_is_one_line"
_KINDS = "faults/test_calls.py::test_each_kind_hurts_its_call_and_no_other"

_COMMANDS: dict[str, tuple[str, ...]] = {
    "prints each check and each event on one printable line of at most 4000 characters": (
        "properties/test_hostile.py::test_what_a_run_says_of_itself_is_printed_on_one_line",
        "properties/test_hostile.py::test_any_run_json_is_judged_or_refused_in_one_line",
        "properties/test_hostile.py::test_any_ledger_is_judged_or_refused_in_one_line",
        "reference/test_printable.py::test_a_long_lines_beginning_and_end_are_kept",
    ),
    "A line of a ledger whose values have types that no role writes counts as torn": (
        "properties/test_hostile.py::test_a_line_of_other_types_is_torn",
    ),
    "pipe in the place of a file, is refused with status 2": (
        "properties/test_hostile.py::test_a_pipe_in_a_runs_folder_is_refused_at_once",
        "properties/test_hostile.py::test_a_run_of_other_types_is_no_run",
        "properties/test_hostile.py::test_any_plan_json_is_judged_or_refused_in_one_line",
    ),
    "and has one fault at least. `--healthy` instead of `--plan` asks for a run without faults; one of the two": (
        _BAD,
        "faults/test_cli.py::test_plans_are_texts_or_files",
    ),
    "Options are written whole, and once": (_BAD,),
    "Without a command the usage is shown, and the status is 2": (
        "faults/test_cli.py::test_without_a_command_the_status_is_2",
    ),
    "| 2 | bad input, which is one line and starts nothing.": (
        _BAD,
        "faults/test_sweep_script.py::test_bad_options_are_one_line",
    ),
    "A program that is not healthy is neither listed nor swept: 2, too": (
        "faults/test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
        "faults/test_sweep_script.py::test_a_program_that_does_not_write_its_file_is_not_healthy",
    ),
    "`--json FILE` with every check, end and place of each\nrun": (
        "faults/test_json_report.py::test_a_run_is_told_whole",
        "faults/test_sweep_script.py::test_a_payment_that_is_made_twice_is_found",
    ),
    "in which a run that failed is a failure,\nand an unknown one an error": (
        "faults/test_json_report.py::test_a_sweep_is_told_cell_by_cell",
        "faults/test_json_report.py::test_junit_says_why_a_run_failed",
    ),
    "| 3 | `unknown`: the run's folder does not tell |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_check_of_an_unknown_run_gives_3",
        "faults/test_exit_statuses.py::test_run_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_a_run_that_hangs_gives_1",
        "faults/test_exit_statuses.py::test_a_run_of_a_wrong_tutorial_gives_1",
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
        "faults/test_exit_statuses.py::test_a_run_of_an_rpc_script_gives_the_status_of_its_verdict",
        "faults/test_exit_statuses.py::test_a_sweep_fails_by_one_defect_and_is_unknown_by_one_unknown_run",
        "faults/test_exit_statuses.py::test_a_sweep_of_a_wrong_tutorial_gives_1",
        "faults/test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
        "faults/test_exit_statuses.py::test_python_m_faults_gives_the_status_of_its_command",
        _BAD,
    ),
    "| 130 | interrupted (Ctrl-C, SIGTERM or SIGHUP), and nothing is left |": (
        "faults/test_exit_statuses.py::test_an_interrupt_is_130_and_nothing_is_stored",
        "faults/test_exit_statuses.py::test_an_interrupted_command_ends_with_130_and_leaves_no_process",
        "faults/test_cli.py::test_an_interrupt_leaves_nothing",
    ),
    "Even if `faults` itself is killed, the processes of a script end with it": (
        "faults/test_cli.py::test_a_command_that_is_killed_takes_its_script_along",
    ),
    "the next launching process of the same user removes its folders from the temporary directory": (
        "faults/test_cli.py::test_a_command_that_is_killed_takes_its_script_along",
        "reference/test_temporary_folders.py::test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next",
    ),
    "The first line of a verdict says how many faults were planned": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_several_faults_are_counted",
        "faults/test_exit_statuses.py::test_check_of_a_healthy_run_says_that_nothing_was_planned",
        "faults/test_cli.py::test_prepare_writes_the_plan_and_prints_the_variable",
        "faults/test_sweep.py::test_a_tutorial_is_equal_under_every_harmless_cell",
    ),
    "Sizes are small unless given (`verify/small_cases.py`), and roles wait for each other for 3 s (`--timeout`)": (
        "project/test_documented.py::test_sizes_are_small_unless_given",
    ),
    "`--deadline X` is when an overdue role is ended": (
        "project/test_documented.py::test_a_tutorial_that_misses_its_deadline",
    ),
    "Without it a run that passes leaves nothing, and one that does not pass says where it is stored": (
        "faults/test_cli.py::test_a_run_that_passes_leaves_nothing",
        "faults/test_cli.py::test_a_run_that_fails_is_stored_and_can_be_checked",
    ),
    "A `list` or a `sweep` that fails says so, too": (
        "faults/test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
    ),
    "a new run replaces the files of an earlier run, and no others": (
        "faults/test_run_files.py::test_a_new_run_replaces_what_the_earlier_one_has_written",
        "faults/test_record.py::test_a_new_run_takes_the_place_of_the_old_one",
        "faults/test_cli.py::test_a_plan_may_come_from_a_file_and_dir_keeps_the_run",
    ),
    "a folder that holds a `plan.json`, a `run.json` or a `.jsonl` file of your own is refused": (
        "faults/test_run_files.py::test_a_file_of_the_users_own_is_never_replaced",
        "faults/test_run_files.py::test_a_plan_that_the_user_has_written_is_never_replaced",
        "faults/test_run_files.py::test_a_file_beside_a_runs_own_is_never_removed",
        "faults/test_record.py::test_ledgers_of_something_else_are_left_alone",
    ),
    "role's `.log` that no world has written": (
        "faults/test_run_files.py::test_a_users_file_with_the_name_of_a_worlds_file_is_never_removed",
        "faults/test_run_files.py::test_a_log_beside_which_no_world_has_left_stacks_is_the_users",
    ),
    "While a run goes on in DIR, no other begins there": (
        "faults/test_folder_lock.py::test_no_run_begins_where_one_goes_on",
        "faults/test_folder_lock.py::test_no_run_begins_where_a_process_writes_a_ledger",
        "faults/test_folder_lock.py::test_a_script_has_its_folder_until_it_ends",
        "faults/test_folder_lock.py::test_a_world_has_its_folder_until_it_is_judged",
    ),
    "If the new run cannot start, the earlier one is left as it was": (
        "faults/test_run_files.py::test_a_run_that_cannot_start_loses_nothing",
        "faults/test_run_files.py::test_a_command_that_is_not_there_leaves_the_run",
        "faults/test_run_files.py::test_a_run_that_does_not_begin_leaves_the_earlier_one",
    ),
    "Nothing in it is changed; every Python process that it starts gets the plan": (
        "faults/test_script.py::test_a_script_gets_the_folder_and_its_own_python_path",
        "faults/test_script.py::test_spawned_processes_run_under_a_plan",
        "faults/test_script.py::test_torchruns_processes_run_under_a_plan",
    ),
    "An option that stands after it is refused, unless the command begins with `--`": (
        _BAD,
        "faults/test_exit_statuses.py::test_words_after_two_dashes_belong_to_the_program",
        "faults/test_exit_statuses.py::test_other_words_after_the_script_belong_to_the_program",
    ),
    "Roles are the names that the program gives to `init_rpc`. Sites are `module:function`": (
        "faults/test_script.py::test_spawned_processes_run_under_a_plan",
    ),
    "With `--healthy` its calls are written down": ("faults/test_script.py::test_spawned_processes_run_under_a_plan",),
    "A run in which no process started RPC is `unknown`": (
        "faults/test_exit_statuses.py::test_a_run_without_rpc_is_unknown",
        "faults/test_exit_statuses.py::test_a_role_that_never_came_up_counts_as_no_rpc",
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
        "faults/test_script.py::test_the_commands_end_is_recorded",
    ),
    "`python -S`, `sudo`, or a process that the program starts with an `env=` that lacks FAULTS_RUN and": (
        "faults/test_exit_statuses.py::test_a_program_that_the_plan_cannot_reach_is_unknown",
    ),
    "`--deadline` ends the command, and with it all that it has started": (
        "faults/test_exit_statuses.py::test_a_run_of_a_script_gives_the_status_of_its_verdict",
        "faults/test_script.py::test_processes_that_a_script_leaves_are_found_and_ended",
    ),
    "is how soon it must end after the first fault, if it fails": (
        "project/test_documented.py::test_a_script_that_ends_beyond_its_bound",
    ),
    "Faults of a network need `reference.world.launch`, and are refused here": (
        _BAD,
        "faults/test_script.py::test_a_script_that_cannot_start_is_refused",
    ),
    "let it raise, for instance by `assert`: an exception that does not come from the plan is `wrong`": (
        "faults/test_script.py::test_an_error_that_does_not_come_from_the_plan_is_wrong",
        "faults/test_exit_statuses.py::test_a_run_of_an_rpc_script_gives_the_status_of_its_verdict",
    ),
    "one line that Python reads at its start, and which does nothing where FAULTS_RUN is not set": (
        "faults/test_autostart.py::test_without_the_variable_nothing_happens",
        "faults/test_autostart.py::test_torch_is_as_it_was_without_the_variable_and_is_not_with_it",
        "faults/test_autostart.py::test_the_line_in_faults_pth_costs_nothing",
        "faults/test_autostart.py::test_the_line_and_its_module_are_shipped",
    ),
    "says so in one line on standard error: FAULTS_RUN may have been left exported": (
        "faults/test_startup.py::test_a_variable_that_is_left_exported_is_reported_once",
        "faults/test_autostart.py::test_a_variable_that_is_left_exported_is_reported_once_per_program",
    ),
    "`faults` or a `reference` of its own keeps it, and is told that FAULTS_RUN does nothing there": (
        "faults/test_startup.py::test_a_program_with_their_module_runs_under_the_variable",
        "faults/test_startup.py::test_a_start_that_fails_leaves_the_program_alone",
    ),
    "One that imports a module of\nthis project's `faults` has its plan installed by that already": (
        "faults/test_autostart.py::test_a_program_may_import_any_module_of_this_project_first",
    ),
    "`python -m faults` takes no notice of the variable": (
        "faults/test_startup.py::test_the_commands_take_no_notice_of_the_variable",
    ),
    "`check DIR` alone says `unknown` and gives 3 although every fault fired": (
        "faults/test_autostart.py::test_torchrun_runs_under_a_plan_as_documented",
        "faults/test_exit_statuses.py::test_check_of_an_unknown_run_gives_3",
        "faults/test_runs.py::TestUnknown::test_a_run_without_its_end_is_unknown",
    ),
    "and the verdict says which line of the program each of its Python\n  processes waits at, in all threads": (
        "faults/test_waits.py::test_every_process_says_where_it_waits",
        "faults/test_waits.py::test_an_overdue_script_is_told_with_its_places",
        "faults/test_waits.py::test_the_programs_own_lines_are_told",
    ),
    "The signal SIGRTMAX-5 asks for them; a program that uses it keeps it": (
        "faults/test_waits.py::test_a_program_that_uses_the_signal_keeps_it",
    ),
    "a status other than 0 is `wrong`": (
        "faults/test_results.py::test_a_command_judges_by_its_status",
        "faults/test_sweep_script.py::test_a_run_can_be_checked_by_a_command",
    ),
    "`check DIR --ended STATUS` records that everything has ended": (
        "faults/test_outside_end.py::test_a_run_that_has_ended_is_no_longer_unknown",
        "faults/test_outside_end.py::test_an_error_of_the_plan_is_clean",
    ),
    "Roles that still run are looked for on this machine only": (
        "faults/test_outside_end.py::test_processes_of_this_machine_are_looked_for",
    ),
    "A folder whose end is recorded is refused": (
        "faults/test_outside_end.py::test_a_run_that_has_ended_is_no_longer_unknown",
    ),
    "A\n  fault that did not fire is 1 here too": (
        "faults/test_cli.py::test_prepare_writes_the_plan_and_prints_the_variable",
    ),
    "a run in which the command and every role return is `returned`": (
        "faults/test_script_outcomes.py::test_a_role_that_misses_a_shutdown_of_all_has_vanished",
        "faults/test_script.py::test_a_role_is_judged_even_if_its_parent_ignores_its_exit_code",
        "faults/test_programs.py::test_the_verdict_is_the_one_that_was_written_down",
    ),
    "An uncaught one is seen whatever `sys.excepthook` the program has set": (
        "faults/test_exit_record.py::test_an_uncaught_error_is_told_whatever_hook_the_program_has",
        "faults/test_script.py::test_a_process_has_the_status_that_it_really_ended_with",
    ),
    "written last: how and when each role ended, the trace's verdict, leaks, the bound": (
        "faults/test_record.py::test_a_written_run_is_read_back",
        "faults/test_record.py::test_a_record_is_written_whole_or_not_at_all",
    ),
    "The folder may be moved: `check` needs nothing else": (
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "A sweep's folder holds `healthy` and one such folder per cell, `0000` and on": (
        "faults/test_sweep.py::test_only_the_cells_with_the_defect_fail",
    ),
    "`Corrupt` (`zeros`, of request and of reply) is swept only if `--kinds` names it": (
        "faults/test_sweep.py::test_corruptions_are_swept_only_if_they_are_asked_for",
        "faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status",
    ),
}

_STARTED = "faults/test_script.py::test_programs_may_start_and_end_their_processes_in_many_ways"
_ENDS: dict[str, tuple[str, ...]] = {
    "twice the longest of those that it gave to `init_rpc`, to `shutdown`, or to a call that a fault hit, was open": (
        "faults/test_time_bounds.py::test_the_timeout_is_the_longest_that_a_call_with_a_fault_may_take",
        "faults/test_time_bounds.py::test_a_call_that_the_first_fault_meets_or_that_fails_since_counts_too",
        "faults/test_time_bounds.py::test_the_bound_is_twice_that_and_some_seconds_besides_what_the_faults_last",
    ),
    "If no role shuts down for all, or only with `graceful=False`, an end in order is enough": (
        "faults/test_script_outcomes.py::test_without_a_shutdown_of_all_any_orderly_end_is_enough",
    ),
    "An error in a `finally` block that ends by `os._exit(0)` or `sys.exit(0)` is judged. In an `except` block it": (
        "faults/test_script_outcomes.py::test_status_0_while_an_error_passes_comes_from_that_error",
        "faults/test_handled_errors.py::test_the_source_tells_whether_an_error_is_handled",
    ),
    "Where the source does not tell which of them it is": (
        "faults/test_handled_errors.py::test_without_a_source_handling_is_unknown",
        "faults/test_script_outcomes.py::test_an_error_that_may_have_been_handled_is_kept",
    ),
    "| its process becomes another program (`os.execvp`) | returned, with status 0, whatever that program comes to |": (
        "faults/test_exit_record.py::test_a_role_ends_when_its_process_becomes_another_program",
        "faults/test_script.py::test_a_process_has_the_status_that_it_really_ended_with",
    ),
    "| a signal ended the role after Python has said that it ends (in a handler of `atexit`, a destructor": (
        "faults/test_script_outcomes.py::test_a_process_without_a_status_was_killed_by_a_signal",
        "faults/test_script.py::test_a_process_has_the_status_that_it_really_ended_with",
    ),
    "One that it ends in a call that a fault had hit may have hung there": (
        "faults/test_script_outcomes.py::test_a_role_ended_in_a_call_with_a_fault_has_not_returned",
        "faults/test_checks.py::TestErrors::test_a_role_ended_in_a_call_with_a_fault_is_excused_only_if_another_failed",
    ),
    "of two worlds, one after the other or at once, or of a role that is started again, the worst end is the role's": (
        "faults/test_script_outcomes.py::test_a_role_of_two_worlds_needs_both",
        "faults/test_script_outcomes.py::TestTwoWorldsAtOnce::test_a_lost_process_counts_even_if_another_of_its_role_is_well",
        _STARTED,
    ),
    "or another signal that ends its receiver at once, such as SIGHUP to a process that does not handle it": (
        "faults/test_exit_record.py::test_a_signal_that_its_receiver_handles_is_not_what_ends_it",
    ),
    "Such an end is seen where a Python process sends SIGTERM or SIGKILL": (
        "faults/test_exit_record.py::test_a_launcher_that_never_imports_torch_records_the_processes_it_ends",
        _STARTED,
    ),
    "So is a `KeyboardInterrupt` that a role raises although no SIGINT was sent to it": (
        "faults/test_exit_record.py::test_an_interrupt_is_told_unless_somebody_has_sent_it",
        _STARTED,
    ),
    "a role that returns, in a world that is started anew or in the one that was hit, takes as long as it takes": (
        "faults/test_time_bounds.py::TestRecovery",
        "faults/test_script.py::test_a_program_that_recovers_has_no_bound",
    ),
    "| the role ended without a word | killed by a signal: by the plan, or `wrong` |": (
        "faults/test_script.py::test_an_unplanned_kill_of_a_role_is_reported",
    ),
    "If the ledgers do not tell whether that other is excused, both are `unknown`": (
        "faults/test_checks.py::TestErrors::test_a_role_ended_after_an_undecided_failure_is_undecided_too",
    ),
    "If an error was being handled then, that error is judged": (
        "faults/test_exit_record.py::TestAStatusIsToldWithTheErrorThatWasBeingHandled",
        "faults/test_programs.py::test_the_verdict_is_the_one_that_was_written_down",
    ),
    "Without an error the run is `unknown`, even if the role's last call had failed": (
        "faults/test_checks.py::TestErrors::test_a_status_without_an_error_is_not_excused_by_the_call_that_failed_before",
        "faults/test_checks.py::TestErrors::test_an_exit_status_of_a_launched_role_is_wrong_and_of_a_command_unknown_after_a_fault",
    ),
    "A message's fault fires with the first call that shows it; without one the run is `unknown`": (
        "faults/test_error_origin.py::TestMessages::test_the_call_that_shows_it_is_its_firing",
        "faults/test_error_origin.py::TestMessages::test_without_evidence_of_the_fault_an_error_is_unknown",
    ),
    "Only faults that fired before an error excuse it": (
        "faults/test_error_origin.py::test_an_error_before_anything_has_fired_is_not_excused",
    ),
    "| `Delay`, `Order`, `Pause`, `Hold`, `Slow` | a time-out, RPC's or the program's own": (
        "faults/test_error_origin.py::test_after_a_fault_that_loses_nothing_only_a_time_out_is_excused",
        "faults/test_error_origin.py::test_an_out_of_turn_error_comes_from_the_plan",
    ),
    "| `Duplicate` | what the callee raised in handling the call that came twice": (
        "faults/test_error_origin.py::TestDuplicate::test_an_error_of_the_callee_in_handling_a_duplicate_is_excused",
        "faults/test_error_origin.py::TestDuplicate::test_an_error_of_another_call_is_not_excused_by_a_duplicate",
        "faults/test_error_origin.py::TestDuplicate::test_an_error_of_the_program_is_not_excused_by_a_duplicate",
    ),
    "| `Raise` of request or reply | what the plan raises, and what derives from it |": (
        "faults/test_error_origin.py::test_a_planned_error_is_excused_by_type_and_text",
        "faults/test_error_origin.py::test_after_an_error_of_the_plan_others_are_its_own_or_unknown",
    ),
    "| all others | RPC's own error, a time-out; and what derives from one of these |": (
        "faults/test_error_origin.py::test_errors_that_derive_from_a_loss_are_excused",
        "faults/test_error_origin.py::test_an_error_that_quotes_a_failed_call_is_excused",
    ),
    "from anywhere else, as from a socket, it is `unknown`": (
        "faults/test_error_origin.py::test_a_server_that_is_no_peer_is_not_lost_by_the_plan",
    ),
    "So is `TimeoutExpired` of `subprocess.run`, while that of `Popen.wait` is a time-out": (
        "faults/test_error_chain.py::test_a_process_that_ran_before_was_waited_for_and_a_command_may_be_anybodys",
        "faults/test_error_origin.py::test_a_server_that_is_no_peer_is_not_lost_by_the_plan",
    ),
    "that of `input()` or of an empty pickle is the program's own": (
        "faults/test_error_origin.py::test_an_end_of_file_is_a_loss_where_a_channel_raises_it",
    ),
    "A quotation has the type's name and the text": (
        "faults/test_error_origin.py::test_an_error_that_quotes_a_failed_call_is_excused",
        "faults/test_error_origin.py::TestDuplicate::test_an_error_of_the_callee_in_handling_a_duplicate_is_excused",
    ),
    "A lost connection or a time-out is also excused if another role has ended": (
        "faults/test_error_origin.py::test_a_lost_peer_is_excused_by_the_end_of_another_role",
    ),
    "`TypeError`, `KeyError`, `ZeroDivisionError`, `ImportError` and their like) is `wrong` all the same": (
        "faults/test_checks.py::TestErrors::test_a_launchers_own_mistake_is_wrong_though_a_role_has_failed",
    ),
    "and a role still runs 2 s later, the run does not wait for its end, and is `unknown`": (
        "faults/test_checks.py::TestEnds::test_a_role_that_outlives_a_command_that_was_killed_is_unknown",
    ),
    "What goes wrong by itself in an `except` block (an `AttributeError` of `None`, an `assert`) is a mistake": (
        "faults/test_error_chain.py::test_an_error_derives_from_stated_or_handled_errors_but_a_mistake_does_not",
    ),
    "(even `from None`, except in an error from another role, whose traceback does not show it)": (
        "faults/test_error_chain.py::test_an_error_derives_from_stated_or_handled_errors_but_a_mistake_does_not",
        "faults/test_error_chain.py::test_an_error_hidden_by_from_none_is_read_even_in_a_group",
    ),
    "such as a check that the block calls, it is `unknown` whether it derives": (
        "faults/test_error_chain.py::test_an_error_of_another_function_than_the_handling_one_is_doubtful",
        "faults/test_error_origin.py::test_a_doubtful_cause_makes_an_error_unknown",
    ),
    "if the last call of that role has failed by the plan": (
        "faults/test_given_up.py::test_an_error_of_a_role_whose_last_call_was_lost_is_unknown",
        "faults/test_given_up.py::test_a_mistake_is_wrong_whatever_was_lost",
        "faults/test_given_up.py::test_an_error_of_a_callee_whose_own_last_call_was_lost_is_unknown",
        "faults/test_given_up.py::test_a_launcher_may_speak_of_a_role_that_returned_after_its_last_call_was_lost",
    ),
    "A role that fails with `DistNetworkError` in a graceful shutdown which another role has left before": (
        "faults/test_store_race.py::test_a_rank_that_reads_the_last_count_after_the_first_rank_has_ended_is_unknown",
        "faults/test_store_race.py::test_a_lost_store_is_torchs_only_once_another_role_has_left_gracefully",
    ),
    "A role of a tutorial that ends by SIGABRT after another's excused end": (
        "faults/test_checks.py::TestErrors::test_a_survivor_that_is_aborted_after_an_excused_end_is_unknown",
    ),
    "Processes that a run leaves behind are named, then ended": (
        "faults/test_runs.py::test_processes_that_a_run_leaves_are_named_and_ended",
        "faults/test_script.py::test_processes_that_a_script_leaves_are_found_and_ended",
    ),
    "so the count shows only those that it could not free": (
        "faults/test_hook.py::test_a_reference_that_is_kept_is_deleted_by_torchs_own_shutdown",
        "faults/test_hook.py::test_an_unreleased_autograd_context_is_recorded_on_every_role",
    ),
    "and twice each `latency_ms` and `jitter_ms`": (
        "faults/test_time_bounds.py::test_a_latency_is_added_to_the_bound_once_for_each_timeout",
        "faults/test_time_bounds.py::test_a_latency_from_the_start_is_added_for_each_packet_of_the_start",
        "faults/test_netem.py::TestWorld::test_a_latency_beyond_every_timeout_is_a_clean_error",
    ),
}

_SWEEPS: dict[str, tuple[str, ...]] = {
    "it hits each site in up to\neleven ways": ("project/test_documented.py::test_a_sweep_hurts_in_eleven_ways",),
    "in its first call (of the first caller) and its last (of the last one)": (
        "faults/test_sweep.py::test_each_site_has_a_cell_per_kind_and_occurrence",
    ),
    "a site or kind of which there is no cell is refused": (
        "faults/test_cli.py::test_a_sweep_without_a_cell_is_refused",
    ),
    "| `--budget X` | begins no cell after so many seconds |": (
        "faults/test_sweep.py::test_no_cell_begins_after_the_budget",
        "faults/test_sweep.py::test_a_spent_budget_is_reported",
    ),
    "Every 5 s a line (on a terminal a bar) says how long it will still take": (
        "faults/test_sweep_progress.py::test_a_line_is_printed_every_few_seconds",
        "faults/test_sweep_progress.py::test_a_terminal_shows_a_bar",
        "faults/test_sweep_progress.py::test_the_remaining_seconds_follow_from_the_runs_so_far",
    ),
    "Interrupted, it shows what it has": ("faults/test_exit_statuses.py::test_an_interrupted_sweep_shows_what_it_has",),
    "A clean error after a `Delay` or an `Order` is a defect (`needless error`)": (
        "faults/test_sweep.py::test_a_harmless_fault_needs_no_error",
        "faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status",
    ),
    "What is not hurt is listed\nwith the reason: calls that torch makes by itself, functions that no plan can name": (
        "faults/test_sweep_options.py::test_what_is_not_hurt_has_a_reason",
        "faults/test_sweep_options.py::test_reasons_are_told_for_the_chosen_sites_and_kinds",
    ),
    "A text with `*`, `?` or `[` has to match the whole site": (
        "faults/test_sweep_options.py::test_sites_are_chosen_by_a_part_of_their_name_or_by_a_pattern",
    ),
    "each cell is in one part, which depends on nothing but its name": (
        "faults/test_sweep_options.py::test_each_cell_is_in_one_part",
        "faults/test_sweep_options.py::test_a_part_does_not_depend_on_the_other_cells",
        "faults/test_sweep_options.py::test_a_part_may_be_empty",
    ),
    "| `--check CMD`, `--writes PATH` | CMD ends with status 0, as for `run` |": (
        "faults/test_sweep_script.py::test_a_command_checks_every_run",
        "faults/test_results.py::test_a_command_judges_by_its_status",
    ),
    "its standard output has the healthy run's lines, in any order": (
        "faults/test_same_output.py::test_lines_are_compared_without_their_order",
        "faults/test_sweep_script.py::test_a_payment_that_is_made_twice_is_found",
    ),
    "it is no defect of the program, and makes the sweep's exit status 3": (
        "faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status",
    ),
    "what this matches does not count; a line of which nothing remains is none": (
        "faults/test_same_output.py::test_lines_are_compared_without_their_order",
    ),
    "or the same tensors, bit by bit, if it is of `torch.save` or safetensors": (
        "faults/test_same_file.py::test_files_of_torch_are_compared_by_their_tensors",
        "faults/test_same_file.py::test_minus_zero_is_another_zero",
        "faults/test_same_file.py::test_safetensors_may_differ_in_their_header",
        "faults/test_same_file.py::test_other_files_are_compared_by_their_bytes",
    ),
    "No code in it is executed": ("faults/test_same_file.py::test_no_code_of_a_file_is_executed",),
    "the program is run twice without faults: what differs then is told, and nothing is\nswept": (
        "faults/test_sweep_script.py::test_results_that_change_by_themselves_are_refused",
    ),
    "`--same-file` and `--writes` name files that are not there before the\nsweep": (
        "faults/test_sweep_script.py::test_bad_options_are_one_line",
        "faults/test_results.py::test_a_file_of_an_earlier_run_is_refused",
    ),
    "each run's own are moved into its folder": (
        "faults/test_results.py::test_a_program_that_failed_has_no_results",
        "faults/test_results.py::test_files_of_the_same_name_are_kept_apart",
    ),
    "say how its results are checked; without any check a run that returns passes,\nand the sweep says so": (
        "faults/test_sweep_script.py::test_a_sweep_without_a_check_says_so",
    ),
}

_VERDICTS: dict[str, tuple[str, ...]] = {
    "| `equal` | pass |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "| `returned` | pass |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_checks.py::test_each_run_has_its_verdict",
    ),
    "| `clean error` | pass |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "| `hung` | fail | a role missed its deadline, or the survivors of a fault ended later than the bound (of a": (
        "faults/test_time_bounds.py::TestRecovery",
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_a_role_that_waits_forever_hangs",
        "faults/test_checks.py::TestBound::test_the_bound_is_counted_from_the_first_fault",
    ),
    "| `wrong` | fail |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "| `leaked` | fail |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
        "faults/test_checks.py::TestLeft::test_rrefs_and_contexts_count_if_all_roles_returned",
    ),
    "| `not fired` | fail | a fault fired too seldom or too often, or without its effect |": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_checks.py::TestFired::test_a_fault_of_one_named_call_fires_exactly_once",
        "faults/test_checks.py::TestEffect::test_a_dropped_call_that_is_answered_had_no_effect",
    ),
    "| `unknown` | 3 | the folder does not tell": (
        "faults/test_exit_statuses.py::test_check_of_an_unknown_run_gives_3",
        "faults/test_exit_statuses.py::test_a_run_without_rpc_is_unknown",
        "faults/test_runs.py::TestUnknown::test_a_run_with_a_torn_line_is_unknown",
        "faults/test_runs.py::TestUnknown::test_a_run_without_the_ledger_of_the_role_that_fired_is_unknown",
    ),
    "If a run has several defects, its verdict is the worst one, in the order of this table": (
        "faults/test_checks.py::test_several_defects_are_named_by_the_worst",
    ),
    "Every fault of the plan has to happen and to have its effect": (
        "faults/test_checks.py::TestFired::test_a_fault_of_one_named_call_fires_exactly_once",
        "faults/test_checks.py::TestEffect::test_a_fault_with_a_receipt_needs_it",
    ),
    "A fault that never fired fails the run": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "Calls that torch makes itself are left out": (
        "faults/test_census.py::test_torchs_own_calls_are_left_out_unless_wanted",
    ),
    "What is not known to be definite is indefinite": (
        "faults/test_certainty.py::test_an_error_of_the_callee_or_of_a_call_never_sent_is_definite",
        "faults/test_certainty.py::test_a_timeout_or_a_broken_connection_is_indefinite",
    ),
}

_PLANS: dict[str, tuple[str, ...]] = {
    "plain data, frozen, hashable, without torch": (
        "faults/test_plan.py::test_a_plan_is_frozen",
        "faults/test_plan.py::test_equal_plans_and_only_they_are_equal",
        "faults/test_plan.py::test_plain_data_needs_no_torch",
    ),
    "refused at once with `PlanError`, one line that names the field, what was wanted and what was got": (
        "faults/test_plan.py::test_any_text_is_a_plan_or_one_line",
        "faults/test_plan.py::test_any_object_is_a_fault_or_one_line",
        "faults/test_plan.py::test_no_field_takes_an_impossible_value",
        "faults/test_plan.py::test_wrong_texts_are_refused_in_one_line",
        "faults/test_plan.py::test_wrong_json_is_refused_in_one_line",
        _BAD,
    ),
    "It has two written forms, and `Plan.parse` reads both": (
        "faults/test_plan.py::test_both_forms_give_the_plan_back",
        "faults/test_fields.py::test_the_examples_of_the_manual_are_one_plan",
    ),
    "**Text** is what a failing test prints, and can be pasted back": (
        "faults/test_plan.py::test_a_printed_plan_goes_through_a_shell",
        "faults/test_text.py::test_quoted_words_come_back",
    ),
    "**JSON** is one line, and the same bytes for the same plan": (
        "faults/test_plan.py::test_the_same_bytes_every_time_and_everywhere",
    ),
    "A field that is left out has no value; `null` is not one. A field given twice is refused": (
        "faults/test_plan.py::test_wrong_json_is_refused_in_one_line",
        "faults/test_plan.py::test_wrong_texts_are_refused_in_one_line",
    ),
    "| kind | place | needs | may have |": (
        "faults/test_fields.py::test_the_manual_shows_the_tables",
        "faults/test_plan.py::test_every_field_that_a_shape_may_have_and_no_other",
        "faults/test_plan.py::test_what_a_shape_needs_is_enough_and_all_of_it_is_needed",
    ),
    "| field | means | takes |": (
        "faults/test_fields.py::test_the_manual_shows_the_tables",
        "faults/test_fields.py::test_an_error_says_what_the_manual_says",
        "faults/test_fields.py::test_the_limits_of_a_number_are_allowed",
    ),
    "`peer` is another role than `role`": ("faults/test_plan.py::test_a_role_cannot_be_its_own_peer",),
    "`times` is the same for every lost message of a plan": (
        "faults/test_plan.py::test_lost_messages_of_a_plan_have_one_number_of_times",
    ),
    "a message type has one `Delay` and one `Drop` for each role": (
        "faults/test_plan.py::test_a_message_has_one_delay_for_each_role",
    ),
    "A fault of a call has exactly one of": ("faults/test_plan.py::test_a_fault_has_one_occurrence",),
    "This is the default, with N = 1": ("faults/test_plan.py::test_without_an_occurrence_a_fault_hits_the_first_call",),
    "so the timing of threads cannot change it": (
        "faults/test_occurrence.py::test_a_chance_is_a_draw_by_its_arguments",
        "faults/test_occurrence.py::test_chances_differ_by_everything_they_depend_on",
        "faults/test_calls.py::test_a_chance_is_drawn_for_each_call_from_the_seed",
    ),
    "Without a `role` each caller counts for itself": (
        "faults/test_calls.py::test_each_caller_has_a_count_of_its_own",
    ),
    "| `up@ROLE` | RPC of that role has started |": (
        "faults/test_hook.py::test_moments_come_in_their_order",
        "faults/test_processes.py::test_a_crash_kills_a_role_when_rpc_is_up",
    ),
    "| `step:N@ROLE` |": (
        "faults/test_announcer.py::test_steps_are_heard_in_the_log",
        "reference/test_trace.py::test_recorder_logs_one_line_a_step",
    ),
    "| `call:SITE#N@ROLE` | before that role's Nth call of the site is sent |": (
        "faults/test_announcer.py::test_only_the_named_call_and_step_are_announced",
        "faults/test_hook.py::test_moments_come_in_their_order",
    ),
    "| `shutdown@ROLE` | before that role enters `rpc.shutdown` |": (
        "faults/test_hook.py::test_moments_come_in_their_order",
    ),
    "The role that announces does not go on before the fault has been done": (
        "faults/test_announcer.py::test_each_action_runs_once_before_the_role_goes_on",
        "faults/test_processes.py::test_a_crash_kills_another_role_at_a_step",
    ),
    "A moment that never comes is a fault that never fires, which fails the run": (
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "Without `at` a network's fault is there from the start": (
        "faults/test_network.py::TestPartition::test_a_partition_without_a_moment_begins_at_the_start",
    ),
    "`jitter_ms` is at most `latency_ms`": (
        "faults/test_slow_lines.py::test_fields_that_do_not_go_together_are_refused_in_one_line",
    ),
    "`latency=True` also draws `Slow` with `latency_ms`": (
        "faults/test_strategies.py::test_a_latency_is_drawn_only_if_it_is_asked_for",
        "faults/test_strategies.py::test_a_line_may_have_a_rate_or_a_latency_or_both",
    ),
    "They need `pip install hypothesis`, which nothing else here does": (
        "faults/test_strategies.py::test_without_hypothesis_only_this_module_fails",
    ),
    "Only valid plans come out, and none is filtered away": (
        "faults/test_strategies.py::test_plans_are_valid_and_stay_within_what_there_is",
    ),
    "a kind that cannot happen there is refused": (
        "faults/test_strategies.py::test_impossible_kinds_and_places_are_refused",
    ),
    "A failing plan shrinks towards fewer faults, then gentler kinds": (
        "faults/test_strategies.py::test_fewer_faults_come_first",
        "faults/test_strategies.py::test_every_shape_occurs_and_shrinks_to_its_smallest_fault",
        "faults/test_strategies.py::test_needed_fields_stay_and_the_rest_shrinks",
        "faults/test_strategies.py::test_seeds_are_drawn_for_chances_and_shrink_to_0",
    ),
    "from hypothesis import given, settings": ("faults/test_fields.py::test_the_examples_of_the_manual_run",),
    "`Corrupt` is drawn only if `kinds=` names it": (
        "faults/test_strategies.py::test_corruptions_are_drawn_only_if_they_are_named",
    ),
}

_CALLS: dict[str, tuple[str, ...]] = {
    "A plan names the function by its **site**": (
        "faults/test_site.py::test_a_function_has_its_module_and_qualified_name",
    ),
    "| `rref.rpc_sync().pay(1)`, `rref.rpc_async()…`, `rref.remote()…` | the method": (
        "faults/test_site.py::test_a_call_through_a_proxy_belongs_to_the_method",
    ),
    "only the first function that is handed counts": (
        "faults/test_site.py::test_a_call_with_a_function_as_argument_belongs_to_both",
    ),
    "the same plan hits the same calls": ("faults/test_calls.py::test_the_same_plan_twice_gives_the_same_facts",),
    "A second `init_rpc` in one process counts anew": (
        "faults/test_hook.py::test_a_users_own_script_may_have_two_worlds_in_one_process",
        "faults/test_checks.py::TestFired::test_a_fault_fires_once_per_start_of_rpc",
    ),
    "no function of the program is replaced": ("faults/test_calls.py::test_every_callable_still_works_under_a_plan",),
    "A callee without it answers a call that is hit with `FaultError: … its callee has no plan installed`": (
        "faults/test_calls.py::test_a_callee_without_the_plan_says_so",
    ),
    "With an empty plan nothing at all is replaced": ("faults/test_hook.py::test_an_empty_plan_replaces_nothing",),
    "| `Delay side=request` | the callee's RPC thread waits, then executes": (
        _KINDS,
        "faults/test_delivery.py::test_a_delay_of_the_request_precedes_the_execution",
    ),
    "| `Delay side=reply` | executes at once; the answer is held by a timer": (
        _KINDS,
        "faults/test_delivery.py::test_a_delay_of_the_reply_follows_in_another_thread",
    ),
    "| `Raise side=request` | never executes |": (_KINDS, "faults/test_delivery.py::test_raise_raises_on_either_side"),
    "| `Raise side=reply` | executes, then raises instead of answering |": (
        _KINDS,
        "faults/test_delivery.py::test_raise_raises_on_either_side",
    ),
    "| `Raise side=flight` | executes; its caller fails when it begins, and its answer is dropped |": (
        _KINDS,
        "faults/test_flight.py::test_the_caller_fails_while_the_callee_executes",
        "faults/test_flight.py::test_the_error_stays_where_the_future_is_passed_on",
    ),
    "torch tells only the first RRef of a process that its creation has failed": (
        "faults/test_flight.py::test_a_remote_passes_unhurt_and_the_ledger_says_why",
    ),
    "| `Drop side=request` | never executes, is never answered |": (
        _KINDS,
        "faults/test_delivery.py::test_a_lost_request_is_never_executed",
    ),
    "| `Drop side=reply` | executes once, is never answered |": (
        _KINDS,
        "faults/test_delivery.py::test_a_lost_reply_is_executed_once",
    ),
    "| `Duplicate` | executes twice; the first answer counts, an error of the second is `refused` |": (
        _KINDS,
        "faults/test_delivery.py::test_a_duplicate_executes_twice_and_answers_once",
        "faults/test_delivery.py::test_a_duplicate_that_is_refused_does_not_change_the_answer",
    ),
    "| `Crash when=before` / `after` | SIGKILL before, or after it has executed ([other ways]": (
        "faults/test_calls.py::test_a_crash_kills_the_callee_before_or_after_it_executes",
    ),
    "one that waits longer than S ends with `OutOfTurn`": (
        "faults/test_calls.py::TestOrder::test_an_order_holds_whatever_the_order_of_arrival",
        "faults/test_calls.py::TestOrder::test_a_missing_call_ends_the_wait_of_the_others",
        "faults/test_order_gate.py::test_calls_execute_in_every_order_from_every_arrival",
        "faults/test_order_gate.py::test_a_missing_call_is_named",
    ),
    "`Raise side=reply` waits for its future": (
        "faults/test_delivery.py::test_raise_waits_for_an_asynchronous_answer",
    ),
    "A role that the tutorial does not have is refused before anything starts": (
        "faults/test_runs.py::test_a_role_that_nobody_plays_is_refused_before_anything_starts",
        _BAD,
    ),
    "there such a fault is `not fired`, if any role starts RPC": (
        "faults/test_checks.py::TestFired::test_without_a_start_of_rpc_firing_is_unknown",
        "faults/test_programs.py::test_the_verdict_is_the_one_that_was_written_down",
    ),
    "A late reply that no caller waits for any more is not given once RPC has shut down": (
        "faults/test_calls.py::TestShutdown::test_shutdown_survives_a_reply_that_is_still_delayed",
        "faults/test_delayed_replies.py::test_closing_answers_at_once_or_never",
    ),
    "Several faults of one call come in the order of the plan": (
        "faults/test_delivery.py::test_faults_of_one_call_come_in_the_order_of_the_plan",
    ),
    "Within `dist_autograd.context()` all of this works, and gradients keep their bits": (
        "faults/test_calls.py::test_gradients_stay_the_same_bits",
    ),
    "A call under a pickler of the user's own (`rpc.api._use_rpc_pickler`) passes, unhurt and uncounted": (
        "faults/test_calls.py::test_a_pickler_of_the_users_own_passes_unhurt",
    ),
    "A call to a worker that does not exist is refused by torch before it becomes a call": (
        "faults/test_calls.py::TestLedger::test_an_unknown_worker_is_refused_by_torch_before",
    ),
    "| `TypeError`, `ValueError`; `RuntimeError` with `On WorkerInfo(…)` | the function raised | fail |": (
        "faults/test_calls.py::TestLedger::test_an_exception_of_the_callee_is_definite",
        "faults/test_certainty.py::test_an_error_of_the_callee_or_of_a_call_never_sent_is_definite",
    ),
    "| `RPCErr:1:RPC ran for more than set timeout…` | a timeout | info |": (
        "faults/test_calls.py::TestLedger::test_a_timeout_is_indefinite",
        "faults/test_certainty.py::test_a_timeout_or_a_broken_connection_is_indefinite",
    ),
    "| `cannot pickle …`, any error of the pickler | never sent | fail |": (
        "faults/test_calls.py::TestLedger::test_a_call_that_cannot_be_pickled_is_definite",
    ),
    "the callee died, in mid-call or before": (
        "faults/test_calls.py::TestLedger::test_a_call_to_a_dead_callee_is_indefinite",
    ),
    "Drop site=shop:Till.pay side=reply nth=3": ("project/test_documented.py::test_documented_plans_are_plans",),
    "It counts its calls of each site from 1, whichever callee they go to": (
        "faults/test_calls.py::test_a_caller_counts_its_calls_of_a_site_whomever_they_go_to",
    ),
}

_PROCESSES: dict[str, tuple[str, ...]] = {
    "It may hurt itself": (
        "faults/test_processes.py::test_a_role_that_kills_itself_has_said_so_before",
        "faults/test_processes.py::test_a_role_can_pause_itself",
    ),
    "a process that only has the same number since (it started later than that line was written) is left alone": (
        "faults/test_processes.py::TestCannotFire::test_a_process_that_reuses_an_id_is_not_hit",
    ),
    "the program goes on, and the plan counts as not fired": (
        "faults/test_processes.py::TestCannotFire::test_a_role_without_a_ledger_cannot_be_hit",
        "faults/test_processes.py::TestCannotFire::test_a_role_on_another_machine_cannot_be_hit",
        "faults/test_processes.py::TestCannotFire::test_a_process_that_has_ended_cannot_be_hit",
        "faults/test_checks.py::TestFired::test_the_reason_why_a_fault_could_not_fire_is_said",
    ),
    "`fired` is on file before the signal is sent; `effective`, with the seconds": (
        "faults/test_processes.py::test_a_crash_kills_another_role_at_a_step",
        "faults/test_processes.py::test_a_role_that_kills_itself_has_said_so_before",
    ),
    "`effective` once **every thread** of the process is in state T": (
        "faults/test_guardian.py::test_a_process_is_stopped_when_every_thread_is",
    ),
    "`resumed` with the measured seconds since": (
        "faults/test_guardian.py::test_the_guardian_stops_a_process_for_its_seconds",
    ),
    "It always goes on": (
        "faults/test_guardian.py::test_the_guardian_continues_the_process_when_its_orders_end",
        "faults/test_guardian.py::test_the_guardian_continues_the_process_when_the_firing_one_ends",
        "faults/test_processes.py::test_a_paused_role_goes_on_when_the_role_that_fired_is_killed",
    ),
    "If the guardian itself is killed, leaving the scope continues the role": (
        "faults/test_processes.py::test_leaving_continues_a_role_even_if_the_guardian_was_killed",
    ),
    "A program that handles the signal and ends in order makes no mistake": (
        "faults/test_crash_ways.py::test_a_role_ends_in_the_way_that_the_crash_names",
        "faults/test_crash_ways.py::test_a_role_of_a_script_ends_in_the_way_that_the_crash_names",
    ),
    "A process exits by itself only, so `how=exit:N` takes a moment of its own role": (
        "faults/test_crash_ways.py::test_a_role_exits_at_a_moment_of_its_own_only",
    ),
    "Of a role of `launch` it is known, and has to be the planned one": (
        "faults/test_planned_ends.py::test_only_the_planned_signal_or_status_is_the_plans",
    ),
    "has the longest time between two looks (`kept`), which is at least `seconds`": (
        "faults/test_hold.py::test_a_role_runs_no_python_while_another_one_holds_it",
        "faults/test_hold.py::test_a_hold_that_lets_other_threads_run_is_no_effect",
    ),
    "a role that holds itself goes on when it is over": (
        "faults/test_hold.py::test_a_role_that_holds_itself_goes_on_when_it_has_said_so",
    ),
    "Of a role that ends while it is held, its end within the seconds is the proof": (
        "faults/test_checks.py::TestEffect::test_a_role_that_ends_while_it_is_held_cannot_say_so",
    ),
}

_MESSAGES: dict[str, tuple[str, ...]] = {
    "A plan with such a fault gives this agent to every role": (
        "faults/test_messages.py::test_only_the_named_role_loses_messages_but_every_role_has_the_agent",
    ),
    "which would spin on a core of every role": ("faults/test_messages.py::test_no_role_spins_in_shared_memory",),
    "no thread of its process can make a file larger than 1 MiB": (
        "faults/test_transports.py::test_files_are_limited_only_while_an_agent_starts",
        "faults/test_transports.py::test_the_limit_is_lifted_even_if_the_agent_does_not_start",
    ),
    "A torch without the agent refuses the plan": (
        "faults/test_messages.py::test_a_torch_without_the_agent_refuses_plans_that_need_it",
    ),
    "Ten types of requests exist": ("faults/test_messages.py::test_the_ten_types_are_all_here",),
    "**the shutdown of that role fails too**": (
        "faults/test_messages.py::test_a_lost_python_call_never_executes_and_the_shutdown_of_the_leader_fails",
    ),
    "| SCRIPT_CALL |": ("faults/test_messages.py::test_a_lost_script_call_is_an_error_that_cannot_be_read",),
    "| PYTHON_REMOTE_CALL, SCRIPT_REMOTE_CALL |": ("faults/test_messages.py::test_creating_an_rref_late_and_lost",),
    "| PYTHON_RREF_FETCH_CALL, SCRIPT_RREF_FETCH_CALL |": (
        "faults/test_messages.py::test_fetching_a_value_late_and_lost",
    ),
    "| RREF_FORK_REQUEST |": ("faults/test_messages.py::test_a_late_and_a_lost_request_for_a_fork",),
    "| RREF_USER_DELETE |": ("faults/test_messages.py::test_giving_up_what_an_owner_keeps_late_and_lost",),
    "the call executes, even if its caller's timeout passed meanwhile": (
        "faults/test_messages.py::test_a_late_call_executes_although_its_caller_has_given_up",
    ),
    "it counts only where the plan has no fault of processes and networks": (
        "faults/test_messages.py::TestEvidence::test_an_rref_that_was_not_made_is_evidence_unless_another_fault_may_be_why",
    ),
    "*each* call of that sort took its caller at least `seconds`": (
        "faults/test_messages.py::TestEvidence::test_a_delay_is_proven_only_if_every_call_was_late",
    ),
    "If it finds nothing, the fault is not visible: the run is *unknown*, and the fault is never counted as fired": (
        "faults/test_messages.py::TestEvidence::test_without_such_a_call_there_is_no_evidence",
        "faults/test_exit_statuses.py::test_run_gives_the_status_of_the_verdict",
    ),
    "Calls with tensors that need gradients within `dist_autograd.context()` pass the agent unhurt": (
        "faults/test_messages.py::test_calls_with_gradients_pass_the_agent",
    ),
}

_NETWORKS: dict[str, tuple[str, ...]] = {
    "Needs Linux, root, and Debian's `iproute2` and `nftables`; `network.missing()` says in one line": (
        "faults/test_network.py::TestRefusals::test_a_missing_program_is_named_with_its_package",
        "faults/test_network.py::TestRefusals::test_a_network_that_is_not_permitted_is_refused",
        "faults/test_network.py::TestRefusals::test_faults_of_a_network_need_a_network",
    ),
    "when that process ends, however it ends, the kernel takes them away": (
        "faults/test_network.py::TestNothingElse::test_a_killed_launcher_leaves_nothing",
        "faults/test_network.py::TestNothingElse::test_the_machine_is_as_before_after_a_network",
        "faults/test_network.py::TestNothingElse::test_an_error_inside_a_network_leaves_nothing",
    ),
    "32 MiB and 35 kB cross the interface with these options": (
        "faults/test_network.py::TestHealthy::test_a_large_tensor_crosses_the_network",
    ),
    "| `Partition` |": (
        "faults/test_network.py::TestPartition::test_a_partition_of_two_roles_loses_only_their_calls",
        "faults/test_rules.py::test_a_partition_drops_packets_by_direction",
    ),
    "| `Reset` |": (
        "faults/test_network.py::TestReset::test_a_reset_breaks_both_ends_at_once_and_for_good",
        "faults/test_network.py::TestReset::test_a_first_connection_is_refused",
    ),
    "| `Lossy` |": (
        "faults/test_network.py::TestLossy::test_calls_over_a_lossy_network_are_late_but_right",
        "faults/test_rules.py::test_lossy_drops_a_share_of_the_packets",
    ),
    "| `Slow` |": (
        "faults/test_network.py::TestSlow::test_slow_limits_what_the_role_sends",
        "faults/test_rules.py::test_a_rate_has_room_for_packets",
        "faults/test_netem.py::TestWorld::test_a_latency_is_in_every_answer_once",
    ),
    "It is in every answer once, because only one of the two ways is slow": (
        "faults/test_netem.py::TestLine::test_a_latency_keeps_the_order_and_hits_one_way",
        "faults/test_netem.py::TestWorld::test_a_latency_is_in_every_answer_once",
    ),
    "A packet with a shorter latency overtakes those before it": (
        "faults/test_netem.py::TestLine::test_jitter_spreads_the_latency_and_changes_the_order",
    ),
    "sends this share of the packets at once": (
        "faults/test_netem.py::TestLine::test_reordered_packets_are_sent_at_once_and_the_others_wait",
    ),
    "With `kbit_per_second` a packet waits first for its latency, then for the rate": (
        "faults/test_shaping.py::test_a_rate_is_within_the_latency",
        "faults/test_netem.py::TestLine::test_the_kernel_takes_the_numbers_of_the_plan",
    ),
    "is refused before a role starts, with exit status 2": (
        "faults/test_netem.py::TestWithout::test_a_run_is_refused_before_a_role_starts",
    ),
    "`network.missing_netem()` says the same in advance": (
        "faults/test_netem.py::TestWithout::test_it_can_be_asked_in_advance",
    ),
    "Given no plan, `Network` does not ask either; the fault then fails at its moment": (
        "faults/test_netem.py::TestWithout::test_a_network_without_the_plan_fails_at_the_moment",
    ),
    "`Slow` has an `effective` line only if each of its parts met a packet": (
        "faults/test_shaping.py::test_each_part_of_a_slow_line_has_to_meet_a_packet",
        "faults/test_netem.py::TestWorld::test_a_line_with_every_part_has_a_receipt_for_each",
        "faults/test_network.py::TestSlow::test_a_limit_that_delays_no_packet_has_no_receipt",
    ),
    "without it the fault stays until the `Network` is left": (
        "faults/test_network.py::TestPartition::test_a_partition_from_all_lasts_until_the_network_is_closed",
        "faults/test_controller.py::test_a_fault_is_healed_at_the_end",
    ),
    "**Once it has healed the call is executed**": (
        "faults/test_network.py::TestPartition::test_a_partition_of_two_roles_loses_only_their_calls",
    ),
    "ends at the world's deadline, `Overdue`": (
        "faults/test_network.py::TestPartition::test_a_partition_from_the_start_ends_the_world_at_its_deadline",
    ),
    "a fault heals in time even if the role that fired it is dead": (
        "faults/test_network.py::TestFiring::test_a_fault_heals_when_the_role_that_fired_it_is_dead",
    ),
    "A rule that hit no packet has no `effective` line": (
        "faults/test_network.py::TestLossy::test_a_fault_that_loses_no_packet_has_no_receipt",
        "faults/test_rules.py::test_a_receipt_sums_the_counters",
    ),
    "Packets that a rule does not match are not counted": (
        "faults/test_network.py::TestPartition::test_packets_to_other_roles_are_not_counted",
    ),
    "Partition role=ps direction=both seconds=1": ("project/test_documented.py::test_documented_plans_are_plans",),
}

_LEDGERS: dict[str, tuple[str, ...]] = {
    "each with one `write` before the role goes on: what a killed role had written stays": (
        "faults/test_ledger.py::test_a_killed_writer_loses_no_whole_line",
        "faults/test_ledger.py::test_a_line_is_there_as_soon_as_it_is_written",
    ),
    "A line torn by the kill is counted (`Timeline.torn`), and hurts no other line": (
        "faults/test_ledger.py::test_a_line_torn_anywhere_is_counted_and_spoils_no_other",
        "faults/test_ledger.py::test_a_line_of_a_writer_killed_within_it_is_torn",
    ),
    "merges all roles to one timeline, which starts at 0 with the first role's start": (
        "faults/test_ledger.py::test_events_are_merged_by_time_whatever_the_order",
        "faults/test_ledger.py::test_roles_of_one_machine_share_its_clock",
        "faults/test_ledger.py::test_machines_are_aligned_by_the_wall_clock",
    ),
    "`Timeline.facts()` is what the same plan gives again, whatever the times": (
        "faults/test_ledger.py::test_facts_are_what_the_same_plan_gives_again",
        "faults/test_calls.py::test_the_same_plan_twice_gives_the_same_facts",
    ),
}

_MESSAGE = "faults/test_corrupted_message.py"
_ARRIVES = "faults/test_calls.py::test_a_corrupted_tensor_is_the_one_that_arrives"
_NAMES = "faults/test_detections.py"

_CORRUPTIONS: dict[str, tuple[str, ...]] = {
    "The program went on with the NaN. Let it look at what it gets": (
        "project/test_documented.py::test_the_example_of_corrupt",
    ),
    "| `change` | what becomes of the tensor | which tensors |": (
        "faults/test_corruption.py::test_one_bit_of_one_element_differs",
        "faults/test_corruption.py::test_nan_and_zeros",
        "faults/test_corruption.py::test_the_tensor_of_another_call_has_to_have_the_same_form",
        "faults/test_corruption.py::test_what_cannot_be_changed_is_told",
        f"{_MESSAGE}::test_another_calls_tensor_is_that_of_the_last_call_before",
    ),
    "Which tensor, element and bit is drawn from the plan's seed": (
        f"{_MESSAGE}::test_the_same_seed_changes_the_same_bit_and_others_differ",
    ),
    "A message's tensors are those of RPC's own table, in its order, from 0": (
        "faults/test_message_tensors.py::test_positions_are_those_in_the_table_of_rpc",
    ),
    "The tensor is copied before it is changed": (
        _ARRIVES,
        "faults/test_corruption.py::test_one_bit_of_one_element_differs",
    ),
    "Gradients flow through the changed tensor as through the other": (
        "faults/test_corruption.py::test_gradients_flow_through_a_changed_tensor",
    ),
    "`fired` has the tensor's position, `shape` and `dtype`": (
        f"{_MESSAGE}::test_the_receipt_tells_what_was_delivered",
        _ARRIVES,
    ),
    "`digest` is the beginning of the SHA-256 of what is delivered": (
        f"{_MESSAGE}::test_the_receipt_tells_what_was_delivered",
        _ARRIVES,
    ),
    "If nothing was changed, as by zeros over zeros": (
        f"{_MESSAGE}::test_zeros_over_zeros_fire_without_an_effect",
        f"{_NAMES}::test_a_wrong_trace_stays_wrong_and_a_corruption_without_effect_does_not_pass",
    ),
    "If the message has no such tensor, or `other` finds no earlier call, the fault does not fire": (
        f"{_MESSAGE}::test_a_message_without_such_a_tensor_passes_and_says_why",
        f"{_NAMES}::test_a_call_without_a_tensor_is_told",
    ),
    "For a program that does not check its data this is the right verdict": (
        "matrix/test_matrix.py::test_each_cell_has_its_expected_verdict",
    ),
    "| ends by an error that names corrupted data | `detected` |": (
        f"{_NAMES}::test_an_error_under_a_corrupt_is_judged_by_what_it_names",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "The last row is no pass, because the program was given wrong numbers": (
        f"{_NAMES}::test_a_run_that_returns_has_to_say_that_it_noticed",
        "faults/test_runs.py::test_each_run_and_its_check_have_the_same_verdict",
    ),
    "An error *names corrupted data* if the program raises it": (
        f"{_NAMES}::test_a_stated_error_names_corrupted_data_or_may_be_any_check",
        f"{_NAMES}::test_what_fails_by_itself_names_them_only_in_torchs_own_checks",
    ),
    "Two kinds of messages that torch sends without a function have sites, too": (
        "faults/test_list_command.py::test_what_torch_sends_has_a_plan_that_can_hit_it",
        "faults/test_fetches.py::test_each_kind_hits_its_fetch_and_no_other",
        "faults/test_gradients.py::test_every_gradient_is_counted_at_its_sender",
        "faults/test_gradients.py::test_a_moment_comes_before_the_gradient_leaves",
    ),
    "the role that fetches from another one; the owner's own fetch sends nothing": (
        "faults/test_fetches.py::test_only_a_fetch_that_sends_something_counts",
    ),
    "No function of a program has such a name, because its module would have to be called `torch`": (
        "faults/test_engine_sites.py::test_no_function_has_such_a_site",
    ),
    "A fetch that is hit travels as a call of Python instead": (
        "faults/test_fetches.py::test_each_kind_hits_its_fetch_and_no_other",
        "faults/test_fetches.py::test_a_crash_kills_the_owner_before_it_answers",
        "faults/test_fetches.py::test_gradients_stay_the_same_bits",
    ),
    "What `Corrupt` changes is what the other role receives": (
        "faults/test_gradients.py::test_a_corrupted_gradient_is_the_one_that_arrives",
        "faults/test_gradients.py::test_a_delay_loses_nothing",
    ),
    "A plan that asks for any of these is refused in one line": (
        "faults/test_engine_sites.py::test_what_cannot_be_hurt_is_refused_with_the_reason",
    ),
    "names neither site, torch's own functions stay in place, and neither is recorded": (
        "faults/test_fetches.py::test_torchs_own_functions_are_replaced_only_where_the_plan_names_them",
    ),
}

# The pages of the manual, each with its promises.
FAULTS: dict[str, dict[str, tuple[str, ...]]] = {
    "docs/faults.md": _VERDICTS,
    "docs/plans.md": _PLANS,
    "docs/commands.md": {**_COMMANDS, **_SWEEPS},
    "docs/verdicts.md": {**_ENDS, **_LEDGERS},
    "docs/calls.md": {**_CALLS, **_CORRUPTIONS},
    "docs/processes.md": _PROCESSES,
    "docs/messages.md": _MESSAGES,
    "docs/networks.md": _NETWORKS,
}
