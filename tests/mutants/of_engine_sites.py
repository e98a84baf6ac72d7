"""Bugs in the faults of what torch sends by itself: fetches and gradients that are not seen, or not hurt."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FETCHES, _OF_FETCHES = "faults/inject/call/engine_calls.py", "tests/faults/test_fetches.py"
_GRADIENTS, _OF_GRADIENTS = "faults/inject/call/engine_calls.py", "tests/faults/test_gradients.py"
_OF_SITES = "tests/faults/test_engine_sites.py"

MUTANTS = (
    Mutant(
        "fetch-of-the-owner-counts",
        _FETCHES,
        "if rref.is_owner() else self._fetch(",
        "if not hasattr(rref, 'is_owner') else self._fetch(",
        (f"{_OF_FETCHES}::test_only_a_fetch_that_sends_something_counts",),
        "a fetch that sends no message is numbered",
    ),
    Mutant(
        "fetch-is-not-hurt",
        _FETCHES,
        "original(rref, timeout) if envelope is None else",
        "original(rref, timeout) if not envelope or envelope.faults else",
        (f"{_OF_FETCHES}::test_each_kind_hits_its_fetch_and_no_other",),
        "no fetch is ever hurt",
    ),
    Mutant(
        "fetch-is-not-torchs-own-again",
        _FETCHES,
        "            _RRef.to_here = original",
        "            _RRef.to_here = to_here",
        (f"{_OF_FETCHES}::test_torchs_own_functions_are_replaced_only_where_the_plan_names_them",),
        "fetches stay replaced after the run",
    ),
    Mutant(
        "gradients-of-requests-not-seen",
        _GRADIENTS,
        "        self._hook(tensors)\n        return function(*args, **kwargs)",
        "        return function(*args, **kwargs)",
        (f"{_OF_GRADIENTS}::test_every_gradient_is_counted_at_its_sender",),
        "a callee's gradients are not seen",
    ),
    Mutant(
        "gradients-of-replies-not-seen",
        _GRADIENTS,
        "            self._hook(found)\n",
        "            self._hook([])\n",
        (f"{_OF_GRADIENTS}::test_every_gradient_is_counted_at_its_sender",),
        "a caller's gradients are not seen",
    ),
    Mutant(
        "gradient-is-not-hurt",
        _GRADIENTS,
        "            gradients = delivery.corrupter.message(number, fault, gradients)",
        "            delivery.corrupter.message(number, fault, gradients)",
        (f"{_OF_GRADIENTS}::test_a_corrupted_gradient_is_the_one_that_arrives",),
        "the gradient arrives as it was, although the receipt says otherwise",
    ),
    Mutant(
        "gradients-hurt-in-vain",
        "faults/plan/kinds/calls.py",
        "        if site not in ENGINE_SITES or side in open_to:",
        "        if site not in ENGINE_SITES or side in open_to or not open_to:",
        (f"{_OF_SITES}::test_what_cannot_be_hurt_is_refused_with_the_reason",),
        "a plan is accepted that can never do what it says",
    ),
    Mutant(
        "moments-of-fetches-not-named",
        "faults/plan/plan.py",
        "fault.site == site or (fault.moment and fault.moment.site == site)",
        "fault.site == site",
        (f"{_OF_SITES}::test_what_can_be_hurt_is_a_plan_that_names_the_site",),
        "a crash at a fetch waits for a moment that nobody announces",
    ),
)
