"""Bugs in sweeps of a user's own program: its results, its parts, its reports, and where it hangs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_RESULTS, _OF_RESULTS = "faults/script/results.py", "tests/faults/test_results.py"
_WAITS, _OF_WAITS = "faults/script/waits.py", "tests/faults/test_waits.py"
_OPTIONS, _OF_OPTIONS = "faults/cli/sweep_options.py", "tests/faults/test_sweep_options.py"
_REPORT, _OF_REPORT = "faults/run/json_report.py", "tests/faults/test_json_report.py"
_TABLE = "tests/faults/test_sweep.py::test_a_sweep_prints_its_table_and_gives_its_status"
_END, _OF_END = "faults/script/outside_end.py", "tests/faults/test_outside_end.py"
_FILE, _OF_FILE = "faults/script/same_file.py", "tests/faults/test_same_file.py"

MUTANTS = (
    Mutant(
        "new-lines-are-no-difference",
        "faults/script/same_output.py",
        "before - after, after - before",
        "before - after, Counter[str]()",
        ("tests/faults/test_same_output.py::test_lines_are_compared_without_their_order",),
        "a program that prints an error beside its results is equal",
    ),
    Mutant(
        "result-of-an-earlier-run",
        _RESULTS,
        "            if path.exists():",
        "            if path.is_dir():",
        (f"{_OF_RESULTS}::test_a_file_of_an_earlier_run_is_refused",),
        "a program that writes nothing has the results of the healthy run",
    ),
    Mutant(
        "result-left-in-its-place",
        _RESULTS,
        "                shutil.move(path, folder / RESULTS / _name(number, path))",
        "                shutil.copy(path, folder / RESULTS / _name(number, path))",
        (f"{_OF_RESULTS}::test_a_program_that_failed_has_no_results",),
        "the next run finds the file that this one has written",
    ),
    Mutant(
        "missing-file-is-equal",
        _RESULTS,
        'f"{path} was not written" for path in missing]',
        'f"{path} was not written" for path in missing if path.exists()]',
        (f"{_OF_RESULTS}::test_output_and_files_are_those_of_the_healthy_run",),
        "a program that writes no result, and returns, is equal",
    ),
    Mutant(
        "check-is-believed",
        _RESULTS,
        "        if status == 0:",
        "        if status >= 0:",
        (f"{_OF_RESULTS}::test_a_command_judges_by_its_status",),
        "a check that fails passes",
    ),
    Mutant(
        "check-outweighs-files",
        _RESULTS,
        "        if differences:",
        "        if differences and not self.command:",
        (f"{_OF_RESULTS}::test_wrong_files_are_wrong_though_the_command_is_content",),
        "with --check, files are not compared any more",
    ),
    Mutant(
        "healthy-once",
        "faults/cli/checked_script.py",
        '        if judgement.verdict != "equal":',
        '        if judgement.verdict == "hung":',
        ("tests/faults/test_sweep_script.py::test_results_that_change_by_themselves_are_refused",),
        "every run of a program whose output has the time in it is wrong",
    ),
    Mutant(
        "files-execute-code",
        _FILE,
        "weights_only=True",
        "weights_only=False",
        (f"{_OF_FILE}::test_no_code_of_a_file_is_executed",),
        "a file that is compared runs a program",
    ),
    Mutant(
        "numbers-instead-of-bits",
        _FILE,
        "    differs = _bits(before) != _bits(after)",
        "    differs = before.reshape(-1) != after.reshape(-1)",
        (
            f"{_OF_FILE}::test_minus_zero_is_another_zero",
            f"{_OF_FILE}::test_files_of_torch_are_compared_by_their_tensors",
        ),
        "equal NaNs differ, and zeros of two signs do not",
    ),
    Mutant(
        "part-by-place",
        _OPTIONS,
        "    return [each for each in every if crc32(each.name.encode()) % count == number - 1]",
        "    return [each for each in every if crc32(each.name.encode()) % (count + 1) == number - 1]",
        (f"{_OF_OPTIONS}::test_each_cell_is_in_one_part",),
        "some cells are in no part, and nobody runs them",
    ),
    Mutant(
        "unhurt-is-left-out",
        "faults/run/cells.py",
        '        yield Unhurt(site, ORDER, f"it executes on several roles',
        '        str(site + ORDER + f"it executes on several roles',
        (f"{_OF_OPTIONS}::test_what_is_not_hurt_has_a_reason",),
        "nobody learns that a call is hurt in fewer ways",
    ),
    Mutant(
        "not-fired-is-the-programs-fault",
        "faults/run/sweep.py",
        '        if self.judgement.verdict == "not fired":',
        '        if self.judgement.verdict == "fired":',
        (f"{_TABLE}[careful-kinds4-3-4 not fired]",),
        "a program that made fewer calls than its healthy run did fails the sweep",
    ),
    Mutant(
        "unknown-cells-pass",
        "faults/run/sweep.py",
        "False if False in passed else None if None in passed else True",
        "False not in passed",
        (f"{_OF_REPORT}::test_a_sweep_is_told_cell_by_cell",),
        "a dashboard is green though a run tells nothing",
    ),
    Mutant(
        "needless-error-reported-as-a-pass",
        _REPORT,
        '        "passed": result.passed,\n',
        "",
        (f"{_OF_REPORT}::test_a_needless_error_of_a_harmless_fault_fails",),
        "the sweep fails, and its report passes",
    ),
    Mutant(
        "junit-without-unknown",
        "faults/run/junit_report.py",
        '    if run["passed"] is True:',
        '    if run["passed"] is not False:',
        (f"{_OF_REPORT}::test_a_sweep_is_told_cell_by_cell",),
        "CI shows a run that tells nothing as a pass",
    ),
    Mutant(
        "newest-thread-is-the-main-one",
        _WAITS,
        "    *others, main = _threads(stacks) or [[]]",
        "    main, *others = _threads(stacks) or [[]]",
        (f"{_OF_WAITS}::test_the_programs_own_lines_are_told",),
        "a thread that always waits is told as what hangs",
    ),
    Mutant(
        "stopped-processes-answer-nothing",
        _WAITS,
        "        os.kill(pid, signal.SIGCONT)  # a stopped process handles no signal\n",
        "",
        (f"{_OF_WAITS}::test_every_process_says_where_it_waits[fork]",),
        "a stopped process has no stack",
        waits=True,
    ),
    Mutant(
        "end-recorded-twice",
        _END,
        "    if found.complete:",
        "    if not found:",
        (f"{_OF_END}::test_a_run_that_has_ended_is_no_longer_unknown",),
        "`--ended 0` turns a recorded failure into a pass",
    ),
    Mutant(
        "ended-with-any-status",
        "faults/script/script_record.py",
        "    if status == 0:",
        "    if status >= 0:",
        (f"{_OF_END}::test_processes_of_this_machine_are_looked_for",),
        "a command that failed has returned",
    ),
    Mutant(
        "ended-though-it-runs",
        _END,
        "set(left), statuses(place)",
        "set(), statuses(place)",
        (f"{_OF_END}::test_processes_of_this_machine_are_looked_for",),
        "a role that still runs was killed",
    ),
)
