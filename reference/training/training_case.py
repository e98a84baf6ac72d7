"""Cases of tutorials that train: their dtype, their exact arithmetic, and how long a caller waits for a reply."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from reference.system.text import shown
from reference.trace.case import Case, CaseError, choice_field, power_of_two


@dataclass(frozen=True)
class TrainingCase(Case):
    """A case of a tutorial that has parameters and gradients."""

    dtype: str = choice_field("float32", "float64", help="dtype of parameters and gradients")

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch's object."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def reply_timeout(self) -> float:
        """Seconds that a caller waits for a reply which the server gives within ``timeout``.

        It is longer than ``timeout``, because the server's error names the missing role and the caller's does not.
        """
        return self.timeout + 5


@dataclass(frozen=True)
class ExactableCase(TrainingCase):
    """A training case that can ask for exact arithmetic, in which every order of sums has the same bits."""

    arithmetic: str = choice_field(
        "natural", "exact", help="exact: no sum rounds, by small integers, a sum loss and powers of two"
    )

    def require_exact(self, *powers: str, **words: str) -> None:
        """In exact arithmetic, refuse all fields with which a step would round, in one line.

        ``powers``: the fields that must be powers of two; ``words``: the values that other fields must have. The dtype
        must be float64.
        """
        if not self.is_exact:
            return
        words = {"dtype": "float64", **words}
        wanted = [(name, repr(word), getattr(self, name) == word) for name, word in words.items()]
        wanted += [(name, "a power of two", power_of_two(getattr(self, name))) for name in powers]
        misfits = [
            f"{name} must be {text} in exact arithmetic, got {shown(getattr(self, name))}"
            for name, text, fits in wanted
            if not fits
        ]
        if misfits:
            raise CaseError(f"{self.tutorial()}: {'; '.join(misfits)}")
