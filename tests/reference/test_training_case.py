"""Cases of tutorials that train: the order of their fields, their dtype, exact arithmetic and the caller's limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from reference.trace.case import CaseError, choice_field, listed, number_field
from reference.training.training_case import ExactableCase
from reference.verify.verify import changes


@dataclass(frozen=True)
class Sample(ExactableCase):
    """Two numbers that may round, and a word that may not be any."""

    lr: float = number_field(0.5, "learning rate", at_least=0.0)
    momentum: float = number_field(0.5, "momentum", at_least=0.0)
    model: str = choice_field("mlp", "convnet", help="what is trained")

    def validate(self) -> None:
        self.require_exact("lr", "momentum", model="mlp")


def test_a_tutorials_own_fields_come_before_those_of_every_training_case() -> None:
    own = ["lr", "momentum", "model"]
    assert [item.name for item in listed(Sample)] == ["seed", "steps", "record", "timeout", *own, "dtype", "arithmetic"]
    assert changes(Sample(dtype="float64", lr=0.25)) == "lr=0.25 dtype=float64"


def test_a_caller_waits_longer_than_the_server() -> None:
    assert Sample(timeout=7).reply_timeout == 12


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"dtype": "float32"}, "dtype must be 'float64' in exact arithmetic, got 'float32'"),
        (
            {"dtype": "float64", "model": "convnet", "lr": 0.1, "momentum": 0.9},
            "model must be 'mlp' in exact arithmetic, got 'convnet'; lr must be a power of two in exact arithmetic, "
            "got 0.1; momentum must be a power of two in exact arithmetic, got 0.9",
        ),
    ],
)
def test_fields_with_which_a_step_would_round_are_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(CaseError) as caught:
        Sample(arithmetic="exact", **given)
    assert str(caught.value) == f"test_training_case: {message}"
