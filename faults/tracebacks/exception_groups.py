"""Read exception groups in a formatted traceback: their members, apart from the traceback of the group itself."""

from __future__ import annotations

import re

_WHOLE = re.compile(
    r"^(?:  \+ Exception Group Traceback.*\n)?(?:  \|.*\n)+  \+-\+-+ 1 -+\n(?:    .*(?:\n|\Z))+", re.MULTILINE
)
_MEMBERS = re.compile(r"^\+-\+-+ 1 -+\n(?P<members>(?:  .*(?:\n|\Z))+)", re.MULTILINE)
_NEXT = re.compile(r"^  \+-+ (?:\d+|\.\.\.) -+\n", re.MULTILINE)
_CLOSE = re.compile(r"^  \+-+$", re.MULTILINE)  # one line, even if several groups end there
_MARGIN = re.compile(r"^  (?:\| ?|\+ (?=Exception))?", re.MULTILINE)
_MARK = re.compile(r"\n?^\0group (?P<number>\d+)$", re.MULTILINE)


def folded(text: str) -> tuple[str, list[list[str]]]:
    """Replace each group's members in a traceback by a mark, and return that and the tracebacks of the members."""
    groups: list[list[str]] = []

    def fold(found: re.Match[str]) -> str:
        groups.append([_MARGIN.sub("", member) for member in _NEXT.split(_CLOSE.sub("", found["members"]))])
        return f"\0group {len(groups) - 1}\n"

    text = _MEMBERS.sub(fold, text)  # first the groups whose margin is removed already: members of another group
    text = _MEMBERS.sub(fold, _WHOLE.sub(lambda found: _MARGIN.sub("", found[0]), text))
    return text.replace("Exception Group Traceback", "Traceback"), groups


def unmarked(error: str) -> tuple[str, int | None]:
    """Return an error's name and text without the mark, and the number of its group, or None if it is no group."""
    found = _MARK.search(error)
    return (error, None) if found is None else (_MARK.sub("", error), int(found["number"]))
