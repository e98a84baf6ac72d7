"""A text as tokens: its bytes, numbered by their rank among the different bytes of the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import torch

from reference.system.plain_file import LONGEST, content_of


def read_text(path: str = "") -> bytes:
    """Read the bytes of a file, by default of the text that this package ships.

    Raises:
        OSError: the file cannot be read, is no plain file, or has more than `LONGEST` bytes.
    """
    if not path:
        return files(__package__).joinpath("text.txt").read_bytes()
    return content_of(Path(path), LONGEST)


@dataclass(frozen=True)
class Corpus:
    """Batches of tokens and next tokens from a text, whose first byte follows its last."""

    text: bytes
    alphabet: bytes = field(init=False)
    tokens: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        alphabet = bytes(sorted(set(self.text)))
        numbers = self.text.translate(bytes(alphabet.find(byte) & 255 for byte in range(256)))
        object.__setattr__(self, "alphabet", alphabet)
        object.__setattr__(self, "tokens", torch.tensor(list(numbers)))

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
