"""A text as tokens: its bytes, numbered by their rank among the different bytes of the text."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import torch

# The longest text in bytes.
LONGEST = 2**26


def read_text(path: str = "") -> bytes:
    """The bytes of a file, or of the text shipped with this package.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: not a plain file, or too long. Says what was wanted.
    """
    if not path:
        return files(__package__).joinpath("text.txt").read_bytes()
    file = Path(path)
    size = file.stat().st_size
    if not file.is_file() or size > LONGEST:
        raise ValueError(f"a plain file of at most {LONGEST} bytes")
    return file.read_bytes()


@dataclass(frozen=True)
class Corpus:
    """Next-token batches of a text that is read as a ring: after its last byte comes its first."""

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
        """How many different bytes the text has."""
        return len(self.alphabet)

    def batch(self, index: int, sequence: int, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and the tokens that follow them, (sequence, batch_size) each.

        Columns start evenly spread over the text; batch ``index + 1`` goes on where batch ``index`` ends.
        """
        starts = torch.arange(batch_size) * len(self.text) // batch_size
        places = torch.arange(index * sequence, (index + 1) * sequence + 1)[:, None] + starts
        tokens = self.tokens[places % len(self.text)]
        return tokens[:-1], tokens[1:]
