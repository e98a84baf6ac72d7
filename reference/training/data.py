"""Make the data of the tutorials: images, words, and tasks that a line solves."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import torch

from reference.system.files import LONGEST, content_of
from reference.training.rng import generator
from reference.training.training_case import TrainingCase

Batch = tuple[torch.Tensor, torch.Tensor]


def random_images(case: TrainingCase, name: str, shape: tuple[int, int, int, int], num_classes: int) -> Iterator[Batch]:
    """Draw for role ``name``, at each step, images of ``shape`` (batch, 3, …) and one-hot labels (batch, num_classes).

    All steps have the same labels, as published. In exact arithmetic the images are whole numbers from -1 to 1.
    """
    draws = generator(case.seed, name)
    one_hot_indices = torch.randint(num_classes, (shape[0], 1), generator=draws)
    labels = torch.zeros(shape[0], num_classes).scatter_(1, one_hot_indices, 1)
    for _ in range(case.steps):
        if case.is_exact:
            inputs = torch.randint(-1, 2, shape, generator=draws).float()
        else:
            inputs = torch.randn(shape, generator=draws)
        yield inputs.to(case.torch_dtype), labels.to(case.torch_dtype)


def linear_batches(case: TrainingCase, name: str, batch_size: int, inputs: int, outputs: int) -> Iterator[Batch]:
    """Draw for role ``name``, at each step, data (batch_size, inputs) and target (batch_size, outputs).

    The target is a fixed linear function of the data, so that there is something to learn; the published target is
    noise. It is computed in the case's dtype, because a float32 product in a float64 case would round as float32 does.
    In exact arithmetic both are whole numbers from -2 to 2.
    """
    draws = generator(case.seed, name)
    dtype = case.torch_dtype
    teacher = torch.randn(inputs, outputs, generator=generator(case.seed, "teacher"))
    for _ in range(case.steps):
        if case.is_exact:
            data = torch.randint(-2, 3, (batch_size, inputs), generator=draws).float()
            target = torch.randint(-2, 3, (batch_size, outputs), generator=draws).float()
        else:
            data = torch.randn(batch_size, inputs, generator=draws)
            target = data.to(dtype) @ teacher.to(dtype)
        yield data.to(dtype), target.to(dtype)


def read_text(path: str = "") -> bytes:
    """Read the bytes of a file, by default of the text that this package ships.

    Raises:
        OSError: the file cannot be read, is no plain file, or has more than `LONGEST` bytes.
    """
    if not path:
        return files(__package__).joinpath("text.txt").read_bytes()
    return content_of(Path(path), LONGEST)


class Corpus:
    """Batches of tokens and next tokens from a text, whose first byte follows its last."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.alphabet = bytes(sorted(set(text)))
        numbers = text.translate(bytes(self.alphabet.find(byte) & 255 for byte in range(256)))
        self.tokens = torch.tensor(list(numbers))

    @property
    def ntoken(self) -> int:
        """The number of different bytes in the text."""
        return len(self.alphabet)

    def batch(self, index: int, sequence: int, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return tokens and the tokens that follow them, (sequence, batch_size) each.

        The columns start evenly spread over the text. Batch ``index + 1`` continues where batch ``index`` ends.
        """
        starts = torch.arange(batch_size) * len(self.text) // batch_size
        places = torch.arange(index * sequence, (index + 1) * sequence + 1)[:, None] + starts
        tokens = self.tokens[places % len(self.text)]
        return tokens[:-1], tokens[1:]
