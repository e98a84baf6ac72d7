"""ResNet50's halves, an mlp of any sizes, and bags of rows that vote, counted once more in Python."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import nn

from reference.training.models import FEATURES, ResNetBase, conv1x1, initialise, mlp_half, voting_bags
from reference.training.vision import resnet50


def test_both_halves_compute_what_torchvisions_resnet50_computes() -> None:
    with torch.device("meta"):
        whole = resnet50(num_classes=2)
        halves = nn.Sequential(ResNetBase(64).first_half(), ResNetBase(512).second_half())
    layers = nn.Sequential(*[each for name, each in whole.named_children() if name != "fc"])
    layers = layers.to_empty(device="cpu").eval()
    with torch.random.fork_rng(devices=[]):
        for tensor in layers.state_dict().values():
            tensor.copy_(torch.rand(tensor.shape) / 20 if tensor.is_floating_point() else torch.zeros(tensor.shape))
        images = torch.randn(1, 3, 32, 32)
    values = layers.state_dict().values()
    halves = halves.to_empty(device="cpu").eval()
    halves.load_state_dict(dict(zip(halves.state_dict(), values, strict=True)))
    with torch.no_grad():
        features, wanted = halves(images), layers(images)
    assert features.shape == (1, FEATURES, 1, 1)
    assert torch.equal(features, wanted)


def test_a_1x1_convolution_mixes_channels_and_skips_by_its_stride() -> None:
    convolution, images = conv1x1(3, 2, stride=2), torch.arange(48.0).reshape(1, 3, 4, 4)
    with torch.no_grad():
        convolution.weight.copy_(torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]).reshape(2, 3, 1, 1))
        found = convolution(images)
    seen = images[:, :, ::2, ::2]
    assert torch.equal(found, torch.stack([seen[:, 0], seen[:, 1] + seen[:, 2]], dim=1))


def test_convolutions_have_the_deviation_of_kaimings_rule() -> None:
    """A normal distribution, its deviation the root of 2 over output channels times the kernel's area."""
    convolution = nn.Conv2d(3, 8, kernel_size=5)
    module = nn.Sequential(convolution, nn.Linear(4, 4), nn.BatchNorm2d(8))
    others = [tensor.clone() for name, tensor in module.state_dict().items() if name != "0.weight"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        initialise(module)
        torch.manual_seed(1)
        wanted = torch.empty(8, 3, 5, 5).normal_(0, math.sqrt(2 / (8 * 25)))
    assert torch.equal(convolution.weight, wanted)
    kept = [tensor for name, tensor in module.state_dict().items() if name != "0.weight"]
    assert all(torch.equal(before, after) for before, after in zip(others, kept, strict=True))


def sizes(half: nn.Sequential) -> list[tuple[int, int] | type[nn.Module]]:
    """Each linear layer's inputs and outputs; of the others, their kinds."""
    return [(each.in_features, each.out_features) if isinstance(each, nn.Linear) else type(each) for each in half]


@pytest.mark.parametrize("depth", [1, 3])
def test_the_halves_of_an_mlp_fit_together(depth: int) -> None:
    first, second = (mlp_half(half, inputs=12, width=5, outputs=7, depth=depth) for half in (1, 2))
    assert sizes(first) == [nn.Flatten, (12, 5), nn.ReLU, *[(5, 5), nn.ReLU] * (depth - 1)]
    assert sizes(second) == [*[(5, 5), nn.ReLU] * (depth - 1), (5, 7)]
    assert second(first(torch.ones(2, 3, 2, 2))).shape == (2, 7)


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
