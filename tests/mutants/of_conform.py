"""Bugs in the conformance kit and in the explainer: a wrong implementation passes, or is told something untrue."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OF_KIT, _OF_FILES = "tests/reference/test_conform.py", "tests/reference/test_tensor_file.py"
_OF_PROCESS, _OF_EXPLAIN = "tests/reference/test_process.py", "tests/reference/test_explain.py"
_FILES, _JUDGE, _ANSWER = (
    "reference/conform/tensor_file.py",
    "reference/conform/judge.py",
    "reference/conform/answer.py",
)

MUTANTS = (
    Mutant(
        "overlapping-tensors",
        _FILES,
        "    if size and place[0] < last:",
        "    if size and place[0] < 0:",
        (f"{_OF_FILES}::test_one_bad_tensor_does_not_hide_the_others[bad8-overlap those of 'good']",),
        "a file whose tensors share their bytes is judged as if they were apart",
    ),
    Mutant(
        "header-of-any-length",
        _FILES,
        "    if length > min(HEADER, len(content) - 8):",
        "    if length > HEADER:",
        (f"{_OF_FILES}::test_a_file_whose_header_is_longer_than_itself_is_refused[3]",),
        "a cut file is read as if it were whole",
    ),
    Mutant(
        "commitment-without-shape",
        "reference/conform/commitment.py",
        "{'x'.join(map(str, array.shape))}",
        "",
        (f"{_OF_KIT}::test_a_commitment_tells_shape_dtype_and_numbers_apart",),
        "the same numbers in another shape keep the commitment",
    ),
    Mutant(
        "signed-zero-committed",
        "reference/conform/commitment.py",
        'array + array.dtype.type(0) if array.dtype.kind == "f" else array',
        "array",
        (f"{_OF_KIT}::test_a_commitment_tells_shape_dtype_and_numbers_apart",),
        "a right implementation fails because it begins its sums otherwise",
    ),
    Mutant(
        "input-returned",
        _ANSWER,
        '    if _digest(trace) == _digest(case.folder / "input.safetensors"):',
        "    if not trace.exists():",
        (f"{_OF_KIT}::test_the_input_returned_is_no_answer",),
        "a program that copies its input is told about names only",
    ),
    Mutant(
        "links-followed",
        _ANSWER,
        "        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):",
        "        if stat.S_ISCHR(status.st_mode):",
        (f"{_OF_KIT}::test_a_link_out_of_the_folder_is_no_answer",),
        "a link to another program's results is judged",
    ),
    Mutant(
        "group-survives",
        "reference/conform/process.py",
        "            os.killpg(process.pid, signal.SIGKILL)",
        "            process.kill()",
        (f"{_OF_PROCESS}::test_a_process_that_outlives_its_command_is_ended",),
        "what an implementation leaves running slows the next case",
        waits=True,
    ),
    Mutant(
        "wrong-before-unstable",
        _JUDGE,
        "    if worst[0] not in RIGHT and not _alike(judged, answers):",
        "    if worst[0] in RIGHT and not _alike(judged, answers):",
        (f"{_OF_KIT}::test_a_program_whose_runs_differ_is_unstable_before_it_is_wrong",),
        "an unstable program is told a mistake that it does not have",
    ),
    Mutant(
        "first-by-name",
        "reference/explain/causal_order.py",
        "    return step, rank, name",
        "    return step, 0, name",
        (f"{_OF_EXPLAIN}::test_the_first_difference_is_the_first_by_cause_not_by_name",),
        "a wrong loss is reported as a wrong gradient",
    ),
    Mutant(
        "ulps-across-zero",
        "reference/explain/closeness.py",
        'ulps = "" if self.crosses_zero or self.ulps == 0 else',
        'ulps = "" if self.ulps == 0 else',
        (f"{_OF_EXPLAIN}::test_a_distance_across_zero_is_not_told_in_ulps",),
        "a small difference across zero reads like nine trillion",
    ),
    Mutant(
        "any-hypothesis-holds",
        "reference/explain/view.py",
        "            if not close(value, mine, terms=terms):",
        "            if value.shape != mine.shape:",
        (f"{_OF_EXPLAIN}::test_each_mistake_is_named[shifted]",),
        "the first hypothesis is told, whatever the numbers are",
    ),
)
