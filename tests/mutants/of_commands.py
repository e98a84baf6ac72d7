"""Bugs in the command lines of `python -m faults`: what is refused, what is said, and the exit statuses."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CHECKS = "faults/checks.py"
_CLI = "faults/cli.py"
_COMMANDS = "faults/commands.py"
_FOLDER = "faults/folder.py"
_INTERRUPTS = "reference/interrupts.py"
_OPTIONS = "faults/options.py"
_SWEEP = "faults/sweep_command.py"
_REFERENCE = "reference/cli.py"

_INTERRUPTED = "tests/test_interrupts.py"
_KEPT = "tests/test_folder.py"
_TEMPORARY = "tests/test_folders.py"
_STATUSES = "tests/test_exit_statuses.py"
_BAD = "tests/test_faults_cli.py::test_bad_input_is_one_line"
_CHECKED = f"{_STATUSES}::test_check"
_PASSED_ON = f"{_STATUSES}::test_what_follows_two_dashes_is_the_programs"
_FAILED = f"{_STATUSES}::test_run_of_a_tutorial_that_is_wrong"
_SWEPT = "tests/test_faults_sweep.py::test_the_exit_status_and_the_table[careless-kinds1-0-2 equal]"
_REFUSED = "tests/test_script.py::test_refusals"
_SWEPT_WRONG = "tests/test_faults_sweep.py::test_the_exit_status_and_the_table[careless-kinds2-1-2 wrong]"

# Where a run's exit status is made, and handed on: each may lose it.
_OF_STATUSES = (
    Mutant(
        "wrong-is-status-0",
        _CHECKS,
        "        return {True: 0, False: 1, None: 2}[self.passed]",
        "        return {True: 0, False: 0, None: 2}[self.passed]",
        (_CHECKED,),
        "a defect ends with status 0",
    ),
    Mutant(
        "unknown-is-status-0",
        _CHECKS,
        "        return {True: 0, False: 1, None: 2}[self.passed]",
        "        return {True: 0, False: 1, None: 0}[self.passed]",
        (f"{_STATUSES}::test_check_of_what_is_unknown",),
        "who cannot tell says pass",
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
        _COMMANDS,
        "    return judgement.status",
        "    return 0",
        (_CHECKED,),
        "a verdict is printed, and its status forgotten",
    ),
    Mutant(
        "run-is-status-0",
        _COMMANDS,
        "recorded=True)\n        passed.append(judgement.passed)\n        return report(found, judgement)",
        "recorded=True)\n        passed.append(judgement.passed)\n        report(found, judgement)\n        return 0",
        (_FAILED,),
        "`run NAME` ends with status 0, whatever it came to",
    ),
    Mutant(
        "run-of-a-tutorial-is-status-0",
        _COMMANDS,
        "    return run_of(subject, plan_of(options), options)",
        "    run_of(subject, plan_of(options), options)\n    return 0",
        (_FAILED,),
        "`run NAME` forgets the status of the run that it makes",
    ),
    Mutant(
        "script-is-status-0",
        _COMMANDS,
        "bound=options.bound)\n        passed.append(judgement.passed)\n        return report(found, judgement)",
        "bound=options.bound)\n        passed.append(judgement.passed)\n        return 0 * report(found, judgement)",
        (f"{_STATUSES}::test_run_of_a_script[wrong]",),
        "`run --script` ends with status 0, whatever it came to",
    ),
    Mutant(
        "check-is-status-0",
        _COMMANDS,
        "    return report(found, judgement)\n\n\ndef prepare",
        "    report(found, judgement)\n    return 0\n\n\ndef prepare",
        (_CHECKED,),
        "`check` ends with status 0, whatever it came to",
    ),
    Mutant(
        "sweep-is-status-0",
        _SWEEP,
        "    return status_of(passed)",
        "    status_of(passed)\n    return 0",
        (_SWEPT_WRONG,),
        "a sweep that finds a defect ends with status 0",
    ),
    Mutant(
        "command-of-a-sweep-is-status-0",
        _SWEEP,
        "    return sweep_of(subject, options)",
        "    sweep_of(subject, options)\n    return 0",
        (f"{_STATUSES}::test_a_sweep_of_a_tutorial_that_is_wrong",),
        "`sweep` forgets the status of the sweep that it makes",
    ),
    Mutant(
        "sweep-of-the-last-cell",
        _SWEEP,
        "    return 1 if False in passed else 2 if None in passed else 0",
        "    return 1 if passed[-1] is False else 2 if passed[-1] is None else 0",
        (f"{_STATUSES}::test_sweep",),
        "a sweep whose last cell passes, passes",
    ),
    Mutant(
        "main-is-status-0",
        _CLI,
        "        return _COMMANDS[arguments[0]](arguments[1:])",
        "        _COMMANDS[arguments[0]](arguments[1:])\n        return 0",
        (_CHECKED,),
        "commands end with their status, and the program does not",
    ),
    Mutant(
        "program-is-status-0",
        "faults/__main__.py",
        '    sys.exit(status_of("faults.cli", failed=2))',
        '    status_of("faults.cli", failed=2)\n    sys.exit(0)',
        (f"{_STATUSES}::test_python_m_faults",),
        "`python -m faults` drops what `main` returns",
    ),
    Mutant(
        "verify-is-status-0",
        "reference/__main__.py",
        '    sys.exit(status_of("reference.cli", failed=1))',
        '    status_of("reference.cli", failed=1)\n    sys.exit(0)',
        (f"{_STATUSES}::test_python_m_reference",),
        "`python -m reference` drops what `main` returns",
    ),
    Mutant(
        "bad-input-is-status-0",
        _CLI,
        "        print(one_line(f\"error: {' '.join(str(error).split())}\"), file=sys.stderr)\n        return 2",
        "        print(one_line(f\"error: {' '.join(str(error).split())}\"), file=sys.stderr)\n        return 0",
        (f"{_BAD}[fly]",),
        "what was refused, and never ran, has passed",
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
        "reference/command.py",
        "        sys.stdout.flush()\n",
        "",
        (f"{_STATUSES}::test_what_cannot_be_printed_is_no_pass[faults]",),
        "a verdict that nobody could read has passed",
    ),
    Mutant(
        "sigterm-not-handled",
        _INTERRUPTS,
        "SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)",
        "SIGNALS = (signal.SIGINT, signal.SIGHUP)",
        (f"{_INTERRUPTED}::test_each_signal_interrupts_what_listens",),
        "what a time limit ends leaves its script running",
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
        "reference/command.py",
        "    interrupts.leave_at_once()\n    _open_streams()",
        "    interrupts.leave_to_torchrun()\n    _open_streams()",
        (f"{_STATUSES}::test_a_command_that_is_interrupted[reference-15]",),
        "what a time limit ends is ended in the middle, with its folders and its forkserver",
    ),
)

# What hurts nothing has to be asked for, or is refused.
_OF_WORDS = (
    Mutant(
        "last-option-wins",
        _REFERENCE,
        "            if action is not None and action.dest in given:",
        "            if action is not None and action.dest in ():",
        (f"{_BAD}[prepare x --plan DELAY --plan DELAY]",),
        "of an option that is given twice, one is dropped without a word",
    ),
    Mutant(
        "twice-by-another-spelling",
        _REFERENCE,
        'self._option_string_actions.get(word.partition("=")[0])',
        "self._option_string_actions.get(word)",
        (f"{_BAD}[prepare x --plan=DELAY --plan DELAY]",),
        "`--plan=` and `--plan` are taken for two options",
    ),
    Mutant(
        "options-abbreviated",
        _REFERENCE,
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
        "who forgets the plan is told that all is well",
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
        _OPTIONS,
        "    for word in command if theirs is command else ():",
        "    for word in command[:1] if theirs is command else ():",
        (f"{_BAD}[run --plan DELAY --script x.py --plan]",),
        "a plan after `--script` goes to the program, which is not hurt",
    ),
    Mutant(
        "assigned-options-after-the-script-swallowed",
        _OPTIONS,
        '        if word.partition("=")[0] in ours:',
        "        if word in ours:",
        (f"{_BAD}[run --plan DELAY --script x.py --plan=x]",),
        "`--plan=x` after `--script` goes to the program",
    ),
    Mutant(
        "nothing-passed-on",
        _OPTIONS,
        "    for word in command if theirs is command else ():",
        "    for word in command:",
        (_PASSED_ON,),
        "a program that has a `--plan` of its own cannot be run",
    ),
    Mutant(
        "kind-without-cells",
        _SWEEP,
        "    if missing:",
        "    if missing and not at_sites:",
        ("tests/test_faults_cli.py::test_a_sweep_of_nothing",),
        "a kind that hurts nothing is asked for, and the sweep passes",
    ),
    Mutant(
        "long-that-adds-nothing",
        _REFERENCE,
        "    if options.long and not long:",
        "    if options.long and not names:",
        ("tests/test_cli.py::test_bad_input",),
        "`verify --long` of tutorials without a long run is the short one",
    ),
)

# What a verdict says of faults that were not there.
_OF_VERDICTS = (
    Mutant(
        "nothing-seen-is-returned",
        _CHECKS,
        '    return wanted and not run.timeline.of("up") and not run.timeline.of("fired")',
        "    return False",
        (f"{_STATUSES}::test_no_rpc_seen_is_unknown", f"{_STATUSES}::test_run_of_a_script[no-rpc]"),
        "0 events of 0 ledgers, and all is well",
    ),
    Mutant(
        "a-ledger-is-rpc",
        _CHECKS,
        'not run.timeline.of("up") and',
        "not run.timeline.roles and",
        (f"{_STATUSES}::test_a_role_that_never_came_up_is_no_rpc",),
        "RPC that did not start counts as RPC",
    ),
    Mutant(
        "ledgers-not-wanted",
        "faults/script.py",
        "        recorded=True,\n",
        "",
        (f"{_STATUSES}::test_run_of_a_script[no-rpc]",),
        "of a healthy script nobody looks for what it has called",
    ),
    Mutant(
        "healthy-not-recorded",
        _COMMANDS,
        "deadline=options.deadline, recorded=True)",
        "deadline=options.deadline)",
        (f"{_STATUSES}::test_run_of_a_tutorial_that_is_healthy",),
        "of a healthy tutorial nobody sees a call",
    ),
    Mutant(
        "healthy-not-said",
        _COMMANDS,
        "    if number == 0:",
        "    if number < 0:",
        (f"{_STATUSES}::test_check_of_a_healthy_run_says_that_nothing_was_planned",),
        "a pass of no faults looks like one of some",
    ),
    Mutant(
        "faults-not-counted",
        _COMMANDS,
        "number = f\"{' '.join(found.name.split())}:{taken}\", len(found.plan.faults)",
        "number = f\"{' '.join(found.name.split())}:{taken}\", min(1, len(found.plan.faults))",
        (f"{_STATUSES}::test_several_faults_are_counted",),
        "two faults that are planned are told as one",
    ),
)

# What README and the manuals promise, and no other test would notice.
_OF_PAGES = (
    Mutant(
        "patience-of-minutes",
        _OPTIONS,
        "TIMEOUT = 3.0",
        "TIMEOUT = 30.0",
        ("tests/test_documented.py::test_sizes_are_small_unless_given",),
        "roles of a hurt tutorial wait ten times as long as the manual says",
    ),
    Mutant(
        "script-without-its-minutes",
        "faults/script.py",
        "DEADLINE, LATER = 300.0, 30.0",
        "DEADLINE, LATER = 30.0, 30.0",
        ("tests/test_documented.py::test_limits_that_are_not_given",),
        "a program of the user's own is ended ten times too soon",
    ),
    Mutant(
        "folder-for-everybody",
        "reference/start.py",
        '        return folders.make("world-")',
        '        place = folders.make("world-")\n        place.chmod(0o755)\n        return place',
        ("tests/test_documented.py::test_a_worlds_own_folder_is_its_users_alone",),
        "everybody on the machine can read a world's rendezvous",
    ),
    Mutant(
        "dash-m-taken-for-a-command",
        _OPTIONS,
        '    if theirs[0] == "-m":',
        '    if theirs[0] == "--module":',
        (_REFUSED,),
        "`--script -m my` says that there is no program of the name -m",
    ),
    Mutant(
        "file-taken-for-a-folder",
        _FOLDER,
        "    if place.is_file():",
        "    if place.is_fifo():",
        (_REFUSED,),
        "`--dir FILE` ends in a traceback",
    ),
    Mutant(
        "no-command-passes",
        "faults/cli.py",
        "        print(_USAGE, file=sys.stderr)\n        return 2",
        "        print(_USAGE, file=sys.stderr)\n        return 0",
        ("tests/test_faults_cli.py::test_without_a_command_nothing_has_passed",),
        "a CI whose command is empty is green",
    ),
    Mutant(
        "a-folder-for-a-command",
        "faults/commands.py",
        '("/" in name or shutil.which(name) is None)',
        '("/" not in name and shutil.which(name) is None)',
        ("tests/test_faults_cli.py::test_bad_input_is_one_line",),
        "`--script FOLDER` says that it has no permission",
    ),
    Mutant(
        "healthy-not-in-the-help",
        _OPTIONS,
        '"no faults; instead of --plan"',
        '"no --plan"',
        ("tests/test_documented.py::test_every_promise_stands_in_its_document",),
        "a help that the table of promises does not know",
    ),
)

# Runs and files that are there already.
_OF_FOLDERS = (
    Mutant(
        "earlier-run-not-put-back",
        _FOLDER,
        "            each.rename(place / each.name)",
        "            each.unlink()",
        (f"{_KEPT}::test_nothing_is_lost_where_nothing_can_start[no-command]",),
        "a misspelt command costs the run that is stored there",
    ),
    Mutant(
        "half-a-run-put-back",
        _FOLDER,
        "    if not (plan.exists() and any(",
        "    if not (any(",
        (f"{_KEPT}::test_a_launcher_that_is_killed_before_its_run_begins_leaves_the_earlier_one",),
        "ledgers that are still to be set aside are taken for the new run's",
    ),
    Mutant(
        "any-plan-is-a-runs",
        _FOLDER,
        "    if (place / MARK).exists() or (ledgers",
        "    if (place / hook.PLAN).exists() or (ledgers",
        (f"{_KEPT}::test_a_plan_that_the_user_has_written_is_never_replaced",),
        "a plan that somebody has written by hand is overwritten",
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
        "script-without-a-warden",
        "faults/script.py",
        "env={**_environment(place), **variables}",
        "env=_environment(place)",
        ("tests/test_faults_cli.py::test_a_command_that_is_killed_takes_its_script_along",),
        "a launcher that is killed leaves its script running",
    ),
    Mutant(
        "warden-dies-with-the-terminal",
        "faults/wards.py",
        ", start_new_session=True)",
        ")",
        ("tests/test_wards.py::test_wards_end_when_a_whole_group_is_killed",),
        "what ends the launcher's process group ends its warden too",
    ),
    Mutant(
        "wards-alone-are-ended",
        "faults/warden.py",
        "        found |= more",
        "        break",
        ("tests/test_wards.py::test_wards_end_with_a_process_that_is_killed",),
        "what a script has started with another environment outlives it",
    ),
    Mutant(
        "folder-of-the-living-removed",
        "reference/folders.py",
        "        scratch.rename(place / MARK)",
        "        (place / MARK).touch()",
        (f"{_TEMPORARY}::test_a_folder_is_its_users_alone_and_says_that_its_launcher_lives",),
        "a launcher removes the folders of worlds that run",
    ),
    Mutant(
        "folder-of-the-dead-stays",
        "reference/folders.py",
        "    tidy(tempfile.gettempdir())\n",
        "",
        (f"{_TEMPORARY}::test_the_folder_of_a_process_that_was_killed_is_removed_by_the_next",),
        "each launcher that is killed leaves a folder for good",
    ),
    Mutant(
        "kept-folder-removed",
        "reference/folders.py",
        "    (place / MARK).unlink(missing_ok=True)\n    _forget(place)",
        "    _forget(place)",
        (f"{_TEMPORARY}::test_a_folder_that_was_kept_stays",),
        "a run that has failed is gone when the next one begins",
    ),
    Mutant(
        "disk-full-is-a-traceback",
        "reference/trace.py",
        "            except SafetensorError as error:  # which",
        "            except RecursionError as error:  # which",
        ("tests/test_trace.py::test_a_save_onto_a_full_disk_leaves_the_old_file",),
        "a trace that does not fit on the disk ends the command with a traceback",
    ),
    Mutant(
        "interrupted-twice",
        _INTERRUPTS,
        "    elif time.monotonic() - _last >= TOGETHER:",
        "    else:",
        (f"{_INTERRUPTED}::test_several_signals_in_a_row_interrupt_once",),
        "a second Ctrl-C ends the removing that the first one has begun",
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
        _COMMANDS,
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
