"""Bugs in what makes an exact case exact."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PROOF, _RULES, _GRID = "reference/exactness.py", "reference/proofs.py", "reference/grid.py"
_TESTS, _CASES = "tests/test_exactness.py", "tests/test_case.py"
_ULP, _TRACE = "reference/ulp.py", "reference/trace.py"
_OF_ULP, _OF_TRACE = "tests/test_ulp.py", "tests/test_trace.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "54-bits-are-exact",
        _PROOF,
        "BITS = {torch.float64: 53,",
        "BITS = {torch.float64: 54,",
        (f"{_TESTS}::test_53_bits_are_exact_and_54_are_not",),
        "one bit more than a significand has",
    ),
    Mutant(
        "unit-of-the-first-row",
        _GRID,
        "    found = values[values != 0]",
        "    found = values[:1][values[:1] != 0]",
        (f"{_TESTS}::test_a_row_of_small_digits_counts_wherever_it_is",),
        "the digits of the first row are taken for those of all",
    ),
    Mutant(
        "sum-of-the-result",
        _RULES,
        "    most = float(np.max(sizes(left) @ sizes(right), initial=0.0))",
        "    most = float(np.max(np.abs((left @ right).detach().numpy()), initial=0.0))",
        (f"{_TESTS}::test_terms_of_a_product_that_cancel_count_with_their_sizes",),
        "what cancels in one order is taken for small in every order",
    ),
    Mutant(
        "each-part-by-itself",
        _PROOF,
        "        known = self.sums.get(_storage(number))\n        return known or",
        "        known = None\n        return known or",
        (f"{_TESTS}::test_a_sum_that_goes_on_is_one_sum",),
        "micro-batches and trainers are not seen as terms of one sum",
    ),
    Mutant(
        "optimizer-not-proved",
        _RULES,
        '    "_fused_sgd": sgd,',
        '    "_fused_sgd": values_only,',
        (f"{_TESTS}::test_each_form_of_the_optimizer_is_proved", f"{_TESTS}::test_momentum_is_a_sum_too"),
        "an update that rounds is taken for exact",
    ),
    Mutant(
        "momentum-not-proved",
        _RULES,
        '            change += proof.grid(velocity) * proof.grid(kwargs["momentum"])',
        "            pass",
        (f"{_TESTS}::test_momentum_is_a_sum_too",),
        "the optimizer's own memory is left out",
    ),
    Mutant(
        "loss-not-proved",
        _RULES,
        '    "sum": summed,',
        '    "sum": values_only,',
        (f"{_TESTS}::test_a_loss_that_rounds_is_refused",),
        "sums of a loss may round",
    ),
    Mutant(
        "unknown-is-exact",
        _PROOF,
        '        if form.rule is None:\n            raise self.refusal(f"no proof for {form.name}")',
        "        if form.rule is None:\n            return func(*args, **given)",
        (f"{_TESTS}::test_what_has_no_proof_is_refused_by_name",),
        "an operation that nobody has thought of passes for exact",
    ),
    Mutant(
        "division-by-three",
        _RULES,
        "    if not _single(second) or not float(second) or not power_of_two(float(second)):",
        "    if not _single(second) or not float(second):",
        (f"{_TESTS}::test_what_has_no_proof_is_refused_by_name",),
        "a mean over three is taken for exact",
    ),
    Mutant(
        "twin-without-proof",
        _PROOF,
        "        if not case.is_exact:",
        "        if case.is_exact or replay is None:",
        (f"{_TESTS}::test_a_run_of_a_case_that_is_none_is_neither_equal_nor_wrong",),
        "cases are called exact without being asked",
    ),
    Mutant(
        "run-without-proof",
        "reference/cli.py",
        "    prove(case)\n    return _run_rank",
        "    return _run_rank",
        ("tests/test_cli.py::test_bad_input",),
        "an exact case that is none is trained and saved",
    ),
    Mutant(
        "verify-without-proof",
        "reference/verify.py",
        "    if not case.is_exact:\n        return\n",
        "    if case.is_exact:\n        return\n",
        (f"{_TESTS}::test_verify_refuses_before_anything_runs",),
        "a case that is none is trained, and its verdict says nothing",
    ),
    Mutant(
        "losses-of-the-first-weights",
        "reference/parameter_server.py",
        '        if place == "initial" or place.endswith("/gradient"):',
        '        if place == "initial":',
        (f"{_TESTS}::test_no_order_of_workers_has_a_larger_loss_than_is_proved",),
        "the order of asynchronous workers is thought to make no loss larger",
    ),
    Mutant(
        "zeros-have-signs",
        _TRACE,
        "    signed_zero = not a.case.is_exact",
        "    signed_zero = True",
        (f"{_OF_TRACE}::test_a_zero_has_no_sign_in_an_exact_case",),
        "a right program with another zero is wrong",
    ),
    Mutant(
        "no-zero-has-a-sign",
        _TRACE,
        "    signed_zero = not a.case.is_exact",
        "    signed_zero = False",
        (f"{_OF_TRACE}::test_a_zero_has_no_sign_in_an_exact_case",),
        "one bit of natural cases is not compared",
    ),
    Mutant(
        "rate-is-no-result",
        "reference/case.py",
        'if item.metadata.get("result", True)]',
        'if item.metadata.get("result", True) and item.name != "lr"]',
        (f"{_CASES}::test_cases_have_the_same_result_if_all_fields_that_decide_it_are_equal",),
        "runs of different learning rates are compared",
    ),
    Mutant(
        "timeout-is-a-result",
        _TRACE,
        "    if not a.case.same_result_as(b.case):",
        "    if a.case != b.case:",
        (f"{_OF_TRACE}::test_compare_takes_cases_that_differ_only_in_where_they_ran",),
        "a trace from a slower machine cannot be compared",
    ),
    Mutant(
        "first-row-of-large-tensors",
        _TRACE,
        "    signed_zero = not a.case.is_exact",
        "    signed_zero = not a.case.is_exact\n"
        "    for t in (a, b):\n"
        "        t.tensors.update({n: x[:1] for n, x in t.tensors.items() if x.dim() and x.numel() > 1000})",
        (f"{_OF_TRACE}::test_compare_sees_one_wrong_element_wherever_it_is",),
        "of more than 1,000 elements only the first row is looked at",
    ),
    *(
        Mutant(
            name,
            _ULP,
            "    left, right = _ordered(a, signed_zero), _ordered(b, signed_zero)",
            f"    left, right = (_ordered(each, signed_zero)[{part}] for each in (a, b))\n"
            "    if not left.size:\n"
            "        return 0",
            (f"{_OF_ULP}::{killer}",),
            models,
        )
        for name, part, killer, models in (
            (
                "every-second-element",
                "::2",
                "test_one_wrong_element_counts_wherever_it_is",
                "every second element is looked at",
            ),
            (
                "up-to-two-millions",
                ": 2 * 10**6",
                "test_millions_of_elements",
                "what lies behind the second million is not looked at",
            ),
            (
                "first-dimension-only",
                ": len(a) if a.dim() else 1",
                "test_one_wrong_element_counts_wherever_it_is",
                "as many elements are looked at as the first dimension has",
            ),
        )
    ),
    Mutant(
        "storage-in-its-own-order",
        _ULP,
        "tensor.detach().cpu().contiguous().view(_INTEGERS[width]).numpy().reshape(-1)",
        "torch.as_strided(tensor.detach(), (tensor.numel(),), (1,)).view(_INTEGERS[width]).numpy()",
        (f"{_OF_ULP}::test_one_wrong_element_counts_wherever_it_is",),
        "only contiguous tensors are read in their order",
    ),
)
