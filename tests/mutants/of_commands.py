"""Bugs in the command lines: refusals, messages and exit statuses."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CHECKS = "faults/verdict/checks.py"
_CLI = "faults/cli/main.py"
_FOLDER = "faults/ledger/run_files.py"
_INTERRUPTS = "reference/system/interrupts.py"
_LONG_WAITS, _OF_LONG_WAITS = "reference/system/long_waits.py", "tests/reference/test_long_waits.py"
_OPTIONS = "faults/cli/options.py"
_REFERENCE = "reference/cli/main.py"

_INTERRUPTED = "tests/reference/test_interrupts.py"
_KEPT = "tests/faults/test_run_files.py"
_TEMPORARY = "tests/reference/test_temporary_folders.py"
_STATUSES = "tests/faults/test_exit_statuses.py"
_BAD = "tests/faults/test_cli.py::test_bad_input_is_one_line"
_CHECKED = f"{_STATUSES}::test_check_gives_the_status_of_the_verdict"
_PASSED_ON = f"{_STATUSES}::test_words_after_two_dashes_belong_to_the_program"
_FAILED = f"{_STATUSES}::test_a_run_of_a_wrong_tutorial_gives_1"
_SWEPT = "tests/faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status[careless-kinds1-0-2 equal]"
_HELP = "tests/faults/test_cli.py::test_the_help_names_the_defaults_of_the_small_case"
_REFUSED = "tests/faults/test_script.py::test_a_script_that_cannot_start_is_refused"
_SWEPT_WRONG = (
    "tests/faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status[careless-kinds2-1-2 wrong]"
)

# Where a run's exit status is made, and handed on: each may lose it.
_OF_STATUSES = (
    Mutant(
        "help-of-the-published-sizes",
        "faults/cli/tutorial_options.py",
        "    add_case_options(parser, quick(name, timeout=TIMEOUT))",
        "    add_case_options(parser, type(quick(name))())",
        (f"{_HELP}[batch_parameter_server-small0-run]",),
        "the help of `faults run` names the defaults of `reference run`",
    ),
    Mutant(
        "wrong-is-status-0",
        _CHECKS,
        "    return {True: 0, False: 1, None: 3}[passed]",
        "    return {True: 0, False: 0, None: 3}[passed]",
        (_CHECKED,),
        "a defect ends with status 0",
    ),
    Mutant(
        "unknown-is-status-0",
        _CHECKS,
        "    return {True: 0, False: 1, None: 3}[passed]",
        "    return {True: 0, False: 1, None: 0}[passed]",
        (f"{_STATUSES}::test_check_of_an_unknown_run_gives_3",),
        "an unknown verdict is printed as pass",
    ),
    Mutant(
        "wrong-is-no-defect",
        _CHECKS,
        "        if self.verdict in DEFECTS:",
        '        if self.verdict in DEFECTS and self.verdict != "wrong":',
        (_CHECKED,),
        "the verdict is right, and the status that follows from it is not",
    ),
    Mutant(
        "reported-as-status-0",
        "faults/cli/run_report.py",
        "    return judgement.status",
        "    return 0",
        (_CHECKED,),
        "a verdict is printed, and its status forgotten",
    ),
    Mutant(
        "run-is-status-0",
        "faults/cli/run_tutorial_command.py",
        "        return report(found, judgement)",
        "        report(found, judgement)\n        return 0",
        (_FAILED,),
        "`run NAME` ends with status 0, whatever it came to",
    ),
    Mutant(
        "run-of-a-tutorial-is-status-0",
        "faults/cli/run_tutorial_command.py",
        "    return run_of(subject, plan_of(options), options)",
        "    run_of(subject, plan_of(options), options)\n    return 0",
        (_FAILED,),
        "`run NAME` forgets the status of the run that it makes",
    ),
    Mutant(
        "script-is-status-0",
        "faults/cli/run_script_command.py",
        "        return report(found, judgement)",
        "        return 0 * report(found, judgement)",
        (f"{_STATUSES}::test_a_run_of_a_script_gives_the_status_of_its_verdict[wrong]",),
        "`run --script` ends with status 0, whatever it came to",
    ),
    Mutant(
        "check-is-status-0",
        "faults/cli/check_command.py",
        "    return report(found, judgement)",
        "    report(found, judgement)\n    return 0",
        (_CHECKED,),
        "`check` ends with status 0, whatever it came to",
    ),
    Mutant(
        "sweep-is-status-0",
        "faults/cli/sweep_tutorial_command.py",
        "    return exit_status(all_passed(passed))",
        "    exit_status(all_passed(passed))\n    return 0",
        (_SWEPT_WRONG,),
        "a sweep that finds a defect ends with status 0",
    ),
    Mutant(
        "command-of-a-sweep-is-status-0",
        "faults/cli/sweep_tutorial_command.py",
        "    return sweep_of(subject, options)",
        "    sweep_of(subject, options)\n    return 0",
        (f"{_STATUSES}::test_a_sweep_of_a_wrong_tutorial_gives_1",),
        "`sweep` forgets the status of the sweep that it makes",
    ),
    Mutant(
        "sweep-of-the-last-cell",
        "faults/run/sweep.py",
        "    return False if False in passed else None if None in passed else True",
        "    return list(passed)[-1]",
        (f"{_STATUSES}::test_a_sweep_fails_by_one_defect_and_is_unknown_by_one_unknown_run",),
        "a sweep whose last cell passes, passes",
    ),
    Mutant(
        "main-is-status-0",
        _CLI,
        "    status: int = import_module(module).main(*words)",
        "    status: int = 0 * import_module(module).main(*words)",
        (_CHECKED,),
        "commands end with their status, and the program does not",
    ),
    Mutant(
        "program-is-status-0",
        "faults/__main__.py",
        "    sys.exit(status_of(",
        "    sys.exit(0 * status_of(",
        (f"{_STATUSES}::test_python_m_faults_gives_the_status_of_its_command",),
        "`python -m faults` drops what `main` returns",
    ),
    Mutant(
        "verify-is-status-0",
        "reference/__main__.py",
        "    sys.exit(status_of(*modules_of(sys.argv[1:]), failed=1))",
        "    status_of(*modules_of(sys.argv[1:]), failed=1)\n    sys.exit(0)",
        (f"{_STATUSES}::test_python_m_reference_gives_the_status_of_its_command",),
        "`python -m reference` drops what `main` returns",
    ),
    Mutant(
        "bad-input-is-status-0",
        _CLI,
        "        print(one_line(f\"error: {' '.join(str(error).split())}\"), file=sys.stderr)\n        return 2",
        "        print(one_line(f\"error: {' '.join(str(error).split())}\"), file=sys.stderr)\n        return 0",
        (f"{_BAD}[fly]",),
        "a refused run, which never ran, passes",
    ),
    Mutant(
        "interrupted-is-status-0",
        _CLI,
        "        return 130",
        "        return 0",
        (f"{_STATUSES}::test_an_interrupt_is_130_and_nothing_is_stored",),
        "an interrupted run has passed",
    ),
    Mutant(
        "not-printed-is-status-0",
        "reference/cli/command.py",
        "        sys.stdout.flush()\n",
        "",
        (f"{_STATUSES}::test_a_verdict_that_cannot_be_printed_is_no_pass[faults]",),
        "a verdict that cannot be read passes",
    ),
    Mutant(
        "sigterm-not-handled",
        _INTERRUPTS,
        "SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "SIGNALS = (signal.SIGINT, signal.SIGHUP)",
        (f"{_INTERRUPTED}::test_each_signal_interrupts_what_listens",),
        "a command that a time limit ends leaves its script running",
    ),
    Mutant(
        "sighup-not-handled",
        _INTERRUPTS,
        "SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "SIGNALS = (signal.SIGINT, signal.SIGTERM)",
        (f"{_INTERRUPTED}::test_each_signal_interrupts_what_listens",),
        "a terminal that is closed leaves the script running",
    ),
    Mutant(
        "reference-does-not-listen",
        "reference/cli/command.py",
        "    interrupts.leave_at_once()\n    _open_streams()",
        "    interrupts.leave_to_torchrun()\n    _open_streams()",
        (f"{_STATUSES}::test_an_interrupted_command_ends_with_130_and_leaves_no_process[reference-15]",),
        "a command that a time limit ends leaves its folders and its forkserver",
    ),
)

# A run without faults has to be asked for, or is refused.
_OF_WORDS = (
    Mutant(
        "last-option-wins",
        "reference/cli/options.py",
        "            if action is not None and action.dest in given and not repeats:",
        "            if action is not None and action.dest in () and not repeats:",
        (f"{_BAD}[prepare x --plan DELAY --plan DELAY]",),
        "of an option that is given twice, one is dropped without a word",
    ),
    Mutant(
        "twice-by-another-spelling",
        "reference/cli/options.py",
        'self._option_string_actions.get(word.partition("=")[0])',
        "self._option_string_actions.get(word)",
        (f"{_BAD}[prepare x --plan=DELAY --plan DELAY]",),
        "`--plan=` and `--plan` are taken for two options",
    ),
    Mutant(
        "options-abbreviated",
        "reference/cli/options.py",
        "allow_abbrev=False",
        "allow_abbrev=True",
        (f"{_BAD}[check x --hel]",),
        "a misspelt option is taken for another one",
    ),
    Mutant(
        "empty-plan-accepted",
        _OPTIONS,
        "    if not plan.faults:",
        "    if not plan:",
        (f"{_BAD}[prepare x --plan seed=3]", f"{_BAD}[prepare x --plan /dev/null]"),
        "a plan without faults hurts nothing, and passes",
    ),
    Mutant(
        "no-plan-accepted",
        _OPTIONS,
        "    if options.healthy:",
        "    if options.healthy or options.plan is None:",
        (f"{_BAD}[prepare x]", f"{_BAD}[run --script true]"),
        "a run without a plan passes",
    ),
    Mutant(
        "healthy-drops-the-plan",
        _OPTIONS,
        "    if options.healthy and options.plan is not None:",
        "    if options.healthy is None:",
        (f"{_BAD}[prepare x --plan DELAY --healthy]",),
        "a plan beside `--healthy` is dropped",
    ),
    Mutant(
        "options-after-the-script-swallowed",
        "faults/cli/script_options.py",
        "    for word in command if theirs is command else ():",
        "    for word in command[:1] if theirs is command else ():",
        (f"{_BAD}[run --plan DELAY --script x.py --plan]",),
        "a plan after `--script` goes to the program, which is not hurt",
    ),
    Mutant(
        "assigned-options-after-the-script-swallowed",
        "faults/cli/script_options.py",
        '        if word.partition("=")[0] in ours:',
        "        if word in ours:",
        (f"{_BAD}[run --plan DELAY --script x.py --plan=x]",),
        "`--plan=x` after `--script` goes to the program",
    ),
    Mutant(
        "nothing-passed-on",
        "faults/cli/script_options.py",
        "    for word in command if theirs is command else ():",
        "    for word in command:",
        (_PASSED_ON,),
        "a program that has a `--plan` of its own cannot be run",
    ),
    Mutant(
        "kind-without-cells",
        "faults/cli/sweep_options.py",
        "    if missing:",
        "    if missing and not at_sites:",
        ("tests/faults/test_cli.py::test_a_sweep_without_a_cell_is_refused",),
        "a kind that hurts nothing is asked for, and the sweep passes",
    ),
    Mutant(
        "long-that-adds-nothing",
        "reference/cli/verify_command.py",
        "    if options.long and not long:",
        "    if options.long and not names:",
        ("tests/reference/test_cli.py::test_bad_input_is_one_line_with_status_2",),
        "`verify --long` of tutorials without a long run is the short one",
    ),
)

# The verdict of faults that were not there.
_OF_VERDICTS = (
    Mutant(
        "nothing-seen-is-returned",
        _CHECKS,
        '    return wanted and not run.timeline.of("up") and not run.timeline.of("fired")',
        "    return False",
        (
            f"{_STATUSES}::test_a_run_without_rpc_is_unknown",
            f"{_STATUSES}::test_a_run_of_a_script_gives_the_status_of_its_verdict[no-rpc]",
        ),
        "0 events of 0 ledgers, and all is well",
    ),
    Mutant(
        "a-ledger-is-rpc",
        _CHECKS,
        'not run.timeline.of("up") and',
        "not run.timeline.roles and",
        (f"{_STATUSES}::test_a_role_that_never_came_up_counts_as_no_rpc",),
        "RPC that did not start counts as RPC",
    ),
    Mutant(
        "ledgers-not-wanted",
        "faults/script/script_record.py",
        "        recorded=True,\n",
        "",
        (f"{_STATUSES}::test_a_run_of_a_script_gives_the_status_of_its_verdict[no-rpc]",),
        "calls of a healthy script are not recorded",
    ),
    Mutant(
        "healthy-not-recorded",
        "faults/cli/run_tutorial_command.py",
        "deadline=options.deadline, recorded=True)",
        "deadline=options.deadline)",
        (f"{_STATUSES}::test_a_healthy_run_of_a_tutorial_gives_0",),
        "calls of a healthy tutorial are not recorded",
    ),
    Mutant(
        "healthy-not-said",
        "faults/cli/run_report.py",
        "    if number == 0:",
        "    if number < 0:",
        (f"{_STATUSES}::test_check_of_a_healthy_run_says_that_nothing_was_planned",),
        "a pass of no faults looks like one of some",
    ),
    Mutant(
        "faults-not-counted",
        "faults/cli/run_report.py",
        "number = f\"{' '.join(found.name.split())}:{taken}\", len(found.plan.faults)",
        "number = f\"{' '.join(found.name.split())}:{taken}\", min(1, len(found.plan.faults))",
        (f"{_STATUSES}::test_several_faults_are_counted",),
        "two faults that are planned are told as one",
    ),
)

# What README and the manuals say.
_OF_PAGES = (
    Mutant(
        "timeout-of-minutes",
        "faults/cli/tutorial_options.py",
        "TIMEOUT = 3.0",
        "TIMEOUT = 30.0",
        (f"{_HELP}[rnn-small1-run]",),
        "roles of a hurt tutorial wait ten times as long as the manual says",
    ),
    Mutant(
        "folder-for-everybody",
        "reference/world/start.py",
        '        return temporary_folders.make("world-")',
        '        place = temporary_folders.make("world-")\n        place.chmod(0o755)\n        return place',
        ("tests/reference/test_world.py::TestProcesses::test_no_other_user_sees_the_rendezvous",),
        "every user of the machine can read a world's rendezvous",
    ),
    Mutant(
        "dash-m-taken-for-a-command",
        "faults/cli/script_options.py",
        '    if theirs[0] == "-m":',
        '    if theirs[0] == "--module":',
        (_REFUSED,),
        "`--script -m my` says that there is no program of the name -m",
    ),
    Mutant(
        "file-taken-for-a-folder",
        _FOLDER,
        "    if place.exists() and not place.is_dir():",
        "    if place.is_dir() and not place.exists():",
        (_REFUSED,),
        "`--dir FILE` ends in a traceback",
    ),
    Mutant(
        "no-command-passes",
        "faults/cli/main.py",
        "        print(_USAGE, file=sys.stderr)\n        return 2",
        "        print(_USAGE, file=sys.stderr)\n        return 0",
        ("tests/faults/test_cli.py::test_without_a_command_the_status_is_2",),
        "a CI whose command is empty is green",
    ),
    Mutant(
        "a-folder-for-a-command",
        "faults/cli/script_options.py",
        '("/" in name or shutil.which(name) is None)',
        '("/" not in name and shutil.which(name) is None)',
        ("tests/faults/test_cli.py::test_bad_input_is_one_line",),
        "`--script FOLDER` says that it has no permission",
    ),
)

# Runs and files that are there already.
_OF_FOLDERS = (
    Mutant(
        "earlier-run-not-put-back",
        _FOLDER,
        "        each.rename(place / each.name)",
        "        each.unlink()",
        (f"{_KEPT}::test_a_run_that_cannot_start_loses_nothing[no-command]",),
        "a misspelt command costs the run that is stored there",
    ),
    Mutant(
        "half-a-run-put-back",
        _FOLDER,
        "    if plan.exists() and (aside or not earlier.is_dir()):",
        "    if aside or not earlier.is_dir():",
        (f"{_KEPT}::test_a_launcher_that_is_killed_before_its_run_begins_leaves_the_earlier_one",),
        "ledgers that are still to be set aside are taken for the new run's",
    ),
    Mutant(
        "two-runs-in-a-folder",
        "faults/ledger/folder_lock.py",
        "        if not _lock(handle) or any(",
        "        if any(",
        ("tests/faults/test_folder_lock.py::test_no_run_begins_where_one_goes_on",),
        "a run is judged by the plan of another one, and passes although it was never hurt",
    ),
    Mutant(
        "ledger-not-locked",
        "faults/ledger/ledger.py",
        "fcntl.LOCK_SH)",
        "fcntl.LOCK_UN)",
        ("tests/faults/test_folder_lock.py::test_no_run_begins_where_a_process_writes_a_ledger",),
        "`prepare` takes the ledgers of a program that still runs under torchrun",
    ),
    Mutant(
        "folder-free-before-the-verdict",
        "faults/run/runs.py",
        "as place:  # other runs stay out of the folder until this one is judged\n",
        "as place:\n        pass\n    if place:\n",
        ("tests/faults/test_folder_lock.py::test_a_world_has_its_folder_until_it_is_judged",),
        "another run takes the ledgers by which this one is to be judged",
    ),
    Mutant(
        "own-log-removed",
        "reference/world/start.py",
        "    if stranger := _stranger(meeting, stale):",
        "    if stranger := None:",
        (f"{_KEPT}::test_a_users_file_with_the_name_of_a_worlds_file_is_never_removed[ps.log]",),
        "a log of the user's own is deleted because a role has its name",
    ),
    Mutant(
        "plan-lost-on-a-full-disk",
        _FOLDER,
        "(aside or not earlier.is_dir()):",
        "True:",
        (f"{_KEPT}::test_a_launcher_that_is_killed_before_it_sets_anything_aside_leaves_the_plan",),
        "a prepared plan is deleted where nothing was set aside",
    ),
    Mutant(
        "network-is-a-begun-run",
        _FOLDER,
        'f"[!+]*{SUFFIX}"',
        'f"*{SUFFIX}"',
        (f"{_KEPT}::test_the_networks_ledger_is_no_begun_run",),
        "a run whose roles cannot start costs the earlier one, if it hurts a network",
    ),
    Mutant(
        "everybody-reads-a-trace",
        "reference/system/atomic_file.py",
        "        scratch.chmod(mode)",
        "        scratch.chmod(0o644)",
        ("tests/reference/test_atomic_file.py::test_a_file_keeps_its_permissions[384]",),
        "`--save` makes a private file readable for every user",
    ),
    Mutant(
        "anybodys-memory-is-a-leak",
        "faults/run/left_over.py",
        "            if status.st_uid == os.geteuid():",
        "            if status.st_uid >= 0:",
        ("tests/faults/test_runs.py::test_shared_memory_of_another_user_is_no_leak",),
        "another user's file fails a run that left nothing",
    ),
    Mutant(
        "read-only-replaced",
        "reference/system/atomic_file.py",
        "        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))",
        "        os.stat(path)",
        ("tests/reference/test_atomic_file.py::test_what_the_kernel_does_not_let_anybody_write_is_not_replaced",),
        "`--save` replaces what the kernel would not let its user write",
    ),
    Mutant(
        "any-plan-is-a-runs",
        _FOLDER,
        "    if (place / MARK).exists() or (ledgers",
        "    if (place / PLAN).exists() or (ledgers",
        (f"{_KEPT}::test_a_plan_that_the_user_has_written_is_never_replaced",),
        "a plan that the user has written is overwritten",
    ),
    Mutant(
        "any-lines-are-a-ledger",
        _FOLDER,
        "        return _BEGIN.startswith(file.read(len(_BEGIN)))",
        "        return True",
        (f"{_KEPT}::test_a_file_beside_a_runs_own_is_never_removed",),
        "data beside a run is removed with it",
    ),
    Mutant(
        "script-without-a-watcher",
        "faults/script/execution.py",
        "environment = {**_environment(place), **variables,",
        "environment = {**_environment(place),",
        ("tests/faults/test_cli.py::test_a_command_that_is_killed_takes_its_script_along",),
        "a launcher that is killed leaves its script running",
        waits=True,
    ),
    Mutant(
        "watcher-dies-with-the-terminal",
        "faults/script/tied_processes.py",
        ", start_new_session=True)",
        ")",
        ("tests/faults/test_tied_processes.py::test_tied_processes_end_when_a_whole_group_is_killed",),
        "what ends the launcher's process group ends its watcher too",
    ),
    Mutant(
        "tied-processes-alone-are-ended",
        "faults/script/parent_watcher.py",
        "        found |= more",
        "        break",
        ("tests/faults/test_tied_processes.py::test_tied_processes_end_with_a_process_that_is_killed",),
        "processes that a script has started with another environment outlive it",
    ),
    Mutant(
        "folder-of-the-living-removed",
        "reference/system/temporary_folders.py",
        "        scratch.rename(place / MARK)",
        "        (place / MARK).touch()",
        (f"{_TEMPORARY}::test_a_folder_is_its_users_alone_and_says_that_its_launcher_lives",),
        "a launcher removes the folders of worlds that run",
    ),
    Mutant(
        "folder-of-the-dead-stays",
        "reference/system/temporary_folders.py",
        "    tidy(tempfile.gettempdir())\n",
        "",
        (f"{_TEMPORARY}::test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next",),
        "each launcher that is killed leaves a folder for good",
    ),
    Mutant(
        "kept-folder-removed",
        "reference/system/temporary_folders.py",
        "    (place / MARK).unlink(missing_ok=True)\n    _forget(place)",
        "    _forget(place)",
        (f"{_TEMPORARY}::test_a_folder_that_was_kept_stays",),
        "a run that has failed is gone when the next one begins",
    ),
    Mutant(
        "files-of-any-length-are-read",
        "reference/system/plain_file.py",
        "    if longest is not None and len(content) > longest:",
        "    if longest is None:",
        (
            "tests/reference/test_plain_file.py::test_a_file_is_read_up_to_the_longest_length",
            "tests/reference/test_corpus.py::test_a_text_that_is_too_long_is_refused",
        ),
        "a text of gigabytes is read into memory",
    ),
    Mutant(
        "stacks-alone-are-a-worlds",
        "reference/system/world_files.py",
        " and log_of(place, each.stem).is_file()",
        "",
        ("tests/reference/test_world_files.py::test_a_role_has_left_both_its_files",),
        "a file of the user that is named like stacks counts as a role that was there",
    ),
    Mutant(
        "disk-full-is-a-traceback",
        "reference/trace/trace.py",
        "            except SafetensorError as error:  # safetensors",
        "            except RecursionError as error:  # safetensors",
        ("tests/reference/test_trace.py::test_a_save_onto_a_full_disk_leaves_the_old_file",),
        "a trace that does not fit on the disk ends the command with a traceback",
    ),
    Mutant(
        "interrupted-twice",
        _INTERRUPTS,
        "    elif time.monotonic() - _last >= TOGETHER:",
        "    else:",
        (f"{_INTERRUPTED}::test_several_signals_in_a_row_interrupt_once",),
        "a second Ctrl-C interrupts the cleanup after the first",
    ),
    Mutant(
        "future-waited-for-without-steps",
        _LONG_WAITS,
        "    wait_until(lambda step: future.done() or wait([future], step).done)  # one that is cancelled may never be "
        "notified\n",
        "",
        (f"{_OF_LONG_WAITS}::test_a_wait_for_a_future_ends_with_a_signal_that_another_thread_takes",),
        "Ctrl-C just before a call of a role is heard when that call has ended",
    ),
    Mutant(
        "steps-beyond-the-limit",
        _LONG_WAITS,
        "        if is_done(min(STEP, left)):",
        "        if is_done(STEP):",
        (f"{_OF_LONG_WAITS}::test_a_wait_ends_with_its_time_limit[0.001]",),
        "a wait takes longer than its limit",
    ),
    Mutant(
        "world-waited-for-without-steps",
        "reference/world/supervisor.py",
        "        wait_until(self._done.wait)",
        "        self._done.wait()",
        (f"{_OF_LONG_WAITS}::test_a_wait_for_a_world_ends_with_a_signal_that_another_thread_takes",),
        "Ctrl-C just before the wait for a world is heard when that world has ended",
    ),
    Mutant(
        "script-waited-for-without-steps",
        "faults/script/execution.py",
        "        ended = wait_until(partial(_is_ready, handle), due)",
        "        ended = _is_ready(handle, due)",
        (
            "tests/faults/test_cli.py"
            "::test_an_interrupt_that_another_thread_takes_ends_a_command_that_waits_for_a_script",
        ),
        "Ctrl-C just before the wait for a script is heard when that script has ended",
        waits=True,
    ),
    Mutant(
        "stacks-asked-of-any-process",
        "faults/script/waits.py",
        "    if not has_signal(pid, HANDLED, SIGNAL):",
        "    if pid == os.getpid():",
        ("tests/faults/test_waits.py::test_a_process_that_does_not_handle_the_signal_is_not_asked",),
        "the question where it waits ends a process that has just started another program",
    ),
    Mutant(
        "held-in-one-thread-alone",
        _INTERRUPTS,
        "    if _depth:  # a thread",
        "    if False:  # a thread",
        (f"{_INTERRUPTED}::test_a_signal_that_another_thread_takes_waits_for_what_is_held",),
        "an interrupt in the middle of a start leaves a folder or a forkserver",
    ),
    Mutant(
        "failed-list-not-kept",
        "faults/cli/stored_runs.py",
        "            passed.append(None)",
        "            passed.append(True)",
        (f"{_STATUSES}::test_a_tutorial_that_is_not_healthy_is_neither_listed_nor_swept",),
        "the healthy run that was not is gone, with what was wrong with it",
    ),
    Mutant(
        "no-name-is-this-folder",
        _OPTIONS,
        """    if not text:
        raise argparse.ArgumentTypeError("wanted a folder""",
        """    if text is None:
        raise argparse.ArgumentTypeError("wanted a folder""",
        (f"{_KEPT}::test_an_empty_name_is_no_folder",),
        "a variable that is not set makes the current directory a run's folder",
    ),
)

MUTANTS: tuple[Mutant, ...] = (*_OF_STATUSES, *_OF_WORDS, *_OF_VERDICTS, *_OF_PAGES, *_OF_FOLDERS)
