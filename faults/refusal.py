"""How a plan is refused: one line, which names the field, what was got and what was wanted."""

from __future__ import annotations

LONGEST = 120


class PlanError(ValueError):
    """A fault or plan that cannot be. One line that names the field: what was got, what was wanted."""


def shown(value: object) -> str:
    """``repr`` on one line of at most `LONGEST` characters, whatever the value."""
    try:
        text = " ".join(ascii(value).split()) if not isinstance(value, str) else repr(value)
    except Exception as error:  # for instance an integer with more digits than Python writes
        text = f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
