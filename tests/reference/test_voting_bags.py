"""Bags of rows and the classes for which their rows vote, counted once more in Python."""

from __future__ import annotations

from collections import Counter

import torch

from reference.training.models import voting_bags

ROWS, CLASSES = 12, 4


def votes_of_rows(seed: int) -> dict[int, int]:
    """Each row's vote, read off bags of one row."""
    found: dict[int, int] = {}
    for indices, classes in voting_bags(seed, "any", 20, (8, 1), ROWS, CLASSES):
        for row, vote in zip(indices[:, 0].tolist(), classes.tolist(), strict=True):
            assert found.setdefault(row, vote) == vote
    return found


def winner(bag: list[int], votes: dict[int, int]) -> int:
    counts = Counter(votes[row] for row in bag)
    most = max(counts.values())
    return min(vote for vote, count in counts.items() if count == most)


def test_a_bags_class_has_the_most_votes_and_the_lowest_class_wins_a_tie() -> None:
    votes, ties = votes_of_rows(7), 0
    assert sorted(votes) == [*range(ROWS)]
    assert len(set(votes.values())) > 1
    for indices, classes in voting_bags(7, "trainer1", 6, (16, 4), ROWS, CLASSES):
        assert indices.shape == (16, 4)
        assert classes.tolist() == [winner(bag, votes) for bag in indices.tolist()]
        ties += sum(sorted(Counter(votes[row] for row in bag).values())[-2:] == [2, 2] for bag in indices.tolist())
    assert ties > 0


def test_bags_depend_on_seed_and_name_and_on_no_other_draw() -> None:
    def bags(seed: int, name: str) -> list[list[list[int]]]:
        return [indices.tolist() for indices, _ in voting_bags(seed, name, 3, (4, 2), ROWS, CLASSES)]

    first = bags(0, "trainer1")
    torch.rand(5)
    assert bags(0, "trainer1") == first
    assert bags(0, "trainer2") != first != bags(1, "trainer1")
    assert bags(0, "trainer1")[:2] == [i.tolist() for i, _ in voting_bags(0, "trainer1", 2, (4, 2), ROWS, CLASSES)]
