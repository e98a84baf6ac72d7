"""Bugs in the bound of natural cases, and in the twins that set it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_NATURAL = "reference/natural.py"
_REORDERING = "reference/reordering.py"
_SUMS = "reference/sums.py"
_OF_NATURAL = "tests/test_natural.py"
_OF_REORDERING = "tests/test_reordering.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "generous-bound",
        _NATURAL,
        "max(e / a if",
        "max(e / a / 100 if",
        (f"{_OF_NATURAL}::test_an_error_100_times_larger_is_not",),
        "a bound that was raised until everything passed",
    ),
    Mutant(
        "largest-element-unseen",
        _NATURAL,
        "    return float(torch.linalg.vector_norm(tensor)), float(tensor.abs().amax())",
        "    return (float(torch.linalg.vector_norm(tensor)),) * 2",
        (f"{_OF_NATURAL}::test_one_wrong_element_that_a_2_norm_does_not_see_is_found",),
        "one wrong element of a million passes a 2-norm",
    ),
    Mutant(
        "averaged-elements",
        _NATURAL,
        "float(tensor.abs().amax())",
        "float(tensor.abs().mean())",
        (f"{_OF_NATURAL}::test_one_wrong_element_that_a_2_norm_does_not_see_is_found",),
        "one wrong element among many is averaged away",
    ),
    Mutant(
        "one-twins-luck",
        _NATURAL,
        "    return allowed[0] + max(two, rounding * size[0]), allowed[1] + max(largest, rounding * size[1])",
        "    return (allowed[0] or max(two, rounding * size[0])), (allowed[1] or max(largest, rounding * size[1]))",
        (f"{_OF_NATURAL}::test_known_ratios",),
        "the first twin alone sets the bound, however lucky it was",
    ),
    Mutant(
        "no-rounding-for-an-exact-twin",
        _NATURAL,
        "    rounding = torch.finfo(tensor.dtype).eps\n",
        "    rounding = 0.0\n",
        (f"{_OF_NATURAL}::test_known_ratios",),
        "a tensor that all twins happen to get exactly allows no rounding",
    ),
    Mutant(
        "other-trajectories-widen-the-bound",
        _NATURAL,
        "        if _other_decision(twin, exact):\n            left_out += 1\n        elif",
        "        if",
        (f"{_OF_NATURAL}::test_a_decision_that_hangs_on_rounding_is_undecided",),
        "a twin that decided otherwise counts as one that rounds",
    ),
    Mutant(
        "no-bound-for-float64",
        "reference/verify.py",
        "        return others, twin\n",
        "        return iter([twin]), twin\n",
        (f"{_OF_NATURAL}::test_further_twins_are_computed_only_where_bits_differ",),
        "a float64 case is judged by its own twin alone",
    ),
    Mutant(
        "twins-in-one-order",
        _REORDERING,
        '        self.draws = generator(seed, "reordered")',
        '        self.draws = generator(0, "reordered")',
        (f"{_OF_REORDERING}::test_each_seed_is_another_order",),
        "all further twins are one and the same",
    ),
    Mutant(
        "sums-in-the-order-of-ever",
        _REORDERING,
        "        return torch.randperm(count, generator=self.draws)",
        "        return torch.arange(count)",
        (f"{_OF_REORDERING}::test_every_sum_runs_in_another_order[softmax]",),
        "a permutation that permutes nothing",
    ),
    Mutant(
        "half-a-permutation",
        _SUMS,
        "    return total([func(a[:, each], b[each]) for each in by.split(a.shape[1])])",
        "    return total([func(a[:, each], b[by.order(len(b))[: len(each)]]) for each in by.split(a.shape[1])])",
        (f"{_OF_REORDERING}::test_what_is_computed_stays_the_same[mm]",),
        "only one of two factors is permuted, so another product comes out",
    ),
    Mutant(
        "batch-norm-not-put-back",
        "reference/batch_norm.py",
        "    return _shuffled(x, back(images), back(places)).reshape(like.shape)",
        "    return _shuffled(x, images, places).reshape(like.shape)",
        (f"{_OF_REORDERING}::test_what_is_computed_stays_the_same[batch norm]",),
        "images come back in another order than they went",
    ),
    Mutant(
        "biased-variance-in-the-formula",
        "reference/batch_norm.py",
        "(var * count / (count - 1))",
        "var",
        (f"{_OF_REORDERING}::test_what_is_computed_stays_the_same[batch norm]",),
        "batch norm's running variance is another quantity where a twin goes by the formulas",
    ),
    Mutant(
        "units-at-the-kink-left-to-chance",
        _REORDERING,
        "    return torch.where(near, size * signs, tensor)",
        "    return torch.where(near, tensor, tensor)",
        (f"{_OF_REORDERING}::test_a_unit_at_the_kink_of_a_relu_is_decided_by_the_seed",),
        "a correct run is the first of 18 in which a unit at its kink passes a gradient on, and is called wrong",
    ),
    Mutant(
        "roundings-that-never-move",
        _REORDERING,
        "    tensor.view(_INTEGERS[tensor.element_size()]).add_(steps)",
        "    tensor.view(_INTEGERS[tensor.element_size()]).add_(0 * steps)",
        (f"{_OF_REORDERING}::test_a_program_without_sums_still_rounds_otherwise",),
        "twins without sums agree in every bit, and allow no other formula's rounding",
    ),
    Mutant(
        "shapes-are-refused-first",
        "reference/verify.py",
        "            return _judge_rounding(run, twin, str(error), train_locally)",
        '            return str(error), "wrong"',
        ("tests/test_natural.py::test_a_run_of_another_length_is_undecided_where_correct_twins_have_it_too",),
        "an episode that rounding made longer is called wrong, without asking whether rounding decides",
    ),
    Mutant(
        "rewards-in-float32",
        "reference/reinforce.py",
        "torch.tensor(each.rewards, dtype=torch.float64)",
        "torch.tensor(each.rewards)",
        ("tests/test_natural.py::test_an_agents_run_in_another_order_is_within_the_bound",),
        "a tutorial's float64 twin holds a float32 tensor, so that no run of it is ever within the bound",
    ),
    Mutant(
        "ends-without-actions",
        "reference/reinforce.py",
        '    # In "ends" too: two runs that act otherwise are not two roundings of one result.\n    recorder.put(',
        '    recorder.case.record == "every" and recorder.put(',
        ("tests/test_natural.py::test_an_agent_that_acts_otherwise_than_all_twins_is_wrong_whatever_else_it_did",),
        "twins that act otherwise widen the bound, since nobody sees that they do",
    ),
)
