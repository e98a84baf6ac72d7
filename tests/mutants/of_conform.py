"""Bugs in the conformance kit and in the explainer: a wrong implementation passes, or is told something untrue."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_OF_KIT, _OF_FILES = "tests/reference/test_conform.py", "tests/reference/test_tensor_file.py"
_OF_PROCESS, _OF_EXPLAIN = "tests/reference/test_process.py", "tests/reference/test_explain.py"
_FILES, _JUDGE = "reference/conform/tensor_file.py", "reference/conform/judge.py"

MUTANTS = (
    Mutant(
        "first-of-repeated-runs-judged",
        "reference/conform/judge.py",
        "for number, ran in enumerate(runs, start=1):",
        "for number, ran in enumerate(runs[:1], start=1):",
        ("tests/reference/test_conform.py::test_each_of_repeated_runs_is_judged[2]",),
        "a program that is right only now and then is right",
    ),
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
        "    if length > len(content) - 8:",
        "    if length > len(content):",
        (f"{_OF_FILES}::test_a_file_whose_header_is_longer_than_itself_is_refused[3]",),
        "a cut file is read as if it were whole",
    ),
    Mutant(
        "commitment-without-shape",
        "reference/conform/answer.py",
        "{'x'.join(map(str, array.shape))}",
        "",
        (f"{_OF_KIT}::test_a_commitment_tells_shape_dtype_and_numbers_apart",),
        "the same numbers in another shape keep the commitment",
    ),
    Mutant(
        "signed-zero-committed",
        "reference/conform/answer.py",
        'array + array.dtype.type(0) if array.dtype.kind == "f" else array',
        "array",
        (f"{_OF_KIT}::test_a_commitment_tells_shape_dtype_and_numbers_apart",),
        "a right implementation fails because it begins its sums otherwise",
    ),
    Mutant(
        "inputs-compared-with-themselves",
        "reference/conform/twin.py",
        "        if case.inputs[name].tobytes() != array.tobytes():",
        "        if reference.inputs[name].tobytes() != array.tobytes():",
        ("tests/reference/test_twin_judge.py::test_one_bit_of_any_input_that_the_twin_has_otherwise_is_named",),
        "where torch draws other inputs than the suite has, every right answer to it differs",
    ),
    Mutant(
        "description-shared-with-the-judged",
        "reference/conform/run_suite.py",
        "deepcopy(asked.described)",
        "asked.described",
        (
            "tests/properties/test_implementation.py"
            "::test_a_function_that_changes_its_description_is_judged_by_what_was_asked",
        ),
        "a function that uses up its list of outputs and returns nothing is equal",
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
        "reference/trace/names.py",
        "    return sorted([*others, *backward], key=_by_stage)",
        "    return sorted(names)",
        (f"{_OF_EXPLAIN}::test_the_first_difference_is_the_first_by_cause_not_by_name",),
        "a wrong loss is reported as a wrong gradient",
    ),
    Mutant(
        "first-layers-gradient-first",
        "reference/trace/names.py",
        "for name in reversed(forward) if",
        "for name in forward if",
        (f"{_OF_EXPLAIN}::test_of_gradients_that_of_the_last_layer_comes_first",),
        "a wrong layer is reported as that before it",
    ),
    Mutant(
        "ulps-across-zero",
        "reference/explain/difference.py",
        "if 0 < self.ulps <= TELLING_ULPS else",
        "if 0 < self.ulps else",
        (f"{_OF_EXPLAIN}::test_a_distance_across_zero_is_not_told_in_ulps",),
        "a small difference across zero reads like nine trillion",
    ),
    Mutant(
        "any-hypothesis-holds",
        "reference/explain/difference.py",
        "            if not close(value, mine, terms=terms):",
        "            if value.shape != mine.shape:",
        (f"{_OF_EXPLAIN}::test_each_mistake_is_named[shifted]",),
        "the first hypothesis is told, whatever the numbers are",
    ),
    Mutant(
        "none-is-an-answer",
        "reference/conform/run_suite.py",
        '            return "skipped", "the function returned None", ()',
        '            return "equal", "the function returned None", ()',
        ("tests/properties/test_implementation.py::test_a_function_that_returns_none_offers_nothing",),
        "what an implementation does not offer passes",
    ),
    Mutant(
        "deviation-always-biased",
        "reference/explain/mistakes.py",
        "    below = flat.std(unbiased=unbiased) + EPS",
        "    below = flat.std(unbiased=False) + EPS",
        (f"{_OF_EXPLAIN}::test_each_mistake_is_named[agent with torch's deviation]",),
        "torch's deviation over n - 1 stays unexplained",
    ),
    Mutant(
        "labels-raised-twice",
        "reference/explain/mistakes.py",
        "(mine[0], mine[1] - 1)",
        "(mine[0], mine[1] + 1)",
        (f"{_OF_EXPLAIN}::test_each_mistake_is_named[labels not raised by 1]",),
        "labels that lack the 1 stay unexplained",
    ),
    Mutant(
        "whole-numbers-are-float32",
        "reference/explain/mistakes.py",
        "same_bits(mine, mine.float().double()) and close(mine, right, torch.finfo(torch.float32).eps)",
        "same_bits(mine, mine.float().double())",
        (f"{_OF_EXPLAIN}::test_each_mistake_is_named[rounded to whole numbers]",),
        "wrong numbers with few digits are explained by float32",
    ),
    Mutant(
        "hidden-state-of-the-step-itself",
        "reference/explain/step_models.py",
        "        return self._after(step - 1)",
        "        return self._after(step - 1) if step < 0 else self.module.first_hidden(self.case)",
        (f"{_OF_EXPLAIN}::test_each_mistake_is_named[next batch's labels]",),
        "a mistake after the first step of an epoch stays unexplained",
    ),
)
