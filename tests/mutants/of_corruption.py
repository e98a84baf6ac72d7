"""Bugs in `Corrupt`: tensors that are not changed, receipts that are not true, verdicts that do not tell."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CORRUPTION, _OF_CORRUPTION = "faults/inject/call/corruption.py", "tests/faults/test_corruption.py"
_MESSAGE, _OF_MESSAGE = "faults/inject/call/corruption.py", "tests/faults/test_corrupted_message.py"
_TENSORS, _OF_TENSORS = "faults/inject/call/corruption.py", "tests/faults/test_message_tensors.py"
_RECEIPT = f"{_OF_MESSAGE}::test_the_receipt_tells_what_was_delivered"

MUTANTS = (
    Mutant(
        "corrupts-the-callers-own",
        _CORRUPTION,
        "    new, bit = old.clone(), None",
        "    new, bit = old, None",
        (f"{_OF_CORRUPTION}::test_one_bit_of_one_element_differs",),
        "the tensor that the program still holds is changed, too",
    ),
    Mutant(
        "another-bit",
        _CORRUPTION,
        "    raw[bit // 8] ^= 1 << bit % 8",
        "    raw[bit // 8] ^= 3 << bit % 8",
        (f"{_OF_CORRUPTION}::test_one_bit_of_one_element_differs",),
        "two bits are flipped",
    ),
    Mutant(
        "changed-counts-numbers",
        _CORRUPTION,
        "        same = (_bytes(self.old) == _bytes(self.new)).reshape(self.old.numel(), -1).all(1)",
        "        same = _flat(self.old) == _flat(self.new)",
        (f"{_OF_CORRUPTION}::test_the_same_bits_as_before_are_no_change",),
        "a NaN in the place of a NaN counts as a change, and a 0 in the place of a -0 does not",
    ),
    Mutant(
        "corruption-not-delivered",
        _MESSAGE,
        "        result = found.replaced(change.position, new)\n",
        "        result = found.replaced(change.position, change.old)\n",
        (_RECEIPT,),
        "the message arrives as it was sent",
    ),
    Mutant(
        "receipt-without-looking",
        _MESSAGE,
        "        if same_bits(seen, new) and not same_bits(seen, change.old):\n",
        "        if new is not None:\n",
        (f"{_OF_MESSAGE}::test_zeros_over_zeros_fire_without_an_effect",),
        "zeros over zeros count as an effect",
    ),
    Mutant(
        "corruptions-uninvited",
        "faults/strategies.py",
        "not kind.asked if asked is None",
        "kind.name if asked is None",
        ("tests/faults/test_strategies.py::test_corruptions_are_drawn_only_if_they_are_named",),
        "a property of a program that checks no data fails by data that were changed",
    ),
    Mutant(
        "same-bit-for-every-seed",
        _MESSAGE,
        '        text = f"{self._envelope.seed}\\0{own}',
        '        text = f"{own}',
        (f"{_OF_MESSAGE}::test_the_same_seed_changes_the_same_bit_and_others_differ",),
        "the seed of a plan does not decide which bit",
    ),
    Mutant(
        "parameters-are-no-tensors",
        _TENSORS,
        "    return type(value) is torch.Tensor",
        "    return type(value) is torch.Tensor and value._base is None and value.dim() > 1",
        (f"{_OF_TENSORS}::test_positions_are_those_in_the_table_of_rpc",),
        "some tensors of a message are not seen",
    ),
    Mutant(
        "corrupt-by-number",
        _CORRUPTION,
        "own = _deed(self._envelope.faults[number])",
        'own = f"{number}"',
        ("tests/faults/test_as_plan.py::test_the_same_calls_are_hit_again[corrupted]",),
        "the plan of what fired changes another bit than the run did",
    ),
)
