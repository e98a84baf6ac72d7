"""Bugs in what the conformance kit runs, expects and reports: one case ends the run, a report hides a failure."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OF_KIT, _OF_EXPECTED = "tests/reference/test_conform.py", "tests/reference/test_expected_verdicts.py"
_OF_REPORT, _EXPECTED = "tests/reference/test_report.py", "reference/conform/expected_verdicts.py"

MUTANTS = (
    Mutant(
        "removed-folder-ends-the-run",
        "reference/conform/run_suite.py",
        "    answers.mkdir(parents=True, exist_ok=True)",
        "    pass",
        (f"{_OF_KIT}::test_a_program_that_removes_its_folder_does_not_end_the_run",),
        "one case of a program takes the judgement from all others",
    ),
    Mutant(
        "programs-get-the-suite-itself",
        "reference/conform/run_suite.py",
        '        given = shutil.copytree(case.folder, Path(place, "case"))',
        "        given = case.folder",
        (f"{_OF_KIT}::test_a_program_that_changes_its_case_changes_no_further_run",),
        "a program that uses up its input takes the suite from all others",
    ),
    Mutant(
        "results-in-the-suite",
        "reference/conform/run_suite.py",
        "    if out.resolve().is_relative_to(suite.folder.resolve()):",
        "    if out.resolve() == suite.folder.resolve():",
        (f"{_OF_KIT}::test_options_of_run_that_cannot_be_are_refused_before_it_runs[options0-inside the suite]",),
        "the results make the suite a changed one, which nothing can judge",
    ),
    Mutant(
        "ctrl-c-waits-for-the-command",
        "reference/conform/run_suite.py",
        "            stop.set()",
        "            pass",
        (f"{_OF_KIT}::test_ctrl_c_ends_the_command_and_the_judge_says_what_is_missing[main]",),
        "Ctrl-C waits until the running programs end by themselves",
        waits=True,
    ),
    Mutant(
        "run-waits-without-steps",
        "reference/conform/run_suite.py",
        "            yield from map(result_of, running)",
        "            yield from (each.result() for each in running)",
        (f"{_OF_KIT}::test_ctrl_c_ends_the_command_and_the_judge_says_what_is_missing[another]",),
        "Ctrl-C just before a wait for a program is heard when that program has ended",
        waits=True,
    ),
    Mutant(
        "cancelled-programs-start",
        "reference/conform/run_suite.py",
        "            pool.shutdown(wait=False, cancel_futures=True)",
        "            pass",
        (f"{_OF_KIT}::test_ctrl_c_ends_the_command_and_the_judge_says_what_is_missing[main]",),
        "after Ctrl-C each further program starts, and is ended at once",
    ),
    Mutant(
        "numbers-of-another-case",
        "reference/conform/suite.py",
        "    if why := changed_case(folder.name, digests):",
        "    if why := changed_case(folder.name, digests[2:]):",
        (f"{_OF_KIT}::test_a_case_of_other_numbers_is_no_case_of_the_suite",),
        "a right program is judged wrong, because somebody changed a number of its case",
    ),
    Mutant(
        "unjudged-entries-dropped",
        _EXPECTED,
        "            found += [replace(old, cases=name)] if old else []",
        "            pass",
        (f"{_OF_EXPECTED}::test_entries_made_anew_keep_those_of_cases_that_were_not_judged",),
        "--update with --cases forgets what is known of all other cases",
    ),
    Mutant(
        "unjudged-entries-stale",
        _EXPECTED,
        "for entry in expected if not any(map(entry.matches, known))]",
        "for entry in expected if not any(map(entry.matches, known[:2]))]",
        (f"{_OF_EXPECTED}::test_an_entry_for_a_case_that_was_not_judged_is_not_stale",),
        "--expect with --cases fails for each entry of another case",
    ),
    Mutant(
        "stale-entries-pass",
        "reference/cli/conform_command.py",
        "    return 0 if compared.holds else 1",
        "    return 0 if not compared.unexpected else 1",
        (f"{_OF_KIT}::test_a_stale_expectation_alone_fails_the_command",),
        "a list of expectations grows stale, and CI stays green",
    ),
    Mutant(
        "junit-hides-an-unexpected-pass",
        "reference/conform/report.py",
        "    if not expected.holds:\n        message",
        "    if not expected.holds and judged.verdict not in RIGHT:\n        message",
        (f"{_OF_REPORT}::test_junits_failures_are_what_is_not_as_expected[expected2-tags2]",),
        "CI shows no failure, and the command's status is 1",
    ),
    Mutant(
        "junit-hides-a-stale-entry",
        "reference/conform/report.py",
        "*map(_stale_element, report.compared.stale)]",
        "*map(_stale_element, report.compared.stale[:0])]",
        (f"{_OF_REPORT}::test_junits_failures_are_what_is_not_as_expected[expected3-tags3]",),
        "CI shows no failure, and the command's status is 1",
    ),
    Mutant(
        "bits-always-met",
        "reference/conform/report.py",
        '    "within bound": {"BITS": "missed"},',
        '    "within bound": {"BITS": "met"},',
        (f"{_OF_REPORT}::test_a_verdict_tells_which_requirements_are_met[within bound-states1]",),
        "a report says that a program has the reference's bits, which it has not",
    ),
    Mutant(
        "any-return-is-an-answer",
        "reference/conform/run_suite.py",
        "    if not isinstance(found, Mapping):",
        "    if found is None:",
        (
            "tests/properties/test_implementation.py::test_a_function_that_returns_no_arrays_is_malformed"
            "[3-the function returned 3, wanted the outputs by name, or None]",
        ),
        "whoever returns something else gets a traceback of this package",
    ),
)
