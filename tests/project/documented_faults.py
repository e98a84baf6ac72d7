"""The promises of docs/faults.md: the command line, plans, and each kind of fault."""

from __future__ import annotations

_BAD = "faults/test_cli.py::test_bad_input_is_one_line"
_KINDS = "faults/test_calls.py::test_each_kind_hurts_its_call_and_no_other"

_COMMANDS: dict[str, tuple[str, ...]] = {
    "Every fault of the plan has to happen and to have its effect": (
        "faults/test_checks.py::TestFired::test_exactly_once_where_one_call_is_named",
        "faults/test_checks.py::TestEffect::test_what_has_a_receipt_needs_it",
    ),
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
    "A fault that never fired fails the run": (
        "faults/test_exit_statuses.py::test_check",
        "faults/test_runs.py::test_every_verdict",
    ),
    "and has one fault at least. `--healthy` instead of `--plan` asks for a run without faults; one of the two": (
        _BAD,
        "faults/test_cli.py::test_plans_are_texts_or_files",
    ),
    "Options are written whole, and once": (_BAD,),
    "Without a command the usage is shown, and the status is 2": (
        "faults/test_cli.py::test_without_a_command_nothing_has_passed",
    ),
    "| 2 | `unknown`, or bad input, which is one line and starts nothing.": (
        "faults/test_exit_statuses.py::test_check",
        "faults/test_exit_statuses.py::test_check_of_what_is_unknown",
        "faults/test_exit_statuses.py::test_run",
        "faults/test_exit_statuses.py::test_run_that_hangs",
        "faults/test_exit_statuses.py::test_run_of_a_tutorial_that_is_wrong",
        "faults/test_exit_statuses.py::test_run_of_a_script",
        "faults/test_exit_statuses.py::test_run_of_an_rpc_script",
        "faults/test_exit_statuses.py::test_sweep",
        "faults/test_exit_statuses.py::test_a_sweep_of_a_tutorial_that_is_wrong",
        "faults/test_exit_statuses.py::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",
        "faults/test_exit_statuses.py::test_python_m_faults",
        _BAD,
    ),
    "| 130 | interrupted (Ctrl-C, SIGTERM or SIGHUP), and nothing is left |": (
        "faults/test_exit_statuses.py::test_an_interrupt_is_130_and_nothing_is_stored",
        "faults/test_exit_statuses.py::test_a_command_that_is_interrupted",
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
        "faults/test_exit_statuses.py::test_check",
        "faults/test_exit_statuses.py::test_several_faults_are_counted",
        "faults/test_exit_statuses.py::test_check_of_a_healthy_run_says_that_nothing_was_planned",
        "faults/test_cli.py::test_prepare",
        "faults/test_sweep.py::test_a_tutorial",
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
        "faults/test_cli.py::test_a_plan_from_a_file_and_a_folder_that_is_kept",
    ),
    "a folder that holds a `plan.json`, a `run.json` or a `.jsonl` file of your own is refused": (
        "faults/test_run_files.py::test_a_file_of_the_users_own_is_never_replaced",
        "faults/test_run_files.py::test_a_plan_that_the_user_has_written_is_never_replaced",
        "faults/test_run_files.py::test_a_file_beside_a_runs_own_is_never_removed",
        "faults/test_record.py::test_ledgers_of_something_else_are_left_alone",
    ),
    "role's `.log` that no world has written": (
        "faults/test_run_files.py::test_what_has_the_name_of_a_worlds_file_is_never_removed",
        "faults/test_run_files.py::test_a_log_beside_which_no_world_has_left_stacks_is_the_users",
    ),
    "While a run goes on in DIR, no other begins there": (
        "faults/test_folder_lock.py::test_no_run_begins_where_one_goes_on",
        "faults/test_folder_lock.py::test_no_run_begins_where_a_process_writes_a_ledger",
        "faults/test_folder_lock.py::test_a_script_has_its_folder_until_it_ends",
        "faults/test_folder_lock.py::test_a_world_has_its_folder_until_it_is_judged",
    ),
    "If the new run cannot start, the earlier one is left as it was": (
        "faults/test_run_files.py::test_nothing_is_lost_where_nothing_can_start",
        "faults/test_run_files.py::test_a_command_that_is_not_there_leaves_the_run",
        "faults/test_run_files.py::test_a_run_that_does_not_begin_leaves_the_earlier_one",
    ),
    "Nothing in it is changed; every Python process that it starts gets the plan": (
        "faults/test_script.py::test_what_it_is_given",
        "faults/test_script.py::test_spawned_processes",
        "faults/test_script.py::test_torchrun",
    ),
    "An option that stands after it is refused, unless the command begins with `--`": (
        _BAD,
        "faults/test_exit_statuses.py::test_what_follows_two_dashes_is_the_programs",
        "faults/test_exit_statuses.py::test_other_words_after_the_script_are_the_programs",
    ),
    "Roles are the names that the program gives to `init_rpc`. Sites are `module:function`": (
        "faults/test_script.py::test_spawned_processes",
    ),
    "With `--healthy` its calls are written down": ("faults/test_script.py::test_spawned_processes",),
    "A run in which no process started RPC is `unknown`": (
        "faults/test_exit_statuses.py::test_no_rpc_seen_is_unknown",
        "faults/test_exit_statuses.py::test_a_role_that_never_came_up_is_no_rpc",
        "faults/test_exit_statuses.py::test_run_of_a_script",
        "faults/test_script.py::test_ends",
    ),
    "`python -S`, `sudo`, or a process that the program starts with an `env=` that lacks FAULTS_RUN and": (
        "faults/test_exit_statuses.py::test_a_program_that_the_plan_cannot_reach_is_unknown",
    ),
    "`--deadline` ends the command, and with it all that it has started": (
        "faults/test_exit_statuses.py::test_run_of_a_script",
        "faults/test_script.py::test_what_it_leaves_is_found_and_ended",
    ),
    "is how soon it must end after the first fault, if it fails": (
        "project/test_documented.py::test_a_script_that_ends_beyond_its_bound",
    ),
    "Faults of a network need `reference.world.launch`, and are refused here": (
        _BAD,
        "faults/test_script.py::test_refusals",
    ),
    "let it raise, for instance by `assert`: an exception that does not come from the plan is `wrong`": (
        "faults/test_script.py::test_an_error_that_nobody_has_to_expect",
        "faults/test_exit_statuses.py::test_run_of_an_rpc_script",
    ),
    "one line that Python reads at its start, and which does nothing where FAULTS_RUN is not set": (
        "faults/test_autostart.py::test_without_the_variable_nothing_happens",
        "faults/test_autostart.py::test_torch_is_as_it_was_without_the_variable_and_is_not_with_it",
        "faults/test_autostart.py::test_the_line_costs_nothing",
        "faults/test_autostart.py::test_what_is_shipped",
    ),
    "says so in one line on standard error: FAULTS_RUN may have been left exported": (
        "faults/test_startup.py::test_a_variable_that_is_left_exported_is_told_once",
        "faults/test_autostart.py::test_a_variable_that_is_left_exported_is_told_once_a_program",
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
    "`check` says `unknown` and gives 2 although every fault fired": (
        "faults/test_autostart.py::test_torchrun_as_documented",
        "faults/test_exit_statuses.py::test_check_of_what_is_unknown",
        "faults/test_runs.py::TestUnknown::test_without_its_end",
    ),
    "A fault that did not fire is 1 here too": ("faults/test_cli.py::test_prepare",),
}

_STARTED = "faults/test_script.py::test_how_programs_start_and_end_their_processes"
_ENDS: dict[str, tuple[str, ...]] = {
    "twice the longest of those that it gave to `init_rpc`, to `shutdown`, or to a call that a fault hit, was open": (
        "faults/test_time_bounds.py::test_the_longest_timeout_that_a_hurt_call_may_take",
        "faults/test_time_bounds.py::test_a_call_that_the_first_fault_meets_or_that_fails_since_counts_too",
        "faults/test_time_bounds.py::test_the_bound_is_twice_that_and_some_seconds_besides_what_the_faults_last",
    ),
    "a run in which the command and every role return is `returned`": (
        "faults/test_script_outcomes.py::test_a_role_beside_another_that_shut_rpc_down_for_all",
        "faults/test_script.py::test_processes_whose_exit_codes_nobody_reads",
        "faults/test_programs.py::test_the_verdict_is_the_one_that_was_written_down",
    ),
    "If no role shuts down for all, or only with `graceful=False`, an end in order is enough": (
        "faults/test_script_outcomes.py::test_where_nobody_shuts_down_for_all_an_end_in_order_is_enough",
    ),
    "An error in a `finally` block that ends by `os._exit(0)` or `sys.exit(0)` is judged. In an `except` block it": (
        "faults/test_script_outcomes.py::test_who_leaves_with_nought_while_an_error_passes_leaves_for_that_error",
        "faults/test_handled_errors.py::test_by_the_source_of_the_frame_that_the_error_has_reached",
    ),
    "Where the source does not tell which of them it is": (
        "faults/test_handled_errors.py::test_without_a_source_nobody_can_tell",
        "faults/test_script_outcomes.py::test_whether_an_error_was_handled_is_unknown_where_nobody_can_tell",
    ),
    "| its process becomes another program (`os.execvp`) | returned, with status 0, whatever that program comes to |": (
        "faults/test_exit_record.py::test_a_role_is_over_where_its_process_becomes_another_program",
        "faults/test_script.py::test_a_process_has_the_status_that_it_really_ended_with",
    ),
    "An uncaught one is seen whatever `sys.excepthook` the program has set": (
        "faults/test_exit_record.py::test_an_uncaught_error_is_told_whatever_hook_the_program_has",
        "faults/test_script.py::test_a_process_has_the_status_that_it_really_ended_with",
    ),
    "| a signal ended the role after Python has said that it ends (in a handler of `atexit`, a destructor": (
        "faults/test_script_outcomes.py::test_who_has_no_status_though_python_has_ended_was_killed_by_a_signal",
        "faults/test_script.py::test_a_process_has_the_status_that_it_really_ended_with",
    ),
    "One that it ends in a call that a fault had hit may have hung there": (
        "faults/test_script_outcomes.py::test_who_is_ended_in_a_call_that_the_plan_has_hurt_has_not_returned",
        "faults/test_checks.py::TestErrors::test_who_was_ended_in_a_hurt_call_is_only_known_to_have_hung_where_another_failed",
    ),
    "of two worlds, one after the other or at once, or of a role that is started again, the worst end is the role's": (
        "faults/test_script_outcomes.py::test_a_role_of_two_worlds_needs_both",
        "faults/test_script_outcomes.py::TestTwoWorldsAtOnce::test_one_that_is_lost_is_told_though_the_other_is_well",
        _STARTED,
    ),
    "or another signal that ends its receiver at once, such as SIGHUP to a process that does not handle it": (
        "faults/test_exit_record.py::test_a_signal_that_its_receiver_handles_is_not_what_ends_it",
    ),
    "Such an end is seen where a Python process sends SIGTERM or SIGKILL": (
        "faults/test_exit_record.py::test_a_launcher_that_never_imports_torch_tells_whom_it_ends",
        _STARTED,
    ),
    "So is a `KeyboardInterrupt` that a role raises although no SIGINT was sent to it": (
        "faults/test_exit_record.py::test_an_interrupt_is_told_unless_somebody_has_sent_it",
        _STARTED,
    ),
    "a role that returns, in a world that is started anew or in the one that was hit, takes as long as it takes": (
        "faults/test_time_bounds.py::TestRecovery",
        "faults/test_script.py::test_a_program_that_begins_anew_takes_as_long_as_it_takes",
    ),
    "| the role ended without a word | killed by a signal: by the plan, or `wrong` |": (
        "faults/test_script.py::test_a_role_that_is_killed_by_nobody_in_the_plan_is_told",
    ),
    "If the ledgers do not tell whether that other is excused, both are `unknown`": (
        "faults/test_checks.py::TestErrors::test_who_is_ended_for_another_whose_failure_is_undecided_is_so_too",
    ),
    "If an error was being handled then, that error is judged": (
        "faults/test_exit_record.py::TestAStatusIsToldWithTheErrorThatWasBeingHandled",
        "faults/test_programs.py::test_the_verdict_is_the_one_that_was_written_down",
    ),
    "Without an error the run is `unknown`, even if the role's last call had failed": (
        "faults/test_checks.py::TestErrors::test_a_status_without_an_error_is_not_excused_by_the_call_that_failed_before",
        "faults/test_checks.py::TestErrors::test_a_status",
    ),
    "A message's fault fires with the first call that shows it; without one the run is `unknown`": (
        "faults/test_error_origin.py::TestMessages::test_the_call_that_shows_it_is_its_firing",
        "faults/test_error_origin.py::TestMessages::test_without_evidence_nobody_can_tell",
    ),
    "Only faults that fired before an error excuse it": (
        "faults/test_error_origin.py::test_an_error_before_anything_has_fired_is_not_excused",
    ),
    "| `Delay`, `Order`, `Pause`, `Slow` | a time-out, RPC's or the program's own": (
        "faults/test_error_origin.py::test_after_a_fault_that_loses_nothing_only_a_time_out_is_excused",
        "faults/test_error_origin.py::test_who_is_out_of_turn_is_so_by_the_plan",
    ),
    "| `Duplicate` | what the callee raised in handling the call that came twice": (
        "faults/test_error_origin.py::TestDuplicate::test_what_the_callee_raises_in_handling_it_is_excused",
        "faults/test_error_origin.py::TestDuplicate::test_what_another_call_fails_by_is_not",
        "faults/test_error_origin.py::TestDuplicate::test_what_the_program_raises_is_not",
    ),
    "| `Raise` | what the plan raises, and what derives from it |": (
        "faults/test_error_origin.py::test_what_the_plan_raises_is_excused_by_type_and_text",
        "faults/test_error_origin.py::test_after_an_error_of_the_plan_others_are_its_own_or_unknown",
    ),
    "| all others | RPC's own error, a time-out; and what derives from one of these |": (
        "faults/test_error_origin.py::test_after_a_loss_what_derives_from_it_is_excused",
        "faults/test_error_origin.py::test_what_quotes_a_call_that_has_failed_so_is_excused",
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
        "faults/test_error_origin.py::test_what_quotes_a_call_that_has_failed_so_is_excused",
        "faults/test_error_origin.py::TestDuplicate::test_what_the_callee_raises_in_handling_it_is_excused",
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
        "faults/test_error_chain.py::test_an_error_derives_from_what_is_stated_or_answered_not_from_what_a_mistake_meets",
    ),
    "(even `from None`, except in an error from another role, whose traceback does not show it)": (
        "faults/test_error_chain.py::test_an_error_derives_from_what_is_stated_or_answered_not_from_what_a_mistake_meets",
        "faults/test_error_chain.py::test_what_from_none_hides_is_read_also_in_a_group",
    ),
    "such as a check that the block calls, it is `unknown` whether it derives": (
        "faults/test_error_chain.py::"
        "test_what_another_function_raises_than_the_one_that_handles_an_error_may_have_nothing_to_do_with_it",
        "faults/test_error_origin.py::test_what_an_error_may_derive_from_makes_it_unknown",
    ),
    "if the last call of that role has failed by the plan": (
        "faults/test_given_up.py::test_an_error_of_a_role_whose_last_call_was_lost_is_unknown",
        "faults/test_given_up.py::test_a_mistake_is_wrong_whatever_was_lost",
        "faults/test_given_up.py::test_what_a_callee_states_after_its_own_last_call_was_lost_is_unknown",
        "faults/test_given_up.py::test_a_launcher_may_speak_of_a_role_that_returned_after_its_last_call_was_lost",
    ),
    "A role that fails with `DistNetworkError` in a graceful shutdown which another role has left before": (
        "faults/test_store_race.py::test_who_reads_the_last_count_after_the_first_rank_has_ended_fails_and_is_unknown",
        "faults/test_store_race.py::test_a_lost_store_is_torchs_only_once_another_role_has_left_gracefully",
    ),
    "A role of a tutorial that ends by SIGABRT after another's excused end": (
        "faults/test_checks.py::TestErrors::test_a_survivor_that_is_aborted_after_an_excused_end_is_unknown",
    ),
    "It counts its calls of each site from 1, whichever callee they go to": (
        "faults/test_calls.py::test_a_caller_counts_its_calls_of_a_site_whomever_they_go_to",
    ),
}

_SWEEPS: dict[str, tuple[str, ...]] = {
    "it hits each site in up to ten ways": ("project/test_documented.py::test_a_sweep_hurts_in_ten_ways",),
    "in its first call (of the first caller) and its last (of the last one)": (
        "faults/test_sweep.py::test_cells_by_hand",
    ),
    "a site or kind of which there is no cell is refused": ("faults/test_cli.py::test_a_sweep_of_nothing",),
    "| `--budget X` | begins no cell after so many seconds |": (
        "faults/test_sweep.py::test_the_budget",
        "faults/test_sweep.py::test_a_budget_that_is_spent_is_said",
    ),
    "Every 5 s a line (on a terminal a bar) says how long it will still take": (
        "faults/test_sweep_progress.py::test_lines",
        "faults/test_sweep_progress.py::test_a_bar_on_a_terminal",
        "faults/test_sweep_progress.py::test_left",
    ),
    "Interrupted, it shows what it has": ("faults/test_exit_statuses.py::test_an_interrupted_sweep_shows_what_it_has",),
    "A clean error after a `Delay` or an `Order` is a defect (`needless error`)": (
        "faults/test_sweep.py::test_a_harmless_fault_needs_no_error",
        "faults/test_sweep.py::test_the_exit_status_and_the_table",
    ),
    "Calls that torch makes by itself are left out": ("faults/test_census.py::test_torch_by_itself",),
}

_VERDICTS: dict[str, tuple[str, ...]] = {
    "| `equal` | pass |": ("faults/test_exit_statuses.py::test_check", "faults/test_runs.py::test_every_verdict"),
    "| `returned` | pass |": ("faults/test_exit_statuses.py::test_check", "faults/test_checks.py::test_verdicts"),
    "| `clean error` | pass |": ("faults/test_exit_statuses.py::test_check", "faults/test_runs.py::test_every_verdict"),
    "| `hung` | fail | a role missed its deadline, or the survivors of a fault ended later than the bound (of a": (
        "faults/test_time_bounds.py::TestRecovery",
        "faults/test_exit_statuses.py::test_check",
        "faults/test_runs.py::test_who_waits_for_ever_hangs",
        "faults/test_checks.py::TestBound::test_is_counted_from_the_first_fault",
    ),
    "| `wrong` | fail |": ("faults/test_exit_statuses.py::test_check", "faults/test_runs.py::test_every_verdict"),
    "| `leaked` | fail |": (
        "faults/test_exit_statuses.py::test_check",
        "faults/test_runs.py::test_every_verdict",
        "faults/test_checks.py::TestLeft::test_rrefs_and_contexts_where_all_returned",
    ),
    "| `not fired` | fail | a fault fired too seldom or too often, or without its effect |": (
        "faults/test_exit_statuses.py::test_check",
        "faults/test_checks.py::TestFired::test_exactly_once_where_one_call_is_named",
        "faults/test_checks.py::TestEffect::test_a_caller_that_is_answered_all_the_same",
    ),
    "| `unknown` | 2 | the folder does not tell": (
        "faults/test_exit_statuses.py::test_check_of_what_is_unknown",
        "faults/test_exit_statuses.py::test_no_rpc_seen_is_unknown",
        "faults/test_runs.py::TestUnknown::test_with_a_torn_line",
        "faults/test_runs.py::TestUnknown::test_without_the_ledger_of_who_fired",
    ),
    "If a run has several defects, its verdict is the worst one, in the order of this table": (
        "faults/test_checks.py::test_several_defects_are_named_by_the_worst",
    ),
    "Processes that a run leaves behind are named, then ended": (
        "faults/test_runs.py::test_what_is_left_is_ended",
        "faults/test_script.py::test_what_it_leaves_is_found_and_ended",
    ),
    "so the count shows only those that it could not free": (
        "faults/test_hook.py::test_a_reference_that_is_kept_is_deleted_by_torchs_own_shutdown",
        "faults/test_hook.py::test_an_autograd_context_that_is_never_released",
    ),
    "written last: how and when each role ended, the trace's verdict, leaks, the bound": (
        "faults/test_record.py::test_there_and_back",
        "faults/test_record.py::test_it_is_written_whole_or_not_at_all",
    ),
    "The folder may be moved: `check` needs nothing else": ("faults/test_runs.py::test_every_verdict",),
    "A sweep's folder holds `healthy` and one such folder per cell, `0000` and on": (
        "faults/test_sweep.py::test_a_defect_is_found_and_only_that",
    ),
}

_PLANS: dict[str, tuple[str, ...]] = {
    "plain data, frozen, hashable, without torch": (
        "faults/test_plan.py::test_frozen",
        "faults/test_plan.py::test_equal_plans_and_only_they_are_equal",
        "faults/test_plan.py::test_plain_data_needs_no_torch",
    ),
    "refused at once with `PlanError`, one line that names the field, what was wanted and what was got": (
        "faults/test_plan.py::test_any_text_is_a_plan_or_one_line",
        "faults/test_plan.py::test_any_object_is_a_fault_or_one_line",
        "faults/test_plan.py::test_no_field_takes_an_impossible_value",
        "faults/test_plan.py::test_refused_texts",
        "faults/test_plan.py::test_refused_json",
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
        "faults/test_plan.py::test_refused_json",
        "faults/test_plan.py::test_refused_texts",
    ),
    "| kind | place | needs | may have |": (
        "faults/test_fields.py::test_the_manual_shows_them",
        "faults/test_plan.py::test_every_field_that_a_shape_may_have_and_no_other",
        "faults/test_plan.py::test_what_a_shape_needs_is_enough_and_all_of_it_is_needed",
    ),
    "| field | means | takes |": (
        "faults/test_fields.py::test_the_manual_shows_them",
        "faults/test_fields.py::test_an_error_says_what_the_manual_says",
        "faults/test_fields.py::test_limits_are_within",
    ),
    "`peer` is another role than `role`": ("faults/test_plan.py::test_nobody_is_cut_off_from_itself",),
    "`times` is the same for every lost message of a plan": ("faults/test_plan.py::test_one_number_of_times",),
    "a message type has one `Delay` and one `Drop` for each role": (
        "faults/test_plan.py::test_one_delay_of_a_message_for_each_role",
    ),
    "A fault of a call has exactly one of": ("faults/test_plan.py::test_one_occurrence",),
    "This is the default, with N = 1": ("faults/test_plan.py::test_the_first_call_where_no_other_is_named",),
    "so the timing of threads cannot change it": (
        "faults/test_occurrence.py::test_chance",
        "faults/test_occurrence.py::test_chances_differ_by_everything_they_depend_on",
        "faults/test_calls.py::test_a_chance_is_drawn_for_each_call_from_the_seed",
    ),
    "Without a `role` each caller counts for itself": (
        "faults/test_calls.py::test_each_caller_has_a_count_of_its_own",
    ),
    "| `up@ROLE` | RPC of that role has started |": (
        "faults/test_hook.py::test_moments_in_their_order",
        "faults/test_processes.py::test_crash_when_up",
    ),
    "| `step:N@ROLE` |": (
        "faults/test_announcer.py::test_steps_are_heard_in_the_log",
        "reference/test_trace.py::test_recorder_logs_one_line_a_step",
    ),
    "| `call:SITE#N@ROLE` | before that role's Nth call of the site is sent |": (
        "faults/test_announcer.py::test_the_very_call_and_step",
        "faults/test_hook.py::test_moments_in_their_order",
    ),
    "| `shutdown@ROLE` | before that role enters `rpc.shutdown` |": (
        "faults/test_hook.py::test_moments_in_their_order",
    ),
    "The role that announces does not go on before the fault has been done": (
        "faults/test_announcer.py::test_each_action_once_and_before_the_role_goes_on",
        "faults/test_processes.py::test_crash_of_another_at_a_step",
    ),
    "A moment that never comes is a fault that never fires, which fails the run": (
        "faults/test_runs.py::test_every_verdict",
    ),
    "Without `at` a network's fault is there from the start": (
        "faults/test_network.py::TestPartition::test_from_the_start",
    ),
}

_CALLS: dict[str, tuple[str, ...]] = {
    "A plan names the function by its **site**": ("faults/test_site.py::test_name",),
    "| `rref.rpc_sync().pay(1)`, `rref.rpc_async()…`, `rref.remote()…` | the method": (
        "faults/test_site.py::test_a_proxys_call_is_one_of_the_method",
    ),
    "only the first function that is handed counts": (
        "faults/test_site.py::test_a_function_that_is_handed_on_is_called_too",
    ),
    "the same plan hits the same calls": ("faults/test_calls.py::test_the_same_plan_twice_gives_the_same_facts",),
    "A second `init_rpc` in one process counts anew": (
        "faults/test_hook.py::test_a_users_own_script_and_two_worlds_in_one_process",
        "faults/test_checks.py::TestFired::test_once_each_time_that_rpc_starts_for_the_role",
    ),
    "no function of the program is replaced": ("faults/test_calls.py::test_every_callable_still_works_under_a_plan",),
    "A callee without it answers a call that is hit with `FaultError: … its callee has no plan installed`": (
        "faults/test_calls.py::test_a_callee_without_the_plan_says_so",
    ),
    "With an empty plan nothing at all is replaced": ("faults/test_hook.py::test_an_empty_plan_replaces_nothing",),
    "| `Delay side=request` | the callee's RPC thread waits, then executes": (
        _KINDS,
        "faults/test_delivery.py::test_delay_of_the_request_comes_before",
    ),
    "| `Delay side=reply` | executes at once; the answer is held by a timer": (
        _KINDS,
        "faults/test_delivery.py::test_delay_of_the_reply_comes_after_and_in_another_thread",
    ),
    "| `Raise side=request` | never executes |": (_KINDS, "faults/test_delivery.py::test_raise"),
    "| `Raise side=reply` | executes, then raises instead of answering |": (
        _KINDS,
        "faults/test_delivery.py::test_raise",
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
        "faults/test_delivery.py::test_duplicate",
        "faults/test_delivery.py::test_a_duplicate_that_is_refused_does_not_change_the_answer",
    ),
    "| `Crash when=before` / `after` | SIGKILL before, or after it has executed |": (
        "faults/test_calls.py::test_crash",
    ),
    "one that waits longer than S ends with `OutOfTurn`": (
        "faults/test_calls.py::TestOrder::test_whatever_the_arrival",
        "faults/test_calls.py::TestOrder::test_a_missing_one_ends_the_wait_of_the_others",
        "faults/test_order_gate.py::test_every_order_from_every_arrival",
        "faults/test_order_gate.py::test_a_missing_one",
    ),
    "`Raise side=reply` waits for its future": (
        "faults/test_delivery.py::test_raise_waits_for_an_asynchronous_answer",
    ),
    "A role that the tutorial does not have is refused before anything starts": (
        "faults/test_runs.py::test_a_role_that_nobody_plays_is_refused_before_anything_starts",
        _BAD,
    ),
    "there such a fault is `not fired`, if any role starts RPC": (
        "faults/test_checks.py::TestFired::test_where_nobody_started_rpc_it_is_unknown",
        "faults/test_programs.py::test_the_verdict_is_the_one_that_was_written_down",
    ),
    "A late reply that no caller waits for any more is not given once RPC has shut down": (
        "faults/test_calls.py::TestShutdown::test_while_a_reply_is_still_late",
        "faults/test_delayed_replies.py::test_closing_gives_at_once_or_never",
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
    "What is not known to be definite is indefinite": (
        "faults/test_certainty.py::test_definite",
        "faults/test_certainty.py::test_indefinite",
    ),
    "| `TypeError`, `ValueError`; `RuntimeError` with `On WorkerInfo(…)` | the function raised | fail |": (
        "faults/test_calls.py::TestLedger::test_an_exception_there_is_definite",
        "faults/test_certainty.py::test_definite",
    ),
    "| `RPCErr:1:RPC ran for more than set timeout…` | a timeout | info |": (
        "faults/test_calls.py::TestLedger::test_a_timeout_is_not",
        "faults/test_certainty.py::test_indefinite",
    ),
    "| `cannot pickle …`, any error of the pickler | never sent | fail |": (
        "faults/test_calls.py::TestLedger::test_a_call_that_cannot_be_pickled_is_definite",
    ),
    "the callee died, in mid-call or before": ("faults/test_calls.py::TestLedger::test_a_dead_callee",),
    "Drop site=shop:Till.pay side=reply nth=3": ("project/test_documented.py::test_documented_plans_are_plans",),
}

_PROCESSES: dict[str, tuple[str, ...]] = {
    "It may hurt itself": (
        "faults/test_processes.py::test_a_role_that_kills_itself_has_said_so_before",
        "faults/test_processes.py::test_a_role_that_pauses_itself",
    ),
    "a process that only has the same number since (it started later than that line was written) is left alone": (
        "faults/test_processes.py::TestCannotFire::test_a_number_that_another_process_has_now",
    ),
    "the program goes on, and the plan counts as not fired": (
        "faults/test_processes.py::TestCannotFire::test_without_a_ledger",
        "faults/test_processes.py::TestCannotFire::test_on_another_machine",
        "faults/test_processes.py::TestCannotFire::test_a_process_that_is_gone",
        "faults/test_checks.py::TestFired::test_why_it_could_not",
    ),
    "`fired` is on file before the signal is sent; `effective`, with the seconds": (
        "faults/test_processes.py::test_crash_of_another_at_a_step",
        "faults/test_processes.py::test_a_role_that_kills_itself_has_said_so_before",
    ),
    "`effective` once **every thread** of the process is in state T": (
        "faults/test_guardian.py::test_every_thread_counts",
    ),
    "`resumed` with the measured seconds since": ("faults/test_guardian.py::test_it_stops_for_so_long_and_no_longer",),
    "It always goes on": (
        "faults/test_guardian.py::test_it_continues_when_its_orders_end",
        "faults/test_guardian.py::test_it_continues_when_who_fired_is_gone_although_somebody_holds_the_pipe",
        "faults/test_processes.py::test_who_fired_is_killed_and_the_other_goes_on",
    ),
    "If the guardian itself is killed, leaving the scope continues the role": (
        "faults/test_processes.py::test_leaving_continues_also_when_the_guardian_was_killed",
    ),
}

_MESSAGES: dict[str, tuple[str, ...]] = {
    "A plan with such a fault gives this agent to every role": (
        "faults/test_messages.py::test_only_the_named_role_is_hurt_but_every_role_has_the_agent",
    ),
    "which would spin on a core of every role": ("faults/test_messages.py::test_no_role_spins_in_shared_memory",),
    "no thread of its process can make a file larger than 1 MiB": (
        "faults/test_transports.py::test_only_while_an_agent_starts",
        "faults/test_transports.py::test_also_when_it_does_not_start",
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
    "| RREF_FORK_REQUEST |": ("faults/test_messages.py::test_asking_for_a_fork_late_and_lost",),
    "| RREF_USER_DELETE |": ("faults/test_messages.py::test_giving_up_what_an_owner_keeps_late_and_lost",),
    "the call executes, even if its caller's timeout passed meanwhile": (
        "faults/test_messages.py::test_a_late_call_executes_although_its_caller_has_given_up",
    ),
    "it counts only where the plan has no fault of processes and networks": (
        "faults/test_messages.py::TestEvidence::test_an_rref_that_was_not_made_unless_something_else_can_be_why",
    ),
    "*each* call of that sort took its caller at least `seconds`": (
        "faults/test_messages.py::TestEvidence::test_late_calls_are_all_late",
    ),
    "If it finds nothing, the fault is not visible: the run is *unknown*, and the fault is never counted as fired": (
        "faults/test_messages.py::TestEvidence::test_what_no_call_shows",
        "faults/test_exit_statuses.py::test_run",
    ),
    "Calls with tensors that need gradients within `dist_autograd.context()` pass the agent unhurt": (
        "faults/test_messages.py::test_what_passes_the_agent",
    ),
}

_NETWORKS: dict[str, tuple[str, ...]] = {
    "Needs Linux, root, and Debian's `iproute2` and `nftables`; `network.missing()` says in one line": (
        "faults/test_network.py::TestRefusals::test_a_program_that_is_missing",
        "faults/test_network.py::TestRefusals::test_what_is_not_permitted",
        "faults/test_network.py::TestRefusals::test_without_a_network",
    ),
    "when that process ends, however it ends, the kernel takes them away": (
        "faults/test_network.py::TestNothingElse::test_a_killed_launcher_leaves_nothing",
        "faults/test_network.py::TestNothingElse::test_the_machine_is_as_before",
        "faults/test_network.py::TestNothingElse::test_an_error_inside_leaves_nothing",
    ),
    "32 MiB and 35 kB cross the interface with these options": (
        "faults/test_network.py::TestHealthy::test_a_large_tensor_crosses_the_network",
    ),
    "| `Partition` |": (
        "faults/test_network.py::TestPartition::test_between_two",
        "faults/test_rules.py::test_a_partition_by_direction",
    ),
    "| `Reset` |": (
        "faults/test_network.py::TestReset::test_both_ends_at_once_and_for_good",
        "faults/test_network.py::TestReset::test_a_first_connection_is_refused",
    ),
    "| `Lossy` |": (
        "faults/test_network.py::TestLossy::test_calls_are_late_but_right",
        "faults/test_rules.py::test_a_share_of_the_packets",
    ),
    "| `Slow` |": (
        "faults/test_network.py::TestSlow::test_what_the_role_sends",
        "faults/test_rules.py::test_a_rate_has_room_for_packets",
    ),
    "without it the fault stays until the `Network` is left": (
        "faults/test_network.py::TestPartition::test_from_everybody_until_the_network_is_left",
        "faults/test_controller.py::test_put_and_healed_at_the_end",
    ),
    "**Once it has healed the call is executed**": ("faults/test_network.py::TestPartition::test_between_two",),
    "ends at the world's deadline, `Overdue`": (
        "faults/test_network.py::TestPartition::test_from_the_start_until_the_deadline",
    ),
    "a fault heals in time even if the role that fired it is dead": (
        "faults/test_network.py::TestFiring::test_a_fault_heals_when_the_role_that_fired_it_is_dead",
    ),
    "A rule that hit no packet has no `effective` line": (
        "faults/test_network.py::TestLossy::test_what_loses_no_packet_has_no_receipt",
        "faults/test_rules.py::test_receipts",
    ),
    "Packets that a rule does not match are not counted": (
        "faults/test_network.py::TestPartition::test_others_are_not_counted",
    ),
    "Partition role=ps direction=both seconds=1": ("project/test_documented.py::test_documented_plans_are_plans",),
}

_LEDGERS: dict[str, tuple[str, ...]] = {
    "each with one `write` before the role goes on: what a killed role had written stays": (
        "faults/test_ledger.py::test_a_killed_writer_loses_no_whole_line",
        "faults/test_ledger.py::test_a_line_is_there_as_soon_as_it_is_written",
    ),
    "A line torn by the kill is counted (`Timeline.torn`), and hurts no other line": (
        "faults/test_ledger.py::test_a_line_torn_anywhere_is_counted_and_hurts_no_other",
        "faults/test_ledger.py::test_a_writer_killed_within_a_line",
    ),
    "merges all roles to one timeline, which starts at 0 with the first role's start": (
        "faults/test_ledger.py::test_merged_by_time_whatever_the_order",
        "faults/test_ledger.py::test_roles_of_one_machine_share_its_clock",
        "faults/test_ledger.py::test_machines_are_aligned_by_the_wall_clock",
    ),
    "`Timeline.facts()` is what the same plan gives again, whatever the times": (
        "faults/test_ledger.py::test_facts_are_what_the_same_plan_gives_again",
        "faults/test_calls.py::test_the_same_plan_twice_gives_the_same_facts",
    ),
    "They need `pip install hypothesis`, which nothing else here does": (
        "faults/test_strategies.py::test_without_hypothesis_only_this_module_fails",
    ),
    "Only valid plans come out, and none is filtered away": (
        "faults/test_strategies.py::test_plans_are_valid_and_stay_within_what_there_is",
    ),
    "a kind that cannot happen there is refused": ("faults/test_strategies.py::test_what_cannot_be_asked_for",),
    "A failing plan shrinks towards fewer faults, then gentler kinds": (
        "faults/test_strategies.py::test_fewer_faults_come_first",
        "faults/test_strategies.py::test_every_shape_occurs_and_shrinks_to_its_smallest_fault",
        "faults/test_strategies.py::test_what_must_stay_stays_and_the_rest_shrinks",
        "faults/test_strategies.py::test_seeds_shrink_to_0_and_are_drawn_where_there_is_a_chance",
    ),
    "from hypothesis import given, settings": ("faults/test_fields.py::test_the_examples_of_the_manual_run",),
}

FAULTS: dict[str, tuple[str, ...]] = {
    **_COMMANDS,
    **_ENDS,
    **_SWEEPS,
    **_VERDICTS,
    **_PLANS,
    **_CALLS,
    **_PROCESSES,
    **_MESSAGES,
    **_NETWORKS,
    **_LEDGERS,
}
