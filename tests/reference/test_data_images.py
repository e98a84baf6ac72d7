"""Random images and their labels: sizes, dtypes, and what does not change from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from reference.training.data import random_images
from reference.training.training_case import ExactableCase

SHAPE = (6, 3, 4, 5)


@dataclass(frozen=True)
class Sample(ExactableCase):
    """A case without fields of its own."""


def drawn(name: str = "a", steps: int = 3, **fields: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return list(random_images(Sample(steps=steps, **fields), name, SHAPE, 7))


def test_every_step_has_other_images_and_the_same_labels() -> None:
    images, labels = zip(*drawn(), strict=True)
    assert [tuple(each.shape) for each in images] == [SHAPE] * 3
    assert not torch.equal(images[0], images[1])
    assert all(torch.equal(each, labels[0]) for each in labels)
    assert labels[0].shape == (6, 7)
    assert labels[0].sum(1).tolist() == [1.0] * 6
    assert set(labels[0].flatten().tolist()) == {0.0, 1.0}
    assert len(set(labels[0].argmax(1).tolist())) > 1  # each image has a label of its own


def test_images_depend_on_seed_and_name_only() -> None:
    for other in (drawn("b"), drawn(seed=1)):
        assert not torch.equal(drawn()[0][0], other[0][0])
    for (narrow, label), (wide, wide_label) in zip(drawn(), drawn(dtype="float64"), strict=True):
        assert wide.dtype == wide_label.dtype == torch.float64
        assert torch.equal(narrow.double(), wide)
        assert torch.equal(label.double(), wide_label)


def test_exact_images_are_small_whole_numbers() -> None:
    for images, _ in drawn(arithmetic="exact", dtype="float64"):
        assert set(images.flatten().tolist()) == {-1.0, 0.0, 1.0}
