"""Read exception groups in a formatted traceback: their members, apart from the traceback of the group itself."""

from __future__ import annotations

import re

_WHOLE = re.compile(
    r"^(?:  \+ Exception Group Traceback.*\n)?(?:  \|.*\n)+  \+-\+-+ 1 -+\n(?:    .*(?:\n|\Z))+", re.MULTILINE
)
_MEMBERS = re.compile(r"^\+-\+-+ 1 -+\n(?P<members>(?:  .*(?:\n|\Z))+)", re.MULTILINE)
_NEXT = re.compile(r"^  \+-+ (?:\d+|\.\.\.) -+\n", re.MULTILINE)
_CLOSE = re.compile(r"^  \+-+$", re.MULTILINE)  # once, where several end
_MARGIN = re.compile(r"^  (?:\| ?|\+ (?=Exception))?", re.MULTILINE)
_MARK = re.compile(r"\n?^\0group (?P<number>\d+)$", re.MULTILINE)


def folded(text: str) -> tuple[str, list[list[str]]]:
    """The traceback with a mark in place of each group's members, and the tracebacks of these."""
    groups: list[list[str]] = []

    def fold(found: re.Match[str]) -> str:
        groups.append([_MARGIN.sub("", member) for member in _NEXT.split(_CLOSE.sub("", found["members"]))])
        return f"\0group {len(groups) - 1}\n"

    text = _MEMBERS.sub(fold, text)  # of a group that is a member has no margin any more
    text = _MEMBERS.sub(fold, _WHOLE.sub(lambda found: _MARGIN.sub("", found[0]), text))
    return text.replace("Exception Group Traceback", "Traceback"), groups


def unmarked(error: str) -> tuple[str, int | None]:
    """The name and text of an error without the mark, and the number of its group, where it is one."""
    found = _MARK.search(error)
    return (error, None) if found is None else (_MARK.sub("", error), int(found["number"]))
