"""A command of ip, nft, tc or ss, as plain data, and the interface on which they work."""

from __future__ import annotations

from dataclasses import dataclass

# The one interface of each role's namespace.
INTERFACE = "eth0"


@dataclass(frozen=True)
class Command:
    """The words of a command, and the text for its standard input."""

    words: tuple[str, ...]
    text: str = ""
