"""The promises of the other pages of docs/."""

from __future__ import annotations

from tests.project.documented_shrinks import PAIRS, SHRINK

_LEFT = "reference/test_world.py::TestNothingIsLeft"

_PYTEST: dict[str, tuple[str, ...]] = {
    "In a checkout, a `conftest.py` names it": (
        "faults/test_pytest_plugin.py::test_installed_or_not_it_is_there_once_and_torch_is_not",
    ),
    "It imports torch only for tests that use its fixtures": (
        "faults/test_pytest_plugin.py::test_installed_or_not_it_is_there_once_and_torch_is_not",
    ),
    "the tests run without the plugin, and one line names the file": (
        "faults/test_startup.py::TestPytest::test_tests_beside_a_hiding_module_run_without_the_plugin",
    ),
    "that line comes when a test or a `conftest.py` fails": (
        "faults/test_startup.py::TestPytest::test_a_hiding_module_beside_tests_is_named_if_they_fail",
        "faults/test_startup.py::TestPytest::test_a_module_that_a_conftest_cannot_import_is_named",
    ),
    "def test_sold_out(world):": ("faults/test_pytest_plugin.py::test_the_examples_of_the_manual_run",),
    "If a role dies, or keeps RRefs, the next test finds a new world": (
        "faults/test_pytest_plugin.py::test_a_failing_test_shows_plan_timeline_logs_and_stacks",
        "faults/test_pytest_plugin.py::test_each_kind_of_leak_is_named_and_released_things_are_none",
    ),
    "the fixtures' worlds trace their RRefs and autograd contexts, so that a leak is named with its holder": (
        "faults/test_pytest_plugin.py::test_leaks_are_named_with_their_holders",
    ),
    "Only what the roles got in this test is named": (
        "faults/test_pytest_plugin.py::test_leaks_are_named_with_their_holders",
    ),
    "**A test whose fault never fired fails.**": (
        "faults/test_pytest_plugin.py::test_a_failing_test_shows_plan_timeline_logs_and_stacks",
        "faults/test_pytest_plugin.py::test_a_plan_of_the_command_line_works_in_two_workers_of_xdist",
    ),
    '**The mark `plan("...")` puts its plan to work,** with or without the fixture `plan`': (
        "faults/test_plugin_plans.py::test_a_mark_alone_puts_its_plan_to_work_or_fails_its_test",
    ),
    "So does a test whose plan was never put to work": (
        "faults/test_plugin_plans.py::test_a_mark_alone_puts_its_plan_to_work_or_fails_its_test",
    ),
    "a failure that is expected has to come after all faults have fired": (
        "faults/test_plugin_plans.py::test_a_mark_alone_puts_its_plan_to_work_or_fails_its_test",
    ),
    "A `PYTHON_CALL` and a `PYTHON_REMOTE_CALL` do leave evidence": (
        "faults/test_messages.py::TestEvidence::test_some_messages_are_shown_by_no_recorded_call",
        "faults/test_plugin_plans.py::test_a_mark_alone_puts_its_plan_to_work_or_fails_its_test",
    ),
    "and so is every text that is no plan, before any fixture of the test is set up": (
        "faults/test_plugin_plans.py::test_marks_that_are_no_plan_are_refused_beside_every_fixture",
    ),
    "replaces the plan of every test that has one, and puts every other test that names `world`": (
        "faults/test_plugin_plans.py::test_a_plan_of_the_command_line_hits_every_test_with_a_world",
    ),
    "If one did not, or if no test ran under the plan, the run says so, and its exit status is 1": (
        "faults/test_plugin_plans.py::test_a_run_in_which_a_plan_of_the_command_line_never_fired_fails",
        "faults/test_plugin_plans.py::test_a_run_without_a_test_for_the_plan_of_the_command_line_fails",
    ),
    "`faults: 12 tests ran under a plan`": (
        "faults/test_plugin_plans.py::test_a_plan_of_the_command_line_hits_every_test_with_a_world",
        "faults/test_plugin_plans.py::test_a_mark_alone_puts_its_plan_to_work_or_fails_its_test",
    ),
    "removes that plan at the end of the test, and names it as a leak": (
        "faults/test_plugin_plans.py::test_a_plan_that_a_test_leaves_in_its_own_process_is_removed_and_told",
    ),
    "this plan instead of the marks'": (
        "faults/test_pytest_plugin.py::test_a_plan_of_the_command_line_works_in_two_workers_of_xdist",
        "faults/test_pytest_plugin.py::test_impossible_options_are_refused_in_one_line",
    ),
    "a failed test's ledgers and logs are copied to a folder in DIR": (
        "faults/test_pytest_plugin.py::test_a_failing_test_shows_plan_timeline_logs_and_stacks",
    ),
    "which tests must leave nothing behind; ini: `faults_leaks`; by default the tests with these fixtures": (
        "faults/test_pytest_plugin.py::test_leaks_count_for_the_tests_that_the_option_selects",
        "faults/test_pytest_plugin.py::test_impossible_options_are_refused_in_one_line",
    ),
    "the worlds of these fixtures are isolated, unless they are launched with `isolated=False`": (
        "reference/test_isolation.py::test_the_plugin_isolates_the_worlds_of_its_fixtures_where_the_ini_says_so",
    ),
    "If it is set, Hypothesis draws from it too": (
        "faults/test_pytest_plugin.py::test_the_seed_decides_what_hypothesis_draws",
    ),
    "It may leave on no role an RRef, a fork, a pending user or an autograd context": (
        "faults/test_pytest_plugin.py::test_each_kind_of_leak_is_named_and_released_things_are_none",
    ),
    '`@pytest.mark.leaves("processes", "rrefs")` allows kinds': (
        "faults/test_pytest_plugin.py::test_each_kind_of_leak_is_named_and_released_things_are_none",
        "faults/test_pytest_plugin.py::test_a_test_that_asks_for_something_impossible_fails_in_one_line",
    ),
    "Two runs at once on one machine do not see each other's leaks": (
        "faults/test_pytest_plugin.py::test_two_suites_at_once_do_not_disturb_each_other",
    ),
    "write the stacks of all threads and are ended, within 6 s": (
        "faults/test_pytest_plugin.py::test_a_failing_test_shows_plan_timeline_logs_and_stacks",
    ),
}

_ENDS = "reference/test_bounded_shutdown.py"

_SHUTDOWN: dict[str, tuple[str, ...]] = {
    "All calls that are under way are executed and answered": (
        f"{_ENDS}::TestHealthy::test_calls_under_way_are_executed",
        f"{_ENDS}::TestHealthy::test_answers_under_way_arrive",
    ),
    "RRefs are deleted, as by torch's own graceful shutdown": (
        f"{_ENDS}::TestHealthy::test_no_rref_is_left_and_a_run_under_faults_sees_the_shutdown",
    ),
    "If a process is gone, every other one raises `PeerLost`": (
        f"{_ENDS}::TestMissing::test_a_role_that_was_killed_before_is_named_at_once",
        f"{_ENDS}::TestMissing::test_a_role_that_is_killed_in_its_shutdown_is_named_by_all",
        f"{_ENDS}::TestMissing::test_a_role_that_dies_when_all_have_come_is_named_soon",
    ),
    "If a process does not come, those that wait raise `PeerLost` within their limit": (
        f"{_ENDS}::TestMissing::test_a_role_that_never_comes_is_named_with_its_place",
        f"{_ENDS}::TestMissing::test_a_stopped_role_is_named_within_the_limit",
    ),
    "`init_rpc` can start it again": (
        f"{_ENDS}::TestHealthy::test_rpc_ends_and_starts_again_at_the_same_and_at_another_store",
    ),
    "A further `shutdown` waits for its end": (
        f"{_ENDS}::TestWork::test_a_function_that_does_not_end_is_named_and_can_be_waited_for",
    ),
    "waits for the answer of 1 call": (
        f"{_ENDS}::TestWork::test_a_call_that_is_never_answered_is_named_within_the_limit",
    ),
    "has not installed this package": (f"{_ENDS}::TestMissing::test_a_role_without_this_package_is_named",),
    "a timeout that is no positive number of seconds": (
        f"{_ENDS}::TestMisuse::test_a_timeout_that_cannot_be_waited_for_is_refused",
    ),
    "a second thread that shuts down at the same time": (
        f"{_ENDS}::TestHealthy::test_a_second_thread_is_refused_while_the_first_waits",
    ),
    "ends RPC in this process only": (f"{_ENDS}::TestHealthy::test_without_grace_no_role_waits",),
}

_CLUSTERS: dict[str, tuple[str, ...]] = {
    "holds each trace against the twin: equal bits": ("reference/test_clusters.py::test_tutorials_run_on_two_hosts",),
    "Rank 0 plays the first role, rank 1 the second": (
        "reference/test_world.py::TestCalls::test_ranks_follow_the_order_of_the_names",
        "reference/test_clusters.py::test_tutorials_run_on_two_hosts",
    ),
    "Together they must be as many as the roles": (
        "reference/test_cli.py::test_a_wrong_number_of_processes_is_refused",
        "reference/test_cli.py::test_torchrun_with_a_wrong_number_of_processes_is_refused",
        "reference/test_cli.py::test_under_torchrun_a_case_that_cannot_fit_is_refused",
    ),
    "a tutorial with any number of trainers, workers or observers takes as many as fit": (
        "reference/test_cli.py::test_under_torchrun_the_case_fits_the_processes",
    ),
    "the file is written on the machine of the role that returns the trace": (
        "reference/test_clusters.py::test_tutorials_run_on_two_hosts",
    ),
    "| each rank's RPC agent (TensorPipe) | one, chosen by the kernel | that towards `MASTER_ADDR` |": (
        "reference/test_clusters.py::test_tutorials_run_on_two_hosts",
        "reference/test_clusters.py::test_the_hosts_are_two",
    ),
    "the one whose address this machine would use to talk to `MASTER_ADDR`": (
        "reference/test_network_interface.py::test_each_address_of_this_machine_is_its_own_interfaces",
        "reference/test_network_interface.py::test_the_source_decides_not_the_first_interface",
    ),
    "where you set them, stay as they are": ("reference/test_network_interface.py::test_what_the_user_set_stays",),
    "ends with `PeerLost`, which names the rank, at once as well": (
        "reference/test_clusters.py::test_a_killed_rank_ends_those_of_the_other_host",
        "reference/test_shutdown_barrier.py::test_a_death_ends_everybodys_wait",
        "reference/test_shutdown_barrier.py::test_a_call_that_a_death_cut_off_says_who_died",
    ),
    "both exit with status 1": ("reference/test_clusters.py::test_a_killed_rank_ends_those_of_the_other_host",),
    "A rank that only waits for the shutdown ends after `--deadline` seconds": (
        "reference/test_shutdown_barrier.py::test_a_rank_that_has_not_finished_is_waited_for_until_the_deadline",
    ),
}

_SECURITY: dict[str, tuple[str, ...]] = {
    "The rendezvous is a file that only its user can read and write": (
        "project/test_documented.py::test_a_worlds_own_folder_is_its_users_alone",
        "reference/test_private_folder.py::test_what_a_world_writes_is_its_users_alone_also_in_a_folder_that_others_may_read",
    ),
    "Other users of the same machine can connect to loopback, so they can run code as you in a role": (
        "reference/test_isolation.py::test_a_stranger_who_finds_a_roles_port_runs_code_in_it",
    ),
    "Connecting from outside is refused to every user": (
        "reference/test_isolation.py::test_nobody_outside_reaches_a_role_of_an_isolated_world",
        "reference/test_isolation.py::test_roles_in_a_user_namespace_are_their_user_and_die_with_their_launcher",
    ),
    "a role can connect to nothing outside": (
        "reference/test_isolation.py::test_an_isolated_role_reaches_nobody_outside",
    ),
    "and so are sockets that are files": (
        "reference/test_isolation.py::test_an_isolated_role_reaches_a_socket_that_is_a_file",
    ),
    "keeps that one's permissions; a file that you may not write is not replaced": (
        "reference/test_atomic_file.py::test_a_file_keeps_its_permissions",
        "reference/test_atomic_file.py::test_a_file_that_its_user_may_not_write_is_not_replaced",
    ),
    "| plan, ledgers and results, in a folder that existed already | the permissions that your umask gives |": (
        "reference/test_atomic_file.py::test_a_new_file_has_what_the_umask_leaves",
    ),
    "Only the isolated worlds of the same launching process share it": (
        "reference/test_isolation.py::test_isolated_worlds_of_one_process_share_a_network",
    ),
    "`python -m faults run`, `list` and `sweep` of a tutorial": (
        "reference/test_isolation.py::test_the_commands_of_tutorials_isolate_every_world",
    ),
    "or for all of them `faults_isolated = true` in the ini file": (
        "reference/test_isolation.py::test_the_plugin_isolates_the_worlds_of_its_fixtures_where_the_ini_says_so",
    ),
    "the roles are in the namespaces that the faults hit": (
        "reference/test_isolation.py::test_a_network_that_a_plan_hurts_is_entered_from_an_isolated_world",
    ),
    "together with a user namespace, in which a role keeps its user and group": (
        "reference/test_isolation.py::test_a_user_without_privileges_makes_a_network_as_itself",
        "reference/test_isolation.py::test_roles_in_a_user_namespace_are_their_user_and_die_with_their_launcher",
    ),
    "There all worlds start as before": (
        "reference/test_isolation.py::test_where_isolation_is_not_allowed_the_world_is_like_any_other",
        "reference/test_isolation.py::test_a_kernel_that_forbids_isolation_says_why",
    ),
    "`REFERENCE_ISOLATED=0` in the environment turns isolation off": (
        "reference/test_isolation.py::test_where_isolation_is_not_allowed_the_world_is_like_any_other",
    ),
    "in a user namespace the role ends with an error that says so": (
        "reference/test_isolation.py::test_a_script_with_threads_cannot_be_isolated_without_privileges",
        "reference/test_isolation.py::test_a_role_that_cannot_enter_its_network_says_so",
    ),
    "are made for their user alone (0700), and so is each missing folder above them": (
        "reference/test_private_folder.py::test_a_folder_that_is_made_is_its_users_alone",
        "reference/test_private_folder.py::test_what_a_world_writes_is_its_users_alone_also_in_a_folder_that_others_may_read",
    ),
    "| a folder that exists already | keeps its permissions": (
        "reference/test_private_folder.py::test_a_folder_that_is_there_stays_as_it_is",
    ),
    "TensorPipe and gloo listen on the loopback interface only": (
        "reference/test_world.py::TestProcesses::test_nothing_listens_beyond_loopback",
    ),
    "meets over RPC (`rpc/rpc_store.py`) and opens no store of its own": (
        "reference/test_rpc_store.py::test_every_method_of_the_store_works_over_rpc",
    ),
    "RPC itself keeps to loopback when all ranks are on one machine": (
        "reference/test_network_interface.py::test_a_loopback_master_is_on_the_loopback_interface",
    ),
    "otherwise it listens on one interface, the one that leads to `MASTER_ADDR`": (
        "reference/test_clusters.py::test_tutorials_run_on_two_hosts",
    ),
    "Reading one runs no code and imports only this package's own tutorials": (
        "reference/test_trace.py::test_load_refuses_an_unknown_tutorial",
        "reference/test_trace.py::test_load_refuses_what_is_no_safetensors_file",
    ),
}

_DESIGN: dict[str, tuple[str, ...]] = {
    "an unknown or impossible field is refused in one line": (
        "reference/test_case.py::test_bad_values_are_refused",
        "reference/test_case.py::test_bad_json_is_refused",
    ),
    "A frozen dataclass, plain data, JSON both ways": (
        "reference/test_case.py::test_a_case_cannot_be_changed",
        "reference/test_case.py::test_json_round_trip",
    ),
    "defaults are the tutorial's own numbers": (
        "reference/test_published_defaults.py::test_every_field_of_a_case_has_the_default_of_the_table",
        "reference/test_published_defaults.py::test_a_default_says_where_it_is_published_or_why_it_is_not",
    ),
    "A twin has its formula's bits in exact and natural cases": (
        "reference/test_formulas_servers.py::test_the_trace_is_the_formulas",
        "reference/test_formulas_agents.py::test_a_twin_computes_the_formula",
    ),
    "The rows have every option of a case at two values or more": (
        "reference/test_formulas_servers.py::test_every_option_has_two_values_in_the_table",
        "reference/test_formulas_servers.py::test_every_number_has_two_digits_in_some_row",
        "reference/test_formulas_agents.py::test_every_option_has_two_values_in_the_table",
        "reference/test_formulas_agents.py::test_every_number_has_two_digits_in_some_row",
    ),
    "Saved as safetensors with the case in the header": (
        "reference/test_trace.py::test_the_header_names_the_tutorial_and_the_case",
    ),
    "every fault is planned, then fired, then (where it can be seen) effective; and every call": (
        "faults/test_calls.py::TestLedger::test_a_normal_call_is_recorded_as_ok",
        "faults/test_processes.py::test_a_crash_kills_another_role_at_a_step",
    ),
    "A defect never passes; what the folder does not tell is `unknown`": (
        "faults/test_exit_statuses.py::test_check_gives_the_status_of_the_verdict",
        "faults/test_exit_statuses.py::test_check_of_an_unknown_run_gives_3",
    ),
    "Nothing imports against the arrows": (
        "project/test_imports.py::test_a_file_imports_only_from_rooms_that_its_own_may_know",
        "project/test_imports.py::test_an_import_against_the_flow_is_seen",
    ),
    "`faults` may import `reference`, but no tutorial; `reference` knows nothing of `faults`": (
        "project/test_imports.py::test_faults_name_no_tutorial",
        "project/test_imports.py::test_only_tests_import_both_rooms",
    ),
    "Five rooms hand out public names in their `__init__.py`": (
        "project/test_public_paths.py::test_a_room_hands_out_the_names_that_it_lists",
    ),
    "a signal to the process, sent by the role whose moment it is, before it goes on": (
        "faults/test_processes.py::test_a_pause_stops_another_role_for_its_seconds",
        "faults/test_guardian.py::test_the_guardian_continues_the_process_when_its_orders_end",
    ),
    "Exactly one role returns the trace": ("reference/test_small_cases.py::test_it_runs_equal_to_its_twin",),
    "stands in `reference/__init__.py` and in `verify.CASES`": (
        "reference/test_case.py::test_every_tutorial_is_verified",
    ),
    "`hook.install` replaces `rpc.init_rpc` and `rpc.shutdown`": (
        "faults/test_hook.py::test_install_replaces_start_and_shutdown_only_and_remove_puts_them_back",
    ),
    "No function of the program is wrapped, and no reference to one can be stale": (
        "faults/test_calls.py::test_every_callable_still_works_under_a_plan",
        "faults/test_patching.py::test_a_reference_under_another_name_in_a_later_module_is_replaced",
    ),
    "1. Every role has an outcome by its deadline.": (
        "faults/test_checks.py::test_each_run_has_its_verdict",
        "faults/test_runs.py::test_a_role_that_waits_forever_hangs",
    ),
    "2. Never silently wrong: a trace that is returned is the twin's.": (
        "faults/test_checks.py::TestTrace::test_only_the_twins_trace_is_right",
        "faults/test_exit_statuses.py::test_a_run_of_a_wrong_tutorial_gives_1",
    ),
    "Nothing is left: no process, no shared memory; and where all roles returned, no RRef and no autograd context.": (
        "faults/test_checks.py::TestLeft::test_rrefs_and_contexts_count_if_all_roles_returned",
        "faults/test_runs.py::test_processes_that_a_run_leaves_are_named_and_ended",
    ),
    "5. Every fault fired, as often as the plan says.": (
        "faults/test_checks.py::TestFired::test_a_fault_of_one_named_call_fires_exactly_once",
        "faults/test_checks.py::TestFired::test_a_fault_of_several_calls_fires_at_least_once",
    ),
    "`launch` checks its arguments and pickles every function; nothing has been started so far": (
        "reference/test_world.py::test_bad_arguments_start_nothing",
        "reference/test_world.py::test_a_function_that_cannot_be_sent_starts_nothing",
    ),
    "has torch and the tutorials of its launcher loaded": (
        "reference/test_start.py::test_roles_start_with_the_tutorials_of_their_launcher",
    ),
    "by itself when its pipe to the launcher closes or the launcher's pid is gone": (
        f"{_LEFT}::test_nothing_is_left_when_the_launching_process_is_killed",
        f"{_LEFT}::test_nothing_is_left_by_a_forkserver_that_is_killed",
    ),
    "they end as `Raised(PeerLost)` within milliseconds": (
        "reference/test_world.py::test_a_survivor_in_the_shutdown_hears_of_a_death",
        "reference/test_world.py::test_a_world_without_its_dead_ends_long_before_its_deadline",
        "reference/test_world.py::test_a_death_is_seen_within_50_ms",
    ),
    "writes all stacks, without needing the GIL, and then ends the process": (
        "reference/test_world.py::test_a_role_that_holds_the_gil_is_overdue_with_stacks",
        "reference/test_world.py::test_an_overdue_role_leaves_the_stacks_of_all_threads",
    ),
    "One that does not even do that within 2 s is killed": (
        "reference/test_world.py::test_a_role_that_writes_no_stacks_is_overdue_and_killed",
        "reference/test_world.py::test_a_stopped_role_is_overdue_with_stacks",
    ),
    "`wait()` therefore ends at the latest 6 s after the deadline": (
        "reference/test_world.py::test_a_stopped_role_is_overdue_with_stacks",
        "reference/test_world.py::test_a_role_that_outlives_its_killing_is_due_again_later_and_not_at_once",
    ),
    "The order of accumulation is part of the case: `rank`, or `arrival` with the order in the trace": (
        "reference/test_batch_parameter_server.py::TestOrders::test_rank_gives_the_bits_of_a_twin_that_knows_no_order",
        "reference/test_batch_parameter_server.py::TestOrders::test_arrival_gives_the_bits_of_its_replay",
        "reference/test_batch_parameter_server.py::TestOrders::test_the_order_of_arrival_does_decide_bits",
    ),
    "Random draws depend on a seed and a name": (
        "reference/test_rng.py::test_generators_draw_the_same_for_the_same_name_only",
        "reference/test_rng.py::test_draws_depend_on_seed_and_name_only",
    ),
    '`record="ends"` leaves out gradients and the parameters in between': (
        "reference/test_trace.py::test_recorder_keeps_what_the_case_asks_for",
        "reference/test_parameter_server.py::test_record_ends_keeps_both_ends_and_every_loss",
    ),
    "an error of an import, a set-up or a limit of the gate proves nothing": (
        "project/test_mutants.py::test_only_a_failing_body_or_leak_check_kills_a_mutant",
    ),
    "The killers have to pass on the healthy code first": (
        "project/test_mutants.py::test_healthy_killers_have_to_pass",
    ),
    "The gate also fails where a promise has killed none": (
        "project/test_mutants.py::test_a_promise_that_kills_none_is_named",
        "project/test_mutants.py::test_every_check_is_a_promise",
    ),
    "is stale, and `tests/project/test_mutants.py` fails": (
        "project/test_mutants.py::test_every_mutant_can_be_planted",
        "project/test_mutants.py::TestStale::test_a_stale_text_cannot_be_planted",
    ),
}

_BENCHMARKS: dict[str, tuple[str, ...]] = {
    "The losses of ours and of the same in turn are the same bits": (
        "reference/test_pipeline.py::test_resnet50_equals_its_twin",
    ),
    "the order of sums is fixed by a chain of aliases (`parameter_chain.py`)": (
        "reference/test_parameter_chain.py::test_the_chain_has_the_bits_of_a_plain_backward_pass",
        "reference/test_parameter_chain.py::test_without_the_chain_threads_decide_bits",
    ),
    "the row fails if the running reward does not reach the environment's published threshold": (
        "reference/test_reinforce.py::test_the_goal_is_the_environments_threshold",
        "reference/test_reinforce.py::test_a_long_run_that_misses_its_goal_does_not_hold",
    ),
    "nothing is replaced": ("faults/test_hook.py::test_an_empty_plan_replaces_nothing",),
    "2,037 examples through idle worlds": ("properties/test_examples.py::test_there_are_two_thousand_examples_in_all",),
}

# Users may rely on this page: the tests that each of its lines names exist, and show what the line says.
_SHOWN: dict[str, tuple[str, ...]] = {
    "Each line names the test that pins it, if there is one": (
        "project/test_documented.py::test_the_tests_that_pages_name_are_there",
    ),
}

_KIT = "reference/test_conform.py"
_CONFORMANCE: dict[str, tuple[str, ...]] = {
    "It runs in the folder where you started `conform run`, in a process group that is ended with it": (
        f"{_KIT}::test_a_relative_command_is_the_users",
        "reference/test_process.py::test_the_time_limit_ends_the_whole_group",
        "reference/test_process.py::test_a_process_that_outlives_its_command_is_ended",
    ),
    "`OUT_DIR/trace.safetensors` with exactly the tensors that `case.json` lists under `outputs`": (
        f"{_KIT}::test_all_misfits_are_told_at_once",
    ),
    "`unstable` | with `--repeat`: runs of one case differ, and not all of them are right": (
        f"{_KIT}::test_a_program_whose_runs_differ_is_unstable_before_it_is_wrong",
    ),
    '`{"status": "skipped", "reason": "no LSTM"}`': (f"{_KIT}::test_a_result_file_says_what_became_of_a_case",),
    "3 the suite has changed since it was exported": (f"{_KIT}::test_a_suite_that_has_changed_is_refused",),
    "`-0.0` and `0.0` are one number": (f"{_KIT}::test_the_sign_of_zero_does_not_count_in_an_exact_case",),
    "has a program for each in NumPy, which imports nothing of this package": (
        f"{_KIT}::test_each_program_in_numpy_passes",
        f"{_KIT}::test_programs_in_numpy_import_nothing_else",
    ),
    "a file that is written there, or a change of the case, makes the answer `malformed`": (
        f"{_KIT}::test_a_program_that_writes_beside_its_folder_is_refused",
        "reference/test_selftest.py::test_each_hostile_program_gets_its_verdict",
    ),
    "That is skipped as `not offered`, as is what a command skips in `result.json`": (
        "properties/test_implementation.py::test_what_a_function_offers_passes_and_the_rest_is_not_offered",
    ),
    "`conform diff BEFORE AFTER` compares two reports of `--format json`": (
        "reference/test_report.py::test_a_diff_names_changed_verdicts_and_cases_of_one_report_only",
    ),
    "fails unless each gets its verdict and its explanation": (
        "reference/test_explain.py::test_each_mistake_is_named",
        "reference/test_selftest.py::test_the_command_fails_unless_verdict_and_explanation_are_the_expected_ones",
    ),
    "JUnit's failures are exactly what makes the exit status 1": (
        "reference/test_report.py::test_junits_failures_are_what_is_not_as_expected",
    ),
    "green if all cases pass, yellow if those that do not are expected": (
        "reference/test_report.py::test_a_badge_is_green_only_if_all_are_right",
    ),
    "JSON and HTML also tell which requirements it meets": (
        "reference/test_report.py::test_a_verdict_tells_which_requirements_are_met",
    ),
    "those of cases that were not judged stay": (
        "reference/test_expected_verdicts.py::test_entries_made_anew_keep_those_of_cases_that_were_not_judged",
    ),
    "An entry that matches no case of any suite, has expired, or whose cases pass is an error": (
        "reference/test_expected_verdicts.py::test_an_entry_that_matches_nothing_is_stale",
        "reference/test_expected_verdicts.py::test_an_entry_for_a_case_that_was_not_judged_is_not_stale",
        "reference/test_expected_verdicts.py::test_an_entry_expires_after_its_day",
        "reference/test_expected_verdicts.py::test_an_unexpected_pass_is_unexpected",
    ),
    "130 Ctrl-C, which ends the programs that run": (
        f"{_KIT}::test_ctrl_c_ends_the_command_and_the_judge_says_what_is_missing",
    ),
    "is another one than its cases' ids say": (f"{_KIT}::test_a_case_of_other_numbers_is_no_case_of_the_suite",),
    "`OUT` is a new folder outside the suite": (
        f"{_KIT}::test_options_of_run_that_cannot_be_are_refused_before_it_runs",
    ),
    "a link, a pipe or a device makes the answer `malformed`": (f"{_KIT}::test_a_link_out_of_the_folder_is_no_answer",),
    "exact cases can be judged without torch": (f"{_KIT}::test_exact_cases_are_run_and_judged_without_torch",),
    "If none fits, it says so": ("reference/test_explain.py::test_each_mistake_is_named",),
}

_SCRIPTS = "faults/test_traced_scripts.py::test_a_leak_of_a_script_is_named_with_its_holder_and_lines"
_IN_USE = "faults/test_unseen.py::test_what_something_unseen_holds_is_in_use"
_CYCLE = "faults/test_leaks.py::test_values_that_hold_each_other_are_a_leak_once_no_variable_leads_there"

_LEAKS: dict[str, tuple[str, ...]] = {
    "FAIL left: 2 RRefs (0, 2) of ps: forks held by trainer1 since hoard.py:22 in step, where trainer1 made them": (
        _SCRIPTS,
    ),
    "`prepare DIR --leaks trace` for what torchrun starts": (
        "faults/test_traced_scripts.py::test_a_new_run_in_the_folder_is_traced_only_if_it_asks_for_that",
    ),
    "pytest's [`--faults-leaks-trace`](pytest.md#leaks)": (
        "faults/test_pytest_plugin.py::test_leaks_are_named_with_their_holders",
    ),
    "RRefs that only values of RRefs hold, and to which no variable of any role leads": (
        _SCRIPTS,
        _CYCLE,
        "faults/test_holdings.py::test_an_rref_is_lost_if_only_values_hold_it_to_which_nothing_leads",
    ),
    "that its role has not used since it got another one of the same owner at the same line": (
        _SCRIPTS,
        "faults/test_holdings.py::test_an_idle_rref_of_a_global_is_a_leak_at_the_end",
    ),
    "| an autograd context that was not left |": (
        _SCRIPTS,
        "faults/test_holdings.py::test_a_context_is_a_leak_if_nothing_can_leave_it_or_at_the_end",
    ),
    "a variable of a running function leads to, in whatever thread or role, even through values of other RRefs": (
        "faults/test_leaks.py::test_an_rref_in_use_is_held_and_no_leak",
        "faults/test_leaks.py::test_a_value_to_which_a_variable_of_another_role_leads_may_hold_rrefs",
        "faults/test_holders.py::test_a_function_that_runs_in_another_thread_holds_its_variables",
    ),
    "an RRef that something holds which Python does not see, or to which it leads": (
        "faults/test_leaks.py::test_an_rref_to_which_something_unseen_leads_is_no_leak",
        _IN_USE,
    ),
    "a second RRef of the same value": (
        "faults/test_leaks.py::test_a_value_of_two_rrefs_is_in_use_if_a_variable_leads_to_one",
    ),
    "Python counts more references to the object than those that the search has found": (
        _IN_USE,
        "faults/test_unseen.py::test_what_only_a_value_holds_is_told_however_the_value_refers_to_itself",
    ),
    "any other RRef that a global variable holds to the end": (
        "faults/test_holdings.py::test_an_idle_rref_of_a_global_is_a_leak_at_the_end",
    ),
    "The same holds where more RRefs were sent than received": (
        "faults/test_holdings.py::test_an_rref_on_its_way_keeps_a_world_from_being_settled",
        "faults/test_holdings.py::test_a_ledger_keeps_stocks_world_by_world",
    ),
    "`report()` asks every role by RPC": (
        "faults/test_leaks.py::test_forks_are_named_with_their_holders_and_the_line_where_they_were_made",
    ),
    "Whatever may still be in use in the middle of a run is none": (
        "faults/test_leaks.py::test_rrefs_in_a_global_list_are_no_leak_in_the_middle_of_a_run",
        "faults/test_leaks.py::test_an_autograd_context_is_a_leak_when_nothing_can_leave_it",
        _CYCLE,
    ),
    "RRefs that another role has sent to a silent role: it may hold them, or not": (
        "faults/test_leaks.py::test_what_a_silent_role_may_hold_is_told_as_last_seen_and_nothing_is_lost",
    ),
    "`bool` is False if there is nothing to say": (
        "faults/test_leaks.py::test_a_program_that_holds_nothing_has_no_report",
    ),
    "does not trace, that RPC is not up": (
        "faults/test_leaks.py::test_a_process_that_does_not_trace_or_has_no_rpc_is_told_so",
    ),
    "`leaks.untrace()` puts torch's functions back": (
        "faults/test_leaks.py::test_untrace_puts_every_function_of_torch_back",
    ),
    "What comes in the answer of a call has the line of the call": (
        "faults/test_leaks.py::test_an_rref_in_an_answer_is_named_by_the_line_that_asked",
    ),
    "a running function, then a global, then something that Python does not see, then values of RRefs": (
        "faults/test_holders.py::test_a_running_function_comes_before_a_global",
        "faults/test_holders.py::test_values_are_searched_last_and_all_are_named",
        _IN_USE,
    ),
}

_RETRIES: dict[str, tuple[str, ...]] = {
    "Without a fault both print": ("faults/test_retries.py::test_both_are_right_without_a_fault",),
    "*Right* means that the verdict is `returned` and the output is that of the healthy run": (
        "faults/test_retries.py::test_with_numbers_each_payment_counts_once",
        "faults/test_retries.py::test_without_numbers_a_payment_counts_once_if_it_executed_once",
    ),
    "It is right under every single fault of a call, and pays\ntwice if the answers of a payment and of its retry": (
        "project/test_documented.py::test_the_example_of_pairs",
        "faults/test_pairs.py::test_no_single_fault_shows_it",
    ),
    "in the end the balance is 121, because 10 were paid twice": (
        "faults/test_retries.py::test_without_numbers_a_payment_counts_twice",
    ),
}

_REPLAY: dict[str, tuple[str, ...]] = {
    "Under that plan the same faults hit the same calls, in the same order of execution": (
        "faults/test_replay_command.py::test_a_run_happens_again_in_the_same_order",
        "faults/test_replay.py::test_the_plan_of_a_run_gives_the_same_facts",
    ),
    "one fault for each call that it hit, with that call's `role` and `nth`": (
        "faults/test_replay.py::test_faults_are_fixed_to_the_calls_that_they_hit",
    ),
    "the same bits: they depend on the plan's `seed`, the call and the fault's fields": (
        "faults/test_replay.py::test_the_plan_of_a_run_gives_the_same_facts",
    ),
    "its callee writes `executing` and `executed`, with the caller and the number": (
        "faults/test_calls.py::test_the_order_of_calls_is_recorded_without_any_effect",
    ),
    "calls that executed at the same time: each may have needed the other": (
        "faults/test_replay.py::test_only_calls_that_executed_alone_have_an_order",
    ),
    "calls at a role with fewer threads (`num_worker_threads`) than it may get calls at once": (
        "faults/test_replay.py::test_an_order_needs_a_thread_for_each_call_at_once",
    ),
    "because the end of the first run is not recorded": (
        "faults/test_replay.py::test_a_run_without_an_end_has_no_verdict_to_compare",
    ),
    "because its results were wrong and those of the second one are not checked": (
        "faults/test_replay.py::test_results_that_were_checked_in_the_first_run_only",
    ),
    "if a role started RPC several times, because it counts its calls anew": (
        "faults/test_replay.py::test_a_role_that_counts_its_calls_anew_has_no_order",
    ),
    "calls beyond the first 1000 of a site on one role": ("faults/test_replay.py::test_an_order_has_an_end",),
    "without the faults' numbers, which differ, and without orders": (
        "faults/test_replay.py::test_runs_differ_by_what_fired_and_not_by_numbers_or_orders",
    ),
    "1: they differ, and the line says how": ("faults/test_replay_command.py::test_a_run_that_ends_otherwise_is_told",),
    "2: the folder holds nothing to repeat": (
        "faults/test_replay_command.py::test_what_cannot_happen_again_is_refused_in_one_line",
    ),
}

PAGES: dict[str, dict[str, tuple[str, ...]]] = {
    "docs/pytest.md": _PYTEST,
    "docs/leaks.md": _LEAKS,
    "docs/clusters.md": _CLUSTERS,
    "docs/shutdown.md": _SHUTDOWN,
    "docs/retries.md": _RETRIES,
    "docs/replay.md": _REPLAY,
    "docs/shrink.md": SHRINK,
    "docs/pairs.md": PAIRS,
    "docs/security.md": _SECURITY,
    "docs/conformance.md": _CONFORMANCE,
    "docs/design.md": _DESIGN,
    "docs/benchmarks.md": _BENCHMARKS,
    "docs/behaviours.md": _SHOWN,
    "docs/errata.md": {
        "A frozen `Case` whose defaults are the published numbers, where there are any": (
            "reference/test_published_defaults.py::test_every_field_of_a_case_has_the_default_of_the_table",
            "reference/test_published_defaults.py::test_every_tutorial_has_its_table",
        ),
        "`tests/errata/test_errata.py` runs what each crash and each silent error does": (
            "errata/test_errata.py::test_each_erratum_is_shown_by_its_listing",
            "errata/test_errata.py::test_every_crash_and_every_silent_error_is_shown",
            "errata/test_errata.py::test_every_number_shown_is_on_the_page",
        ),
    },
    "docs/matrix.md": {
        "as `tests/matrix/test_matrix.py` runs it: one cell, one run, and this verdict": (
            "matrix/test_matrix.py::test_each_cell_has_its_expected_verdict",
            "matrix/test_matrix.py::TestTheTable::test_the_page_is_not_stale",
            "matrix/test_matrix.py::TestTheTable::test_every_tutorial_and_kind_has_a_cell_or_a_reason",
        ),
    },
}
