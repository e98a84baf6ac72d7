"""The promises that must always hold (docs/design.md). One that kills no mutant may be one that no bug can break."""

from __future__ import annotations

import re
from functools import partial

from faults.judge.rules import judge
from faults.ledger import Timeline
from faults.ledger.record import Run
from faults.plan import Plan
from tests.mutants.gate import Promise
from tests.mutants.trial import Trial

# Each check of a run by its name, as `judge` prints it.
CHECKS = tuple(check.name for check in judge(Run("none", Plan(), Timeline((), {}, ()))).checks)

# Each kind of property: the tests that state it.
PROPERTIES = {
    "bits equal to the twin": r"test_equals_its_twin|test_mlp_equals_its_twin|test_it_runs_equal_to_its_twin",
    "exact sums in every order": r"test_exact|test_rank_gives_the_bits",
    "a recorded order can be replayed": r"test_arrival_gives_the_bits|test_several_workers_equal_the_replay",
    "natural cases within their bound": r"test_rounding\.py",
    "gradients keep their bits under faults": r"test_gradients_stay_the_same_bits",
    "a comparison misses no bit": r"test_compare_notices",
    "every wait ends, and says who is missing": r"_is_named|ends_every_wait|ends_the_wait",
    "the same plan gives the same facts": r"test_the_same_plan",
    "a printed plan can be pasted back": r"test_a_printed_plan_goes_through_a_shell|test_both_forms_give_the_plan_back",
    "nothing is left of a world": r"TestNothingIsLeft|test_what_is_left_is_ended",
}


def _check_failed(name: str, trial: Trial) -> bool:
    return name in trial.checks


def _test_failed(pattern: str, trial: Trial) -> bool:
    return any(re.search(pattern, test) for test in trial.failed)


PROMISES = (
    *(Promise(f"check {name!r}", partial(_check_failed, name)) for name in CHECKS),
    *(Promise(name, partial(_test_failed, pattern)) for name, pattern in PROPERTIES.items()),
)
